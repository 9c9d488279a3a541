"""The evaluator gives the verdicts that OfficeBench's own gave, item by item, on all subtasks in three states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from needs import OFFICEBENCH, needs
from officebench_states import finish_none, synthesize
from officebench_support import tree

from recompact.suites.officebench.evaluator import Case, allowed_values, evaluate
from recompact.suites.officebench.tree import files_of_testbed

pytestmark = needs("officebench")


def expected() -> dict[str, Any]:
    subtasks: dict[str, Any] = json.loads((OFFICEBENCH / "expected.json").read_text())["subtasks"]
    return subtasks


def test_every_subtask_of_the_splits_has_an_expected_verdict() -> None:
    named = [f"{template}/{number}" for split in ("train", "test") for template, number in tree().split(split)]
    assert len(named) == len(set(named)) == 192
    assert set(named) == set(expected())


@pytest.mark.parametrize("apps", ["1", "2", "3"])
def test_verdicts_equal_those_expected(apps: str, tmp_path: Path) -> None:
    differences = {}
    subtasks = {name: known for name, known in expected().items() if name.startswith(f"{apps}-")}
    for name, known in subtasks.items():
        template, number = name.split("/")
        testbed = tmp_path / template / number
        testbed.mkdir(parents=True)
        tree().lay_out(template, testbed)
        items = list(tree().subtask(template, number).items)
        case = Case(files_of_testbed(testbed), tree().template(template))
        verdicts = {"untouched": evaluate(items, case)}
        finish_none(testbed)
        verdicts["finish_none"] = evaluate(items, case)
        (testbed / "data" / "answer.txt").unlink()
        synthesize(items, testbed, case.template)
        verdicts["synthetic"] = evaluate(items, case)
        for state, verdict in verdicts.items():
            if verdict != known[state]["items"]:
                differences[name, state] = (verdict, known[state]["items"])
            assert known[state]["pass"] == all(each is True for each in known[state]["items"])
    assert subtasks
    assert differences == {}


@pytest.mark.parametrize(
    "comparator",
    [
        "lambda x: __import__('os').system('true')",
        "lambda x: x in [open('f')]",
        "lambda x, y: x in ['1']",
        "1",
        "lambda",
    ],
)
def test_a_comparator_is_never_executed(comparator: str) -> None:
    with pytest.raises((ValueError, SyntaxError)):
        allowed_values(comparator)
