"""How much more or less likely than usual severe harm is, given what an audit shows of a compaction.

The weights of the features were learned by `benchmarks/audit_truth.py` on runs of the embedded world whose truth is
known, and on no others. They serve as a prior, which draws outweigh.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from recompact.audit.scoring import RankedCompaction

Features = Mapping[str, float]


def features(each: RankedCompaction) -> Features:
    """What an audit shows of one compaction, as numbers of about the same size; what is not measured counts as 0."""
    compaction = each.compaction
    values = each.point.values if each.point else {}
    return {
        "score": each.score or 0.0,
        "reading": values.get("reading", 0.0),
        "until_edit": math.log1p(values.get("until_edit", 0.0)),
        "repeats": math.log1p(values.get("repeats", 0.0)),
        "dropped_calls": math.log1p(compaction.dropped_calls),
        "ordinal": math.log1p(compaction.ordinal),
        "reduction": math.log(compaction.before / compaction.after) if compaction.before and compaction.after else 0.0,
        "literals": math.log1p(len(compaction.needs)),
    }


@dataclass(frozen=True)
class Weight:
    """One feature's part in the odds: `weight` per standard deviation from the mean."""

    mean: float
    deviation: float
    weight: float


@dataclass(frozen=True)
class OddsModel:
    """Odds of a severe effect, as a multiple of those without any observation. Without weights, that is 1."""

    shift: float = 0.0  # the logarithm of the multiple where every feature is at its mean
    weights: Mapping[str, Weight] | None = None

    def ratio(self, observed: Features) -> float:
        """
        >>> OddsModel(0.0, {"score": Weight(1.0, 0.5, math.log(2))}).ratio({"score": 1.5})
        2.0
        >>> OddsModel().ratio({"score": 1.5})
        1.0
        """
        weights = self.weights or {}
        return math.exp(
            self.shift + sum(w.weight * (observed[name] - w.mean) / w.deviation for name, w in weights.items())
        )
