"""The table of docs/security.md and the tests that it names belong together."""

from __future__ import annotations

import ast

import pytest
from attacks import ROOT, Threat, threats


@pytest.mark.parametrize("threat", threats(), ids=lambda threat: threat.attacker)
def test_each_promise_names_tests_that_exist(threat: Threat) -> None:
    assert threat.promise
    assert threat.enforced
    assert threat.tests
    for path in threat.tests:
        assert (ROOT / path).is_file(), path
        nodes = ast.walk(ast.parse((ROOT / path).read_text()))
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        assert any(function.name.startswith("test_") for function in functions), path


def test_all_attackers_are_there_and_all_attacks_are_in_the_table() -> None:
    attackers = {threat.attacker for threat in threats()}
    assert attackers == {
        *("task text", "tool output", "model reply", "agent", "environment", "web page", "other users"),
        *("a stranger's run file", "a stranger's transcript or config", "an accident"),
    }
    named = {path for threat in threats() for path in threat.tests}
    own = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/attack").glob("test_*.py")}
    assert own - {"tests/attack/test_threat_model.py"} <= named
