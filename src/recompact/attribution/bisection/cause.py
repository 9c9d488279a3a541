"""What bisecting a compaction found, as a record: the pieces whose return closes the loss, and the trials behind it.

A trial is judged by a sequential test: does a context behave as the one before the compaction, or as the one after it?
Draws come one at a time, and the test stops as soon as it is sure enough either way.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal, cast

from recompact.attribution.bisection.pieces import Piece
from recompact.engine.store.store import Store
from recompact.values.chat import canonical
from recompact.values.outcome import BoundaryId, Outcome
from recompact.values.texts import quantity

KIND = "cause"
"""The kind of unit that a cause is recorded as."""

Ending = Literal[
    "found",
    "nothing dropped",
    "not seen again",
    "helped",
    "not closed by everything",
    "no small part",
    "not confirmed",
    "placebo closes it",
    "placebo undecided",
    "out of draws",
    "environment failed",
]
"""How a search ends. Only `found` names a cause; the others say why there is none."""


@dataclass(frozen=True)
class Trial:
    """The outcomes of the continuations from one context."""

    outcomes: tuple[Outcome, ...] = ()

    @property
    def draws(self) -> int:
        return len(self.outcomes)

    @property
    def success(self) -> float:
        return fmean(outcome.value for outcome in self.outcomes)

    @property
    def steps(self) -> float:
        return fmean(outcome.steps for outcome in self.outcomes)

    def words(self, loss: Loss) -> str:
        """What came of these draws, in the terms of the loss: `3 of 4 succeed`, `12.5 steps in 4 draws`."""
        if loss == "success":
            return f"{sum(outcome.value for outcome in self.outcomes):g} of {self.draws} succeed"
        return f"{self.steps:.1f} steps in {quantity(self.draws, 'draw')}"


NO_TRIAL = Trial()


@dataclass(frozen=True)
class Cause:
    """What bisecting one compaction found. Only where `ending` is `found` do the pieces name a cause: those of turns
    and entries were put back, and lines were taken out."""

    boundary: BoundaryId
    ending: Ending
    loss: Loss
    draws: int
    pieces: tuple[Piece, ...]
    dropped: int  # pieces that could be put back
    dropped_tokens: int
    post: Trial = NO_TRIAL  # from the context after the compaction
    whole: Trial = NO_TRIAL  # with everything put back
    closing: Trial = NO_TRIAL  # with the pieces of the cause, on fresh draws
    placebo: Trial = NO_TRIAL  # with other pieces of the same size
    reason: str = ""  # why the environment failed
    levels: Levels | None = field(default=None, compare=False)  # that the trials were tested against; not recorded

    @property
    def known(self) -> bool:
        return self.ending == "found"

    @property
    def tokens(self) -> int:
        return sum(piece.tokens for piece in self.pieces)

    @property
    def taken_out(self) -> bool:
        """Whether the cause is a statement of the summary, and not something that it lacks."""
        return any(piece.kind == "line" for piece in self.pieces)

    @property
    def change(self) -> str:
        """What was done with the pieces."""
        if not self.taken_out:
            return "putting back"
        return "taking out" if all(piece.kind == "line" for piece in self.pieces) else "changing"

    def sentence(self) -> str:
        """What may be said, with its numbers."""
        if not self.known:
            return _NO_CAUSE[self.ending]
        what = self.change
        pieces = quantity(len(self.pieces), "piece")
        restated = any(piece.kind == "request" for piece in self.pieces)
        size = "" if self.taken_out or restated else f" ({self.tokens:,} of {self.dropped_tokens:,} dropped tokens)"
        placebo = f"; with a placebo of that size, {self.placebo.words(self.loss)}" if self.placebo.draws else ""
        # Successes are out of their draws; steps can only be judged beside those without the loss.
        stepwise = self.loss == "steps" and self.whole.draws > 0
        whole = f", {self.whole.words(self.loss)} with everything put back" if stepwise else ""
        return (
            f"{what} {pieces}{size} closes the loss: {self.closing.words(self.loss)} with"
            f" {'it' if len(self.pieces) == 1 else 'them'}, {self.post.words(self.loss)} without{whole}{placebo}"
        )

    def to_json(self) -> dict[str, Any]:
        trials = {name: getattr(self, name) for name in _TRIALS}
        return {
            "boundary": [self.boundary.unit, self.boundary.index],
            "ending": self.ending,
            "loss": self.loss,
            "draws": self.draws,
            "pieces": [[p.kind, p.number, p.text, p.tokens, p.heading] for p in self.pieces],
            "dropped": self.dropped,
            "dropped_tokens": self.dropped_tokens,
            **{n: [[o.value for o in t.outcomes], [o.steps for o in t.outcomes]] for n, t in trials.items()},
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Cause:
        post, whole, closing, placebo = (Trial(tuple(map(Outcome, *data[name]))) for name in _TRIALS)
        return Cause(
            BoundaryId(*data["boundary"]),
            data["ending"],
            data["loss"],
            data["draws"],
            tuple(Piece(*piece) for piece in data["pieces"]),
            data["dropped"],
            data["dropped_tokens"],
            post,
            whole,
            closing,
            placebo,
        )


_TRIALS = ("post", "whole", "closing", "placebo")
_NO_CAUSE: Mapping[Ending, str] = {
    "nothing dropped": "the compaction dropped nothing that could be put back",
    "not seen again": "fresh continuations from the summary show no loss, so there is nothing to explain",
    "helped": "with everything put back the agent succeeds less often: the compaction helped",
    "not closed by everything": "putting everything back does not close the loss, and no added line explains it",
    "no small part": "only more than three pieces together close the loss",
    "not confirmed": "the pieces that seemed to close the loss did not do so on fresh draws",
    "placebo closes it": "other pieces of the same size close the loss as well, so none of them is its cause",
    "placebo undecided": "other pieces of the same size may close the loss as well: the draws do not tell",
    "out of draws": "the search used up its continuations before it could tell",
    "environment failed": "the environment failed during the search; the same command tries again",
}


def write_cause(store: Store, cause: Cause) -> None:
    """Record a cause, in place of an earlier one at that boundary."""
    unit = f"{KIND}/{cause.boundary}"
    store.reopen(unit)
    with store.transaction():
        store.finish(unit, KIND, canonical(cause.to_json()), 0.0)


def read_causes(store: Store) -> dict[BoundaryId, Cause]:
    """The causes on record, by boundary."""
    causes = (Cause.from_json(cast(Mapping[str, Any], store.result(unit))) for unit in store.finished(KIND))
    return {cause.boundary: cause for cause in sorted(causes, key=lambda cause: cause.boundary)}


Loss = Literal["success", "steps"]
Decision = Literal["closes", "does not close", "undecided"]

SMALLEST_SPREAD = 1.0  # steps: three equal lengths do not mean that a fourth must be equal


@dataclass(frozen=True)
class Levels:
    """What continuations look like with the loss and without it: mean success, or mean steps with their spread."""

    loss: Loss
    without: float  # from the context before the compaction
    lost: float  # from the context after it
    spread: float = 1.0  # standard deviation of steps

    def evidence(self, outcome: Outcome) -> float:
        """The logarithm of the likelihood ratio: above 0 it speaks for the context before the compaction."""
        if self.loss == "success":
            won = outcome.value
            return won * math.log(self.without / self.lost) + (1 - won) * math.log((1 - self.without) / (1 - self.lost))
        far, near = outcome.steps - self.lost, outcome.steps - self.without
        return (far * far - near * near) / (2 * self.spread**2)


def levels_of(loss: Loss, before: Sequence[Outcome], after: Sequence[Outcome]) -> Levels | None:
    """The two levels, from draws of both kinds; None where the one after the compaction is no worse.

    Rates of success are smoothed, so that no number of draws makes an outcome impossible.
    """
    if loss == "success":
        without, lost = ((sum(outcome.value for outcome in draws) + 1) / (len(draws) + 2) for draws in (before, after))
        return Levels("success", without, lost) if without > lost else None
    means = [fmean(outcome.steps for outcome in draws) for draws in (before, after)]
    squares = [(o.steps - mean) ** 2 for mean, draws in zip(means, (before, after), strict=True) for o in draws]
    spread = math.sqrt(sum(squares) / max(1, len(squares) - 2))
    return Levels("steps", means[0], means[1], max(SMALLEST_SPREAD, spread)) if means[1] > means[0] else None


@dataclass(frozen=True)
class SequentialTest:
    """Wald's test between two levels. `error` is the chance of either mistake that it allows.

    No single draw decides, however far out it lies, unless draws are `copies` of each other: then one is all there is.
    """

    levels: Levels
    error: float = 0.15
    fewest: int = 2
    most: int = 8
    copies: bool = False

    def decide(self, outcomes: Sequence[Outcome]) -> Decision | None:
        """What these draws say; None where another one is wanted."""
        evidence = sum(map(self.levels.evidence, outcomes))
        if self.copies and outcomes:
            return "closes" if evidence > 0 else "does not close"
        limit = math.log((1 - self.error) / self.error)
        if len(outcomes) >= self.fewest and abs(evidence) >= limit:
            return "closes" if evidence > 0 else "does not close"
        return "undecided" if len(outcomes) >= self.most else None
