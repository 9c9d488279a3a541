"""The same number of draws for every boundary: the paper's fixed-budget evaluation, and its m = 9 diagnostic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recompact.attribution.allocation import in_turn
from recompact.attribution.effects import (
    compaction_helped,
    first_draws,
    harm_score,
    hazard_and_burden,
    most_harmful_first,
)
from recompact.attribution.posterior import PAPER, Thresholds
from recompact.values.outcome import ARMS, BoundaryId, Draw, Outcomes


@dataclass(frozen=True)
class Uniform:
    """`draws` (m) in each arm of every boundary. Those whose estimates reach a threshold are retained."""

    draws: int = 3
    thresholds: Thresholds = PAPER

    @property
    def name(self) -> str:
        return f"uniform {self.draws}"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        return in_turn(
            Draw(boundary, arm, number)
            for boundary, own in outcomes.items()
            for arm in ARMS
            for number in range(self.draws)
            if number not in own.of(arm)
        )

    def retained(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        return retained_by_estimate(outcomes, outcomes, self.draws, self.thresholds)


def retained_by_estimate(
    outcomes: Mapping[BoundaryId, Outcomes],
    boundaries: Mapping[BoundaryId, object] | Sequence[BoundaryId],
    draws: int,
    thresholds: Thresholds,
) -> list[BoundaryId]:
    """The boundaries with `draws` pairs whose H or B reaches its threshold, most harmful first.

    Those where the compaction clearly helped are not among them.
    """
    scores = {}
    for boundary in boundaries:
        if (arms := first_draws(outcomes[boundary], draws)) is not None and not compaction_helped(*arms):
            scores[boundary] = harm_score(*hazard_and_burden(*arms), thresholds)
    return [boundary for boundary in most_harmful_first(scores) if scores[boundary] >= 1]
