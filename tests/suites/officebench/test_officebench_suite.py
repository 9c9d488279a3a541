"""The suite as the harness sees it: splits, groups, openings, refusals, snapshots, hooks."""

from __future__ import annotations

import dataclasses
import doctest
import importlib
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from growth import LINEAR, growth
from needs import OFFICEBENCH, needs
from officebench_solutions import SOLUTIONS
from officebench_support import act, dotted, playing, task_named

from recompact.environments.conformance import conformance
from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.loading import load_suite
from recompact.environments.protocol import EnvironmentFailed
from recompact.errors import InputError
from recompact.suites.officebench.suite import OfficeBenchSuite
from recompact.suites.officebench.tree import VARIABLE
from recompact.values.trajectory import Action

pytestmark = needs("officebench")


def test_splits_and_groups_are_those_of_the_tree() -> None:
    suite = OfficeBenchSuite(OFFICEBENCH)
    assert suite.splits() == ("train", "test")
    counted = {split: Counter(task.groups["apps"] for task in suite.tasks(split)) for split in suite.splits()}
    assert counted == {"train": {"1": 44, "2": 29, "3": 24}, "test": {"1": 42, "2": 22, "3": 31}}
    templates = {split: {task.data["template"] for task in suite.tasks(split)} for split in suite.splits()}
    assert not templates["train"] & templates["test"]


def test_a_task_does_not_carry_what_it_is_judged_by() -> None:
    suite = OfficeBenchSuite(OFFICEBENCH)
    for task in (*suite.tasks("train"), *suite.tasks("test")):
        assert "evaluate" not in json.dumps(dataclasses.asdict(task))


def test_it_is_found_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_suite("officebench", {"tasks": str(OFFICEBENCH)}, Path()).name == "officebench"
    monkeypatch.setenv(VARIABLE, str(OFFICEBENCH))
    assert len(load_suite("officebench", {}, Path()).tasks("test")) == 95
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(InputError, match=f"set tasks in .* or {VARIABLE}"):
        load_suite("officebench", {}, Path())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tasks": "."}, "no OfficeBench task tree: it has no tasks, split_train.jsonl, split_test.jsonl"),
        ({"tasks": str(OFFICEBENCH), "actions": "songs"}, "the option 'actions' must be 'tool' or 'text'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    if options["tasks"] == ".":
        options = {"tasks": tmp_path}
    with pytest.raises(InputError, match=message):
        load_suite("officebench", options, Path())


def test_an_action_of_an_app_that_is_not_open_is_refused() -> None:
    with playing("1-4/0") as player:
        read = act("excel", "read_file", file_path="data/score.xlsx")
        first = player.environment.step(read)
        assert first.error
        assert "no app is open; open excel with system.switch_app first" in first.text
        player.environment.step(act("system", "switch_app", target_app="word"))
        second = player.environment.step(read)
        assert "word is open; open excel with" in second.text
        assert "The app word is open. Its actions:" in second.text
        assert not player.environment.step(act("system", "switch_app", target_app="excel")).error
        assert "(12, 1): Bob" in player.environment.step(read).text


def test_a_dotted_action_opens_its_app() -> None:
    with playing("1-4/0") as player:
        player.ok("excel.read_file", file_path="data/score.xlsx")
        dotted = Action(
            "act", {"app": "word", "action": "word.read_file", "arguments": {"file_path": "data/score.xlsx"}}
        )
        assert "The app word is open." in player.environment.step(dotted).text


def test_a_change_is_answered_with_the_whole_file() -> None:
    with playing("1-2/0") as player:
        new = player.ok(
            "calendar.create_event",
            user="Bob",
            summary="Zoom",
            time_start="2024-05-01 14:30:00",
            time_end="2024-05-01 15:30:00",
        )
        assert all(word in new for word in ("nap", "lunch", "dinner", "sleeping", "Zoom"))
        fewer = player.ok("calendar.delete_event", user="Bob", summary="nap")
        assert "nap" not in fewer
        assert "Zoom" in fewer
        assert "has no event 'nap'" in player.refused("calendar.delete_event", user="Bob", summary="nap")
        player.ok("word.create_new_file", file_path="data/notes.docx")
        player.ok("word.write_to_file", file_path="data/notes.docx", contents="First.")
        second = player.ok("word.write_to_file", file_path="data/notes.docx", contents='The "second" isn\'t quoted.')
        assert "First.\nThe second isnt quoted." in second


@pytest.mark.parametrize("contents", ["5", "[1, 2]", "True", "'5'"])
def test_contents_that_are_a_literal_are_refused(contents: str) -> None:
    with playing("1-4/0") as player:
        player.ok("word.create_new_file", file_path="data/notes.docx")
        player.refused("word.write_to_file", file_path="data/notes.docx", contents=contents)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("78", "78"),
        ("80.05", "80.05"),
        ("1e3", "1000"),
        ("True", "True"),
        ("8:00", "8:00"),
        ("10%", "10%"),
        ("007", "007"),
    ],
)
def test_cells_take_numbers_as_numbers(given: str, shown: str) -> None:
    with playing("1-4/0") as player:
        player.ok("excel.set_cell", file_path="data/score.xlsx", row_idx=1, column_idx=4, text=given)
        assert f"(1, 4): {shown}\t" in player.ok("excel.read_file", file_path="data/score.xlsx")
        for wrong in ("2,100,000", "[1,2]"):
            player.refused("excel.set_cell", file_path="data/score.xlsx", row_idx=1, column_idx=4, text=wrong)


