"""Chained draws: the first POST draw of a boundary is free, since the trajectory itself went on after the compaction.

Without later compaction, a POST continuation of boundary j runs through the segment that the trajectory took and is
from there on a PRE continuation of boundary j+1; after the last boundary, the trajectory's own rest is one. This is the
step Q(s_j, c_j) = E[V(s_{j+1})] in the proof of the paper's theorem. `Chained` gives these draws to any allocation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from recompact.attribution.allocation import Allocation, TrajectoryFacts
from recompact.attribution.prior import LearnedPriors
from recompact.values.outcome import NO_COPIES, BoundaryId, CopiedArms, Draw, Outcome, Outcomes, Thresholds
from recompact.values.trajectory import Ending

CHAINED = 0
"""The number of the POST draw that is chained. Only one is: draws that share a segment are not independent."""

_OWN_ENDINGS: frozenset[Ending] = frozenset({"finished", "step limit"})


@dataclass(frozen=True)
class Segment:
    """From one boundary to the next: `steps` long, and then a PRE continuation of `then`."""

    then: BoundaryId
    steps: int


Link = Segment | Outcome
Links = Mapping[BoundaryId, Link]


def links_of(trajectories: Iterable[TrajectoryFacts]) -> dict[BoundaryId, Link]:
    """What follows each boundary. A trajectory that an error cut short says nothing about its last boundary."""
    links: dict[BoundaryId, Link] = {}
    for facts in trajectories:
        ids = [BoundaryId(facts.unit, index) for index in range(1, len(facts.boundaries) + 1)]
        for n in range(len(ids) - 1):
            links[ids[n]] = Segment(ids[n + 1], facts.boundaries[n + 1] - facts.boundaries[n])
        if ids and facts.ending in _OWN_ENDINGS:
            links[ids[-1]] = Outcome(facts.value, facts.steps - facts.boundaries[-1], 0, facts.ending == "step limit")
    return links


def with_chained(outcomes: Mapping[BoundaryId, Outcomes], links: Links) -> dict[BoundaryId, Outcomes]:
    """The outcomes with the chained POST draws added. A draw that was actually made is never replaced."""
    return {boundary: _complete_outcomes(own, links.get(boundary), outcomes) for boundary, own in outcomes.items()}


def chained_outcome(link: Link, outcomes: Mapping[BoundaryId, Outcomes]) -> Outcome | None:
    """What a link yields: nothing as long as the PRE draw after its segment is missing. It costs no tokens."""
    if isinstance(link, Outcome):
        return link
    rest = outcomes[link.then].pre.get(CHAINED) if link.then in outcomes else None
    return None if rest is None else Outcome(rest.value, link.steps + rest.steps, 0, rest.ran_out)


def _complete_outcomes(own: Outcomes, link: Link | None, outcomes: Mapping[BoundaryId, Outcomes]) -> Outcomes:
    if link is None or CHAINED in own.post:
        return own
    chained = chained_outcome(link, outcomes)
    return own if chained is None else Outcomes(own.pre, {**own.post, CHAINED: chained})


@dataclass(frozen=True)
class Chained(Allocation):
    """An allocation whose first POST draws are chained where they can be."""

    inner: Allocation
    links: Links

    @property
    def name(self) -> str:
        return f"chained {self.inner.name}"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        draws = self.inner.due(with_chained(outcomes, self.links))
        return list(dict.fromkeys(self._instead(draw, outcomes) for draw in draws))

    def seen(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Mapping[BoundaryId, Outcomes]:
        return self.inner.seen(with_chained(outcomes, self.links))

    def retained(
        self,
        outcomes: Mapping[BoundaryId, Outcomes],
        copied: CopiedArms = NO_COPIES,
        priors: LearnedPriors | None = None,
    ) -> Sequence[BoundaryId]:
        return self.inner.retained(with_chained(outcomes, self.links), copied, priors)

    def finalists(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Collection[BoundaryId]:
        return self.inner.finalists(outcomes)

    @property
    def thresholds(self) -> Thresholds:
        return self.inner.thresholds

    @property
    def deciding_draws(self) -> int | None:
        return self.inner.deciding_draws

    @property
    def by_probability(self) -> bool:
        return self.inner.by_probability

    @property
    def description(self) -> str:
        return "; ".join(filter(None, ("the first one from POST is read off the trajectory", self.inner.description)))

    def rule(self, most_draws: int = 0) -> str:
        return self.inner.rule(most_draws)

    @property
    def cap(self) -> int | None:
        return self.inner.cap

    def most_draws(self, outcomes: Mapping[BoundaryId, Outcomes]) -> int | None:
        return self.inner.most_draws(outcomes)

    def _instead(self, draw: Draw, outcomes: Mapping[BoundaryId, Outcomes]) -> Draw:
        """A POST draw that a segment can yield is not made: the PRE draw after the segment is."""
        link = self.links.get(draw.boundary)
        if draw.arm == "POST" and draw.number == CHAINED and isinstance(link, Segment) and link.then in outcomes:
            return Draw(link.then, "PRE", CHAINED)
        return draw


def without_chaining(allocation: Allocation) -> Allocation:
    """The allocation itself. A chained draw begins after the compaction, so a control with both arms from PRE cannot
    have one."""
    return allocation.inner if isinstance(allocation, Chained) else allocation
