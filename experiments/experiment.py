"""An experiment as its folder describes it: the config, the plan, and where its run files are."""

from __future__ import annotations

import argparse
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from recompact.adaptation.adapt import Stage
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.errors import InputError
from recompact.evaluation.arms import Arm, parse_arms
from recompact.evaluation.evaluate import with_split
from recompact.models.protocol import ChatModel
from recompact.values.template import resolve

HERE = Path(__file__).parent
PLAN = "plan.toml"


@dataclass(frozen=True)
class Plan:
    """What is compared: methods that adapt, arms that are evaluated, and the unseen tasks in their order."""

    methods: tuple[str, ...]
    arms: tuple[str, ...]
    tasks: tuple[str, ...]
    split: str = "test"
    runs: int = 1
    later: tuple[str, ...] = ()  # arms that are evaluated when the others are done
    judged: tuple[str, ...] = ()  # arms that have to be better than `prompting`, besides those of the methods
    block: int = 0  # tasks that are done in all arms before the next are begun; 0: all of them
    stages: tuple[int, ...] = ()  # numbers of tasks after which the later arms catch up; by default all of them
    by: tuple[str, ...] = ()  # groups of tasks
    until: Stage = "select"  # the last step of the methods
    bisect: int = 0  # continuations of one search for what a retained compaction of a training task should have kept
    outcome: str = "acc"  # the metric that a method has to improve
    fewest: int = 12  # tasks, before anything counts as shown
    solvable: int = 0  # training tasks that have to be solved without compaction: with fewer, the experiment ends there
    options: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)  # by config and method
    fresh: Mapping[str, Sequence[str]] = field(default_factory=dict)  # tasks with no known result when an arm was added


@dataclass(frozen=True)
class Experiment:
    """One folder beside this file, with one of its configs, and the directory of its run files."""

    name: str
    folder: Path
    config: Config
    plan: Plan
    place: Path
    config_name: str = "config"
    models: Mapping[str, ChatModel] = field(default_factory=dict)  # in the place of those that the config describes

    @property
    def arguments(self) -> str:
        """What names it on a command line."""
        return self.name if self.config_name == "config" else f"{self.name} --config {self.config_name}"

    @property
    def page(self) -> Path:
        """Where its results are."""
        return self.folder / ("results.md" if self.config_name == "config" else f"results-{self.config_name}.md")

    @property
    def adaptations(self) -> Path:
        """The run in which all methods adapt: they share its trajectories and effects."""
        return self.place / "adapt.db"

    @property
    def trial(self) -> Path:
        """The run of the training tasks without compaction, if the plan asks for one."""
        return self.place / "trial.db"

    @property
    def evaluation(self) -> Path:
        return self.place / "evaluate.db"

    def template(self, method: str) -> Path:
        """Where the template that a method adapted goes."""
        return self.place / method

    def training(self, method: str) -> Config:
        """The config with this method and its options."""
        return replace(self.config, adapt=replace(self.config.adapt, method=method, options=self.options(method)))

    def options(self, method: str) -> dict[str, Any]:
        """The options that the plan sets for a method under this config; under others it has its defaults."""
        return dict(self.plan.options.get(self.config_name, {}).get(method, {}))

    def testing(self, limit: int | None = None) -> Config:
        """The config with the unseen tasks."""
        config = with_split(self.config, self.plan.split)
        return replace(config, suite=replace(config.suite, tasks=self.plan.tasks[:limit], limit=None))

    def arms(self, *, later: bool = False) -> tuple[Arm, ...]:
        """The arms that can be evaluated now: that of a method once its template exists."""
        texts = [self._arm(text) for text in (*self.plan.arms, *(self.plan.later if later else ()))]
        return self._parse_arms([text for text in texts if text])

    def batches(self, limit: int | None = None) -> Iterator[tuple[int, bool]]:
        """What is evaluated, one after the other: the first so many tasks, without or with the later arms."""
        every = len(self.plan.tasks[:limit])
        begun = 0
        for stage in (*(n for n in self.plan.stages if n < every), every):
            for later in (False, True) if self.plan.later else (False,):
                yield from ((n, later) for n in (*range(begun, stage, self.plan.block or every)[1:], stage))
            begun = stage

    def uncompacted(self) -> tuple[Arm, ...]:
        """The arm of the trial."""
        return self._parse_arms(["none"])

    def _parse_arms(self, texts: Sequence[str]) -> tuple[Arm, ...]:
        own = resolve(self.config.compressor.template, self.config.directory)
        return parse_arms(texts, self.config.compressor, own)

    @property
    def planned(self) -> int:
        """Trajectories of the whole evaluation, where every method has an arm of its own."""
        return (len(self.plan.arms) + len(self.plan.later)) * len(self.plan.tasks) * self.plan.runs

    def _arm(self, text: str) -> str | None:
        if text in self.plan.methods:
            directory = self.template(text)
            return f"{text}={directory}" if directory.is_dir() else None
        name, _, place = text.partition("=")
        return f"{name}={self.folder / place}" if place else text


def load_experiment(name: str, config: str = "config", place: Path | None = None) -> Experiment:
    """The experiment of a folder, under one of its configs."""
    folder = HERE / name
    file = folder / f"{config}.toml"
    if not (folder / PLAN).is_file():
        raise InputError(f"there is no experiment {name!r}: there are {', '.join(names())}")
    if not file.is_file():
        configs = sorted(path.stem for path in folder.glob("*.toml") if path.name != PLAN)
        raise InputError(f"{name} has no config {config!r}: it has {', '.join(configs)}")
    where = place or home() / (name if config == "config" else f"{name}-{config}")
    return Experiment(name, folder, load_config(file), read_plan(folder / PLAN), where, config)


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """The arguments that say which experiment is meant; `find_experiment` reads them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=names())
    parser.add_argument("--config", default="config", help="another config of the folder, such as hosted")
    parser.add_argument(
        "--out", type=Path, help="where the run files are (default: ~/.cache/recompact-experiments/NAME)"
    )
    return parser


def find_experiment(given: argparse.Namespace) -> Experiment:
    return load_experiment(given.name, given.config, given.out)


def read_plan(path: Path) -> Plan:
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    known = {field.name for field in fields(Plan)}
    if unknown := data.keys() - known:
        raise InputError(f"{path}: {', '.join(sorted(unknown))} is no part of a plan: {', '.join(sorted(known))} are")
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return Plan(**given)


def names() -> list[str]:
    """All experiments."""
    return sorted(path.parent.name for path in HERE.glob(f"*/{PLAN}"))


def home() -> Path:
    """Where run files are kept unless somebody says otherwise."""
    return Path(os.environ.get("RECOMPACT_EXPERIMENTS", Path.home() / ".cache" / "recompact-experiments"))