def test_a_sent_mail_is_in_both_mailboxes() -> None:
    with playing("1-20/0") as player:
        player.ok(
            "email.send_email", sender="Bob@x.com", recipient="Tom@y.org", subject="Hi there", content="Grüße, Tom"
        )
        assert sorted(p.name for p in (player.testbed / "emails").rglob("Hi there.eml")) == ["Hi there.eml"] * 2
        shown = player.ok("email.read_email", username="Tom", email_id="Hi there")
        assert "From: Bob@example.com\nTo: Tom@example.com\nSubject: Hi there\nContent: Grüße, Tom" in shown


def test_the_answer_is_written_without_quotes() -> None:
    with playing("1-12/2") as player:
        player.finish('It\'s "54"')
        assert (player.testbed / "data" / "answer.txt").read_text() == "Its 54\n"
        assert player.do("excel.read_file", file_path="data/CS161_Class_Roster.xlsx").done


def test_actions_may_be_text() -> None:
    with playing("1-12/2", actions="text") as player:
        opening = player.environment.start()
        assert opening.text_actions
        assert opening.tools == ()
        said = '<think>Look.</think><action>{"app": "system", "action": "switch_app", "target_app": "excel"}</action>'
        assert "The app excel is open now." in player.environment.step(Action("", text=said)).text
        said = "{'app': 'excel', 'action': 'read_file', 'file_path': 'data/CS161_Class_Roster.xlsx'}"
        assert "Xihozun" in player.environment.step(Action("", text=said)).text
        assert "no action" in player.environment.step(Action("", text="I am thinking.")).text
        said = '<action>{"app": "system", "action": "finish_task", "answer": "54"}</action>'
        assert player.environment.step(Action("", text=said)).done
        assert player.environment.score().success


def test_without_reminders_actions_are_told_when_an_app_is_opened() -> None:
    with playing("1-12/2", reminders=False) as player:
        assert "excel.read_file(file_path)" in player.ok("system.switch_app", target_app="excel")
        assert "Its actions" not in player.ok("excel.read_file", file_path="data/CS161_Class_Roster.xlsx")


SHELL = "echo one > /tmp/note; ln -s events.xlsx data/again; ls -la data"
HOUR = {"time_start": "2020-05-01 10:00:00", "time_end": "2020-05-01 11:00:00"}
ACTIONS = [
    act("system", "switch_app", target_app="excel"),
    act("excel", "set_cell", file_path="data/events.xlsx", row_idx=1, column_idx=2, text="1"),
    dotted("calendar.create_event", user="Bob", summary="x", **HOUR),
    dotted("shell.command", command=SHELL),
    act("shell", "command", command="cat /tmp/note >> data/notes.txt; ls -la /tmp data; cat data/notes.txt"),
    act("word", "read_file", file_path="data/none.docx"),
    dotted("email.send_email", sender="Bob", recipient="Tom", subject="s", content="c"),
    dotted("excel.set_cell", file_path="data/again", row_idx=2, column_idx=2, text="1"),
    act("excel", "read_file", file_path="data/events.xlsx"),
    act("system", "finish_task", answer="done"),
]


