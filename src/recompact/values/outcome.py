"""Draws, their outcomes, and the effect that follows from those: which boundary, which arm, which number, how the
continuation ended; success lost (H), steps added (B), their intervals, P(harmful), and from where on that is harm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

from recompact.values.stats import Estimate

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


Channel = Literal["error", "burden", "both", "none"]


@dataclass(frozen=True)
class Thresholds:
    """Where an effect begins to count as harmful (tau_H, tau_B)."""

    hazard: float = 0.5
    burden: float = 5.0

    def __str__(self) -> str:
        return f"H >= {self.hazard:g} or B >= {self.burden:g}"


PAPER = Thresholds()


@dataclass(frozen=True)
class Effect:
    """The effect of one compaction, estimated over all draws of each arm. The arms need not have equally many."""

    hazard_estimate: Estimate
    burden_estimate: Estimate
    pre: int  # draws in that arm
    post: int
    p_harmful: float  # P(H >= tau_H or B >= tau_B | outcomes)
    score: float
    channel: Channel
    hazard_variance: float | None = None  # of the estimate of H, by the draws alone; None where an arm has one

    @property
    def hazard(self) -> float:
        """Success lost."""
        return self.hazard_estimate.value

    @property
    def burden(self) -> float:
        """Steps added."""
        return self.burden_estimate.value

    @property
    def helped(self) -> bool:
        """Whether the compaction clearly helped: the whole interval of H lies below 0."""
        return self.hazard_estimate.high < 0

    @property
    def selected(self) -> bool:
        """Whether the estimates meet a threshold: the paper's criterion. A compaction that clearly helped does not."""
        return self.channel != "none"

    def to_json(self) -> dict[str, Any]:
        h, b = self.hazard_estimate, self.burden_estimate
        return {
            "hazard": h.value,
            "burden": b.value,
            "pre": self.pre,
            "post": self.post,
            "hazard_interval": {"low": h.low, "high": h.high},
            "burden_interval": {"low": b.low, "high": b.high},
            "p_harmful": self.p_harmful,
            "score": self.score,
            "channel": self.channel,
        }
