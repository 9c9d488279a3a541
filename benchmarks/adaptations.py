"""Whole adaptations on the embedded world, repeated with other seeds and training tasks, and tried on the test tasks.

Everything is kept in a directory, piece by piece: a run that was stopped resumes where it left off, and a method that
is added later finds the collections and verifications of the others.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any, cast

import recompact
from arena import FIFO, NONE, Arm, accuracy, play
from recompact.adaptation.adapt import Adaptation, adapt
from recompact.adaptation.facts import CLAUSES, ORDERS, SPARING, Form, with_clauses
from recompact.adaptation.method import load_method
from recompact.adaptation.placement import without_absolutes
from recompact.compressors.protocol import Scope
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.store.calls import tokens_by_phase
from recompact.engine.store.runs import boundary_rows, continuation_rows
from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import find_arm, read_arms
from recompact.evaluation.arms import parse_arms
from recompact.evaluation.evaluate import evaluate, open_evaluation
from recompact.simulation.parameters import draw_world
from recompact.suites.pocket import PocketSuite
from recompact.values.candidate import ORIGINAL
from recompact.values.chat import sha256
from recompact.values.template import Template, default_template, load

REFERENCES = ("none", "fifo")  # no prompt at all
FIXED = (ORIGINAL, "all-clauses", "all-sparing", "all-softened")  # prompts that no evidence changed
ADAPTING = (
    "acon-ut",
    "acon-utco",
    "acon-ut-locked",
    "pair-random",
    "pair-swapped",
    "facts",
    "facts-entries",
    "causes",
    "causes-random",
    "causes-suspected",
    "causes-random-compactions",
    "causes-without-contrast",
    "causes-without-weights",
    "causes-without-more",
    "causes-entries",
    "causes-without-prior",
    "gepa",
    "pair",
)
METHODS = (*REFERENCES, *FIXED, *ADAPTING)

TRAIN = 45
OPTIONS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "causes": ("causes", {"more_tasks": TRAIN}),
    "causes-random": ("causes", {"more_tasks": TRAIN, "evidence": "random pieces"}),
    "causes-suspected": ("causes", {"more_tasks": TRAIN, "evidence": "suspected"}),
    "causes-random-compactions": ("causes", {"more_tasks": TRAIN, "evidence": "random compactions"}),
    "causes-without-contrast": ("causes", {"more_tasks": TRAIN, "contrast": False}),
    "causes-without-weights": ("causes", {"more_tasks": TRAIN, "weights": False}),
    "causes-without-more": ("causes", {"more_tasks": 0}),
    "causes-entries": ("causes", {"more_tasks": TRAIN, "wording": "entries"}),
    "causes-without-prior": ("causes", {"more_tasks": TRAIN, "prior": False}),
}
"""Names that stand for a method with options: `causes` may collect as many tasks again, and one thing less each."""

MORE_CLAUSES = tuple(CLAUSES[kind] for kind in ("condition", "open", "error"))
"""Kinds of state that no literal tells."""


@dataclass(frozen=True)
class Plan:
    """How large each adaptation is, and how its template is tried."""

    scope: str = "history"
    budget: int = 2048
    train: int = TRAIN
    test: int = 84
    runs: int = 1
    world: int | None = None  # of the third edition; without a number, the second

    def directory(self, place: Path, seed: int) -> Path:
        edition = f"world-{self.world}-" if self.world is not None else ""
        return place / f"{edition}{self.scope}-{self.budget}-{self.train}-{code_hash()}" / f"{seed:02d}"

    def config(self, seed: int, method: str = "pair", tasks: Sequence[str] = (), split: str = "train") -> Config:
        named, given = OPTIONS.get(method, (method, {}))
        options = "{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in given.items()) + " }"
        text = f"""