@needs("bubblewrap")
async def test_episodes_come_back_as_they_were() -> None:
    report = await conformance(InProcessSuite(OfficeBenchSuite(OFFICEBENCH)), task_named("2-48/0"), ACTIONS, branches=4)
    assert report.passed, str(report)
    assert report.strategy == "directory"


def test_the_same_actions_give_the_same_workbook() -> None:
    """Also an hour later: its size is seen by ls, and a replay must see the same."""

    def made() -> list[bytes]:
        with playing("1-4/0") as player:
            player.ok("excel.create_new_file", file_path="data/new.xlsx")
            for name in ("new", "score", "company_budget"):
                player.ok("excel.set_cell", file_path=f"data/{name}.xlsx", row_idx=3, column_idx=2, text="17")
            return [path.read_bytes() for path in sorted((player.testbed / "data").glob("*.xlsx"))]

    first = made()
    time.sleep(2.1)  # the times in an archive count two seconds
    assert made() == first


@needs("bubblewrap")
async def test_episodes_in_a_host_come_back_as_they_were() -> None:
    suite = HostedSuite("officebench", {"tasks": str(OFFICEBENCH)}, sandbox="off")
    original, copy = suite.episode(task_named("2-48/0")), suite.episode(task_named("2-48/0"))
    await original.start()
    for action in ACTIONS[:5]:
        await original.step(action)
    snapshot = await original.snapshot()
    assert snapshot is not None
    await copy.start()
    await copy.restore(snapshot)
    for action in ACTIONS[5:]:
        assert await original.step(action) == await copy.step(action)
    assert (await copy.score()).success
    await original.close()
    await copy.close()


@needs("bubblewrap")
async def test_what_no_snapshot_can_hold_is_a_reason_and_no_crash() -> None:
    episode = InProcessSuite(OfficeBenchSuite(OFFICEBENCH)).episode(task_named("1-4/0"))
    await episode.start()
    await episode.step(dotted("shell.command", command="mkfifo data/pipe"))
    with pytest.raises(EnvironmentFailed, match="testbed/data/pipe is a named pipe"):
        await episode.snapshot()
    await episode.close()


def test_an_episode_leaves_no_directory_behind() -> None:
    with playing("1-4/0") as player:
        directory = player.environment.directory
        locked = player.testbed / "data" / "locked"
        locked.mkdir()
        (locked / "file").touch()
        locked.chmod(0)
    assert not directory.exists()


def test_what_actions_are_for() -> None:
    suite = OfficeBenchSuite(OFFICEBENCH)
    steps = [step for solution in SOLUTIONS.values() for step in solution.right]
    seen = {name: suite.behaviour(dotted(name, **arguments)) for name, arguments in steps}
    assert seen["excel.set_cell"] == seen["email.send_email"] == seen["word.convert_to_pdf"] == "mutation"
    assert seen["excel.read_file"] == seen["email.list_emails"] == "read"
    assert suite.behaviour(act("system", "switch_app", target_app="excel")) == "documentation"
    assert suite.behaviour(act("system", "finish_task", answer="x")) is None
    assert suite.behaviour(act("shell", "command", command="ls data")) == "read"
    assert suite.behaviour(act("shell", "command", command="mv data/a data/b")) == "mutation"


def test_literals_of_what_an_agent_reads() -> None:
    suite = OfficeBenchSuite(OFFICEBENCH)
    with playing("1-12/2") as player:
        literals = suite.literals(player.ok("excel.read_file", file_path="data/CS161_Class_Roster.xlsx"))
    assert "(5, 2): Xihozun" in literals["cells"]
    assert "data/CS161_Class_Roster.xlsx" in literals["paths"]
    assert "excel.read_file" in literals["signatures"]


@pytest.mark.parametrize("text", ["data/ ", "a.", "a@", "excel.read_file(", "(1, 2): "])
def test_the_time_for_literals_grows_with_the_text_and_no_faster(text: str) -> None:
    suite = OfficeBenchSuite(OFFICEBENCH)
    assert growth(lambda size: suite.literals(text * size), 4_000) < LINEAR


MODULES = ("actions", "evaluator", "apps.machine", "apps.documents")


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_the_code_are_true(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"recompact.suites.officebench.{name}"))
    assert result.attempted
    assert not result.failed
