"""A control for adaptive allocations: in every trajectory, boundaries are tried in turn up to the first that lost
success. The paper names it as a simpler way to save draws, which discards what later boundaries would show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from recompact.attribution.allocation import Allocation, draws_at_most, in_turn
from recompact.attribution.effects import first_draws, hazard_and_burden
from recompact.attribution.posterior import PAPER, Thresholds
from recompact.registry import Limit
from recompact.values.outcome import ARMS, BoundaryId, Draw, Outcomes, exact


@dataclass(frozen=True)
class FirstHarm(Allocation):
    """`draws` in each arm of a trajectory's boundaries, one boundary after another until H reaches its threshold."""

    draws: Annotated[int, Limit(ge=1)] = 3
    thresholds: Thresholds = PAPER

    @property
    def name(self) -> str:
        return "first-harm"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        return in_turn(
            Draw(boundary, arm, number)
            for boundary in self._boundaries_in_question(outcomes)
            for arm in ARMS
            for number in range(self.draws)
            if number not in outcomes[boundary].of(arm)
        )

    @property
    def deciding_draws(self) -> int:
        return self.draws

    def finalists(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        return [boundary for boundary in self._boundaries_in_question(outcomes) if self._is_harmful(outcomes[boundary])]

    def _boundaries_in_question(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Iterator[BoundaryId]:
        """The boundaries whose turn has come: in each trajectory, all up to the first that is open or lost success."""
        over: set[str] = set()
        for boundary in sorted(outcomes):
            if boundary.unit not in over:
                yield boundary
                if self._is_harmful(outcomes[boundary]) is not False:
                    over.add(boundary.unit)

    def _is_harmful(self, own: Outcomes) -> bool | None:
        """Whether success was lost; None while draws are missing."""
        arms = first_draws(own, self.draws)
        return None if arms is None else hazard_and_burden(*arms)[0] >= exact(self.thresholds.hazard)

    @property
    def description(self) -> str:
        return f"{self.draws} in either context for one boundary of a trajectory after another, up to the first loss"

    def rule(self, most_draws: int = 0) -> str:
        return f"the first of its trajectory with H >= {self.thresholds.hazard:g}"

    def most_draws(self, outcomes: Mapping[BoundaryId, Outcomes]) -> int:
        return draws_at_most(2 * self.draws, outcomes)
