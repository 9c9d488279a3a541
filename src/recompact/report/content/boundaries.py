"""The compactions of a verified run as a reader sees them: counts, the list, and the most harmful ones in full.

Comes in: a verified run. Goes out: tables, and for each case its numbers, both contexts with what was dropped marked,
and two continuations side by side. Texts are cut here; escaping is the page's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from recompact.adaptation.diagnosis import Diagnosis
from recompact.attribution.cases import Comparison, Continuation, Evidence, evidence_of
from recompact.attribution.counts import counts
from recompact.attribution.divergence import consumed, literal_spans, turn_actions
from recompact.attribution.findings import Finding, Findings
from recompact.attribution.posterior import Thresholds
from recompact.evaluation.summary import counted
from recompact.outcome import BoundaryId, Outcome
from recompact.report.content.harm import harmful
from recompact.store.store import Store
from recompact.tables import Cell, Column, Number, Table, signed
from recompact.texts import action_line, cut
from recompact.trajectory import Boundary, Trajectory

SUMMARY = 6000  # characters of a summary,
ASKED = 600  # of a task,
TURN = 1500  # of a turn,
ACTION = 300  # of an action,
OBSERVATION = 260  # of an observation,
ANSWER = 200  # of an answer, and
LAST = 120  # of the last action of another draw that are shown
TURNS = 40  # of PRE,
STEPS = 24  # of a continuation, besides its last, and
LITERALS = 60  # that were dropped
LISTED = 300  # boundaries in the list


@dataclass(frozen=True)
class Piece:
    """A piece of a text: as it is, a literal that was dropped, what was cut, or a note of ours."""

    text: str
    kind: Literal["", "dropped", "cut", "note"] = ""


@dataclass(frozen=True)
class Block:
    """A part of a context: a summary, or a turn."""

    title: str
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Step:
    """What the agent did and what it saw. `diverges`: here the two arms part; `again`: done before the boundary."""

    number: int
    action: tuple[Piece, ...]
    observation: tuple[Piece, ...]
    diverges: bool
    again: bool


@dataclass(frozen=True)
class Way:
    """One continuation in full. Steps that were left out are counted in `hidden`, before the last one."""

    title: str
    success: bool
    steps: tuple[Step, ...]
    hidden: int
    last: Step | None
    answer: tuple[Piece, ...]
    error: str


@dataclass(frozen=True)
class Other:
    """A continuation on one line, with the action that it ended with."""

    said: str
    last: tuple[Piece, ...]


@dataclass(frozen=True)
class Case:
    """One boundary in full."""

    id: BoundaryId
    finding: Finding
    harmful: bool
    anchor: str
    asked: tuple[Piece, ...]
    sentence: str
    notes: tuple[str, ...]
    before: tuple[Block, ...]
    after: tuple[Block, ...]
    literals: tuple[str, ...]
    more_literals: int
    pre: Way | None
    post: Way | None
    parting: str
    others: tuple[Other, ...]
    diagnosis: Diagnosis | None


# --- tables


def counts_table(found: Findings, success: Mapping[str, bool]) -> Table:
    """The paper's counts, for all trajectories, the failed and the successful ones; `success` is by unit."""
    effects = {f.id: f.effect for f in found.boundaries if f.effect is not None}
    limits = Thresholds(found.settings.hazard, found.settings.burden)
    columns = (
        Column("group", "outcome"),
        Column("trajectories", "trajectories"),
        Column("boundaries", "boundaries"),
        Column("reduced", "H > 0"),
        Column("severe_hazard", f"H ≥ {limits.hazard:g}"),
        Column("longer", "B > 0"),
        Column("severe_burden", f"B ≥ {limits.burden:g}"),
        Column("harmful", "either"),
        Column("trajectories_with_harmful", "in so many trajectories"),
    )
    rows = tuple(tuple(getattr(row, column.key) for column in columns) for row in counts(effects, success, limits))
    said = (
        "By the estimates of all draws; an allocation that gives some boundaries fewer draws can retain fewer of them.",
    )
    return Table("Boundaries by what came of their trajectories", columns, rows, said)


def boundary_list(found: Findings) -> Table:
    """Every boundary with an effect, most harmful first, in the columns of `recompact boundaries`."""
    known = [finding for finding in found.boundaries if finding.effect is not None]
    keys = ("boundary", "step", "H", "H_interval", "B", "B_interval", "P(harmful)", "draws", "channel", "verdict")
    columns = tuple(Column(key, "95 %" if key.endswith("interval") else key) for key in keys)
    rows = tuple(_listed(found, finding) for finding in known[:LISTED])
    said = [f"The first {LISTED:,} of {len(known):,}."] * (len(known) > LISTED)
    said += [
        "Draws are PRE + POST.",
        "P(harmful) is how probable it is, after these draws, that H or B reaches its threshold. A verdict goes by the"
        " estimates, so with few draws it can be low for what is called harmful.",
    ]
    return Table("All boundaries, most harmful first", columns, rows, tuple(said))


