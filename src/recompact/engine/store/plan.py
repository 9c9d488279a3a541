"""What a run is busy with and how much of it is planned, so that a reader can tell how far along it is."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, replace

from recompact.engine.store.store import Store
from recompact.values.progress import Progress


@dataclass(frozen=True)
class StagePlan:
    """One stage of a command. Of its `total` units, `done` were finished when it began, and the run had `units`."""

    stage: str
    total: int | None  # None: not known beforehand
    done: int
    units: int
    began: float  # seconds since the epoch
    at_most: bool = False  # there may be fewer than `total`


def plan_of(store: Store) -> StagePlan | None:
    """The plan of the last stage that did something; None where the file has none, or one that makes no sense."""
    values = store.metadata.planned
    try:
        plan = StagePlan(**values)
    except TypeError:
        return None
    numbers = (plan.done, plan.units, *(() if plan.total is None else (plan.total,)))
    whole = all(type(number) is int and 0 <= number < 2**53 for number in numbers)
    sensible = isinstance(plan.stage, str) and type(plan.began) in (int, float) and math.isfinite(plan.began)
    return plan if whole and sensible else None


def count_units(store: Store) -> int:
    """How many units are finished."""
    return int(store._rows("SELECT count(*) AS n FROM units")[0]["n"])


class RecordedProgress:
    """A `Progress` that also writes into the run what is planned, once a stage does something."""

    def __init__(self, listener: Progress, store: Store) -> None:
        self._listener, self._store = listener, store
        self._plan: StagePlan | None = None  # not written yet

    def stage(self, name: str, total: int | None = None, done: int = 0) -> None:
        self._listener.stage(name, total, done)
        self._plan = StagePlan(name, total, done, count_units(self._store), time.time())

    def bound(self, total: int | None) -> None:
        """The stage has at most this many units; how many there are depends on what comes out."""
        if self._plan and total is not None:
            self._plan = replace(self._plan, total=max(total, self._plan.done), at_most=True)

    def expect(self, total: int) -> None:
        self._listener.expect(total)

    def done(self) -> None:
        self._write()
        self._listener.done()

    def step(self) -> None:
        self._write()
        self._listener.step()

    def note(self, text: str) -> None:
        self._listener.note(text)

    def _write(self) -> None:
        if self._plan is not None:
            plan, self._plan = self._plan, None
            self._store.set_metadata(replace(self._store.metadata, planned=asdict(plan)))


def bound_stage(progress: Progress, total: int | None) -> None:
    """Say how many units the stage has at most, to a progress that records it."""
    if isinstance(progress, RecordedProgress):
        progress.bound(total)
