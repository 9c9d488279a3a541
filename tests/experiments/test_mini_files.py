"""The tasks of mini-files: the oracle solves each, nothing else counts as solved, and no answer lies in a workspace."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import experiment
from experiment import load_experiment
from recompact.environments.protocol import Task


def load_tasks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mini_files_tasks", experiment.HERE / "mini-files" / "tasks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for it there
    spec.loader.exec_module(module)
    return module


tasks = load_tasks()
SUITE = tasks.suite()
EVERY = [task for split in SUITE.splits() for task in SUITE.tasks(split)]


@pytest.mark.parametrize("task", EVERY, ids=lambda task: task.id)
def test_the_oracle_solves_it_and_its_last_step_is_needed(task: Task, tmp_path: Path) -> None:
    work = SUITE.workspace_task(task)
    work.lay_out(tmp_path)
    *reading, writing = work.commands
    seen = [subprocess.run(c, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True) for c in reading]
    text = "\n".join(each.stdout for each in seen)
    assert all(value in text for value in work.answer.split())
    assert not work.judge(tmp_path, work.answer).success
    done = subprocess.run(writing, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] in tasks.SUBMIT
    assert work.judge(tmp_path, "").success


def test_a_workspace_holds_each_value_and_never_the_answer() -> None:
    for task in EVERY:
        work = SUITE.workspace_task(task)
        assert tasks.ANSWER not in work.files
        assert not [name for name, text in work.files.items() if work.answer in text]


@pytest.mark.parametrize("wrong", ["", "{0} extra", "{1} {0}"])
def test_another_answer_is_wrong(wrong: str, tmp_path: Path) -> None:
    work = tasks.work("a seed", "trip")
    work.lay_out(tmp_path)
    (tmp_path / tasks.ANSWER).write_text(wrong.format(*work.answer.split()))
    assert not work.judge(tmp_path, "").success


def test_an_answer_that_is_no_plain_file_is_none(tmp_path: Path) -> None:
    work = tasks.work("a seed", "trip")
    (tmp_path / "elsewhere").write_text(work.answer)
    (tmp_path / tasks.ANSWER).symlink_to(tmp_path / "elsewhere")
    assert not work.judge(tmp_path, "").success
    (tmp_path / tasks.ANSWER).unlink()
    (tmp_path / tasks.ANSWER).write_text(work.answer + " " * tasks.LONGEST)
    assert not work.judge(tmp_path, "").success


def test_all_unseen_tasks_are_there_and_blocks_hold_one_of_each_family() -> None:
    plan = load_experiment("mini-files").plan
    families = {task.id: task.groups["family"] for task in SUITE.tasks("unseen")}
    assert plan.tasks == tuple(families)
    for start in range(0, len(families), plan.block):
        assert len({families[task] for task in plan.tasks[start : start + plan.block]}) == len(tasks.FAMILIES)


def test_instructions_of_different_splits_differ() -> None:
    texts = [task.text for task in EVERY]
    assert len(set(texts)) == len(texts)
