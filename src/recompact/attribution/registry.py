"""From the name of an allocation to the allocation: built in, installed, or the user's own.

`chained:` before any of them reads the first POST draws off the trajectories. Facts about the run are read here, so
that allocations themselves know nothing of a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recompact.attribution.allocation import NO_RUN, Allocation, RunFacts, TrajectoryFacts
from recompact.attribution.chained import Chained, links_of
from recompact.engine.config import Config, VerifyConfig
from recompact.engine.store.runs import boundary_rows, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.registry import Registry
from recompact.values.outcome import BoundaryId, Draw, Outcomes

ALLOCATIONS = Registry(
    "allocation",
    "recompact.allocations",
    {
        "halving": "recompact.attribution.halving:Halving",
        "uniform": "recompact.attribution.uniform:Uniform",
        "racing": "recompact.attribution.racing:racing",
    },
)
CHAINED = "chained"


def allocation_names() -> str:
    """What can be named, in words."""
    names = ", ".join(f"{name}:N" if name == "uniform" else name for name in ALLOCATIONS.names())
    return f"{names} or file.py:name; {CHAINED}:NAME reads the first POST draws off the trajectories"


def allocation_of(store: Store, settings: VerifyConfig) -> Allocation:
    """The allocation of a config's [verify], for the boundaries of a run."""
    return allocation_named(settings, run_facts(store), directory_of(store))


def allocation_named(settings: VerifyConfig, run: RunFacts = NO_RUN, directory: Path = Path()) -> Allocation:
    """The allocation of a config's [verify]. Without the facts of a run it can be described, but asks for no draw.

    The plug-in is called with its options and, where it has such parameters, with `thresholds`, `seed` and `run`.
    """
    name, options = _parts(settings)
    offered = {"thresholds": settings.thresholds, "seed": run.seed, "run": run}
    allocation: Allocation = ALLOCATIONS.make(
        name, options, Allocation, "it must be a recompact.Allocation", directory, **offered
    )
    return Chained(allocation, links_of(run.trajectories)) if _is_chained(settings.allocation) else allocation


def describe_allocation(settings: VerifyConfig) -> Allocation:
    """The allocation of these settings for a reader of a run, who need not have the plug-in that verified it."""
    try:
        return allocation_named(settings)
    except InputError:
        return Elsewhere(settings.allocation)


@dataclass(frozen=True)
class Elsewhere(Allocation):
    """An allocation that is not here: all that can be said of it is its name."""

    written: str

    @property
    def name(self) -> str:
        return self.written

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        raise InputError(f"allocation {self.name!r} is not here")

    def rule(self, most_draws: int = 0) -> str:
        return "by its own rule"


def allocation_in(config: Config) -> Allocation:
    """The allocation that a config names, as it is described; a mistake in it is shown with its line."""
    with config.blame("verify", key="allocation"):
        return allocation_named(config.verify, directory=config.directory)


def with_allocation(settings: VerifyConfig, text: str) -> VerifyConfig:
    """The settings with another allocation: options belong to one, and stay only where it stays the same."""
    changed = replace(settings, allocation=text)
    return changed if _parts(changed)[0] == _parts(settings)[0] else replace(changed, options={})


def _is_chained(text: str) -> bool:
    return text.partition(":")[0] == CHAINED


def _parts(settings: VerifyConfig) -> tuple[str, Mapping[str, Any]]:
    """The name of the plug-in, and its options: `uniform:9` is short for `uniform` with `draws = 9`."""
    text = settings.allocation
    name = ("halving" if text == CHAINED else text.partition(":")[2]) if _is_chained(text) else text
    head, short, number = name.partition(":")
    if not short or (head not in ALLOCATIONS.built_in and head not in ALLOCATIONS.names()):
        return name, settings.options
    if not number.isdecimal():
        raise InputError(f"allocation {text!r}: the number of draws after {head!r} must be a whole number")
    return head, {**settings.options, "draws": int(number)}


def run_facts(store: Store) -> RunFacts:
    """What a run says of itself before any draw."""
    run = store.metadata.identity["run"]
    return RunFacts(run["seed"], run["step_limit"], tuple(trajectory_facts(store)))


def trajectory_facts(store: Store) -> list[TrajectoryFacts]:
    """The collected trajectories."""
    steps: dict[str, list[int]] = {}
    for row in boundary_rows(store):
        steps.setdefault(row.unit, []).append(row.step)
    rows = sorted(trajectories(store), key=lambda row: row.unit)
    return [TrajectoryFacts(r.unit, tuple(steps.get(r.unit, ())), r.steps, r.value, r.ending) for r in rows]


def directory_of(store: Store) -> Path:
    """What files that a run's settings name are relative to: where its config is."""
    config = store.metadata.config_file
    return (store.path.parent / config).parent if config else Path()
