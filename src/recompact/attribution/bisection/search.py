"""The search for the cause of one harmful compaction, as a conversation: it asks for a continuation from a changed
context, is told the outcome, and ends with what it found.

It draws from nothing random, so that a search that was stopped repeats itself from the outcomes on record.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from recompact.attribution.bisection.cause import Cause, Ending, Trial
from recompact.attribution.bisection.pieces import Intervention, Piece, placebo_for
from recompact.attribution.bisection.sequential import Decision, Levels, Loss, SequentialTest, levels_of
from recompact.values.effect import Thresholds
from recompact.values.outcome import BoundaryId, Outcome, Outcomes

MOST_PIECES = 3
COMPARED = (2, 5)  # fewest and most draws from the context after the compaction, and with everything back
CHECK_ERROR = 0.1


NOTHING = Intervention()
"""The context after the compaction as it is."""


@dataclass(frozen=True)
class Search:
    """What a search is given: the pieces, the lines that can be taken out, and the draws that verification made.

    `statements` are what the summary says of its own accord, and the request that it may retell wrongly. `suspects` are
    names of pieces that somebody holds responsible: they are tried first. `most` is how many continuations the search
    may ask for. `copies` says that draws of one context repeat each other.
    """

    boundary: BoundaryId
    pieces: tuple[Piece, ...]
    lines: tuple[Piece, ...]
    verified: Outcomes
    thresholds: Thresholds = field(default_factory=Thresholds)
    statements: tuple[Piece, ...] = ()
    suspects: tuple[str, ...] = ()
    most: int = 40
    copies: bool = False

    @property
    def loss(self) -> Loss:
        """What to bring back: success where verification saw it lost, and steps otherwise."""
        pre, post = self.verified.pre.values(), self.verified.post.values()
        lost = fmean(o.value for o in pre) - fmean(o.value for o in post)
        return "success" if lost >= self.thresholds.hazard - 1e-9 else "steps"

    @property
    def whole(self) -> Intervention:
        return Intervention(frozenset(piece.name for piece in self.pieces))

    @property
    def every(self) -> tuple[Piece, ...]:
        """All pieces, each once: what was dropped, and what the summary says."""
        return tuple({piece.name: piece for piece in (*self.pieces, *self.lines, *self.statements)}.values())

    def ended(self, ending: Ending, reason: str = "") -> Cause:
        """A search that ends like this, without any draws so far."""
        dropped = sum(piece.tokens for piece in self.pieces)
        return Cause(self.boundary, ending, self.loss, 0, (), len(self.pieces), dropped, reason=reason)


Conversation = Generator[Intervention, Outcome, Cause]
"""Asks for a continuation after an intervention, and is sent its outcome."""


Change = Callable[[Sequence[str]], Intervention]
"""What is done with pieces, by their names: they are put back, or taken out."""


class _OutOfDraws(Exception):
    pass


@dataclass
class _State:
    """The outcomes so far, by intervention."""

    most: int
    drawn: dict[Intervention, list[Outcome]] = field(default_factory=dict)
    draws: int = 0

    def draw(self, intervention: Intervention) -> Generator[Intervention, Outcome, Outcome]:
        if self.draws >= self.most:
            raise _OutOfDraws
        outcome = yield intervention
        self.draws += 1
        kept = Outcome(outcome.value, outcome.steps)  # all that a record keeps of it
        self.drawn.setdefault(intervention, []).append(kept)
        return kept

    def trial(self, intervention: Intervention) -> Trial:
        return Trial(tuple(self.drawn.get(intervention, ())))


def search(given: Search) -> Conversation:
    """Narrow down to the smallest part whose return closes the loss."""
    state = _State(given.most)
    result = given.ended("nothing dropped")
    if not given.pieces and not given.lines:
        return result
    try:
        result = yield from _search(given, state)
    except _OutOfDraws:
        result = replace(result, ending="out of draws")
    post, whole = state.trial(NOTHING), state.trial(given.whole)
    return replace(result, draws=state.draws, post=post, whole=whole)


def _search(given: Search, state: _State) -> Conversation:
    """First what was dropped. Where no part of that is the cause, what the summary says instead."""
    result = yield from _search_dropped(given, state)
    if result.ending in _NOT_DROPPED and result.levels is not None and given.statements:
        said = yield from _search_statements(given, state, result.levels)
        return said if said.ending == "found" else result
    return result


_NOT_DROPPED: tuple[Ending, ...] = ("placebo closes it", "no small part", "not closed by everything")
"""Endings that leave the summary's own words as the cause. Turns that are put back can close a loss whatever they say,
since the agent then no longer goes by a fresh summary: the placebo shows it."""


def _search_statements(given: Search, state: _State, levels: Levels) -> Conversation:
    """What the summary says of its own accord is taken out, and the request put in, with nothing else put back."""
    result = replace(given.ended("no small part"), levels=levels)
    names = [piece.name for piece in reversed(given.statements)]
    if (yield from _closes(given, state, levels, Intervention.of(names))) != "closes":
        return result
    cause = yield from _narrow(given, state, levels, names, Intervention.of)
    requests = [piece for piece in given.statements if piece.kind == "request"]
    summary = [piece for piece in (*given.pieces, *given.lines, *requests) if piece.kind != "turn"]
    return (yield from _prove(given, state, result, cause, Intervention.of, summary))


def _search_dropped(given: Search, state: _State) -> Conversation:
    result = given.ended("not seen again")
    post, whole = yield from _compare(given, state)
    before = [*given.verified.pre.values()]
    after = [*given.verified.post.values(), *post.outcomes]
    gap = _gap(given.loss, whole, post)
    if given.loss == "steps" and post.success - whole.success >= given.thresholds.hazard - 1e-9:
        return replace(result, ending="helped")
    if gap >= _gap_needed(given) - 1e-9:
        levels = levels_of(given.loss, [*before, *whole.outcomes], after)
        if levels is None:
            return result
        cause = yield from _narrow(given, state, levels, _in_order(given), Intervention.of)
        result = replace(result, levels=levels)
        return (yield from _prove(given, state, result, cause, Intervention.of, given.pieces))
    if _gap(given.loss, Trial(tuple(before)), post) < _gap_needed(given) - 1e-9:
        return result
    # With everything back the loss is still there: a sentence of the summary may be what does the harm.
    result = replace(result, ending="not closed by everything")
    levels = levels_of(given.loss, before, [*after, *whole.outcomes])
    if levels is None or not given.lines:
        return replace(result, levels=levels)
    every = replace(given.whole, out=frozenset(line.name for line in given.lines))
    if (yield from _closes(given, state, levels, every)) != "closes":
        return replace(result, levels=levels)
    newest = [line.name for line in reversed(given.lines)]

    def taken_out(names: Sequence[str]) -> Intervention:
        return replace(given.whole, out=frozenset(names))

    cause = yield from _narrow(given, state, levels, newest, taken_out)
    return (yield from _prove(given, state, replace(result, levels=levels), cause, taken_out, given.lines))


def _compare(given: Search, state: _State) -> Generator[Intervention, Outcome, tuple[Trial, Trial]]:
    """Draws from the context after the compaction and with everything back, until they differ clearly or are enough."""
    fewest, most = (1, 1) if given.copies else COMPARED
    for number in range(1, most + 1):
        for intervention in (NOTHING, given.whole):
            yield from state.draw(intervention)
        post, whole = state.trial(NOTHING), state.trial(given.whole)
        if number >= fewest and _gap(given.loss, whole, post) >= _gap_needed(given) - 1e-9:
            break
    return post, whole


def _gap(loss: Loss, better: Trial, worse: Trial) -> float:
    return better.success - worse.success if loss == "success" else worse.steps - better.steps


def _gap_needed(given: Search) -> float:
    """How far apart the two must be: the threshold of success, or half of that of steps."""
    return given.thresholds.hazard if given.loss == "success" else given.thresholds.burden / 2


def _in_order(given: Search) -> list[str]:
    """Suspects first, then the newest pieces: turns are newer than entries of the previous summary."""
    names = [piece.name for piece in given.pieces]
    suspects = [name for name in given.suspects if name in names]
    return [*suspects, *(name for name in reversed(names) if name not in suspects)]


def _narrow(
    given: Search,
    state: _State,
    levels: Levels,
    order: Sequence[str],
    intervention: Change,
) -> Generator[Intervention, Outcome, Sequence[str] | None]:
    """The fewest pieces that close the loss, by binary search for the shortest closing beginning of `order`.

    Its last piece is needed. Where that does not suffice alone, the search goes on among the pieces before it.
    """
    kept: list[str] = []
    end = len(order)
    probe = len([name for name in order[: len(given.suspects)] if name in given.suspects])
    while len(kept) < MOST_PIECES:
        low, high = 0, end
        while high - low > 1:
            middle, probe = (probe, 0) if low < probe < high else ((low + high) // 2, 0)
            decision = yield from _closes(given, state, levels, intervention([*kept, *order[:middle]]))
            low, high = (low, middle) if decision == "closes" else (middle, high)
        if high == 0:
            return None
        kept.append(order[high - 1])
        end = high - 1
        if end == 0 or (yield from _closes(given, state, levels, intervention(kept))) == "closes":
            return kept
    return None


def _closes(
    given: Search, state: _State, levels: Levels, intervention: Intervention
) -> Generator[Intervention, Outcome, Decision]:
    """Whether an intervention closes the loss; draws that it has are used, and one that stays undecided does not."""
    test = SequentialTest(levels, copies=given.copies)
    while (decision := test.decide(state.drawn.get(intervention, ()))) is None:
        yield from state.draw(intervention)
    return decision


def _prove(
    given: Search,
    state: _State,
    result: Cause,
    names: Sequence[str] | None,
    intervention: Change,
    pieces: Sequence[Piece],
) -> Conversation:
    """The cause on fresh draws, under a stricter limit, and a placebo of the same size, which must not close it."""
    if names is None:
        return replace(result, ending="no small part")
    levels = result.levels
    assert levels is not None
    result = replace(result, pieces=tuple(piece for piece in given.every if piece.name in names))
    decision, closing = yield from _fresh(given, state, levels, intervention(names))
    if decision != "closes":
        return replace(result, ending="not confirmed", closing=closing)
    others = placebo_for(names, pieces, f"placebo/{given.boundary}")
    if not others:
        return replace(result, ending="found", closing=closing)
    decision, placebo = yield from _fresh(given, state, levels, intervention(sorted(others)))
    ending: Ending = "placebo closes it" if decision == "closes" else "found"
    return replace(result, ending=ending, closing=closing, placebo=placebo)


def _fresh(
    given: Search, state: _State, levels: Levels, intervention: Intervention
) -> Generator[Intervention, Outcome, tuple[Decision, Trial]]:
    """A test on draws that had no part in choosing the intervention; where draws are copies, on those there are."""
    test = SequentialTest(levels, error=CHECK_ERROR, copies=given.copies)
    outcomes: list[Outcome] = state.drawn.get(intervention, [])[:1] if given.copies else []
    while (decision := test.decide(outcomes)) is None:
        outcomes.append((yield from state.draw(intervention)))
    return decision, Trial(tuple(outcomes))
