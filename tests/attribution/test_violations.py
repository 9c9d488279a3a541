"""Violations that compactions add, where a suite reports them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from evaluation_support import arm
from made_up_runs import begin, collect, continuation, draw

from recompact.attribution.continuations import continuation_unit
from recompact.attribution.means import violations_added
from recompact.audit.cases import Text, lost_rules
from recompact.engine.store.records import write_continuation
from recompact.engine.store.runs import open_run
from recompact.engine.store.store import Store
from recompact.evaluation.summary import arm_table, difference_table, evaluation
from recompact.values.session import CompactionEvent, KeptNothing
from recompact.values.tables import render
from recompact.values.trajectory import Score

RULE = "Never approve requests over 50 without asking me."


def draws(store: Store, task: str, pre: int | None, post: int | None) -> None:
    """One draw in each arm with so many violations."""
    for name, number in (("PRE", pre), ("POST", post)):
        details = {} if number is None else {"violations": [RULE] * number}
        whole = replace(continuation(task, 1.0, 5), score=Score.of(True, **details))
        unit = continuation_unit(task, 1, name, 0)  # type: ignore[arg-type]
        write_continuation(store, unit, f"collect/{task}", 1, name, 0, whole, seconds=1.0)


def test_violations_are_those_after_a_compaction_less_those_without_it(tmp_path: Path) -> None:
    with open_run(tmp_path / "r.db") as store:
        begin(store)
        for n, (pre, post) in enumerate([(0, 2), (1, 1), (0, 0), (0, 1)]):
            collect(store, f"t{n}")
            draws(store, f"t{n}", pre, post)
        found = violations_added(store)
    assert found is not None
    assert (found.boundaries, found.pre, found.post) == (4, 0.25, 1.0)
    assert found.added.value == pytest.approx(0.75)
    assert found.added.low <= 0.75 <= found.added.high
    assert (found.trajectories, found.cell.interval) == (4, None)  # too few for an interval
    assert replace(found, trajectories=6).cell.interval == (found.added.low, found.added.high)
    assert "interval" not in found.sentence


def test_a_suite_that_looks_for_no_rules_gets_no_sentence(tmp_path: Path) -> None:
    with open_run(tmp_path / "r.db") as store:
        begin(store)
        collect(store, "t")
        assert violations_added(store) is None
        draws(store, "t", None, None)
        assert violations_added(store) is None


def test_an_evaluation_has_a_column_only_where_rules_are_looked_for() -> None:
    def with_violations(name: str, number: int) -> object:
        made = arm(name, ["1"] * 6)
        return replace(made, rows=tuple(replace(row, violations=number) for row in made.rows))

    shown = evaluation("e", [with_violations("prompting", 2), with_violations("pinned", 0)])  # type: ignore[list-item]
    assert "Violations" in render(arm_table(shown), "terminal")
    found = difference_table(shown)
    assert found is not None
    assert found[1][0].of("violations").delta == -2
    assert "Violations" not in render(arm_table(evaluation("e", [arm("prompting", ["1"] * 6)])), "terminal")


def test_the_audit_lists_rules_of_the_user_that_are_nowhere_any_more() -> None:
    dropped = [Text(1, "user", f"Pay the bills. {RULE}", 1), Text(2, "result", "You must never see this.", 1)]
    event = CompactionEvent(KeptNothing(), "The bills are being paid.")
    assert lost_rules(dropped, [], event) == (RULE,)
    assert lost_rules(dropped, [Text(3, "user", RULE, 1)], event) == ()
    assert lost_rules(dropped, [], replace(event, summary=f"- {RULE.lower()}")) == ()
    assert lost_rules(dropped, [], replace(event, summary=None)) == ()  # nobody can tell


def test_a_draw_that_an_environment_broke_says_nothing_about_rules(tmp_path: Path) -> None:
    with open_run(tmp_path / "r.db") as store:
        begin(store)
        for task in "ab":
            collect(store, task)
        draw(store, "a", 1, "PRE", 0, ending="environment error")
        draws(store, "b", 0, 2)
        found = violations_added(store)
    assert found is not None
    assert (found.boundaries, found.pre, found.post) == (1, 0.0, 2.0)
