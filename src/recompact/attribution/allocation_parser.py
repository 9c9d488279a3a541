"""Allocations by the names that people write: `halving`, `uniform:3`, `racing`, `chained`, `chained:racing`.

Chaining and racing need facts about the trajectories of the run. They are read here, so that allocations themselves
know nothing of a store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from recompact.attribution.allocation import Allocation
from recompact.attribution.chained import Chained, TrajectoryFacts, links_of, with_chained, without_chaining
from recompact.attribution.halving import Halving, rollouts
from recompact.attribution.posterior import Thresholds
from recompact.attribution.prior import Prior, Tilt
from recompact.attribution.racing import Racing, StoppingRule
from recompact.attribution.uniform import Uniform
from recompact.engine.config import ALLOCATION, ALLOCATIONS, VerifyConfig
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.registry import Registry
from recompact.values.outcome import BoundaryId, Outcomes

PRIORS = Registry("prior", "recompact.priors", {"audit": "recompact.audit.prior:audited_tilts"})
"""Priors of racing by name: functions from a store to the tilt of each boundary."""


def allocation_of(store: Store, settings: VerifyConfig) -> Allocation:
    """The allocation of a config's [verify], for the boundaries of a run."""
    if not re.fullmatch(ALLOCATION, settings.allocation):
        raise InputError(f"{settings.allocation!r} is no allocation: use {ALLOCATIONS}")
    kind, _, inner = settings.allocation.partition(":")
    run = store.metadata.identity["run"]
    if kind == "chained":
        return Chained(_plain(inner or "halving", store, settings, run), links_of(trajectory_facts(store)))
    return _plain(settings.allocation, store, settings, run)


def _plain(name: str, store: Store, settings: VerifyConfig, run: Mapping[str, int]) -> Allocation:
    thresholds = Thresholds(settings.hazard, settings.burden)
    kind, _, number = name.partition(":")
    if kind == "uniform":
        return Uniform(int(number or 3), thresholds)
    if kind == "racing":
        remaining = {BoundaryId(r.unit, r.index): run["step_limit"] - r.step for r in boundary_rows(store)}
        tilts = audited_tilts(store) if settings.prior == "audit" else {}
        return Racing(StoppingRule(thresholds), remaining, tilts)
    return Halving(thresholds=thresholds, seed=run["seed"], half=settings.half)


def trajectory_facts(store: Store) -> list[TrajectoryFacts]:
    """What chaining needs to know of the collected trajectories."""
    steps: dict[str, list[int]] = {}
    for row in boundary_rows(store):
        steps.setdefault(row.unit, []).append(row.step)
    rows = sorted(trajectories(store), key=lambda row: row.unit)
    return [TrajectoryFacts(r.unit, tuple(steps.get(r.unit, ())), r.steps, r.value, r.ending) for r in rows]


def outcomes_seen_by(allocation: Allocation, outcomes: Mapping[BoundaryId, Outcomes]) -> Mapping[BoundaryId, Outcomes]:
    """The outcomes that an allocation judges by: with chained draws where it chains."""
    return with_chained(outcomes, allocation.links) if isinstance(allocation, Chained) else outcomes


def audited_tilts(store: Store) -> Mapping[BoundaryId, Tilt]:
    """What an audit of the collected trajectories says about each boundary, before any draw of it."""
    tilts: Mapping[BoundaryId, Tilt] = PRIORS.find("audit")(store)
    return tilts


def prior_seen_by(allocation: Allocation, prior: Prior, boundary: BoundaryId) -> Prior:
    """The prior by which an allocation judges a boundary."""
    inner = without_chaining(allocation)
    return inner.prior(prior, boundary) if isinstance(inner, Racing) else prior


def cap_of(allocation: Allocation) -> int | None:
    """The most draws that a boundary can get where its own outcomes decide how many; None elsewhere."""
    inner = without_chaining(allocation)
    return inner.rule.cap if isinstance(inner, Racing) else None


def most_draws(allocation: Allocation, outcomes: Mapping[BoundaryId, Outcomes]) -> int | None:
    """The most draws that these boundaries can have in the end, including those already made; None if unknown."""
    inner = without_chaining(allocation)
    if isinstance(inner, Halving):
        return rollouts(len(outcomes), inner.rounds, inner.half)
    each = inner.rule.cap if isinstance(inner, Racing) else 2 * inner.draws if isinstance(inner, Uniform) else None
    if each is None:
        return None
    return sum(max(each, len(own.pre) + len(own.post)) for own in outcomes.values())
