"""Controls for adaptive allocations: draws for some boundaries only, chosen without looking at any outcome.

The paper names both as simpler ways to save draws: by position, later harm is missed; at random, sparse harm is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from recompact.attribution.posterior import PAPER, Thresholds
from recompact.attribution.uniform import Uniform
from recompact.models.journal import seed_of
from recompact.registry import Limit
from recompact.values.outcome import BoundaryId, Outcomes


@dataclass(frozen=True)
class Position(Uniform):
    """`draws` in each arm of the `first` boundaries of every trajectory, none at later ones."""

    draws: Annotated[int, Limit(ge=1)] = 3
    thresholds: Thresholds = PAPER
    first: Annotated[int, Limit(ge=1)] = 1

    @property
    def name(self) -> str:
        return f"position {self.first}"

    def finalists(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Collection[BoundaryId]:
        return [boundary for boundary in outcomes if boundary.index <= self.first]

    @property
    def description(self) -> str:
        return f"{self.draws} in either context for the first {self.first} of a trajectory, none for later ones"


@dataclass(frozen=True)
class Random(Uniform):
    """`draws` in each arm of a `share` of the boundaries, drawn by lot."""

    draws: Annotated[int, Limit(ge=1)] = 3
    thresholds: Thresholds = PAPER
    share: Annotated[float, Limit(gt=0, le=1)] = 0.5
    seed: int = 0

    @property
    def name(self) -> str:
        return f"random {self.share:g}"

    def finalists(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Collection[BoundaryId]:
        lots = sorted(outcomes, key=lambda id: (seed_of(f"random/{id.unit}", id.index, self.seed), id))
        return lots[: round(self.share * len(lots))]

    @property
    def description(self) -> str:
        return f"{self.draws} in either context for {self.share:.0%} of the boundaries, drawn by lot"
