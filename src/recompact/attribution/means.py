"""Mean effects of many compactions together: of a whole run, or of those that have something in common."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any

from recompact.attribution.effects import equal_draws, hazard_and_burden
from recompact.attribution.judgement import Verification
from recompact.values.outcome import BoundaryId
from recompact.values.stats import FEWEST, Estimate, bootstrap_ratios
from recompact.values.tables import Number, estimate_cell


@dataclass(frozen=True)
class MeanEffects:
    """Some compactions of a run: how many there are, how many have draws in both arms, how many were retained, and the
    means of H and B with intervals by resampling trajectories. With fewer than `FEWEST` of those no interval is shown.

    The means rest on as many draws of each arm as every compaction of the run has: where outcomes decide who is drawn
    again, later draws would bias them (`effects.equal_draws`)."""

    boundaries: int
    examined: int
    retained: int
    draws: int
    trajectories: int  # with draws
    hazard: Estimate | None
    burden: Estimate | None

    def cell(self, estimate: Estimate | None, digits: int) -> Number | None:
        """One of the means as a table shows it."""
        if estimate is None or self.trajectories >= FEWEST:
            return estimate_cell(estimate, digits)
        return Number(estimate.value, digits)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def mean_effects(every: Verification, among: Collection[BoundaryId] | None = None) -> MeanEffects:
    """Of all compactions of a verification, or of those among them."""
    chosen = [verdict for verdict in every.verdicts if among is None or verdict.id in among]
    examined = {verdict.id: verdict.outcomes for verdict in every.examined if not verdict.left_out}
    draws, outcomes = equal_draws(examined)
    units = sorted({verdict.id.unit for verdict in every.verdicts})
    sums = {unit: [0.0, 0.0, 0.0] for unit in units}
    for id in (verdict.id for verdict in chosen if verdict.id in outcomes):
        hazard, burden = hazard_and_burden(tuple(outcomes[id].pre.values()), tuple(outcomes[id].post.values()))
        for n, value in enumerate((hazard, burden, 1)):
            sums[id.unit][n] += float(value)
    number = [own[2] for own in sums.values()]
    vectors = [([own[n] for own in sums.values()], number) for n in (0, 1)]
    means = bootstrap_ratios(vectors) if units else (None, None)
    known = sum(verdict.id in examined for verdict in chosen)
    retained, trajectories = sum(verdict.retained for verdict in chosen), sum(map(bool, number))
    return MeanEffects(len(chosen), known, retained, draws, trajectories, *means)
