"""Draws where it is still open whether a compaction was harmful, and nowhere else.

Each boundary runs a race of its own: it gets one draw after another until the posterior of "harmful" is settled either
way or the cap is reached. Outcomes in, draws out; what a boundary is given depends on its own outcomes by number of the
draw alone, so neither the order of arrival nor the other boundaries make a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from recompact.attribution.allocation import BoundaryId, Draw, Outcome, Outcomes
from recompact.attribution.continuations import Arm
from recompact.attribution.effects import estimate, harm_score, most_harmful_first
from recompact.attribution.posterior import Thresholds, probability_harmful


@dataclass(frozen=True)
class Racing:
    """Sequential verification. The prior is that of `recompact.attribution.posterior`.

    `harmless` and `harmful` are the probabilities below and above which a boundary is settled. `cap` is the most
    draws an arm gets. `remaining` tells the steps left at a boundary, where known: where PRE takes nearly all of them,
    nothing can be added. A boundary is retained if it is more probably harmful than not.
    """

    thresholds: Thresholds = Thresholds()
    harmless: float = 0.05
    harmful: float = 0.9
    cap: int = 5
    remaining: Mapping[BoundaryId, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "racing"

    def due(self, known: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        races = (self.race(boundary, known[boundary]) for boundary in sorted(known))
        return [race for race in races if isinstance(race, Draw)]

    def retained(self, known: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        scores = {}
        for boundary, outcomes in known.items():
            race = self.race(boundary, outcomes)
            if isinstance(race, Draw) or race.probability < 0.5:
                continue
            scores[boundary] = harm_score(*estimate(race.pre, race.post), self.thresholds)
        return most_harmful_first(scores)

    def race(self, boundary: BoundaryId, outcomes: Outcomes):
        seen = Outcomes({}, {})
        while True:
            p = probability_harmful(seen, self.thresholds, remaining=self.remaining.get(boundary)) if seen.pre else 0.5
            if (seen.pre and (p < self.harmless or p > self.harmful)) or len(seen.post) >= self.cap:
                return Settled(p, tuple(seen.pre.values()), tuple(seen.post.values()))
            arm: Arm = "PRE" if len(seen.pre) <= len(seen.post) else "POST"
            n = len(seen.of(arm))
            got = outcomes.of(arm).get(n)
            if got is None:
                return Draw(boundary, arm, n)
            seen = Outcomes({**seen.pre, n: got}, seen.post) if arm == "PRE" else Outcomes(seen.pre, {**seen.post, n: got})


@dataclass(frozen=True)
class Settled:
    probability: float
    pre: tuple[Outcome, ...]
    post: tuple[Outcome, ...]
