"""Successive halving in three rounds, as in the paper, but without waiting for a round to end.

Each boundary gets one PRE/POST pair; after each round except the last, the half with the higher harm score over all
pairs so far gets another. A boundary goes on as soon as no missing outcome could push it out of the upper half, so the
draws are the same as with a barrier, only earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal

from recompact.attribution.allocation import Allocation, in_turn
from recompact.attribution.effects import first_draws, harm_score, hazard_and_burden
from recompact.models.journal import seed_of
from recompact.registry import Limit
from recompact.values.outcome import ARMS, PAPER, BoundaryId, Draw, Outcomes, Thresholds

Half = Literal["up", "even"]


@dataclass(frozen=True)
class Halving(Allocation):
    """The paper's boundary verification; its A^(r) are the rounds here.

    `half` says what half of an odd number is: rounded to the even neighbour, which reproduces all six rollout counts
    of the paper's cost table, or rounded up (468 instead of 464 for 133 boundaries, 1,044 instead of 1,042 for 298).
    """

    rounds: Annotated[int, Limit(ge=1)] = 3
    thresholds: Thresholds = PAPER
    seed: int = 0
    half: Half = "even"

    @property
    def name(self) -> str:
        return "halving"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        return in_turn(
            Draw(boundary, arm, number)
            for number, members in enumerate(self.certain(outcomes))
            for boundary in members
            for arm in ARMS
            if number not in outcomes[boundary].of(arm)
        )

    @property
    def deciding_draws(self) -> int:
        return self.rounds

    def finalists(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        return self.certain(outcomes)[-1]

    @property
    def description(self) -> str:
        further = ["another for the worse half", *["one more for the worse half of those"] * (self.rounds - 2)]
        return ", ".join(("one in either context for all", *further[: self.rounds - 1]))

    def rule(self, most_draws: int = 0) -> str:
        return f"{self.thresholds} by the estimate after all rounds"

    def most_draws(self, outcomes: Mapping[BoundaryId, Outcomes]) -> int:
        return rollouts(len(outcomes), self.rounds, self.half)

    def certain(self, outcomes: Mapping[BoundaryId, Outcomes]) -> list[list[BoundaryId]]:
        """For each round, the boundaries that are certain to be in it, given the outcomes so far."""
        rounds = [list(outcomes)]
        size = len(outcomes)
        for done in range(1, self.rounds):
            next_size = half_of(size, self.half)
            rounds.append(self._certain_upper(outcomes, rounds[-1], done, size, next_size))
            size = next_size
        return rounds

    def _certain_upper(
        self, outcomes: Mapping[BoundaryId, Outcomes], members: Sequence[BoundaryId], done: int, size: int, kept: int
    ) -> list[BoundaryId]:
        """Those of a round's members that will be among the `kept` of its `size`, whatever the missing outcomes are.

        At worst, all that do not certainly rank below rank above, including members that are not certain yet. So a
        boundary is certain if at most `kept` of the round's `size` remain without those that rank below it.
        """
        ranked = self._rank(outcomes, members, done)
        return [boundary for place, boundary in enumerate(ranked) if size - (len(ranked) - place - 1) <= kept]

    def _rank(
        self, outcomes: Mapping[BoundaryId, Outcomes], members: Sequence[BoundaryId], done: int
    ) -> list[BoundaryId]:
        """The members that have `done` pairs, highest score first, ties in an order drawn from the seed."""
        keys = []
        for boundary in members:
            if (arms := first_draws(outcomes[boundary], done)) is not None:
                score = harm_score(*hazard_and_burden(*arms), self.thresholds)
                keys.append((-score, _lot(boundary, self.seed), boundary))
        return [boundary for _, _, boundary in sorted(keys)]


@lru_cache(maxsize=65536)
def _lot(boundary: BoundaryId, seed: int) -> int:
    """The place of a boundary among those with the same score."""
    return seed_of(f"halving/{boundary.unit}", boundary.index, seed)


def half_of(number: int, half: Half = "even") -> int:
    """How many of `number` boundaries go on to the next round: at least one, or a run of one would retain nothing.

    >>> half_of(133), half_of(99), half_of(133, "up"), half_of(1)
    (66, 50, 67, 1)
    """
    return (number + 1) // 2 if half == "up" else max(round(number / 2), min(number, 1))


def rollouts(boundaries: int, rounds: int = 3, half: Half = "even") -> int:
    """How many continuations halving takes for that many boundaries; it depends on nothing else.

    >>> [rollouts(n) for n in (133, 198, 214, 298, 200, 204)]  # the paper's cost table
    [464, 694, 750, 1042, 700, 714]
    """
    total = 0
    for _ in range(rounds):
        total += 2 * boundaries
        boundaries = half_of(boundaries, half)
    return total
