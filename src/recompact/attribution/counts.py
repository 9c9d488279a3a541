"""How many compactions hurt, and how: the counts of the paper's section 3.3, and how H and B go together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recompact.values.effect import PAPER, Effect, Thresholds
from recompact.values.outcome import BoundaryId
from recompact.values.stats import spearman


@dataclass(frozen=True)
class Counts:
    """The counts of one group of trajectories."""

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
    harmful: int  # either of the two, unless the compaction clearly helped
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
        _group_counts(name, len(units), {b: e for b, e in effects.items() if b.unit in units}, thresholds)
        for name, units in groups.items()
    ]


def _group_counts(
    group: str, trajectories: int, effects: Mapping[BoundaryId, Effect], thresholds: Thresholds
) -> Counts:
    reduced: dict[str, int] = {}
    for boundary, effect in effects.items():
        if effect.hazard > 0:
            reduced[boundary.unit] = reduced.get(boundary.unit, 0) + 1
    hazards, burdens = [e.hazard for e in effects.values()], [e.burden for e in effects.values()]
    harmful = [b for b, e in effects.items() if e.selected]
    return Counts(
        group=group,
        trajectories=trajectories,
        boundaries=len(effects),
        unchanged=sum(h == 0 for h in hazards),
        reduced=sum(h > 0 for h in hazards),
        improved=sum(h < 0 for h in hazards),
        severe_hazard=sum(h >= thresholds.hazard for h in hazards),
        longer=sum(b > 0 for b in burdens),
        severe_burden=sum(b >= thresholds.burden for b in burdens),
        twice_severe_burden=sum(b >= 2 * thresholds.burden for b in burdens),
        harmful=len(harmful),
        trajectories_with_reduced=len(reduced),
        trajectories_with_one_or_two_reduced=sum(number <= 2 for number in reduced.values()),
        trajectories_with_harmful=len({boundary.unit for boundary in harmful}),
    )


def unequal_note(effects: Iterable[Effect]) -> str:
    """What to say beside counts of boundaries that do not have equally many draws; empty where they do.

    The counts themselves go by all draws, which tell most about each boundary: with one pair for each, every failure
    would be a severe H.
    """
    draws = sorted({number for effect in effects for number in (effect.pre, effect.post)})
    if not draws or draws[0] == draws[-1]:
        return ""
    return (
        f"Boundaries have {draws[0]} to {draws[-1]} draws in an arm. Where outcomes decide which get more (halving,"
        " racing), chance leaves more estimates below 0 than above it: the counts describe this list, and are biased as"
        " shares of all compactions."
    )


def coupling(effects: Iterable[Effect]) -> float | None:
    """Spearman's correlation of H and B over boundaries."""
    pairs = [(e.hazard, e.burden) for e in effects]
    return spearman([h for h, _ in pairs], [b for _, b in pairs])
