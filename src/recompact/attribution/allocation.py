"""How draws are spent: an allocation says which continuations are due, given the outcomes so far.

It is a pure function of the outcomes. It may ask for a draw as soon as that draw is certain to be needed, but what it
asks for in the end does not depend on the order in which outcomes arrive: verification needs no barrier between rounds,
and is the same whatever the concurrency.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from recompact.values.outcome import BoundaryId, Draw, Outcomes


def in_turn(draws: Iterable[Draw]) -> list[Draw]:
    """The order in which to make draws: first ones first, and PRE before POST."""
    return sorted(draws, key=lambda d: (d.number, d.boundary.unit, d.boundary.index, d.arm == "POST"))


class Allocation(Protocol):
    """A way to spend draws."""

    @property
    def name(self) -> str: ...

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        """All draws that are certain to be needed and have no outcome yet. Empty when everything is decided.

        `outcomes` has every boundary as a key, including those without an outcome yet.
        """
        ...

    def retained(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        """The harmful boundaries, most harmful first, once nothing is due any more."""
        ...
