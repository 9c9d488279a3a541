"""The evaluator gives the verdicts that OfficeBench's own gave, item by item, on all subtasks in three states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from officebench_states import finish_none, synthesize
from officebench_support import TREE, needs_tree, tree

from recompact.environments.officebench.evaluator import Case, allowed_values, evaluate
from recompact.environments.officebench.testbed import Files

pytestmark = needs_tree


def expected() -> dict[str, Any]:
    subtasks: dict[str, Any] = json.loads((TREE / "expected.json").read_text())["subtasks"]
    return subtasks


def test_every_subtask_of_the_splits_has_an_expected_verdict() -> None:
    named = [f"{template}/{number}" for split in ("train", "test") for template, number in tree().split(split)]
    assert len(named) == len(set(named)) == 192
    assert set(named) == set(expected())


@pytest.mark.parametrize("state", ["untouched", "finish_none", "synthetic"])
def test_verdicts_equal_those_expected(state: str, tmp_path: Path) -> None:
    differences = {}
    for name, known in expected().items():
        template, number = name.split("/")
        testbed = tmp_path / template / number
        testbed.mkdir(parents=True)
        tree().lay_out(template, testbed)
        items = list(tree().subtask(template, number).items)
        if state == "finish_none":
            finish_none(testbed)
        elif state == "synthetic":
            synthesize(items, testbed, tree().template(template))
        verdicts = evaluate(items, Case(Files(testbed), tree().template(template)))
        if verdicts != known[state]["items"]:
            differences[name] = (verdicts, known[state]["items"])
        assert known[state]["pass"] == all(verdict is True for verdict in known[state]["items"])
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
