"""Worked examples before the task: played in the apps, without an error, and apart from the task's own testbed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recompact.environments.conformance import conformance
from recompact.environments.inprocess import InProcessSuite
from recompact.suites.officebench.suite import OfficeBenchEnvironment, OfficeBenchSuite
from recompact.values.chat import Message
from recompact.values.trajectory import Action


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one task and an empty testbed."""
    (tmp_path / "tasks/1-1/subtasks").mkdir(parents=True)
    subtask = {
        "username": "Bob",
        "date": "2020-05-01",
        "weekday": "Friday",
        "time": "10:00 AM",
        "task": "which files are there?",
        "evaluation": [{"function": "evaluate_contain", "args": {"doc_type": "txt", "keywords": ["none"]}}],
    }
    (tmp_path / "tasks/1-1/subtasks/0.json").write_text(json.dumps(subtask))
    (tmp_path / "split_train.jsonl").write_text('{"task": "1-1", "subtask": "0"}\n')
    (tmp_path / "split_test.jsonl").write_text("")
    return tmp_path


def opened(tree: Path, **options: Any) -> OfficeBenchEnvironment:
    suite = OfficeBenchSuite(tree, libreoffice=False, **options)
    return suite.environment(suite.tasks("train")[0])


def prefix(tree: Path, **options: Any) -> tuple[Message, ...]:
    environment = opened(tree, **options)
    try:
        return environment.start().prefix
    finally:
        environment.close()


def test_without_the_option_there_is_one_example_in_words(tree: Path) -> None:
    system, task = prefix(tree)
    assert "An example. The task is" in system.content
    assert task.content.startswith("Task: which files are there?")


@pytest.mark.parametrize("reminders", [True, False])
def test_examples_stand_before_the_task_as_turns(tree: Path, reminders: bool) -> None:
    system, *worked, task = prefix(tree, example=True, reminders=reminders)
    assert "An example" not in system.content
    assert task == prefix(tree)[-1]
    assert [message.content.splitlines()[0] for message in worked if message.role == "user"] == [
        "Task: change Kim's rent to 740 in rents excel file",
        "That task is finished. The next one has other files and other people: look at them first.",
        "Task: what is in Kim's calendar on 3/4/2024?",
        "That task is finished. The next one has other files and other people: look at them first.",
    ]
    calls = [call for message in worked for call in message.calls]
    results = {message.call_id: message.content for message in worked if message.role == "tool"}
    assert [json.loads(call.arguments)["action"] for call in calls] == [
        *("switch_app", "read_file", "set_cell", "finish_task"),
        *("switch_app", "list_events", "finish_task"),
    ]
    assert {call.name for call in calls} == {"act"}
    assert [call.id for call in calls] == list(results), "each call has its result, and no id stands twice"


@pytest.mark.parametrize("form", ["tool", "text"])
def test_what_the_apps_answer_is_no_error_and_shows_what_the_answers_rest_on(tree: Path, form: str) -> None:
    worked = prefix(tree, example=True, actions=form)[1:-1]
    seen = "\n".join(message.content for message in worked if message.role in ("tool", "user"))
    assert "Error" not in seen
    for text in ("(3, 1): Kim\t(3, 2): 710", "(3, 1): Kim\t(3, 2): 740", "Summary: Dentist", "The task is ended."):
        assert text in seen


def test_as_text_each_action_is_in_its_tags(tree: Path) -> None:
    worked = prefix(tree, example=True, actions="text")[1:-1]
    assert not [message for message in worked if message.calls or message.role == "tool"]
    spoken = [message.content for message in worked if message.role == "assistant"]
    assert len(spoken) == 7
    assert all(text.startswith("<action>{") and text.endswith("}</action>") for text in spoken)


def test_examples_leave_nothing_in_the_testbed_and_look_the_same_at_every_start(tree: Path) -> None:
    environment = opened(tree, example=True)
    first = environment.start()
    files = [path for path in environment.directory.rglob("*") if path.is_file()]
    again = environment.start()
    environment.close()
    assert (files, first) == ([], again)
    assert first.prefix == prefix(tree, example=True)


@pytest.mark.slow
async def test_an_environment_with_examples_can_be_restored(tree: Path) -> None:
    suite = OfficeBenchSuite(tree, libreoffice=False, example=True)
    actions = [
        Action("act", {"action": "excel.create_new_file", "arguments": {"file_path": f"data/{name}.xlsx"}})
        for name in "abc"
    ]
    report = await conformance(InProcessSuite(suite), suite.tasks("train")[0], actions)
    assert report.passed, str(report)
