"""`recompact boundary`: one compaction in full: both contexts, what was dropped, and what the agent did after each.

Everything that models and environments wrote is printed as plain text, whatever it contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recompact.cli.console import console, json_option, print_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from recompact.attribution.cases import Comparison, Continuation, Evidence
    from recompact.context import Context

WIDE = 110  # columns from which on two texts stand side by side
LONG = 700  # characters of a text, and
MANY = 40  # literals and lines, that are shown without --full


@click.command(name="boundary")
@click.argument("run")
@click.argument("id")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--full", is_flag=True, help="Show long texts whole.")
@json_option
def command(run: str, id: str, directory: Path, full: bool, as_json: bool) -> None:
    """Show one boundary of a run: the contexts before and after, what was dropped, and what the agent did then.

    ID is task#t, as `recompact boundaries` lists it, like pocket-train-007#2.
    """
    from recompact.attribution.cases import evidence_of
    from recompact.attribution.verify import boundary_named
    from recompact.store.runs import find_run, overview
    from recompact.store.store import Store

    with Store.read(find_run(run, directory)) as store:
        found = evidence_of(store, boundary_named(store, id))
        simulated = overview(store).simulated
    if as_json:
        print_json({"simulated": simulated, **found.to_json()})
        return
    out = console()
    _print_head(out, found, simulated)
    _print_contexts(out, found, full)
    _print_dropped(out, found, full)
    _print_continuations(out, found, full)


def _print_head(out: Console, found: Evidence, simulated: bool) -> None:
    finding, boundary = found.finding, found.boundary
    row = finding.row
    notes = ["a second summary was asked for"] * boundary.asked_again + ["the summary was cut"] * boundary.cut
    marks = ["harmful"] * finding.retained + ["(simulated models)"] * simulated
    out.print(_text(str(finding.id), "bold"), _text(" ".join(marks), "bold red" if finding.retained else ""))
    outcome = "succeeded" if row.trajectory_success else "failed"
    told = f"after step {row.step} of {row.trajectory_steps}: {row.pre_tokens:,} -> {row.post_tokens:,} tokens"
    out.print(_text("; ".join([f"{told}; the trajectory {outcome}", *notes])))
    if finding.left_out:
        out.print(_text(f"left out: {finding.left_out}", "yellow"))
    effect = finding.effect
    if effect is None:
        out.print(_text("no effect is known: an arm has no draw"))
        return
    h, b = effect.hazard_estimate, effect.burden_estimate
    out.print(
        _text(
            f"H {effect.hazard:+.2f} (95 %: {h.low:.2f} to {h.high:.2f}), B {effect.burden:+.1f} steps"
            f" ({b.low:.1f} to {b.high:.1f}); {effect.pre} PRE and {effect.post} POST draws;"
            f" P(harmful) {effect.harmful:.2f}; channel: {effect.channel}"
        )
    )
    if chained := effect.pre + effect.post - len(found.continuations):
        out.print(_text(f"{chained} of these draws is chained: read off the trajectory, not made", "dim"))


def _print_contexts(out: Console, found: Evidence, full: bool) -> None:
    pre, post = found.boundary.pre, found.boundary.post
    _side_by_side(
        out,
        _panel(f"PRE, {pre.size:,} tokens", _context_lines(pre, full), "green"),
        _panel(f"POST, {post.size:,} tokens", _context_lines(post, full), "magenta"),
    )


def _context_lines(context: Context, full: bool) -> Text:
    from rich.text import Text

    shown = Text()
    if context.summary is not None:
        shown.append("[summary]\n", "bold").append(_plain(_cut(context.summary.text, full, 5 * LONG)) + "\n")
    for turn in context.turns:
        shown.append(_plain(_cut(turn.text, full)) + "\n")
    if not shown:
        shown.append("(nothing but the prefix)")
    return shown


def _print_dropped(out: Console, found: Evidence, full: bool) -> None:
    from rich.rule import Rule

    lines, literals = found.dropped.lines, found.dropped.literals
    out.print(Rule(_text(f"dropped: {len(literals)} literals, {len(lines)} lines"), align="left", style="dim"))
    if literals:
        out.print(_text(", ".join(_first(literals, MANY, full)), "yellow"))
    for line in _first(lines, MANY // 4, full):
        out.print(_text(f"· {_cut(line, full, 200)}", "dim"))


def _print_continuations(out: Console, found: Evidence, full: bool) -> None:
    from rich.rule import Rule

    legend = "≠ first divergence of the two arms, ↻ done before the boundary already"
    out.print(Rule(_text(f"continuations ({legend})"), align="left", style="dim"))
    for pair in found.pairs:
        _side_by_side(
            out,
            _continuation_panel("PRE", pair.number, pair.pre, pair, full),
            _continuation_panel("POST", pair.number, pair.post, pair, full),
        )


def _continuation_panel(
    arm: str, number: int, made: Continuation | None, pair: Comparison, full: bool
) -> RenderableType:
    from rich.text import Text

    from recompact.texts import action_line

    if made is None:
        return _panel(f"{arm} {number}: not drawn", Text(""), "dim")
    outcome = "success" if made.row.success else "failure"
    shown = Text()
    for n, action in enumerate(made.actions):
        marks = ("≠" if n == pair.divergence else " ") + ("↻" if n in made.repeated else " ")
        style = "bold" if n == pair.divergence else "yellow" if n in made.repeated else ""
        shown.append(f"{n + 1:>3} {marks} ").append(_plain(_cut(action_line(action), full, 160)) + "\n", style)
    if made.row.error:
        shown.append(_plain(made.row.error) + "\n", "yellow")
    title = f"{arm} {number}: {outcome}, {made.row.ending} after {made.row.steps} steps"
    return _panel(title, shown, "green" if made.row.success else "red")


def _side_by_side(out: Console, left: RenderableType, right: RenderableType) -> None:
    """Two panels in columns; one below the other where there is no room."""
    from rich.table import Table

    if out.width < WIDE:
        out.print(left)
        out.print(right)
        return
    grid = Table.grid(expand=True)
    for _ in range(2):
        grid.add_column(ratio=1, overflow="fold")
    grid.add_row(left, right)
    out.print(grid)


def _panel(title: str, body: Text, style: str) -> RenderableType:
    from rich.panel import Panel

    body.rstrip()
    return Panel(body, title=_text(title, style), border_style=style, title_align="left")


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _plain(text: str) -> str:
    """Without control characters: a model's text must not steer the terminal."""
    return _CONTROL.sub("\ufffd", text)


def _text(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(_plain(text), style)


def _cut(text: str, full: bool, limit: int = LONG) -> str:
    from recompact.texts import cut

    kept, more = (text, 0) if full else cut(text, limit)
    return f"{kept} … ({more:,} more: --full)" if more else kept


def _first(texts: Iterable[Any], limit: int, full: bool) -> list[str]:
    every = list(texts)
    return every if full or len(every) <= limit else [*every[:limit], f"… {len(every) - limit} more: --full"]
