"""Boundaries, trajectories and template changes on a terminal.

Everything that is printed goes through `text`, which makes it visible; none of it is taken for markup.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from recompact.attribution.statement import entry_of
from recompact.presentation.report.content.cases import Case, ContinuationView
from recompact.presentation.report.content.overview import outcome
from recompact.presentation.report.document import Block, ChangedPart, Fact, Line, Piece, PromptChange, score_facts
from recompact.values.context import Turn
from recompact.values.texts import cut, quantity, visible, visible_line
from recompact.values.trajectory import Boundary, Trajectory

WIDE = 110  # columns needed to set two texts side by side
LONG = 1200  # characters of a message that are shown, unless it is wanted in full
FULL = "--full"  # the option that shows what was cut
STYLES = {
    "needed": "bold red",
    "dropped": "yellow",
    "differs": "bold underline",
    "cut": "dim italic",
    "note": "dim italic",
}
SIGNS = {"+": "green", "-": "red", " ": "dim"}


def text(content: str, style: str = "") -> Text:
    """Any text, safe to print."""
    return Text(visible(content), style)


def heading(title: str, style: str = "dim") -> Rule:
    return Rule(Text(visible_line(title), style), align="left", style="dim")


# --- one boundary


def print_case(out: Console, case: Case, simulated: bool) -> None:
    """A boundary: its numbers, what was needed and dropped, both contexts, and the continuations side by side."""
    out.print(
        text(str(case.id), "bold"),
        text(f"{entry_of(case.verdict).symbol} {case.label}", "bold red" if case.verdict.kind == "harmful" else ""),
        text("(simulated models)" * simulated),
    )
    if case.task:
        out.print(Text("Task: ", "dim") + _pieces(case.task))
    out.print(text(case.sentence))
    out.print(text(case.need, "bold" if case.needed else "dim"))
    if case.needed:
        out.print(text(", ".join(case.needed), STYLES["needed"]))
    out.print(_facts(case.facts))
    for note in case.notes:
        out.print(text(note, "yellow"))
    for sentence in case.receipt:
        out.print(text(f"- {sentence}"))
    if case.cause:
        out.print(text(f"By intervention: {case.cause.sentence}", "bold green"))
        for block in case.cause.pieces:
            out.print(text(f"  {block.title}:", "green"))
            out.print(*(Text("  | ", "dim") + _pieces(each.pieces) for each in block.lines), sep="\n")
    for cause in case.diagnosis.causes if case.diagnosis else ():
        out.print(text(f"Diagnosis: {cause.mechanism} ({cause.kind}). {cause.explanation}", "cyan"))
    pre, post = case.verdict.row.pre_tokens, case.verdict.row.post_tokens
    _side_by_side(
        out,
        _panel(f"PRE, {pre:,} tokens: what the compressor consumed (- not in POST)", _context(case.before), "green"),
        _panel(f"POST, {post:,} tokens: what replaced it (+ not in PRE)", _context(case.after), "magenta"),
    )
    literals, lines = len(case.literals) + case.more_literals, len(case.lines) + case.more_lines
    unused = f"{quantity(literals, 'literal')}; {quantity(lines, 'line')} dropped"
    out.print(heading(f"dropped, and used by no PRE continuation: {unused}"))
    if case.literals:
        out.print(text(", ".join([*case.literals, *_more(case.more_literals)]), STYLES["dropped"]))
    for line in (*case.lines, *_more(case.more_lines)):
        out.print(text(f"· {line}", "dim"))
    out.print(heading("continuations (≠ the two arms diverge here, ↻ done before the boundary)"))
    for pair in case.pairs:
        _side_by_side(out, _continuation(pair.pre, "PRE"), _continuation(pair.post, "POST"))


def _more(number: int) -> list[str]:
    return [f"… {number:,} more: {FULL}"] if number else []


def _facts(facts: Iterable[Fact]) -> Text:
    return text("; ".join(f"{f.label}: {f.value}" + (f" ({f.note})" if f.note else "") for f in facts))


def _pieces(pieces: Sequence[Piece], style: str = "") -> Text:
    line = Text(style=style)
    for piece in pieces:
        content = f" … ({piece.text}: {FULL})" if piece.kind == "cut" else piece.text
        line.append(visible(content), STYLES.get(piece.kind, ""))
    return line


def _context(blocks: Sequence[Block]) -> Text:
    body = Text()
    for block in blocks:
        if block.title:
            body.append(f"[{visible_line(block.title)}]\n", "bold")
        for line in block.lines:
            for row in _pieces(line.pieces).split("\n"):
                body.append(f"{line.sign} ", SIGNS[line.sign]).append_text(row).append("\n")
    return body if blocks else Text("Nothing.")


def _continuation(view: ContinuationView | None, arm: str) -> RenderableType:
    if view is None:
        return _panel(f"{arm}: not drawn", Text(), "dim")
    body = Text()
    for step in view.steps:
        marks = ("≠" if step.diverges else " ") + ("↻" if step.again else " ")
        action = _pieces(step.action)
        action.stylize("bold" if step.diverges else "yellow" if step.again else "")
        body.append(f"{step.number:>3} {marks} ").append_text(action).append("\n")
    for fact in view.score:
        body.append_text(_facts([fact])).append("\n")
    body.append(visible(view.error), "yellow")
    return _panel(view.title, body, "green" if view.success else "red")


def _side_by_side(out: Console, first: RenderableType, second: RenderableType) -> None:
    """Two panels in columns; one below the other where there is no room."""
    if out.width < WIDE:
        out.print(first, second, sep="\n")
        return
    grid = Table.grid(expand=True)
    for _ in range(2):
        grid.add_column(ratio=1, overflow="fold")
    grid.add_row(first, second)
    out.print(grid)


def _panel(title: str, body: Text, style: str) -> RenderableType:
    body.rstrip()
    return Panel(body, title=Text(visible_line(title), style), border_style=style, title_align="left")


# --- one trajectory


def print_trajectory(
    out: Console, trajectory: Trajectory, parts: Iterable[Turn | Boundary], limit: int | None = LONG
) -> None:
    """A trajectory with its boundaries marked, from its parts in order; texts longer than the limit are cut."""
    for message in trajectory.context.prefix:
        out.print(text(f"[{message.role}]", "bold blue"))
        out.print(_cut(message.content, limit))
    step = compactions = 0
    for part in parts:
        if isinstance(part, Boundary):
            compactions += 1
            out.print(_boundary(part, limit))
        else:
            step += 1
            out.print(heading(f"step {step}"))
            _print_turn(out, part, limit)
    out.print(Rule(style="dim"))
    out.print(*_outcome(trajectory, step, compactions))
    if facts := score_facts(trajectory.score.value, trajectory.score.details, limit):
        out.print(Text("score: ", "dim") + _facts(facts))
    for incident in trajectory.incidents:
        out.print(text(f"incident at step {incident.step}: {incident.kind}:", "yellow"), _cut(incident.text, limit))
    if trajectory.error:
        out.print(_cut(trajectory.error, limit, "yellow"))


def _outcome(trajectory: Trajectory, steps: int, compactions: int) -> tuple[Text, Text]:
    success = trajectory.score.success
    usage = [f"{role} {u.input:,} in, {u.output:,} out" for role, u in trajectory.usage.items()]
    ending = f"{trajectory.ending} after {quantity(steps, 'step')}, {quantity(compactions, 'compaction')}"
    return (
        Text(outcome(success), "bold green" if success else "bold red"),
        text(f"{ending}; peak {trajectory.peak:,} tokens; {'; '.join(usage) or 'no tokens'}"),
    )


def _boundary(boundary: Boundary, limit: int | None) -> RenderableType:
    notes = [f"{boundary.pre.size:,} -> {boundary.post.size:,} tokens"]
    notes += ["asked again"] * boundary.asked_again + ["cut"] * boundary.cut
    summary, dropped = boundary.post.summary, len(boundary.pre.turns) - len(boundary.post.turns)
    body = _cut(summary.text, limit) if summary else Text(f"{quantity(dropped, 'oldest turn')} dropped")
    return _panel(f"boundary {boundary.index}: {', '.join(notes)}", body, "magenta")


def _print_turn(out: Console, turn: Turn, limit: int | None) -> None:
    if turn.message.content:
        out.print(_cut(turn.message.content, limit, "cyan"))
    for call in turn.message.calls:
        out.print(Text("-> ", "cyan") + _cut(f"{call.name}({call.arguments})", limit, "cyan"))
    for result in turn.results:
        failed = result.content.startswith(("Error", '{"error"'))
        out.print(_cut(result.content, limit, "red" if failed else ""))


def _cut(content: str, limit: int | None, style: str = "") -> Text:
    kept, more = cut(content, limit)
    return text(f"{kept} … ({more:,} more characters: {FULL})" if more else kept, style)


# --- two templates


def print_change(out: Console, change: PromptChange) -> None:
    """What changed between two templates."""
    for part in change.parts:
        out.print()
        out.print(heading(part.part, "bold"))
        _print_part(out, part)
    out.print(text(change.verdict, "bold"), soft_wrap=True)


def _print_part(out: Console, part: ChangedPart) -> None:
    for what, before, after in part.structure:
        out.print(text(f"The {what} differ, so the structure has changed:", "bold red"), soft_wrap=True)
        out.print(text(f"  a: {before}\n  b: {after}"), soft_wrap=True)
    for section in part.sections:
        out.print(text(section.title, "bold cyan") + Text(f"  {section.note}"), soft_wrap=True)
        for line in section.lines:
            out.print(_changed_line(line), soft_wrap=True)


def _changed_line(line: Line) -> Text:
    """A changed line with its new or removed words marked; an unchanged one is dimmed."""
    return Text(f"  {line.sign} ", SIGNS[line.sign]) + _pieces(line.pieces, SIGNS[line.sign])
