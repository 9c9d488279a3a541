"""Three-round successive halving, as the paper has it, but without waiting for the end of a round.

Each boundary gets one PRE/POST pair; after each round but the last, the half with the higher harm score over all pairs
so far gets another. Outcomes in, draws out: a boundary goes on as soon as no outcome that is still missing could push
it out of the upper half, so the draws are the same as with a barrier, only earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from recompact.attribution.allocation import in_turn
from recompact.attribution.effects import first_draws, harm_score, hazard_and_burden
from recompact.attribution.posterior import PAPER, Thresholds
from recompact.attribution.uniform import retained_by_estimate
from recompact.models.journal import seed_of
from recompact.outcome import ARMS, BoundaryId, Draw, Outcomes

Half = Literal["up", "even"]


@dataclass(frozen=True)
class Halving:
    """The paper's boundary verification (its A^(r) are the rounds here).

    `half` says what half of an odd number is: rounded up, or rounded half to even, which is what reproduces all six
    rollout counts of the paper's cost table (rounding up gives 468 instead of 464 for 133 boundaries, and 1,044 instead
    of 1,042 for 298).
    """

    rounds: int = 3
    thresholds: Thresholds = PAPER
    seed: int = 0
    half: Half = "up"

    @property
    def name(self) -> str:
        return "halving"

    def due(self, known: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        return in_turn(
            Draw(boundary, arm, number)
            for number, members in enumerate(self.certain(known))
            for boundary in members
            for arm in ARMS
            if number not in known[boundary].of(arm)
        )

    def retained(self, known: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        return retained_by_estimate(known, self.certain(known)[-1], self.rounds, self.thresholds)

    def certain(self, known: Mapping[BoundaryId, Outcomes]) -> list[list[BoundaryId]]:
        """For each round the boundaries that are certain to be in it, given the outcomes so far."""
        rounds = [list(known)]
        size = len(known)
        for done in range(1, self.rounds):
            kept = half_of(size, self.half)
            rounds.append(self._certain_upper(known, rounds[-1], done, size, kept))
            size = kept
        return rounds

    def _certain_upper(
        self, known: Mapping[BoundaryId, Outcomes], members: Sequence[BoundaryId], done: int, size: int, kept: int
    ) -> list[BoundaryId]:
        """Those of a round's members that will be among the `kept` of its `size`, whatever is still missing gives.

        At the worst everybody who is not known to rank below ranks above, members that are not certain yet included.
        So the k-th from below of those that have finished is certain if fewer than `kept` of the others are left.
        """
        ranked = self._ranked(known, members, done)
        return [boundary for place, boundary in enumerate(ranked) if size - (len(ranked) - place - 1) <= kept]

    def _ranked(
        self, known: Mapping[BoundaryId, Outcomes], members: Sequence[BoundaryId], done: int
    ) -> list[BoundaryId]:
        """The members that have `done` pairs, highest score first, ties in an order drawn from the seed."""
        keys = []
        for boundary in members:
            if (arms := first_draws(known[boundary], done)) is not None:
                score = harm_score(*hazard_and_burden(*arms), self.thresholds)
                keys.append((-score, _lot(boundary, self.seed), boundary))
        return [boundary for _, _, boundary in sorted(keys)]


@lru_cache(maxsize=65536)
def _lot(boundary: BoundaryId, seed: int) -> int:
    """Where a boundary stands among those with the same score."""
    return seed_of(f"halving/{boundary.unit}", boundary.index, seed)


def half_of(number: int, half: Half = "up") -> int:
    """How many of so many go on.

    >>> half_of(133), half_of(133, "even"), half_of(99, "even")
    (67, 66, 50)
    """
    return (number + 1) // 2 if half == "up" else round(number / 2)
