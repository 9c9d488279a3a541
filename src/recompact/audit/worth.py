"""What the score is worth: how it varied with the true effect of each compaction, where that effect is known.

The figures were measured in the embedded world by `benchmarks/audit_truth.py`, which writes `worth.json` beside this
module. They come from a simulation, and say so wherever they are shown.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from recompact.values.stats import Estimate

FILE = "worth.json"
EDGES = (1e-9, 1.0)
"""Scores fall into three strata: nothing beyond placebo, rarer than that, and at most one in ten."""
STRATA = ("0", "below 1", "1 and above")


@dataclass(frozen=True)
class Stratum:
    """The compactions with a score in one range: how many of them were really harmful, by either effect."""

    name: str
    compactions: int
    harmful: Estimate | None  # the share; None without any
    mean_burden: float | None


@dataclass(frozen=True)
class Worth:
    """The score beside the truth. `with_hazard` and `with_burden` are rank correlations with true H and B."""

    world: str
    command: str
    tasks: int
    compactions: int
    scored: int
    harmful: int
    draws: int
    with_hazard: Estimate | None
    with_burden: Estimate | None
    auc: Estimate | None  # of harmful against harmless
    strata: tuple[Stratum, ...]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Worth:
        estimates = {key: _estimate(data[key]) for key in ("with_hazard", "with_burden", "auc")}
        strata = tuple(Stratum(**{**each, "harmful": _estimate(each["harmful"])}) for each in data["strata"])
        return Worth(**{**data, **estimates, "strata": strata})


def _estimate(data: Mapping[str, float] | None) -> Estimate | None:
    return Estimate(**data) if data else None


@cache
def recorded_worth() -> Worth:
    """The figures that come with this version."""
    return Worth.from_json(json.loads((files("recompact.audit") / FILE).read_text(encoding="utf-8")))


def stratum_of(score: float) -> str:
    """
    >>> [stratum_of(score) for score in (0.0, 0.4, 2.0)]
    ['0', 'below 1', '1 and above']
    """
    return STRATA[bisect_right(EDGES, score)]


def sentences(worth: Worth) -> tuple[str, ...]:
    """What the score is worth, in words that its figures support."""
    first = (
        f"What this score is worth was measured where the truth is known: {worth.scored:,} compactions of "
        f"{worth.tasks} tasks in {worth.world}, each continued {worth.draws} times with and {worth.draws} "
        f"times without it ({worth.command}). A simulation: real agents may differ."
    )
    return (
        first,
        f"Rank correlation of the score with the steps that a compaction added: {_figure(worth.with_burden)}"
        f"{_reading(worth.with_burden)}; with the success that it cost: {_figure(worth.with_hazard)}"
        f"{_reading(worth.with_hazard)}. Of a harmful and a harmless compaction the harmful one had the higher score "
        f"with probability {_figure(worth.auc)}; 0.5 is chance{_chance(worth.auc)}.",
        f"Really harmful, by score: {'; '.join(_share(each) for each in worth.strata)}.",
        f"So a high score {_says(worth.with_burden)} that a compaction cost steps, and {_says(worth.with_hazard)} that "
        "it cost success: what was lost without a trace is not fetched again, and only verifying finds it.",
    )


def _says(estimate: Estimate | None) -> str:
    return "is a sign" if estimate is not None and estimate.low > 0 else "is no sign"


def _figure(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not defined"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]".replace("-", "−")


def _reading(estimate: Estimate | None) -> str:
    return " (not distinguishable from zero)" if estimate is not None and estimate.low <= 0 <= estimate.high else ""


def _chance(estimate: Estimate | None) -> str:
    return (
        ", and this is not distinguishable from it"
        if estimate is not None and estimate.low <= 0.5 <= estimate.high
        else ""
    )


def _share(stratum: Stratum) -> str:
    if stratum.harmful is None:
        return f"score {stratum.name}, none"
    share = stratum.harmful
    return f"score {stratum.name}, {share.value:.0%} [{share.low:.0%}, {share.high:.0%}] of {stratum.compactions:,}"
