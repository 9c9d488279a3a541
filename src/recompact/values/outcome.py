"""Draws and their outcomes: which boundary, which arm, which number, and how the continuation ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Literal

ContinuationArm = Literal["PRE", "POST"]
ARMS: tuple[ContinuationArm, ...] = ("PRE", "POST")
"""The two contexts that a boundary is continued from: before its compaction, and after it."""


@dataclass(frozen=True, order=True)
class BoundaryId:
    """A boundary within a run: the unit of its trajectory and its index there, from 1."""

    unit: str
    index: int

    def __str__(self) -> str:
        return f"{self.unit.removeprefix('collect/')}#{self.index}"


@dataclass(frozen=True)
class Outcome:
    """How one continuation ended: the terminal reward, and its own steps only."""

    value: float
    steps: int
    tokens: int = 0
    ran_out: bool = False  # of steps: it would have gone on


@dataclass(frozen=True)
class Outcomes:
    """The outcomes at one boundary: for each arm, by number of the draw (from 0)."""

    pre: Mapping[int, Outcome] = field(default_factory=dict)
    post: Mapping[int, Outcome] = field(default_factory=dict)

    def of(self, arm: ContinuationArm) -> Mapping[int, Outcome]:
        return self.pre if arm == "PRE" else self.post

    @property
    def arms(self) -> tuple[tuple[Outcome, ...], tuple[Outcome, ...]]:
        """The outcomes of PRE, and those of POST."""
        return tuple(self.pre.values()), tuple(self.post.values())


@dataclass(frozen=True, order=True)
class Draw:
    """One continuation to be run."""

    boundary: BoundaryId
    arm: ContinuationArm
    number: int


CopiedArms = frozenset[tuple[BoundaryId, str]]
"""The arms of which all draws are copies of each other."""
NO_COPIES: CopiedArms = frozenset()


def without_copies(outcomes: Mapping[BoundaryId, Outcomes], copied: CopiedArms) -> Mapping[BoundaryId, Outcomes]:
    """The outcomes with one draw for each arm whose draws are copies: as evidence, they are one draw."""
    if not copied:
        return outcomes
    return {
        id: Outcomes(
            _first(own.pre) if (id, "PRE") in copied else own.pre,
            _first(own.post) if (id, "POST") in copied else own.post,
        )
        for id, own in outcomes.items()
    }


def _first(draws: Mapping[int, Outcome]) -> dict[int, Outcome]:
    return {number: draws[number] for number in sorted(draws)[:1]}


_DENOMINATOR = 10**9


@lru_cache(maxsize=4096)
def exact(number: float) -> Fraction:
    """The number that a float stands for: 1/3 and 0.1 are not binary fractions, yet a grader or a config means them.

    Order is kept: the larger of two numbers never becomes the smaller. Numbers closer than 1e-9 may become one.

    >>> exact(1 / 3), exact(0.1), exact(5.0)
    (Fraction(1, 3), Fraction(1, 10), Fraction(5, 1))
    """
    return Fraction(number).limit_denominator(_DENOMINATOR)
