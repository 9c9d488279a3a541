"""What trackers of experiments are told: one of our own, and MLflow and W&B themselves where they are installed."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path

import pytest
from needs import needs
from report_support import adapted_template, add_boundary, make_verified, note_adaptation, selected

from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.calls import tokens_by_phase
from recompact.engine.store.runs import continuation_rows, trajectories
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import VerdictsRecorded
from recompact.integrations.experiments import Rows, TrackedRun, start_tracking
from recompact.values.candidate import Candidate, Clause
from recompact.values.events import emit
from recompact.values.template import Template, default_template

CLAUSE = Clause("Keep every condition of the task exactly.", "Goal", ("task a#1",))
CANDIDATE = Candidate("pair-1", adapted_template(), (CLAUSE,))


@dataclass
class Notebook:
    """A tracker that keeps what it is told."""

    parameters: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, tuple[float, int]] = field(default_factory=dict)
    tables: dict[str, Rows] = field(default_factory=dict)
    templates: list[tuple[str, str]] = field(default_factory=list)
    ended: int = 0

    def set_parameters(self, values: Mapping[str, str]) -> None:
        self.parameters.update(values)

    def add_metrics(self, values: Mapping[str, float], step: int) -> None:
        self.metrics |= {name: (value, step) for name, value in values.items()}

    def add_table(self, name: str, rows: Rows) -> None:
        self.tables[name] = rows

    def add_template(self, name: str, template: Template, role: str) -> None:
        self.templates.append((role, template.hash))

    def end(self) -> None:
        self.ended += 1


@contextmanager
def tracking(name: str) -> Iterator[None]:
    end = import_module(f"recompact.integrations.{name}").start()
    try:
        yield
    finally:
        end()


def work(path: Path) -> None:
    """A verified run of two tasks, as a first command leaves it."""
    make_verified(path, ("a", "b"))
    with Store.open(path) as store:
        templates = {default_template().hash: default_template().parts()}
        identity = {**store.metadata.identity, "template": default_template().hash}
        store.set_metadata(replace(store.metadata, templates=templates, identity=identity))


def go_on(path: Path) -> None:
    """What a second one adds: a task, verdicts and an adaptation."""
    with Store.open(path) as store:
        add_boundary(store, "c")
        emit(VerdictsRecorded(store, read_verdicts(store).verdicts))
        note_adaptation(store, CANDIDATE)
        note_adaptation(store, CANDIDATE, selected(CANDIDATE))


def test_a_tracker_is_told_what_the_run_file_holds(tmp_path: Path) -> None:
    begun: dict[TrackedRun, Notebook] = {}
    path = tmp_path / "mine.db"
    work(path)
    stop = start_tracking(lambda tracked: begun.setdefault(tracked, Notebook()))
    go_on(path)
    stop()
    ((tracked, book),) = begun.items()
    with Store.read(path) as store:
        rows, draws, judged = trajectories(store), continuation_rows(store), read_verdicts(store).verdicts
        budget, tokens = store.metadata.identity["compressor"]["budget"], tokens_by_phase(store)
    assert (tracked.name, book.ended, len(rows)) == ("mine", 1, 3)
    assert book.parameters["compressor.budget"] == str(budget)
    assert book.metrics["collect/steps"] == (sum(row.steps for row in rows) / 3, 3)  # with those of before
    for arm in ("PRE", "POST"):
        steps = [draw.steps for draw in draws if draw.arm == arm]
        assert book.metrics[f"continue/{arm}/steps"] == (sum(steps) / len(steps), len(steps))
    told = {name: value for name, (value, _) in book.metrics.items() if name.startswith("tokens/")}
    assert told == {f"tokens/{phase}/{role}": n for phase, roles in tokens.items() for role, n in roles.items()}
    assert book.tables["verdicts"] == [verdict.flat() for verdict in judged]
    candidates = [(row["candidate"], row["passed"], row["selected"]) for row in book.tables["candidates-pair"]]
    assert candidates == [("original", 0, False), ("pair-1", 2, True)]
    assert [(row["candidate"], row["clause"]) for row in book.tables["clauses-pair"]] == [("pair-1", CLAUSE.text)]
    assert book.templates == [("original", default_template().hash), ("adapted-pair", adapted_template().hash)]


def test_a_tracker_that_fails_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def begin(tracked: TrackedRun) -> Notebook:
        raise OSError("nobody is there")

    stop = start_tracking(begin)
    with caplog.at_level(logging.WARNING, "recompact"):
        work(tmp_path / "mine.db")
        stop()
    assert [record.getMessage().count("nobody is there") for record in caplog.records] == [1]


@needs("mlflow")
def test_mlflow_has_one_run_with_tables_and_two_versions_of_a_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    work(path := tmp_path / "mine.db")
    with tracking("mlflow"), Store.open(path) as store:
        add_boundary(store, "d")
    with tracking("mlflow"):  # as a second command
        go_on(path)
    client = mlflow.MlflowClient()
    (experiment,) = [each for each in client.search_experiments() if each.name != "Default"]
    (kept,) = client.search_runs([experiment.experiment_id])
    assert kept.info.status == "FINISHED"
    assert kept.data.metrics["collect/episodes"] == 4
    assert len(client.get_metric_history(kept.info.run_id, "collect/success")) == 2
    table = client.load_table(experiment.experiment_id, "candidates-pair.json", run_ids=[kept.info.run_id])
    assert list(table["passed"]) == [0, 2]
    clauses = client.load_table(experiment.experiment_id, "clauses-pair.json", run_ids=[kept.info.run_id])
    assert list(clauses["clause"]) == [CLAUSE.text]
    (name,) = {prompt.name.removesuffix("-first").removesuffix("-update") for prompt in mlflow.genai.search_prompts()}
    for part in ("first", "update"):
        original = mlflow.genai.load_prompt(f"prompts:/{name}-{part}@original")
        adapted = mlflow.genai.load_prompt(f"prompts:/{name}-{part}@adapted-pair")
        assert (original.version, adapted.version) == (1, 2)  # two commands, and no version twice
        assert adapted.template[-1]["content"] == adapted_template().framed(part)
        assert "history" in adapted.variables


@needs("wandb")
def test_wandb_keeps_tables_and_templates_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    work(path := tmp_path / "mine.db")
    with tracking("wandb"):
        go_on(path)
    (table,) = tmp_path.glob("wandb/offline-run-*/files/media/table/candidates-pair_*.table.json")
    kept = json.loads(table.read_text())
    assert [row[kept["columns"].index("passed")] for row in kept["data"]] == [0, 2]
