"""A sequential test: does a context behave as the one before the compaction, or as the one after it?

Draws come one at a time, and the test stops as soon as it is sure enough either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from recompact.values.outcome import Outcome

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
