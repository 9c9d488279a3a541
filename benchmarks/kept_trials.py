"""The trials of methods on worlds that the repository keeps, so that their tables can be printed without hours of work.

One line a trial, at the protocol's sizes alone: which test tasks it solved, one run of each, and what it took.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from adaptations import Plan, Trial
from recompact.errors import InputError

PLACE = Path(__file__).with_name("method_trials.jsonl")
PROTOCOL = Plan(test=168)
"""The sizes that are kept; the world is the line's own."""


def keep_trials(plan: Plan, by_method: Mapping[str, Sequence[Trial]], path: Path = PLACE) -> None:
    """Add the trials of one world, or put them in the place of earlier ones."""
    world = _world_of(plan)
    lines = _read(path)
    for trial in (trial for own in by_method.values() for trial in own):
        fields = asdict(trial)
        del fields["statement"]
        won = "".join("1" if each else "0" for each in fields.pop("accuracy"))
        lines[world, trial.method, trial.seed] = {"world": world, **fields, "won": won}
    ordered = [lines[key] for key in sorted(lines)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in ordered))


def read_trials(plan: Plan, methods: Sequence[str], adaptations: int, path: Path = PLACE) -> dict[str, list[Trial]]:
    """The trials of one world that are kept, by method; of a method that has none, an empty list."""
    world = _world_of(plan)
    by_method: dict[str, list[Trial]] = {method: [] for method in methods}
    for (own, method, seed), line in sorted(_read(path).items()):
        if own == world and method in by_method and seed < adaptations:
            fields = {name: value for name, value in line.items() if name not in ("world", "won")}
            by_method[method].append(Trial(**fields, accuracy=tuple(float(each) for each in line["won"])))
    return by_method


def _world_of(plan: Plan) -> int:
    if plan.world is None or plan != Plan(test=PROTOCOL.test, world=plan.world):
        raise InputError("trials are kept of worlds at the protocol's sizes alone: leave the other options out")
    return plan.world


def _read(path: Path) -> dict[tuple[int, str, int], dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {(line["world"], line["method"], line["seed"]): line for line in lines}
