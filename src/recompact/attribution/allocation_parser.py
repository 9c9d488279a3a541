"""Allocations by the names that people write: `halving`, `uniform:3`, `racing`, `chained`, `chained:racing`.

Chaining and racing need facts about the trajectories of the run. They are read here, so that allocations themselves
know nothing of a store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from recompact.attribution.allocation import NO_RUN, Allocation, RunFacts, TrajectoryFacts
from recompact.attribution.chained import Chained, links_of
from recompact.attribution.halving import Halving
from recompact.attribution.posterior import Thresholds
from recompact.attribution.prior import Tilt
from recompact.attribution.racing import Racing, StoppingRule
from recompact.attribution.uniform import Uniform
from recompact.engine.config import ALLOCATION, ALLOCATIONS, VerifyConfig
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.registry import Registry
from recompact.values.outcome import BoundaryId

PRIORS = Registry("prior", "recompact.priors", {"audit": "recompact.audit.prior:audited_tilts"})
"""Priors of racing by name: functions from a store to the tilt of each boundary."""


def allocation_of(store: Store, settings: VerifyConfig) -> Allocation:
    """The allocation of a config's [verify], for the boundaries of a run."""
    return allocation_named(settings, run_facts(store))


def allocation_named(settings: VerifyConfig, run: RunFacts = NO_RUN) -> Allocation:
    """The allocation of a config's [verify]. Without the facts of a run it can be described, but asks for no draw."""
    if not re.fullmatch(ALLOCATION, settings.allocation):
        raise InputError(f"{settings.allocation!r} is no allocation: use {ALLOCATIONS}")
    kind, _, inner = settings.allocation.partition(":")
    if kind == "chained":
        return Chained(_plain(inner or "halving", settings, run), links_of(run.trajectories))
    return _plain(settings.allocation, settings, run)


def _plain(name: str, settings: VerifyConfig, run: RunFacts) -> Allocation:
    thresholds = Thresholds(settings.hazard, settings.burden)
    kind, _, number = name.partition(":")
    if kind == "uniform":
        return Uniform(int(number or 3), thresholds)
    if kind == "racing":
        remaining = {
            BoundaryId(each.unit, index): run.step_limit - step
            for each in run.trajectories
            for index, step in enumerate(each.boundaries, 1)
        }
        return Racing(StoppingRule(thresholds), remaining, run.audited_tilts() if settings.prior == "audit" else {})
    return Halving(thresholds=thresholds, seed=run.seed, half=settings.half)


def run_facts(store: Store) -> RunFacts:
    """What a run says of itself before any draw."""
    run = store.metadata.identity["run"]
    return RunFacts(run["seed"], run["step_limit"], tuple(trajectory_facts(store)), lambda: audited_tilts(store))


def trajectory_facts(store: Store) -> list[TrajectoryFacts]:
    """The collected trajectories."""
    steps: dict[str, list[int]] = {}
    for row in boundary_rows(store):
        steps.setdefault(row.unit, []).append(row.step)
    rows = sorted(trajectories(store), key=lambda row: row.unit)
    return [TrajectoryFacts(r.unit, tuple(steps.get(r.unit, ())), r.steps, r.value, r.ending) for r in rows]


def audited_tilts(store: Store) -> Mapping[BoundaryId, Tilt]:
    """What an audit of the collected trajectories says about each boundary, before any draw of it."""
    tilts: Mapping[BoundaryId, Tilt] = PRIORS.find("audit")(store)
    return tilts
