"""The effect of one compaction as a value: success lost (H), steps added (B), their intervals, P(harmful), and from
where on an effect counts as harmful."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from recompact.values.stats import Estimate

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