def _listed(found: Findings, finding: Finding) -> tuple[Cell, ...]:
    effect = finding.effect
    assert effect is not None
    h, b = effect.hazard_estimate, effect.burden_estimate
    return (
        str(finding.id),
        finding.row.step,
        Number(effect.hazard, 2, signed=True),
        f"{signed(h.low, 2)} to {signed(h.high, 2)}",
        Number(effect.burden, 1, signed=True),
        f"{signed(b.low, 1)} to {signed(b.high, 1)}",
        Number(effect.harmful, 2),
        f"{effect.pre} + {effect.post}",
        effect.channel if effect.channel != "none" else None,
        "harmful" if harmful(found, finding) else None,
    )


# --- cases


def worst(found: Findings, top: int) -> list[Finding]:
    """Those to show in full: the harmful ones, or the three with the largest effects where none is."""
    known = [finding for finding in found.boundaries if finding.effect is not None]
    return [finding for finding in known if harmful(found, finding)][:top] or known[: min(3, top)]


def cases(
    store: Store, found: Findings, top: int, diagnoses: Mapping[BoundaryId, Diagnosis], prefix: str
) -> tuple[Case, ...]:
    """The most harmful boundaries in full; anchors begin with `prefix`."""
    return tuple(
        _case(evidence_of(store, finding.id, finding), found, f"{prefix}{n}", diagnoses.get(finding.id))
        for n, finding in enumerate(worst(found, top), 1)
    )


def _case(evidence: Evidence, found: Findings, anchor: str, diagnosis: Diagnosis | None) -> Case:
    boundary, literals = evidence.boundary, evidence.dropped.literals
    pair = telling_pair(evidence)
    pre, post = (pair.pre, pair.post) if pair else (None, None)
    at = pair.divergence if pair else None
    return Case(
        id=evidence.finding.id,
        finding=evidence.finding,
        harmful=harmful(found, evidence.finding),
        anchor=anchor,
        asked=_asked(boundary),
        sentence=_sentence(evidence.finding),
        notes=_notes(evidence),
        before=_before(boundary, literals),
        after=_after(boundary),
        literals=literals[:LITERALS],
        more_literals=max(0, len(literals) - LITERALS),
        pre=_way("PRE", pre, at) if pre else None,
        post=_way("POST", post, at) if post else None,
        parting=_parting(pair),
        others=tuple(_line(made) for made in evidence.continuations if made not in (pre, post)),
        diagnosis=diagnosis if diagnosis and diagnosis.causes else None,
    )


def telling_pair(evidence: Evidence) -> Comparison | None:
    """The pair of draws that shows the harm: PRE succeeds and POST fails, or else POST takes the most steps more."""
    whole = [(pair, pair.pre, pair.post) for pair in evidence.pairs]
    both = [(pair, pre.row, post.row) for pair, pre, post in whole if pre and post]
    if not both:
        return evidence.pairs[0] if evidence.pairs else None
    return max(both, key=lambda found: (found[1].value - found[2].value, found[2].steps - found[1].steps))[0]


def _asked(boundary: Boundary) -> tuple[Piece, ...]:
    """What the agent was asked to do: the last thing that a user says in its prefix."""
    said = [message.content for message in boundary.pre.prefix if message.role == "user"]
    return _shortened(said[-1], ASKED) if said else ()


def _sentence(finding: Finding) -> str:
    """What the draws came to, in words."""
    effect = finding.effect
    if effect is None:
        return "No effect is known: an arm has no draw."
    pre, post = (tuple(side.values()) for side in (finding.outcomes.pre, finding.outcomes.post))
    steps = f"{abs(effect.burden):.1f} steps {'more' if effect.burden > 0 else 'fewer'}"
    lengths = f"it took {steps} on average" if round(effect.burden, 1) else "it took as many steps"
    if {outcome.value for outcome in (*pre, *post)} <= {0.0, 1.0}:
        before, after = f"succeeded in {_won(pre)} continuations", f"in {_won(post)}"
    else:
        before, after = f"had a mean reward of {_mean(pre):.2f}", f"of {_mean(post):.2f}"
    return f"With the context before, the agent {before}; with the summary {after}, and {lengths}."


def _won(outcomes: Sequence[Outcome]) -> str:
    return f"{sum(outcome.value for outcome in outcomes):.0f} of {len(outcomes)}"


def _mean(outcomes: Sequence[Outcome]) -> float:
    return sum(outcome.value for outcome in outcomes) / len(outcomes)


