"""What a diagnosis of all boundaries says as a whole: how many compactions hurt, how, and what it cost to find out.

Pure functions of outcomes; results are plain dataclasses that go to JSON and CSV as they are. How stable the answers
are is the question of `recompact.attribution.stability`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from recompact.attribution.effects import Effect
from recompact.attribution.posterior import PAPER, Thresholds
from recompact.outcome import ARMS, BoundaryId, Outcomes


@dataclass(frozen=True)
class Counts:
    """The counts of the paper's section 3.3, for one group of trajectories."""

    group: str
    trajectories: int
    boundaries: int
    unchanged: int  # H = 0
    reduced: int  # H > 0: less success after the compaction
    improved: int  # H < 0
    severe_hazard: int  # H >= tau_H
    longer: int  # B > 0
    severe_burden: int  # B >= tau_B
    twice_severe_burden: int  # B >= 2 tau_B
    harmful: int  # either of the two
    trajectories_with_reduced: int
    trajectories_with_one_or_two_reduced: int
    trajectories_with_harmful: int


def counts(
    effects: Mapping[BoundaryId, Effect], success: Mapping[str, bool], thresholds: Thresholds = PAPER
) -> list[Counts]:
    """For all trajectories, the failed and the successful ones; `success` is by unit."""
    groups = {
        "all": set(success),
        "failed": {unit for unit, passed in success.items() if not passed},
        "successful": {unit for unit, passed in success.items() if passed},
    }
    return [
        _counted(name, len(units), {b: e for b, e in effects.items() if b.unit in units}, thresholds)
        for name, units in groups.items()
    ]


def _counted(group: str, trajectories: int, effects: Mapping[BoundaryId, Effect], thresholds: Thresholds) -> Counts:
    reduced: dict[str, int] = {}
    for boundary, effect in effects.items():
        if effect.hazard > 0:
            reduced[boundary.unit] = reduced.get(boundary.unit, 0) + 1
    found = effects.values()
    return Counts(
        group=group,
        trajectories=trajectories,
        boundaries=len(effects),
        unchanged=sum(e.hazard == 0 for e in found),
        reduced=sum(e.hazard > 0 for e in found),
        improved=sum(e.hazard < 0 for e in found),
        severe_hazard=sum(e.hazard >= thresholds.hazard for e in found),
        longer=sum(e.burden > 0 for e in found),
        severe_burden=sum(e.burden >= thresholds.burden for e in found),
        twice_severe_burden=sum(e.burden >= 2 * thresholds.burden for e in found),
        harmful=sum(_harmful(e, thresholds) for e in found),
        trajectories_with_reduced=len(reduced),
        trajectories_with_one_or_two_reduced=sum(number <= 2 for number in reduced.values()),
        trajectories_with_harmful=len({b.unit for b, e in effects.items() if _harmful(e, thresholds)}),
    )


def _harmful(effect: Effect, thresholds: Thresholds) -> bool:
    return effect.hazard >= thresholds.hazard or effect.burden >= thresholds.burden


def coupling(effects: Iterable[Effect]) -> float | None:
    """Spearman's correlation of H and B over boundaries."""
    found = list(effects)
    return spearman([e.hazard for e in found], [e.burden for e in found])


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Rank correlation with tied values at their mean rank; None where one side never varies.

    >>> spearman([1, 2, 3, 4], [10, 20, 20, 50])
    0.9486832980505138
    """
    return correlation(ranks(xs), ranks(ys))


def ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, tied values at their mean rank."""
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for place in range(first, last + 1):
            out[order[place]] = (first + last) / 2 + 1
        first = last + 1
    return out


def correlation(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Pearson's correlation."""
    if len(xs) < 2:
        return None
    mean_x, mean_y = fmean(xs), fmean(ys)
    spread_x, spread_y = sum((x - mean_x) ** 2 for x in xs), sum((y - mean_y) ** 2 for y in ys)
    if spread_x == 0 or spread_y == 0:
        return None
    return float(sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / (spread_x * spread_y) ** 0.5)


@dataclass(frozen=True)
class TokenReport:
    """Tokens by phase, and what verification would have cost with the same number of draws for every boundary."""

    by_phase: Mapping[str, int]
    continuations: int
    uniform_continuations: int
    uniform_tokens: int  # verification alone; estimated from the mean draw of each boundary and arm
    saved_continuations: float  # shares
    saved_verification: float
    saved_total: float


def token_report(
    known: Mapping[BoundaryId, Outcomes], phases: Mapping[str, int] | None = None, draws: int = 3
) -> TokenReport:
    """`known` holds the draws that were really made; `phases` the tokens of everything else (collect, adapt …)."""
    made = [outcome for outcomes in known.values() for arm in ARMS for outcome in outcomes.of(arm).values()]
    verify = sum(outcome.tokens for outcome in made)
    others = sum((phases or {}).values())
    uniform = draws * sum(_mean_tokens(known).values())
    planned = 2 * draws * len(known)
    return TokenReport(
        by_phase={**(phases or {}), "verify": verify},
        continuations=len(made),
        uniform_continuations=planned,
        uniform_tokens=round(uniform),
        saved_continuations=_saved(len(made), planned),
        saved_verification=_saved(verify, uniform),
        saved_total=_saved(others + verify, others + uniform),
    )


def _saved(spent: float, planned: float) -> float:
    return 1 - spent / planned if planned else 0.0


def _mean_tokens(known: Mapping[BoundaryId, Outcomes]) -> dict[tuple[BoundaryId, str], float]:
    """Tokens of a draw by boundary and arm; the mean of the arm where a boundary has none."""
    means: dict[tuple[BoundaryId, str], float] = {}
    for arm in ARMS:
        everything = [o.tokens for outcomes in known.values() for o in outcomes.of(arm).values()]
        overall = fmean(everything) if everything else 0.0
        for boundary, outcomes in known.items():
            own = [o.tokens for o in outcomes.of(arm).values()]
            means[boundary, arm] = fmean(own) if own else overall
    return means


def rows(effects: Mapping[BoundaryId, Effect]) -> list[dict[str, Any]]:
    """One flat row for each boundary, most harmful first."""
    ordered = sorted(effects, key=lambda boundary: (-effects[boundary].score, boundary))
    return [{"unit": b.unit, "index": b.index, **flat(effects[b])} for b in ordered]


def flat(result: Any) -> dict[str, Any]:
    """A result as one row: inner values become columns (`hazard_interval.low`)."""

    def walk(data: Mapping[str, Any], at: str) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for key, value in data.items():
            row.update(walk(value, f"{at}{key}.") if isinstance(value, Mapping) else {f"{at}{key}": value})
        return row

    return walk(asdict(result), "")


def write_csv(table: Sequence[Mapping[str, Any]], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]) if table else [])
        writer.writeheader()
        writer.writerows(table)
