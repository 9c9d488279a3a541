"""The search for the cause of one harmful compaction, as a conversation: it asks for a continuation from a changed
context, is told the outcome, and ends with what it found.

It draws from nothing random, so that a search that was stopped repeats itself from the outcomes on record.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TypeVar

from recompact.attribution.bisection.cause import (
    Cause,
    Decision,
    Ending,
    Levels,
    Loss,
    SequentialTest,
    Trial,
    levels_of,
)
from recompact.attribution.bisection.pieces import Intervention, Piece, placebo_for
from recompact.values.outcome import BoundaryId, Outcome, Outcomes, Thresholds

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

    @property
    def in_order(self) -> list[str]:
        """Suspects first, then the newest pieces: turns are newer than entries of the previous summary."""
        names = [piece.name for piece in self.pieces]
        suspects = [name for name in self.suspects if name in names]
        return [*suspects, *(name for name in reversed(names) if name not in suspects)]

    @property
    def gap_needed(self) -> float:
        """How far apart two trials must be: the threshold of success, or half of that of steps."""
        return self.thresholds.hazard if self.loss == "success" else self.thresholds.burden / 2

    def gap(self, better: Trial, worse: Trial) -> float:
        return better.success - worse.success if self.loss == "success" else worse.steps - better.steps

    def ended(self, ending: Ending, reason: str = "") -> Cause:
        """A search that ends like this, without any draws so far."""
        dropped = sum(piece.tokens for piece in self.pieces)
        return Cause(self.boundary, ending, self.loss, 0, (), len(self.pieces), dropped, reason=reason)


T = TypeVar("T")
Asking = Generator[Intervention, Outcome, T]
"""Asks for a continuation after an intervention, and is sent its outcome."""
Conversation = Asking[Cause]

Change = Callable[[Sequence[str]], Intervention]
"""What is done with pieces, by their names: they are put back, or taken out."""

_NOT_DROPPED: tuple[Ending, ...] = ("placebo closes it", "no small part", "not closed by everything")
"""Endings that leave the summary's own words as the cause. Turns that are put back can close a loss whatever they say,
since the agent then no longer goes by a fresh summary: the placebo shows it."""


_AFTER_PLACEBO: Mapping[Decision, Ending] = {
    "closes": "placebo closes it",
    "does not close": "found",
    "undecided": "placebo undecided",
}


def search(given: Search) -> Conversation:
    """Narrow down to the smallest part whose return closes the loss."""
    if not given.pieces and not given.lines:
        return given.ended("nothing dropped")
    inquiry = _Inquiry(given)
    try:
        result = yield from inquiry.run()
    except _OutOfDraws:
        result = given.ended("out of draws")
    return replace(result, draws=inquiry.draws, post=inquiry.trial(NOTHING), whole=inquiry.trial(given.whole))


class _OutOfDraws(Exception):
    pass


@dataclass
class _Inquiry:
    """A search under way: the outcomes so far, by intervention."""

    given: Search
    drawn: dict[Intervention, list[Outcome]] = field(default_factory=dict)
    draws: int = 0

    def draw(self, intervention: Intervention) -> Asking[Outcome]:
        if self.draws >= self.given.most:
            raise _OutOfDraws
        outcome = yield intervention
        self.draws += 1
        kept = Outcome(outcome.value, outcome.steps)  # all that a record keeps of it
        self.drawn.setdefault(intervention, []).append(kept)
        return kept

    def trial(self, intervention: Intervention) -> Trial:
        return Trial(tuple(self.drawn.get(intervention, ())))

    def run(self) -> Conversation:
        """First what was dropped. Where no part of that is the cause, what the summary says instead."""
        result = yield from self.search_dropped()
        if result.ending in _NOT_DROPPED and result.levels is not None and self.given.statements:
            said = yield from self.search_statements(result.levels)
            return said if said.ending == "found" else result
        return result

    def search_statements(self, levels: Levels) -> Conversation:
        """What the summary says of its own accord is taken out, and the request put in, with nothing else put back."""
        given = self.given
        result = replace(given.ended("no small part"), levels=levels)
        names = [piece.name for piece in reversed(given.statements)]
        if (yield from self.closes(levels, Intervention.of(names))) != "closes":
            return result
        cause = yield from self.narrow(levels, names, Intervention.of)
        requests = [piece for piece in given.statements if piece.kind == "request"]
        summary = [piece for piece in (*given.pieces, *given.lines, *requests) if piece.kind != "turn"]
        return (yield from self.prove(result, levels, cause, Intervention.of, summary))

    def search_dropped(self) -> Conversation:
        given, gap_needed = self.given, self.given.gap_needed - 1e-9
        result = given.ended("not seen again")
        post, whole = yield from self.compare()
        before = [*given.verified.pre.values()]
        after = [*given.verified.post.values(), *post.outcomes]
        if given.loss == "steps" and post.success - whole.success >= given.thresholds.hazard - 1e-9:
            return replace(result, ending="helped")
        if given.gap(whole, post) >= gap_needed:
            levels = levels_of(given.loss, [*before, *whole.outcomes], after)
            if levels is None:
                return result
            cause = yield from self.narrow(levels, given.in_order, Intervention.of)
            result = replace(result, levels=levels)
            return (yield from self.prove(result, levels, cause, Intervention.of, given.pieces))
        if given.gap(Trial(tuple(before)), post) < gap_needed:
            return result
        # With everything back the loss is still there: a sentence of the summary may be what does the harm.
        levels = levels_of(given.loss, before, [*after, *whole.outcomes])
        result = replace(result, ending="not closed by everything", levels=levels)
        if levels is None or not given.lines:
            return result
        newest = [line.name for line in reversed(given.lines)]

        def taken_out(names: Sequence[str]) -> Intervention:
            return replace(given.whole, out=frozenset(names))

        if (yield from self.closes(levels, taken_out(newest))) != "closes":
            return result
        cause = yield from self.narrow(levels, newest, taken_out)
        return (yield from self.prove(result, levels, cause, taken_out, given.lines))

    def compare(self) -> Asking[tuple[Trial, Trial]]:
        """Draws from the context after the compaction and with everything back, until they differ clearly or are
        enough."""
        given = self.given
        fewest, most = (1, 1) if given.copies else COMPARED
        for number in range(1, most + 1):
            for intervention in (NOTHING, given.whole):
                yield from self.draw(intervention)
            post, whole = self.trial(NOTHING), self.trial(given.whole)
            if number >= fewest and given.gap(whole, post) >= given.gap_needed - 1e-9:
                break
        return post, whole

    def narrow(self, levels: Levels, order: Sequence[str], change: Change) -> Asking[Sequence[str] | None]:
        """The fewest pieces that close the loss, by binary search for the shortest closing beginning of `order`.

        Its last piece is needed. Where that does not suffice alone, the search goes on among the pieces before it.
        """
        kept: list[str] = []
        end = len(order)
        suspects = self.given.suspects
        probe = len([name for name in order[: len(suspects)] if name in suspects])
        while len(kept) < MOST_PIECES:
            low, high = 0, end
            while high - low > 1:
                middle, probe = (probe, 0) if low < probe < high else ((low + high) // 2, 0)
                decision = yield from self.closes(levels, change([*kept, *order[:middle]]))
                low, high = (low, middle) if decision == "closes" else (middle, high)
            if high == 0:
                return None
            kept.append(order[high - 1])
            end = high - 1
            if end == 0 or (yield from self.closes(levels, change(kept))) == "closes":
                return kept
        return None

    def closes(self, levels: Levels, intervention: Intervention) -> Asking[Decision]:
        """Whether an intervention closes the loss: draws that there are count, and one left undecided does not."""
        test = SequentialTest(levels, copies=self.given.copies)
        while (decision := test.decide(self.drawn.get(intervention, ()))) is None:
            yield from self.draw(intervention)
        return decision

    def prove(
        self, result: Cause, levels: Levels, names: Sequence[str] | None, change: Change, pieces: Sequence[Piece]
    ) -> Conversation:
        """The cause on fresh draws, under a stricter limit, and a placebo of the same size, which must not close it."""
        if names is None:
            return replace(result, ending="no small part")
        result = replace(result, pieces=tuple(piece for piece in self.given.every if piece.name in names))
        decision, closing = yield from self.try_afresh(levels, change(names))
        result = replace(result, ending="found" if decision == "closes" else "not confirmed", closing=closing)
        others = placebo_for(names, pieces, f"placebo/{self.given.boundary}")
        if not others or result.ending != "found":
            return result
        decision, placebo = yield from self.try_afresh(levels, change(sorted(others)))
        return replace(result, ending=_AFTER_PLACEBO[decision], placebo=placebo)

    def try_afresh(self, levels: Levels, intervention: Intervention) -> Asking[tuple[Decision, Trial]]:
        """A test on draws that had no part in choosing the intervention; where draws are copies, on those there are."""
        test = SequentialTest(levels, error=CHECK_ERROR, copies=self.given.copies)
        outcomes: list[Outcome] = self.drawn.get(intervention, [])[:1] if self.given.copies else []
        while (decision := test.decide(outcomes)) is None:
            outcomes.append((yield from self.draw(intervention)))
        return decision, Trial(tuple(outcomes))