def _notes(evidence: Evidence) -> tuple[str, ...]:
    boundary, effect = evidence.boundary, evidence.finding.effect
    said = ["The first summary was over the budget, so a second one was asked for."] * boundary.asked_again
    said += ["The summary was cut to fit the budget."] * boundary.cut
    chained = effect.pre + effect.post - len(evidence.continuations) if effect else 0
    said += [f"{counted(chained, 'draw')} chained: read off the trajectory, not made."] * (chained > 0)
    if effect and effect.channel == "burden" and round(effect.hazard, 2) < 0:
        said.append("It counts as harmful for its steps alone: with the summary the agent succeeded more often.")
    return tuple(said)


def _before(boundary: Boundary, literals: Sequence[str]) -> tuple[Block, ...]:
    """What the compressor consumed, with the literals marked that stand nowhere in POST."""
    dropped = frozenset(literals)
    blocks = []
    if boundary.pre.summary:
        blocks.append(Block("previous summary", _marked(boundary.pre.summary.text, SUMMARY, dropped)))
    turns = consumed(boundary)
    first = boundary.step - len(boundary.pre.turns) + 1
    for number, turn in enumerate(turns[:TURNS], first):
        blocks.append(Block(f"step {number}", _marked(turn.text, TURN, dropped)))
    if len(turns) > TURNS:
        blocks.append(Block("", (Piece(f"{counted(len(turns) - TURNS, 'turn')} more", "cut"),)))
    return tuple(blocks)


def _after(boundary: Boundary) -> tuple[Block, ...]:
    """What stands there instead. The turns that stay word for word are only counted."""
    gone, kept = len(consumed(boundary)), len(boundary.post.turns)
    if boundary.post.summary:
        blocks = [Block("summary", _marked(boundary.post.summary.text, SUMMARY))]
    else:
        blocks = [Block("", (Piece(f"nothing: {counted(gone, 'turn')} dropped without a summary", "note"),))]
    stays = f"{counted(kept, 'turn')} after that {'stays' if kept == 1 else 'stay'} word for word, in PRE as in POST"
    return (*blocks, Block("", (Piece(stays, "note"),))) if kept else tuple(blocks)


def _marked(text: str, limit: int, dropped: Set[str] = frozenset()) -> tuple[Piece, ...]:
    """The text in pieces, with the literals marked that were dropped."""
    kept, more = cut(text, limit)
    pieces = []
    done = 0
    for start, end in literal_spans(kept):
        if kept[start:end] in dropped:
            pieces += [Piece(kept[done:start]), Piece(kept[start:end], "dropped")]
            done = end
    pieces.append(Piece(kept[done:]))
    return (*(piece for piece in pieces if piece.text), *_left_out(more))


def _shortened(text: str, limit: int) -> tuple[Piece, ...]:
    kept, more = cut(text, limit)
    return (Piece(kept), *_left_out(more))


def _left_out(more: int) -> tuple[Piece, ...]:
    return (Piece(f"{more:,} more characters", "cut"),) if more else ()


# --- continuations


def _way(arm: str, made: Continuation, divergence: int | None) -> Way:
    again = set(made.repeated)
    steps = [
        Step(n + 1, _shortened(action, ACTION), _shortened(seen, OBSERVATION), n == divergence, n in again)
        for n, (action, seen) in enumerate(_steps(made.trajectory))
    ]
    hidden = max(0, len(steps) - STEPS - 1)
    return Way(
        title=f"{arm}, draw {made.row.draw + 1}: {_ending(made)}",
        success=made.row.success,
        steps=tuple(steps[:STEPS] if hidden else steps),
        hidden=hidden,
        last=steps[-1] if hidden else None,
        answer=_answer(made.trajectory),
        error=cut(made.row.error, ACTION)[0],
    )


def _steps(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    """Each action on one line with what came of it, in the order of `divergence.actions_of`."""
    for turn in trajectory.turns:
        results = {result.call_id: result.content for result in turn.results}
        seen = [results.get(call.id, "") for call in turn.message.calls] or ["\n".join(results.values())]
        yield from zip(map(action_line, turn_actions(turn)), seen, strict=True)


def _answer(trajectory: Trajectory) -> tuple[Piece, ...]:
    answer = trajectory.score.details.get("answer")
    return () if answer is None else _shortened(str(answer), ANSWER)


def _ending(made: Continuation) -> str:
    row = made.row
    outcome = "success" if row.success else "failure"
    return f"{outcome}, {row.ending} after {counted(row.steps, 'step')}"


def _line(made: Continuation) -> Other:
    """A continuation on one line."""
    said = f"{made.row.arm}, draw {made.row.draw + 1}: {_ending(made)}"
    if made.repeated:
        said += f", {counted(len(made.repeated), 'action')} done before"
    return Other(said, _shortened(action_line(made.actions[-1]), LAST) if made.actions else ())


def _parting(pair: Comparison | None) -> str:
    if pair is None:
        return "No continuation was made from here."
    if pair.pre is None or pair.post is None:
        return "The other arm's draw was not made by itself: it was read off the trajectory, or is still to come."
    if pair.divergence is None:
        return "Both did the same."
    return f"They part at step {pair.divergence + 1}."