[suite]
split = "{split}"
tasks = {json.dumps(list(tasks))}
[compressor]
budget = {self.budget}
scope = "{self.scope}"
[run]
seed = {seed}
[adapt]
method = "{named}"
options = {options}
"""
        if self.world is not None:
            text = text.replace("[compressor]\n", '[compressor]\nmodel = "compressor"\n')
            text += '[agent]\nmodel = "agent"\n[optimizer]\nmodel = "optimizer"\n'
            for role in ("agent", "compressor", "optimizer"):
                text += f'[models.{role}]\nuse = "sim-{role}"\noptions = {{ world = {self.world} }}\n'
        return parse_config(text, Path("methods.toml"))

    def train_tasks(self, seed: int) -> list[str]:
        """Different training tasks for each adaptation."""
        return _sample_tasks("train", self.train, seed)

    def test_tasks(self) -> list[str]:
        """The same test tasks for all."""
        return _sample_tasks("test", self.test, 0)


def needs_effects(method: str) -> bool:
    return load_method(*OPTIONS.get(method, (method, {}))).needs_effects


@cache
def code_hash() -> str:
    """The embedded world as it is now, in a few letters: figures from another one must not be built on."""
    root = Path(recompact.__file__).parent
    every = (path for room in ("suites/pocket", "simulation") for path in (root / room).rglob("*"))
    files = sorted(path for path in every if path.suffix in (".py", ".toml"))
    texts = [path.relative_to(root).as_posix() + path.read_text() for path in files]
    return sha256("".join(texts))[:8]


def _sample_tasks(split: str, number: int, seed: int) -> list[str]:
    ids = [task.id for task in PocketSuite().tasks(split)]
    chosen = set(Random(f"{split}/{seed}").sample(ids, min(number, len(ids))))
    return [id for id in ids if id in chosen]


@dataclass(frozen=True)
class Trial:
    """One method, adapted once, on the test tasks. Tokens (by phase) and CPU seconds are those of its adaptation."""

    method: str
    seed: int
    accuracy: tuple[float, ...]  # by test task, over its runs
    steps: float
    compactions: float
    winner: str = ORIGINAL
    statement: str = ""
    boundaries: int = 0
    continuations: int = 0
    tokens: Mapping[str, int] | None = None
    seconds: float = 0.0

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Trial:
        return Trial(**{**data, "accuracy": tuple(data["accuracy"])})


@dataclass(frozen=True)
class Failure:
    """A piece of work that could not be done, and why."""

    what: str
    reason: str


def trials(
    place: Path, plan: Plan, methods: Sequence[str], adaptations: int, processes: int
) -> tuple[dict[str, list[Trial]], list[Failure]]:
    """Every method in every adaptation, as many at once as there are processes."""
    done: dict[str, dict[int, Trial]] = {method: {} for method in methods}
    failures: list[Failure] = []
    started = time.perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        pending: dict[Future[Any], tuple[int, str]] = {
            pool.submit(prepare, place, plan, methods, seed): (seed, "") for seed in range(adaptations)
        }
        while pending:
            finished, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                seed, method = pending.pop(future)
                if (error := future.exception()) is not None:
                    failures.append(_failure(seed, method or "collection and verification", error))
                elif not method:
                    pending |= {pool.submit(trial, place, plan, each, seed): (seed, each) for each in methods}
                else:
                    done[method][seed] = future.result()
            print(
                f"{time.perf_counter() - started:5.0f} s: {sum(map(len, done.values()))} of"
                f" {len(methods) * adaptations} trials",
                file=sys.stderr,
                flush=True,
            )
    return {method: [own[seed] for seed in sorted(own)] for method, own in done.items()}, failures


def _failure(seed: int, what: str, error: BaseException) -> Failure:
    traceback.print_exception(error, file=sys.stderr)
    return Failure(f"{what}, adaptation {seed}", f"{type(error).__name__}: {error}")


def prepare(place: Path, plan: Plan, methods: Sequence[str], seed: int) -> None:
    """Collect, and verify where a method needs it: what several methods then start from."""
    directory = plan.directory(place, seed)
    directory.mkdir(parents=True, exist_ok=True)
    waiting = [m for m in methods if m in ADAPTING and not (directory / f"{m}.json").exists()]
    if waiting:
        config = plan.config(seed, tasks=plan.train_tasks(seed))
        asyncio.run(_adapt(config, directory / "collected.db", "collect"))
        if any(needs_effects(method) for method in waiting):
            _copy(directory / "collected.db", directory / "verified.db")
            asyncio.run(_adapt(config, directory / "verified.db", "verify"))


def trial(place: Path, plan: Plan, method: str, seed: int) -> Trial:
    """Adapt, if that is not done yet, and run the test tasks under the resulting template."""
    directory = plan.directory(place, seed)
    facts = adaptation_facts(directory, plan, method, seed) if method in ADAPTING else {}
    return Trial(method, seed, **try_template(directory, plan, method, seed), **facts)


def adaptation_facts(directory: Path, plan: Plan, method: str, seed: int) -> dict[str, Any]:
    """What came of an adaptation and what it cost; its template is in a directory named after the method."""
    record = directory / f"{method}.json"
    if record.exists():
        return dict(json.loads(record.read_text()))
    begin = "verified" if needs_effects(method) else "collected"
    path = directory / f"{method}.db"
    _copy(directory / f"{begin}.db", path)
    started = time.process_time()
    adaptation = asyncio.run(_adapt(plan.config(seed, method, plan.train_tasks(seed)), path, "select"))
    adaptation.template.save(directory / method)
    with Store.read(path) as store:
        facts = {
            "winner": adaptation.winner,
            "statement": adaptation.selection.statement if adaptation.selection else adaptation.statement,
            "boundaries": len(boundary_rows(store)),
            "continuations": len(continuation_rows(store)),
            "tokens": {phase: sum(roles.values()) for phase, roles in tokens_by_phase(store).items()},
            "seconds": time.process_time() - started,
        }
    _write(record, facts)
    Store.open(path).discard()
    return facts


def try_template(directory: Path, plan: Plan, method: str, seed: int) -> dict[str, Any]:
    """How the template of a method does on the test tasks. The same template is not tried twice."""
    template = template_of(directory, method)
    name = method if template is None else template.hash[:16]
    record = directory / f"tested-{name}-{plan.test}-{plan.runs}.json"
    if not record.exists() and plan.world is not None:
        directory.mkdir(parents=True, exist_ok=True)
        _write(record, _play_template(plan, plan.world, method, template, seed))
    elif not record.exists():
        _write(record, asyncio.run(_try_template(directory / f"test-{method}.db", plan, method, template, seed)))
        Store.open(directory / f"test-{method}.db").discard()
        shutil.rmtree(directory / f"test-{method}.template", ignore_errors=True)
    data = json.loads(record.read_text())
    return {**data, "accuracy": tuple(data["accuracy"])}


def template_of(directory: Path, method: str) -> Template | None:
    """The template that a method ends with; None for what uses none."""
    if method in REFERENCES:
        return None
    if method in ADAPTING:
        return load(directory / method)
    return {
        ORIGINAL: default_template(),
        "all-clauses": all_clauses(default_template()),
        "all-sparing": all_clauses(default_template(), SPARING),
        "all-softened": all_clauses(without_absolutes(default_template())[0], SPARING),
    }[method]


def all_clauses(template: Template, form: Form = ORDERS) -> Template:
    """The template with a clause for every kind of state, without any evidence."""
    return with_clauses(template, list(form.clauses.items()))


def _play_template(plan: Plan, world: int, method: str, template: Template | None, seed: int) -> dict[str, Any]:
    """On a world: from the first compaction on, with the same chances for every method of an adaptation's number."""
    arm = {"none": NONE, "fifo": FIFO}.get(method, Arm("prompted", template, scope=cast(Scope, plan.scope)))
    runs = range(seed * plan.runs, (seed + 1) * plan.runs)
    chosen = set(plan.test_tasks())
    tasks = [task for task in PocketSuite().tasks("test") if task.id in chosen]
    outcomes = play(draw_world(world), tasks, {method: arm}, runs, plan.budget)[method]
    every = [outcome for row in outcomes for outcome in row]
    return {
        "accuracy": accuracy(outcomes),
        "steps": fmean(outcome.steps for outcome in every),
        "compactions": fmean(outcome.compactions for outcome in every),
    }


