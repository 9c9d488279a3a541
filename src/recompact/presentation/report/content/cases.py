"""One boundary as a reader sees it: its numbers, what was replaced by what, and what the agent did with either context.

The terminal and the page render the same `Case`; `Limits` says how much of its texts each of them shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from recompact.adaptation.revision import Diagnosis
from recompact.attribution.boundary_view import BoundaryView, Continuation, DrawPair
from recompact.attribution.divergence import consumed_texts, turn_actions
from recompact.attribution.statement import entry_of, why
from recompact.engine.store.verdicts import Verdict
from recompact.presentation.report.content.overview import outcome
from recompact.presentation.report.document import (
    Block,
    Fact,
    Line,
    Piece,
    mark_changes,
    note_block,
    score_facts,
    shorten,
    shorten_plain,
)
from recompact.values.context import replaced_turns
from recompact.values.outcome import BoundaryId, Outcome
from recompact.values.stats import Estimate
from recompact.values.tables import format_signed
from recompact.values.texts import action_line, quantity
from recompact.values.trajectory import Boundary, Trajectory


@dataclass(frozen=True)
class Limits:
    """How many characters of each text are shown, how many turns, steps, literals and lines; 0 is none, None is all."""

    task: int | None = 600
    summary: int | None = 6000
    turn: int | None = 1500
    action: int | None = 300
    observation: int | None = 260
    details: int | None = 200
    last: int | None = 120  # the last action of a draw that is not shown in full
    turns: int | None = 40
    steps: int | None = 24  # besides the last one
    literals: int | None = 60
    lines: int | None = 0
    all_pairs: bool = False  # every pair of draws in full, or only the one that shows the harm best
    kept_turns: bool = False  # the turns that stay verbatim, or only their number


PAGE = Limits()
TERMINAL = Limits(
    summary=3500,
    turn=700,
    action=160,
    observation=0,
    turns=None,
    steps=None,
    literals=40,
    lines=10,
    all_pairs=True,
    kept_turns=True,
)
FULL = replace(
    TERMINAL, task=None, summary=None, turn=None, action=None, details=None, last=None, literals=None, lines=None
)


@dataclass(frozen=True)
class Step:
    """What the agent did and observed. `diverges`: the two arms differ from here; `again`: done before the boundary."""

    number: int
    action: tuple[Piece, ...]
    observation: tuple[Piece, ...]
    diverges: bool
    again: bool


@dataclass(frozen=True)
class ContinuationView:
    """One continuation in full. Steps that are not shown are counted in `hidden`, before the last one."""

    title: str
    success: bool
    steps: tuple[Step, ...]
    hidden: int
    last: Step | None
    score: tuple[Fact, ...]
    error: str


@dataclass(frozen=True)
class PairView:
    """A PRE and a POST continuation side by side, and where they part."""

    pre: ContinuationView | None
    post: ContinuationView | None
    parting: str


@dataclass(frozen=True)
class CauseView:
    """What bisecting showed: the sentence, the pieces that would have saved it, and what the agent did with them."""

    sentence: str
    pieces: tuple[Block, ...]
    closing: ContinuationView | None


@dataclass(frozen=True)
class Case:
    """One boundary in full. `needed` are the dropped facts that mattered, `literals` the others that were dropped."""

    verdict: Verdict
    anchor: str  # on a page
    task: tuple[Piece, ...]
    sentence: str
    facts: tuple[Fact, ...]
    notes: tuple[str, ...]
    needed: tuple[str, ...]
    before: tuple[Block, ...]
    after: tuple[Block, ...]
    literals: tuple[str, ...]
    more_literals: int
    lines: tuple[str, ...]
    more_lines: int
    pairs: tuple[PairView, ...]
    others: tuple[Block, ...]
    diagnosis: Diagnosis | None
    cause: CauseView | None = None
    receipt: tuple[str, ...] = ()

    @property
    def id(self) -> BoundaryId:
        return self.verdict.id

    @property
    def label(self) -> str:
        """The verdict in a word or two, with the channel of harm."""
        effect = self.verdict.effect
        channel = effect.channel if effect and self.verdict.kind in ("harmful", "suspected") else "none"
        return entry_of(self.verdict).label + (f": {channel}" if channel != "none" else "")

    @property
    def need(self) -> str:
        """The words before the list of needed facts, or that there are none."""
        if self.needed:
            return "Dropped, and used by continuations from PRE (POST shows it nowhere):"
        return "No PRE continuation used a literal that the summary dropped."


def case_of(
    view: BoundaryView,
    limits: Limits,
    diagnosis: Diagnosis | None = None,
    anchor: str = "",
    cause: CauseView | None = None,
) -> Case:
    """The case of one boundary."""
    boundary, lines = view.boundary, view.dropped.lines
    literals = tuple(literal for literal in view.dropped.literals if literal not in view.needed)
    pairs = view.pairs if limits.all_pairs else view.pairs and (clearest_pair(view.pairs),)
    in_full = [side for pair in pairs for side in (pair.pre, pair.post)]
    return Case(
        verdict=view.verdict,
        anchor=anchor,
        task=_task(boundary, limits),
        sentence=_sentence(view.verdict),
        facts=_facts(view.verdict),
        notes=_notes(view),
        needed=view.needed,
        before=_before(view, limits),
        after=_after(boundary, limits),
        literals=literals[: limits.literals],
        more_literals=len(literals) - len(literals[: limits.literals]),
        lines=lines[: limits.lines],
        more_lines=len(lines) - len(lines[: limits.lines]),
        pairs=tuple(_pair_view(pair, limits) for pair in pairs),
        others=tuple(_line(other, limits) for other in view.continuations if other not in in_full),
        diagnosis=diagnosis,
        cause=cause,
        receipt=view.receipt.sentences,
    )


def clearest_pair(pairs: Sequence[DrawPair]) -> DrawPair:
    """The pair of draws that shows the harm best: PRE succeeds and POST fails, or POST takes the most extra steps."""
    both = [(pair, pair.pre.row, pair.post.row) for pair in pairs if pair.pre and pair.post]
    if not both:
        return pairs[0]
    return max(both, key=lambda entry: (entry[1].value - entry[2].value, entry[2].steps - entry[1].steps))[0]


# --- words and numbers


def _task(boundary: Boundary, limits: Limits) -> tuple[Piece, ...]:
    """What the agent was asked to do: the last user message of its prefix."""
    asked = [message.content for message in boundary.pre.prefix if message.role == "user"]
    return shorten(asked[-1], limits.task) if asked else ()


def _sentence(verdict: Verdict) -> str:
    """What the draws came to, in words."""
    effect = verdict.effect
    if effect is None:
        return why(verdict)
    pre, post = (tuple(side.values()) for side in (verdict.outcomes.pre, verdict.outcomes.post))
    steps = f"{abs(effect.burden):.1f} {'more' if effect.burden > 0 else 'fewer'} steps"
    lengths = f"took {steps} on average" if round(effect.burden, 1) else "took as many steps"
    if {outcome.value for outcome in (*pre, *post)} <= {0.0, 1.0}:
        before, after = f"succeeded in {_successes(pre)} continuations", f"in {_successes(post)}"
    else:
        before, after = f"had a mean reward of {_mean(pre):.2f}", f"of {_mean(post):.2f}"
    words = f"ith the context before, the agent {before}; with the summary, {after}, and it {lengths}."
    return f"{'In the verification, w' if verdict.confirmed else 'W'}{words} {why(verdict)}"


def _successes(outcomes: Sequence[Outcome]) -> str:
    return f"{sum(outcome.value for outcome in outcomes):.0f} of {len(outcomes)}"


def _mean(outcomes: Sequence[Outcome]) -> float:
    return sum(outcome.value for outcome in outcomes) / len(outcomes)


def _facts(verdict: Verdict) -> tuple[Fact, ...]:
    row, effect = verdict.row, verdict.reported_effect
    place = (
        Fact(
            "Where",
            f"after step {row.step} of {row.trajectory_steps}",
            f"the trajectory {'succeeded' if row.trajectory_success else 'failed'}",
        ),
        Fact("Tokens", f"{row.pre_tokens:,} → {row.post_tokens:,}"),
    )
    if effect is None or verdict.effect is None:
        return place
    fresh = ", fresh pairs" if verdict.confirmed else ""
    facts = [
        _estimate_fact("Success lost, H", effect.hazard_estimate, 2, fresh),
        _estimate_fact("Steps added, B", effect.burden_estimate, 1, fresh),
        Fact("P(harmful)", f"{verdict.effect.p_harmful:.2f}", "without the fresh pairs" if fresh else ""),
        Fact("Draws", f"{effect.pre} PRE, {effect.post} POST", "fresh pairs" if fresh else ""),
    ]
    if verdict.resampled:  # the hazard of the prompt, not of the one summary
        facts.append(_estimate_fact("H of the prompt, with fresh summaries", verdict.resampled.hazard_estimate, 2))
    return (*facts, *place)


def _estimate_fact(label: str, estimate: Estimate, digits: int, note: str = "") -> Fact:
    value, low, high = (format_signed(each, digits) for each in (estimate.value, estimate.low, estimate.high))
    return Fact(label, value, f"95 %: {low} to {high}{note}")


def _notes(view: BoundaryView) -> tuple[str, ...]:
    boundary, effect = view.boundary, view.verdict.effect
    notes = ["The first summary was over the budget, so Recompact asked for another."] * boundary.asked_again
    notes += ["The summary was cut to fit the budget."] * boundary.cut
    chained = effect.pre + effect.post - len(view.continuations) if effect else 0
    notes += [f"{quantity(chained, 'draw')} chained: taken from the trajectory, not drawn."] * (chained > 0)
    if effect and effect.channel == "burden" and round(effect.hazard, 2) < 0:
        notes.append("Only steps were lost: with the summary the agent succeeded more often.")
    return tuple(notes)


# --- contexts


def _before(view: BoundaryView, limits: Limits) -> tuple[Block, ...]:
    """What the compressor consumed, with the lines and literals marked that occur nowhere in POST."""
    boundary, turns = view.boundary, replaced_turns(view.boundary.pre, view.boundary.post)
    marks = dict.fromkeys(view.dropped.literals, "dropped") | dict.fromkeys(view.needed, "needed")
    dropped_lines, previous, first = view.dropped.lines, boundary.pre.summary, _first_step(boundary)
    blocks = []
    if previous:
        blocks.append(
            replace(mark_changes(previous.text, limits.summary, "-", dropped_lines, marks), title="previous summary")
        )
    for n in turns[: limits.turns]:
        text = boundary.pre.turns[n].text
        blocks.append(replace(mark_changes(text, limits.turn, "-", dropped_lines, marks), title=f"step {first + n}"))
    if hidden := len(turns) - len(turns[: limits.turns]):
        blocks.append(note_block(f"{quantity(hidden, 'turn')} more", "cut"))
    return tuple(blocks)


def _first_step(boundary: Boundary) -> int:
    """The number of the step that PRE begins with."""
    return boundary.step - len(boundary.pre.turns) + 1


def _after(boundary: Boundary, limits: Limits) -> tuple[Block, ...]:
    """What replaced it, with its new lines marked, and the turns that stay verbatim. Some turns are changed in their
    place: results were masked or shortened."""
    summary, dropped_turns = boundary.post.summary, len(boundary.pre.turns) - len(boundary.post.turns)
    changed = {n for n in replaced_turns(boundary.pre, boundary.post) if n >= dropped_turns}
    before, blocks = "\n".join(consumed_texts(boundary)), list[Block]()

    def added(text: str, most: int | None, title: str) -> Block:
        new = [line.strip() for line in text.splitlines() if line.strip() and line.strip() not in before]
        return replace(mark_changes(text, most, "+", new, {}), title=title)

    if summary:
        blocks.append(added(summary.text, limits.summary, "summary"))
    elif dropped_turns:
        blocks.append(note_block(f"nothing: {quantity(dropped_turns, 'turn')} dropped without a summary"))
    numbered = dict(enumerate(boundary.post.turns, dropped_turns))
    first = _first_step(boundary)
    shown = sorted(changed)[: limits.turns]
    blocks += [added(numbered[n].text, limits.turn, f"step {first + n}") for n in shown]
    if hidden := len(changed) - len(shown):
        blocks.append(note_block(f"{quantity(hidden, 'turn')} more", "cut"))
    kept = [n for n in numbered if n not in changed]
    if kept:
        stay = f"{quantity(len(kept), 'turn')} {'' if changed else 'after that '}{_stay(len(kept))} verbatim"
        blocks.append(note_block(f"{stay}, in PRE as in POST"))
    for n in kept if limits.kept_turns else ():
        blocks.append(replace(mark_changes(numbered[n].text, limits.turn, " ", (), {}), title=f"step {first + n}"))
    return tuple(blocks)


def _stay(number: int) -> str:
    return "stays" if number == 1 else "stay"


# --- continuations


def _pair_view(pair: DrawPair, limits: Limits) -> PairView:
    pre, post = (_continuation_view(side, pair.divergence, limits) if side else None for side in (pair.pre, pair.post))
    return PairView(pre, post, _where_they_part(pair))


def _where_they_part(pair: DrawPair) -> str:
    if pair.pre is None or pair.post is None:
        return "The other arm has no continuation for this draw: it comes from the trajectory, or is still due."
    return "Both did the same." if pair.divergence is None else f"They diverge at step {pair.divergence + 1}."


def _continuation_view(continuation: Continuation, divergence: int | None, limits: Limits) -> ContinuationView:
    row = continuation.row
    return steps_view(
        continuation.trajectory, _title(continuation), row.success, limits, divergence, continuation.repeated, row.error
    )


def steps_view(
    trajectory: Trajectory,
    title: str,
    success: bool,
    limits: Limits,
    divergence: int | None = None,
    repeated: Sequence[int] = (),
    error: str = "",
) -> ContinuationView:
    again = set(repeated)
    steps = tuple(
        Step(
            number=n + 1,
            action=shorten(action, limits.action),
            observation=() if limits.observation == 0 else shorten(observation, limits.observation),
            diverges=n == divergence,
            again=n in again,
        )
        for n, (action, observation) in enumerate(_actions(trajectory))
    )
    hidden = max(0, len(steps) - limits.steps - 1) if limits.steps else 0
    score = trajectory.score
    return ContinuationView(
        title=title,
        success=success,
        steps=steps[: limits.steps] if hidden else steps,
        hidden=hidden,
        last=steps[-1] if hidden else None,
        score=score_facts(score.value, score.details, limits.details),
        error=shorten_plain(error, limits.action),
    )


def _actions(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    """Each action on one line with what came of it, in the order of `divergence.actions_of`."""
    for turn in trajectory.turns:
        results = {result.call_id: result.content for result in turn.results}
        observations = [results.get(call.id, "") for call in turn.message.calls] or ["\n".join(results.values())]
        yield from zip(map(action_line, turn_actions(turn)), observations, strict=True)


def _title(continuation: Continuation) -> str:
    row = continuation.row
    return f"{row.arm}, draw {row.draw + 1}: {outcome(row.success)}, {row.ending} after {quantity(row.steps, 'step')}"


def _line(continuation: Continuation, limits: Limits) -> Block:
    text, actions = _title(continuation), continuation.actions
    if continuation.repeated:
        text += f", {quantity(len(continuation.repeated), 'action')} done before"
    return Block(text, (Line(" ", shorten(action_line(actions[-1]), limits.last)),) if actions else ())
