"""The same number of draws for every boundary: the paper's fixed-budget evaluation, and its m = 9 diagnostic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from recompact.attribution.allocation import Allocation, draws_at_most, in_turn
from recompact.registry import Limit
from recompact.values.outcome import ARMS, PAPER, BoundaryId, Draw, Outcomes, Thresholds


@dataclass(frozen=True)
class Uniform(Allocation):
    """`draws` (m) in each arm of every boundary. Those whose estimates reach a threshold are retained."""

    draws: Annotated[int, Limit(ge=1)] = 3
    thresholds: Thresholds = PAPER
    arms: ClassVar = ARMS

    @property
    def name(self) -> str:
        return f"uniform {self.draws}"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        return in_turn(
            Draw(boundary, arm, number)
            for boundary, own in outcomes.items()
            for arm in self.arms
            for number in range(self.draws)
            if number not in own.of(arm)
        )

    @property
    def deciding_draws(self) -> int:
        return self.draws

    @property
    def description(self) -> str:
        return "every boundary gets the same number"

    def most_draws(self, outcomes: Mapping[BoundaryId, Outcomes]) -> int:
        return draws_at_most(len(self.arms) * self.draws, outcomes)


class PostOnly(Uniform):
    """`draws` POST draws at every boundary; PRE has its draws elsewhere, and nothing is retained by these alone."""

    arms: ClassVar = ("POST",)

    @property
    def name(self) -> str:
        return f"resampled {self.draws}"
