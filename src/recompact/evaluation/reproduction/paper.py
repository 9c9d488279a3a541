"""The figures that the paper prints, as data, so that what we measure can be shown beside them."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Benchmark:
    """What the paper says about one benchmark. Keys of `figures` are those of paper.toml."""

    name: str
    title: str
    group: str | None  # how its tasks are broken down
    train: int
    test: int
    figures: Mapping[str, Any] = field(default_factory=dict)

    def printed_group(self, value: str) -> str:
        """What the paper calls a group of tasks."""
        return str(self.figures.get("groups", {}).get(value, value))

    def of(self, table: str, *keys: str) -> Any:
        """A figure by its place, or None where the paper gives none."""
        value: Any = self.figures.get(table)
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


def benchmark(suite: str) -> Benchmark | None:
    """The paper's benchmark that this suite's figures are shown beside: itself, or the one it was modelled on."""
    name = _document().get(suite, {}).get("beside", suite)
    figures = _document().get(name)
    if figures is None or "title" not in figures:
        return None
    return Benchmark(name, figures["title"], figures.get("group"), figures["train"], figures["test"], figures)


def test_split(suite: str) -> str:
    """The split that a suite is evaluated on: the paper's, if it is one of the paper's benchmarks."""
    return str(_document().get(suite, {}).get("split", "test"))


def printed_range(*keys: str) -> tuple[float, float] | None:
    """A range that the paper gives over all its benchmarks."""
    value: Any = _document()
    for key in keys:
        value = value.get(key, {})
    return (value[0], value[1]) if value else None


def printed_table(name: str) -> Mapping[str, Any]:
    """Figures that the paper gives for no single benchmark."""
    table: Mapping[str, Any] = _document()[name]
    return table


def arm_figures(benchmark: str, arm: str, scope: str | None, group: str = "") -> dict[str, float]:
    """What the paper prints for an arm, by metric, in the units of our tables; empty where it prints nothing."""
    unscoped = _arms().get((benchmark, group, "", arm))
    return dict(_arms().get((benchmark, group, scope or "", arm), unscoped or {}))


@cache
def _document() -> dict[str, Any]:
    return tomllib.loads(files(__package__).joinpath("paper.toml").read_text(encoding="utf-8"))


@cache
def _arms() -> dict[tuple[str, str, str, str], dict[str, float]]:
    text = files(__package__).joinpath("paper_arms.csv").read_text(encoding="utf-8")
    names = {"pass3": "pass^3", "em3": "em^3"}
    arms = {}
    for row in csv.DictReader(text.splitlines()):
        place = (row.pop("benchmark"), row.pop("group"), row.pop("scope"), row.pop("arm"))
        arms[place] = {names.get(key, key): float(value) for key, value in row.items() if value}
    return arms
