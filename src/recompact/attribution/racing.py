"""Racing: draws go where it is still open whether a compaction was harmful, and nowhere else.

Each boundary gets one draw after another until the posterior of "harmful" is settled either way or the cap is reached.
What it gets depends only on its own outcomes by draw number, so neither the order of arrival nor the other boundaries
make a difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from recompact.attribution.allocation import Allocation, RunFacts, in_turn
from recompact.attribution.posterior import (
    Lengths,
    clearly_helped,
    doubt_after,
    probability_burden,
    probability_harmful,
    probability_hazard,
)
from recompact.attribution.prior import Prior
from recompact.values.outcome import ARMS, PAPER, BoundaryId, ContinuationArm, Draw, Outcome, Outcomes, Thresholds


@dataclass(frozen=True)
class StoppingRule:
    """When a race is over.

    A boundary is settled as harmless once it is less probably harmful than one without any draw (the base rate of the
    published prior: 7 % at the paper's thresholds, more at lower ones) or than `harmless`, where that is given; and as
    harmful at nine in ten. A race that does not settle ends after `cap` draws: ten, the cost of the paper's next larger
    evaluation, five pairs.
    """

    thresholds: Thresholds = PAPER
    harmless: float | None = None
    harmful: float = 0.9
    cap: int = 10

    @property
    def harmless_below(self) -> float:
        """The probability below which a boundary is settled as harmless."""
        return base_rate(self.thresholds) if self.harmless is None else self.harmless


@lru_cache(maxsize=256)
def base_rate(thresholds: Thresholds) -> float:
    """How probably a boundary is harmful before any draw, by the published prior."""
    return probability_harmful(Outcomes(), thresholds)


DEFAULT = StoppingRule()
RETAINED = 0.5  # at this probability or above: more probably harmful than not


@dataclass(frozen=True)
class Racing(Allocation):
    """Sequential verification: draws are spent under the published prior, and judged under the one that the run teaches
    once all are there, with all draws that the run has.

    `remaining` has the steps that could still be taken at a boundary, where they are known. A boundary is retained if
    it is more probably harmful than not.
    """

    stopping: StoppingRule = DEFAULT
    remaining: Mapping[BoundaryId, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "racing"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        draws = []
        for boundary, own in outcomes.items():
            race = self.race(boundary, own)
            if race.next is not None:
                draws.append(Draw(boundary, race.next, len(race.pre) if race.next == "PRE" else len(race.post)))
        return in_turn(draws)

    @property
    def thresholds(self) -> Thresholds:
        return self.stopping.thresholds

    @property
    def by_probability(self) -> bool:
        return True

    def finalists(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        """Those whose race is over: a question of the draws that were made, copies or not."""
        return [boundary for boundary, own in outcomes.items() if self.race(boundary, own).next is None]

    def is_harmful(self, boundary: BoundaryId, outcomes: Outcomes, prior: Prior) -> bool:
        remaining = self.remaining.get(boundary)
        return probability_harmful(outcomes, self.thresholds, remaining=remaining, prior=prior) >= RETAINED

    @property
    def description(self) -> str:
        return "they go where the verdict is least settled"

    def rule(self, most_draws: int = 0) -> str:
        return f"more probably than not {self.thresholds}"

    @property
    def cap(self) -> int:
        return self.stopping.cap

    def race(self, boundary: BoundaryId, outcomes: Outcomes) -> Race:
        """How far one boundary has come."""
        pre, post = _in_order(outcomes.pre), _in_order(outcomes.post)
        return _replay_race(self.stopping, self.remaining.get(boundary), pre, post)


def racing(thresholds: Thresholds, run: RunFacts) -> Racing:
    """Racing in a run."""
    remaining = {
        BoundaryId(each.unit, index): run.step_limit - step
        for each in run.trajectories
        for index, step in enumerate(each.boundaries, 1)
    }
    return Racing(StoppingRule(thresholds), remaining)


ArmDraws = tuple[tuple[float, int], ...]
"""Reward and steps of one arm's draws, in order."""


@dataclass(frozen=True)
class Race:
    """A race so far: the draws that counted, the posterior after them, and the arm that is next, if any."""

    pre: ArmDraws = ()
    post: ArmDraws = ()
    harmful: float = 0.0
    next: ContinuationArm | None = "PRE"


def _in_order(draws: Mapping[int, Outcome]) -> ArmDraws:
    """Draws 0, 1, … up to the first missing one."""
    ordered: list[tuple[float, int]] = []
    while (outcome := draws.get(len(ordered))) is not None:
        ordered.append((outcome.value, outcome.steps))
    return tuple(ordered)


@lru_cache(maxsize=65536)
def _replay_race(rule: StoppingRule, remaining: int | None, pre: ArmDraws, post: ArmDraws) -> Race:
    """The race replayed from its start, with the draws so far."""
    race = Race()
    while race.next is not None:
        used = len(race.pre if race.next == "PRE" else race.post)
        if used == len(pre if race.next == "PRE" else post):
            break
        if race.next == "PRE":
            race = _judge(rule, remaining, pre[: used + 1], race.post)
        else:
            race = _judge(rule, remaining, race.pre, post[: used + 1])
    return race


@lru_cache(maxsize=65536)
def _judge(rule: StoppingRule, remaining: int | None, pre: ArmDraws, post: ArmDraws) -> Race:
    """The posterior after these draws, and what it asks for."""
    values, post_values = [value for value, _ in pre], [value for value, _ in post]
    steps, post_steps = [steps for _, steps in pre], [steps for _, steps in post]
    hazard = probability_hazard(values, post_values, rule.thresholds.hazard)
    if clearly_helped(values, post_values):
        burden = 0.0
    else:
        burden = probability_burden(steps, post_steps, rule.thresholds.burden, remaining)
    harmful = 1 - (1 - hazard) * (1 - burden)
    if not post:
        # A low base rate settles nothing, and neither does one PRE draw that left little to lose or to add.
        return Race(pre, post, harmful, "POST")
    if not rule.harmless_below <= harmful <= rule.harmful or len(pre) + len(post) >= rule.cap:
        return Race(pre, post, harmful, None)
    if hazard * (1 - hazard) >= burden * (1 - burden):
        doubts = {arm: doubt_after(values, post_values, rule.thresholds.hazard, arm) for arm in ARMS}
    else:
        doubts = {"PRE": -_gain(Lengths.of(steps)), "POST": -_gain(Lengths.of(post_steps))}
    return Race(pre, post, harmful, "PRE" if doubts["PRE"] < doubts["POST"] else "POST")


def _gain(lengths: Lengths) -> float:
    """By how much one more draw reduces the variance of an arm's mean length."""
    return lengths.variance / (lengths.draws * (lengths.draws + 1))
