"""What the optimizer gets to see of a retained boundary: both contexts, both arms' continuations, and what is missing.

Every line carries a label (`S12` is line 12 of the segment), so that a diagnosis can cite it. The agent's prefix is
shown only in scope `prefix`; the task is shown in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from recompact.adaptation.excerpts import (
    LONG,
    Excerpt,
    block,
    head_and_tail,
    join_excerpts,
    shares,
    shown_turn,
    without_middle,
)
from recompact.attribution.boundary_view import BoundaryView, Continuation, boundary_view
from recompact.attribution.divergence import first_divergence, turn_actions
from recompact.attribution.judgement import read_verdicts
from recompact.compressors.prompted import quoted_prefix
from recompact.compressors.protocol import Scope
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import boundary_rows, failed_compactions
from recompact.engine.store.store import Store
from recompact.values.chat import canonical
from recompact.values.context import Turn
from recompact.values.outcome import BoundaryId
from recompact.values.texts import quantity
from recompact.values.tokens import TokenCounter

TASK, PREFIX, PREVIOUS, SEGMENT, SUMMARY, LAST, FACTS = "T", "A", "P", "S", "N", "L", "F"
"""The letters of the labels; the lines of continuation 2 are C2.1, C2.2, …"""

LEVELS: tuple[tuple[int | None, int], ...] = ((None, LONG), (LONG, LONG // 4), (LONG // 4, LONG // 16))
"""Characters shown of an observation, in the segment and in continuations: tried in turn until all of it fits."""

LABELLED = re.compile(r"^([A-Z]\d+(?:\.\d+)?)\| ?(.*)$")


@dataclass(frozen=True)
class EvidenceText:
    """The evidence about one boundary as text; `lines` are those that can be cited, by label."""

    id: BoundaryId
    channel: str
    text: str
    tokens: int
    lines: Mapping[str, str]
    cuts: int = 0
    left_out: int = 0  # characters


def retained_evidence(store: Store) -> tuple[BoundaryView, ...]:
    """What is known about every retained boundary, most harmful first."""
    return tuple(boundary_view(store, verdict) for verdict in read_verdicts(store).retained)


def nothing_retained(store: Store) -> str:
    """Why there is no evidence: no boundary was retained, or there was none since every compaction failed."""
    failed = failed_compactions(store)
    if failed.number and not boundary_rows(store):
        return f"There is nothing to adapt, since {failed.nothing_compacted}. The original stays."
    return "No boundary was retained, so there is nothing to adapt: the original stays."


def gather(
    store: Store,
    tasks: Mapping[str, str],
    scope: Scope,
    budget: int,
    count: TokenCounter,
    choose: Callable[[Store], Iterable[BoundaryView]] = retained_evidence,
) -> tuple[EvidenceText, ...]:
    """The evidence about the chosen boundaries, in their order, each within `budget` tokens.

    `tasks` are the texts of the tasks, by the units that collected them.
    """
    texts = []
    for view in choose(store):
        rest: tuple[Turn, ...] = ()
        if not any(continuation.row.arm == "POST" for continuation in view.continuations):
            # Chaining reads the POST draw off the trajectory, which went on from the summary.
            rest = read_trajectory(store, view.id.unit).turns[view.boundary.step :]
        texts.append(describe_boundary(view, tasks.get(view.id.unit, ""), scope, budget, count, rest))
    return tuple(texts)


def describe_boundary(
    view: BoundaryView, task: str, scope: Scope, budget: int, count: TokenCounter, rest: Sequence[Turn] = ()
) -> EvidenceText:
    """One boundary as text, in at most `budget` tokens."""
    blocks: list[Block] = []
    for in_segment, in_continuations in LEVELS:
        blocks = _blocks(view, task, scope, in_segment, in_continuations, rest)
        if count(_text(blocks)) <= budget:
            break
    effect = view.verdict.effect
    return assemble_evidence(view.id, effect.channel if effect else "none", blocks, budget, count)


def assemble_evidence(
    id: BoundaryId, channel: str, blocks: Sequence[Block], budget: int, count: TokenCounter
) -> EvidenceText:
    """Evidence from its blocks, which lose their middles where they are too long together."""
    if count(_text(blocks)) > budget:
        blocks = _fit_blocks(blocks, budget, count)
    text = _text(blocks)
    whole = join_excerpts("\n", [each.excerpt for each in blocks])
    return EvidenceText(
        id=id,
        channel=channel,
        text=text,
        tokens=count(text),
        lines={label: line for each in blocks for label, line in each.lines},
        cuts=whole.cuts,
        left_out=whole.left_out,
    )


@dataclass(frozen=True)
class Block:
    """One part of the evidence, its lines labelled."""

    tag: str
    excerpt: Excerpt
    attributes: Mapping[str, object]

    @property
    def rendered(self) -> str:
        return block(self.tag, self.excerpt.text, **self.attributes)

    @property
    def lines(self) -> list[tuple[str, str]]:
        matches = [LABELLED.match(line) for line in self.excerpt.text.split("\n")]
        return [(match[1], match[2]) for match in matches if match]


def _text(blocks: Sequence[Block]) -> str:
    return "\n".join(each.rendered for each in blocks)


def label_block(tag: str, label: str, excerpt: Excerpt, **attributes: object) -> Block:
    """A block whose lines can be cited."""
    lines = [f"{label}{number}| {line}" for number, line in enumerate(excerpt.text.splitlines(), 1)]
    return Block(tag, Excerpt("\n".join(lines)).counting(excerpt), attributes)


def _fit_blocks(blocks: Sequence[Block], budget: int, count: TokenCounter) -> list[Block]:
    """Blocks without the middle of those that are too long; labels stay as they were."""
    sizes = [count(each.rendered) for each in blocks]
    tags = [count(block(each.tag, "", **each.attributes)) for each in blocks]
    fitted = []
    room = budget - len(blocks)  # for the line ends between them
    for each, size, share, tag in zip(blocks, sizes, shares(sizes, room), tags, strict=True):
        if size <= share:
            fitted.append(each)
        else:
            excerpt = without_middle(each.excerpt.text, share - tag, count)
            fitted.append(Block(each.tag, excerpt.counting(each.excerpt), each.attributes))
    return fitted


def _blocks(
    view: BoundaryView, task: str, scope: Scope, in_segment: int | None, long: int, rest: Sequence[Turn]
) -> list[Block]:
    pre, post = view.boundary.pre, view.boundary.post
    blocks = [label_block("prefix", PREFIX, Excerpt(quoted_prefix(pre.prefix)))] if scope == "prefix" else []
    if task:
        blocks.append(label_block("task", TASK, Excerpt(task)))
    if pre.summary:
        blocks.append(label_block("previous-summary", PREVIOUS, Excerpt(pre.summary.text)))
    in_place = scope == "observation"  # what is long stands in the last turn, and what replaced it does too
    consumed = pre.turns[-1:] if in_place else pre.before_last().turns
    written = _results(post.last) if in_place else post.summary.text if post.summary else ""
    segment = join_excerpts("\n", [shown_turn(turn, in_segment) for turn in consumed])
    blocks.append(label_block("segment", SEGMENT, segment))
    blocks.append(label_block("summary", SUMMARY, Excerpt(written)))
    if pre.last and not in_place:
        blocks.append(label_block("last-turn", LAST, shown_turn(pre.last, in_segment)))
    blocks.append(Block("effect", Excerpt(_effect(view)), {}))
    if view.needed:
        blocks.append(label_block("missing-facts", FACTS, Excerpt("\n".join(view.needed))))
    for number, continuation in enumerate(view.continuations, 1):
        shown = _continuation(continuation, _divergence(view, continuation), long)
        row = continuation.row
        blocks.append(label_block("continuation", f"C{number}.", shown, number=number, arm=row.arm, draw=row.draw + 1))
    if rest:
        note = "the collected trajectory itself, which went on from the summary; later compactions are part of it"
        shown = join_excerpts("\n", [Excerpt(note), *(shown_turn(turn, long) for turn in rest)])
        number = len(view.continuations) + 1
        blocks.append(label_block("continuation", f"C{number}.", shown, number=number, arm="POST", draw="trajectory"))
    return blocks


def _results(turn: Turn | None) -> str:
    return "\n".join(result.content for result in turn.results) if turn else ""


def _effect(view: BoundaryView) -> str:
    effect = view.verdict.effect
    if effect is None:
        return "not known"
    h, b = effect.hazard_estimate, effect.burden_estimate
    return (
        f"channel: {effect.channel}\n"
        f"success lost (H): {effect.hazard:.2f}, 95% interval {h.low:.2f} to {h.high:.2f}\n"
        f"steps added (B): {effect.burden:.1f}, 95% interval {b.low:.1f} to {b.high:.1f}\n"
        f"continuations: {effect.pre} from the context before, {effect.post} from the context after"
    )


def _divergence(view: BoundaryView, continuation: Continuation) -> int | None:
    """The action (from 0) at which a continuation departs from the other arm: from the same draw, if it is there."""
    others = [other for other in view.continuations if other.row.arm != continuation.row.arm]
    same = [other for other in others if other.row.draw == continuation.row.draw]
    partner = next(iter([*same, *others]), None)
    return first_divergence(continuation.actions, partner.actions) if partner else None


def _continuation(continuation: Continuation, divergence: int | None, long: int) -> Excerpt:
    """One continuation: how it ended and what its score says, then its turns, the first divergence in full."""
    row, trajectory = continuation.row, continuation.trajectory
    done = "done" if row.success else "not done"
    steps = quantity(row.steps, "step")
    lines = [Excerpt(f"ended: {row.ending} after {steps}; the task was {done} (score {row.value:g})")]
    if trajectory.score.details:
        lines.append(head_and_tail(f"details of the score: {canonical(dict(trajectory.score.details))}", LONG))
    if row.error:
        lines.append(head_and_tail(f"error: {row.error}", LONG))
    if continuation.repeated:
        again = quantity(len(continuation.repeated), "action")
        lines.append(Excerpt(f"did again what had been done before the compaction: {again}, marked (again)"))
    at = 0
    for turn in trajectory.turns:
        end = at + len(turn_actions(turn))
        differs = divergence is not None and at <= divergence < end
        if differs:
            lines.append(Excerpt("from here on the two arms differ:"))
        lines.append(_mark_repeated_calls(shown_turn(turn, None if differs else long), turn, at, continuation.repeated))
        at = end
    if divergence is not None and divergence >= at:
        lines.append(Excerpt("here it ends, and the other arm goes on"))
    return join_excerpts("\n", lines)


def _mark_repeated_calls(excerpt: Excerpt, turn: Turn, first: int, repeated: Sequence[int]) -> Excerpt:
    """A turn in which calls that had been made before the compaction are marked."""
    text = excerpt.text
    for number, call in enumerate(turn.message.calls, first):
        if number in repeated:
            line = f"-> {call.name}({call.arguments})"
            text = text.replace(f"\n{line}", f"\n(again) {line}", 1)
    return Excerpt(text).counting(excerpt)


def shared_prefix(store: Store) -> tuple[str, ...]:
    """The messages in the prefix of every task of a run: they belong to the suite and to no task."""
    firsts = {row.unit: row for row in reversed(boundary_rows(store))}
    prefixes = [read_boundary(store, row.id).pre.prefix for row in firsts.values()]
    if len(prefixes) < 2:
        return ()
    contents = [{message.content for message in prefix} for prefix in prefixes]
    return tuple(sorted(set.intersection(*contents)))


@dataclass(frozen=True)
class CitableLines:
    """A block of evidence as an optimizer read it: its title, and its lines by label."""

    title: str
    lines: tuple[tuple[str, str], ...]  # label and text; a mark where something was cut has no label


TITLES = {
    TASK: "the task",
    PREFIX: "the agent's prefix",
    PREVIOUS: "the previous summary",
    SEGMENT: "the segment: what the compressor consumed",
    SUMMARY: "the summary",
    LAST: "the last turn, which stayed as it was",
    FACTS: "missing facts",
}
_CONTINUATION_TAG = re.compile(r'^<continuation number="(\d+)" arm="(PRE|POST)" draw="(\w+)">$')
_CUT = re.compile(r"^\[\d[\d,]* lines? cut here\]$")


def citable_lines(prompt: str) -> tuple[CitableLines, ...]:
    """The labelled lines of a prompt, block by block: what the findings of its answer cite.

    >>> [block.title for block in citable_lines("<segment>\\nS1| a\\n</segment>\\n<summary>\\nN1| b\\n</summary>")]
    ['the segment: what the compressor consumed', 'the summary']
    """
    blocks: dict[str, list[tuple[str, str]]] = {}
    names: dict[str, str] = {}
    current = ""
    for line in prompt.split("\n"):
        if match := LABELLED.match(line):
            label = match[1]
            current = label.partition(".")[0] if "." in label else label[0]
            blocks.setdefault(current, []).append((label, match[2]))
        elif opened := _CONTINUATION_TAG.match(line):
            names[f"C{opened[1]}"] = f"continuation {opened[1]}: {opened[2]}, draw {opened[3]}"
        elif current and _CUT.match(line):
            blocks[current].append(("", line))
        elif line.startswith("</"):
            current = ""
    return tuple(
        CitableLines(names.get(key) or TITLES.get(key) or f"continuation {key[1:]}", tuple(lines))
        for key, lines in blocks.items()
    )
