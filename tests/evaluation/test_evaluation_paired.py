"""Comparisons of two arms on the same tasks, and what few tasks cannot show."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

import pytest
from evaluation_support import arm

from recompact.chat import Usage
from recompact.errors import InputError
from recompact.evaluation.paired import compare, size_warnings, warnings


def test_a_comparison_counts_tasks_solved_in_all_runs() -> None:
    a = arm("a", ["111", "111", "111", "110", "000"])
    b = arm("b", ["111", "110", "000", "111", "000"], steps=12)
    found = compare(a, b, resamples=2000)
    assert (found.wins, found.losses, found.p) == (2, 1, 1.0)
    assert (found.tasks, found.runs, found.reliability) == (5, 3, "pass^3")
    assert found.of("pass^3").delta == pytest.approx(0.2)
    assert found.of("steps").delta == pytest.approx(-2.0)
    assert found.of("steps").low == found.of("steps").high == -2.0
    assert found.of("steps").excludes_zero
    assert found.of("acc").low <= found.of("acc").delta <= found.of("acc").high
    back = compare(b, a, resamples=2000)
    for there, here in zip(found.differences, back.differences, strict=True):
        assert (there.delta, there.low, there.high) == pytest.approx((-here.delta, -here.high, -here.low))


def test_an_arm_compared_with_itself_shows_nothing() -> None:
    a = arm("a", ["111", "110", "000"] * 10)
    found = compare(a, a, resamples=200)
    assert all((d.delta, d.low, d.high) == (0.0, 0.0, 0.0) for d in found.differences)
    assert not any(d.excludes_zero for d in found.differences)
    assert found.p == 1.0


def test_tokens_that_nobody_counted_are_not_zero() -> None:
    """Released records have one role of their own, or none: beside our own arms that is no difference in tokens."""
    own = arm("own", ["111"] * 8)
    released = replace(own, name="theirs", rows=tuple(replace(row, usage={}) for row in own.rows))
    counted = replace(own, rows=tuple(replace(row, usage={"agent input": Usage(900, 0)}) for row in own.rows))
    for one, other in ((own, released), (counted, own), (released, counted)):
        assert not any("tokens" in d.metric for d in compare(one, other, resamples=10).differences)
    assert compare(counted, counted, resamples=10).of("tokens.agent input").first == 900
    lone = replace(own, rows=tuple(replace(row, usage={"agent": Usage(50, 5)}) for row in own.rows))
    assert compare(own, lone, resamples=10).of("tokens.compressor").second == 0  # an arm that has no compressor


def test_arms_without_a_common_task_are_refused() -> None:
    a = arm("a", ["111"])
    other = arm("b", ["11", "111"])
    with pytest.raises(InputError, match="no task that a, b have all done in"):
        compare(a, type(other)("b", None, other.rows[2:]), resamples=10)


def test_warnings_in_words() -> None:
    assert size_warnings(168, 3) == ()
    assert "40 tasks: one task is 2.5 points of Pass^3" in size_warnings(40, 3)[0]
    assert any("too narrow" in said for said in size_warnings(12, 3))
    assert any("fewer than 6 tasks an interval over tasks tells nothing" in said for said in size_warnings(5, 3))
    assert any("One run" in said for said in size_warnings(200, 1))
    few = compare(arm("a", ["111"] * 30), arm("b", ["110"] + ["111"] * 29), resamples=100)
    assert any("only 1 task differs" in said for said in warnings(few))


def test_168_tasks_and_10_000_resamples_take_seconds() -> None:
    chance = Random("speed")

    def outcomes() -> list[str]:
        return ["".join(chance.choice("01") for _ in range(3)) for _ in range(168)]

    a, b = arm("a", outcomes()), arm("b", outcomes())
    started = time.process_time()
    compare(a, b)
    assert time.process_time() - started < 5
