"""The suite: splits, groups, the size of the prefix, the worked example."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from pocket_playing import SUITE, TASKS

from recompact.environments.protocol import Suite
from recompact.suites.pocket import FAMILIES, TOOLS, PocketSuite
from recompact.suites.pocket.suite import NEXT_TASK, families_of
from recompact.values.tokens import counter


def test_splits_are_fixed() -> None:
    suite: Suite = SUITE
    assert suite.name == "pocket"
    sizes = {split: len(suite.tasks(split)) for split in suite.splits()}
    assert sizes == {"train": 90, "dev": 30, "test": 168, "fresh": 60, "rules": 60}
    assert suite.tasks("train")[17].id == "pocket-train-017"
    assert len({task.id for task in TASKS}) == len({task.data["message"] for task in TASKS}) == 408
    with pytest.raises(ValueError, match="unknown split"):
        suite.tasks("validation")


def test_families_take_turns() -> None:
    assert len(FAMILIES) >= 12
    assert all(n >= 4 for n in Counter(family.difficulty for family in FAMILIES).values())
    for split in SUITE.splits():
        counts = Counter(task.groups["family"] for task in SUITE.tasks(split))
        assert max(counts.values()) - min(counts.values()) <= 1
        assert set(counts) == {family.name for family in families_of(split)}


def test_groups_and_data_are_plain() -> None:
    apps = {"easy": "1", "medium": "2", "hard": "3"}
    for task in TASKS:
        assert task.groups["apps"] == apps[task.groups["difficulty"]]
        assert json.loads(json.dumps(dict(task.data))) == task.data


def test_the_prefix_is_short() -> None:
    count = counter()
    tools = sum(count(json.dumps(tool.to_json())) for tool in TOOLS)
    for task in TASKS:
        prefix = SUITE.prefix(task)
        assert [message.role for message in prefix] == ["system", "user"]
        size = tools + sum(count(message.content) for message in prefix)
        assert size < (700 if task.groups["difficulty"] == "easy" else 800)
    opening = SUITE.environment(TASKS[0]).start()
    assert (opening.prefix, opening.tools) == (SUITE.prefix(TASKS[0]), TOOLS)


def test_the_worked_example_is_a_real_episode() -> None:
    suite = PocketSuite(example=True)
    task = suite.tasks("dev")[1]
    prefix = suite.environment(task).start().prefix
    assert prefix[0] == SUITE.prefix(task)[0]
    assert prefix[-1] == SUITE.prefix(task)[-1]
    assert prefix[-2].content == NEXT_TASK
    turns = prefix[2:-2]
    assert [message.role for message in turns] == ["assistant", "tool"] * (len(turns) // 2)
    for asked, answered in zip(turns[::2], turns[1::2], strict=True):
        assert [call.id for call in asked.calls] == [answered.call_id]
        assert "error" not in json.loads(answered.content)
    asked_first = json.loads(turns[0].calls[0].arguments)
    assert asked_first["api"] == "show_passwords"
    assert list(json.loads(turns[1].content)) == [asked_first["arguments"]["app"]]
    assert turns[-2].calls[0].name == "finish"
    count = counter()
    assert sum(count(m.content) + sum(count(c.arguments) for c in m.calls) for m in prefix) < 1700
    assert prefix[1].content not in {task.data["message"] for task in TASKS}
