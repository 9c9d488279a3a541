"""How draws are spent: an allocation says which continuations are due, given the outcomes so far, and what is retained.

It is a pure function of the outcomes. It may ask for a draw as soon as that draw is certain to be needed, but what it
asks for in the end does not depend on the order in which outcomes arrive: verification needs no barrier between rounds,
and is the same whatever the concurrency.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from recompact.attribution.effects import (
    channel_of,
    compaction_helped,
    first_draws,
    harm_score,
    hazard_and_burden,
    most_harmful_first,
)
from recompact.attribution.prior import LearnedPriors, Prior, learn_priors, published_prior
from recompact.values.outcome import (
    NO_COPIES,
    PAPER,
    BoundaryId,
    ContinuationArm,
    CopiedArms,
    Draw,
    Outcome,
    Outcomes,
    Thresholds,
    without_copies,
)
from recompact.values.trajectory import Ending

Judgement = Literal["retained", "stopped early", "not by the rule", "not harmful", "helped"]
"""What an allocation makes of a boundary. Where the estimate of all draws reaches a threshold: `retained`; `stopped
early`, since it gave the boundary fewer draws than its rule asks for; `not by the rule`, which goes by the first draws
or by probability. Otherwise `not harmful`, or the compaction clearly `helped`."""


@dataclass(frozen=True)
class TrajectoryFacts:
    """What is known of a collected trajectory before any draw."""

    unit: str
    boundaries: tuple[int, ...]  # steps taken before each
    steps: int
    value: float  # the terminal reward
    ending: Ending


@dataclass(frozen=True)
class RunFacts:
    """What an allocation may know of a run before any draw. Without a run, it can still be described."""

    seed: int = 0
    step_limit: int = 0
    trajectories: tuple[TrajectoryFacts, ...] = ()


NO_RUN = RunFacts()


class Allocation(ABC):
    """A way to spend draws. `name` and `due` are needed; everything else has a default that suits an allocation which
    retains by the estimate of all its draws."""

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        """All draws that are certain to be needed and have no outcome yet. Empty when everything is decided.

        `outcomes` has every boundary as a key, including those without an outcome yet.
        """

    # --- what is retained

    @property
    def thresholds(self) -> Thresholds:
        """How large an effect is harmful."""
        return PAPER

    @property
    def deciding_draws(self) -> int | None:
        """How many draws of each arm decide, from the first one on; None where all do."""
        return None

    @property
    def by_probability(self) -> bool:
        """Whether the verdict goes by P(harmful), and not by the estimates."""
        return False

    def finalists(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Collection[BoundaryId]:
        """The boundaries that can be retained: those that were not given up on the way."""
        return outcomes.keys()

    def is_harmful(self, boundary: BoundaryId, outcomes: Outcomes, prior: Prior) -> bool:
        """Whether the draws that decide make a finalist harmful; `prior` is what the run teaches."""
        return harm_score(*hazard_and_burden(*outcomes.arms), self.thresholds) >= 1

    def retained(
        self,
        outcomes: Mapping[BoundaryId, Outcomes],
        copied: CopiedArms = NO_COPIES,
        priors: LearnedPriors | None = None,
    ) -> Sequence[BoundaryId]:
        """The harmful boundaries, most harmful first, once nothing is due any more.

        Copies count as draws that were given, but as evidence they are one. A compaction that clearly helped is not
        retained. The priors are those that the outcomes teach, if no others are given. A control must be given those
        of the verification that it is a control of: by its own, which know no harm, it would retain less than that
        does by chance.
        """
        seen = self.seen(outcomes)
        judged = without_copies(seen, copied)
        if self.by_probability:
            priors = priors or learn_priors(judged)
        scores = {}
        for boundary in self.finalists(seen):
            own = without_copies({boundary: self._deciding(seen[boundary])}, copied)[boundary]
            if not all(own.arms) or compaction_helped(*judged[boundary].arms):
                continue
            prior = priors.of(boundary) if priors else published_prior()
            if self.is_harmful(boundary, own, prior):
                scores[boundary] = harm_score(*hazard_and_burden(*own.arms), self.thresholds)
        return most_harmful_first(scores)

    def _deciding(self, own: Outcomes) -> Outcomes:
        """The draws that decide; none where some of them are missing."""
        if self.deciding_draws is None:
            return own
        arms = first_draws(own, self.deciding_draws)
        return Outcomes() if arms is None else Outcomes(*(dict(enumerate(arm)) for arm in arms))

    def judge(
        self,
        outcomes: Mapping[BoundaryId, Outcomes],
        copied: CopiedArms = NO_COPIES,
        priors: LearnedPriors | None = None,
    ) -> dict[BoundaryId, Judgement]:
        """What becomes of each boundary that has draws in both arms, once nothing is due any more; the retained ones
        come first, most harmful first."""
        judgements: dict[BoundaryId, Judgement] = dict.fromkeys(self.retained(outcomes, copied, priors), "retained")
        seen = self.seen(outcomes)
        complete = {id for id in self.finalists(seen) if self._deciding(seen[id]).pre}
        for boundary, own in without_copies(seen, copied).items():
            if boundary in judgements or not (own.pre and own.post):
                continue
            if compaction_helped(*own.arms):
                judgements[boundary] = "helped"
            elif channel_of(*hazard_and_burden(*own.arms), self.thresholds) == "none":
                judgements[boundary] = "not harmful"
            else:
                judgements[boundary] = "not by the rule" if boundary in complete else "stopped early"
        return judgements

    def seen(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Mapping[BoundaryId, Outcomes]:
        """The outcomes that it judges by: those that were drawn, and what it reads off the trajectories."""
        return outcomes

    # --- how it is described

    @property
    def description(self) -> str:
        """How draws are spent, as a clause for a reader who has never heard of it; empty where the name says it."""
        return ""

    def rule(self, most_draws: int = 0) -> str:
        """The rule by which a boundary is retained, where an arm has up to `most_draws` draws."""
        number = self.deciding_draws
        which = "all draws"
        if number is not None and most_draws > number:
            which = f"the first {'draw' if number == 1 else f'{number} draws'} of each arm"
        return f"{self.thresholds} by the estimate of {which}"

    # --- how much it can take

    @property
    def cap(self) -> int | None:
        """The most draws that a boundary can get where its own outcomes alone decide how many; None elsewhere."""
        return None

    def most_draws(self, outcomes: Mapping[BoundaryId, Outcomes]) -> int | None:
        """The most draws that these boundaries can have in the end, including those already made; None if unknown."""
        return None if self.cap is None else draws_at_most(self.cap, outcomes)


def play_through(
    allocation: Allocation, known: Mapping[BoundaryId, Outcomes], outcome_of: Callable[[Draw], Outcome]
) -> tuple[dict[BoundaryId, Outcomes], list[Draw]]:
    """The outcomes, and the draws that were made for them, if an allocation gets what it asks for until it asks for
    nothing."""
    arms: dict[BoundaryId, dict[ContinuationArm, dict[int, Outcome]]] = {
        id: {"PRE": dict(own.pre), "POST": dict(own.post)} for id, own in known.items()
    }
    outcomes = {id: Outcomes(own["PRE"], own["POST"]) for id, own in arms.items()}
    draws: list[Draw] = []
    while due := allocation.due(outcomes):
        for draw in due:
            arms[draw.boundary][draw.arm][draw.number] = outcome_of(draw)
        draws.extend(due)
    return outcomes, draws


def judged_outcomes(
    allocation: Allocation, outcomes: Mapping[BoundaryId, Outcomes], copied: CopiedArms
) -> Mapping[BoundaryId, Outcomes]:
    """The outcomes that effects are estimated from: with chained draws where the allocation chains, without copies."""
    return without_copies(allocation.seen(outcomes), copied)


def draws_at_most(each: int, outcomes: Mapping[BoundaryId, Outcomes]) -> int:
    """How many draws there are once every boundary has `each`; some may have more already."""
    return sum(max(each, len(own.pre) + len(own.post)) for own in outcomes.values())


def in_turn(draws: Iterable[Draw]) -> list[Draw]:
    """The order in which to make draws: first ones first, and PRE before POST."""
    return sorted(draws, key=lambda d: (d.number, d.boundary.unit, d.boundary.index, d.arm == "POST"))
