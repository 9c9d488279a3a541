"""Runs as files in a directory: where one is, which there are, and what one holds at a glance."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recompact.chat import Usage
from recompact.errors import InputError
from recompact.store.store import Store

SUFFIX = ".db"


@dataclass(frozen=True)
class Overview:
    """One run at a glance. Rates are over finished trajectories; tokens are all that was paid for."""

    name: str
    path: str
    suite: str
    compressor: str
    trajectories: int
    success: int
    steps: int
    compactions: int
    peak: float
    endings: Mapping[str, int]
    incidents: int
    tokens: Mapping[str, int]
    simulated: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def run_path(name: str, directory: Path) -> Path:
    """The file of a run: a path to one as it is, a bare name in the directory of runs."""
    if name.endswith(SUFFIX) or "/" in name:
        return Path(name)
    if not re.fullmatch(r"[\w.@+-]+", name):
        raise InputError(f"{name!r} is no name for a run: use letters, digits, and . _ - + @")
    return directory / f"{name}{SUFFIX}"


def find_run(name: str, directory: Path) -> Path:
    """An existing run by name or path."""
    path = run_path(name, directory)
    if not path.is_file():
        known = sorted(p.stem for p in directory.glob(f"*{SUFFIX}"))
        there = f"there are {', '.join(known)}" if known else f"{directory} has none yet"
        raise InputError(f"there is no run {name!r} ({path}); {there}")
    return path


@contextmanager
def open_run(path: Path) -> Iterator[Store]:
    """A run to write to. A new one in which nothing came to be recorded leaves no file behind."""
    new = not path.exists()
    store = Store.open(path)
    try:
        yield store
    finally:
        if new and not store.finished() and not store.spent():
            store.discard()
        else:
            store.close()


def overview(store: Store) -> Overview:
    meta = store.meta
    identity = meta.get("identity", {})
    rows = store.rows("SELECT success, steps, compactions, peak, ending, incidents FROM trajectories")
    tokens: Counter[str] = Counter()
    models = set()
    for (model, role), usage in store.spent().items():
        tokens[role] += usage.total
        models.add(model)
    n = len(rows)
    return Overview(
        name=store.path.stem,
        path=str(store.path),
        suite=meta.get("suite", "?"),
        compressor=_compressor(identity),
        trajectories=n,
        success=sum(r["success"] for r in rows),
        steps=sum(r["steps"] for r in rows),
        compactions=sum(r["compactions"] for r in rows),
        peak=sum(r["peak"] for r in rows) / n if n else 0.0,
        endings=dict(Counter(r["ending"] for r in rows)),
        incidents=sum(r["incidents"] for r in rows),
        tokens=dict(sorted(tokens.items())),
        simulated=bool(models) and all(model.startswith("sim-") for model in models),
    )


def _compressor(identity: Mapping[str, Any]) -> str:
    settings = identity.get("compressor", {})
    kind = settings.get("kind", "?")
    if kind == "none":
        return "none"
    words = [kind, str(settings.get("budget"))]
    if kind == "prompted":
        words.insert(1, settings["scope"] if settings["scope"] == "history" else f"prefix, {settings['rendering']}")
    return " ".join(words)


@dataclass(frozen=True)
class TrajectoryRow:
    """What a table shows of one trajectory."""

    unit: str
    task: str
    groups: Mapping[str, str]
    success: bool
    ending: str
    steps: int
    compactions: int
    peak: int
    peak_reported: int
    usage: Mapping[str, Usage]
    incidents: int

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "usage": {role: usage.to_json() for role, usage in self.usage.items()}}


def trajectories(store: Store, task: str | None = None) -> list[TrajectoryRow]:
    rows = store.rows("SELECT * FROM trajectories WHERE ?1 IS NULL OR task = ?1 ORDER BY task, unit", (task,))
    return [
        TrajectoryRow(
            unit=r["unit"],
            task=r["task"],
            groups=json.loads(r["groups"]),
            success=bool(r["success"]),
            ending=r["ending"],
            steps=r["steps"],
            compactions=r["compactions"],
            peak=r["peak"],
            peak_reported=r["peak_reported"],
            usage={role: Usage(*counts) for role, counts in json.loads(r["usage"]).items()},
            incidents=r["incidents"],
        )
        for r in rows
    ]