async def _try_template(path: Path, plan: Plan, method: str, template: Template | None, seed: int) -> dict[str, Any]:
    config = plan.config(seed, tasks=plan.test_tasks(), split="test")
    arm = method
    if template is not None:
        place = path.with_suffix(".template")
        template.save(place)
        arm = f"prompt={place.resolve()}"
    with Store.open(path) as store:
        async with open_evaluation(config, store) as study:
            arms = parse_arms([arm], config.compressor, study.template)
            await evaluate(study, arms, plan.runs)
        rows = find_arm(read_arms(store), arms[0].label, store.path).by_task()
    every = [row for runs in rows.values() for row in runs.values()]
    return {
        "accuracy": [fmean(row.success for row in rows[task].values()) for task in plan.test_tasks()],
        "steps": fmean(row.steps for row in every),
        "compactions": fmean(row.compactions or 0 for row in every),
    }


async def _adapt(config: Config, path: Path, until: Any) -> Adaptation:
    with Store.open(path) as store:
        async with open_study(config, store) as study:
            return await adapt(study, until)


def _copy(source: Path, target: Path) -> None:
    """A copy, if there is none yet; whole or not at all."""
    if not target.exists():
        fresh = target.with_suffix(".part")
        shutil.copy(source, fresh)
        os.replace(fresh, target)


def _write(path: Path, data: Mapping[str, Any]) -> None:
    fresh = path.with_suffix(f".{os.getpid()}.part")
    fresh.write_text(json.dumps(data))
    os.replace(fresh, path)
