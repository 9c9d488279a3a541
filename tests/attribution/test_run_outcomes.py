"""What a run says of its continuations: outcomes, what is left out, names of boundaries, and what comes first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from attribution_support import arm
from made_up_runs import begin, collect, continuation, draw, turn

from recompact.attribution.agenda import LeftOut
from recompact.attribution.continuations import outcome_of
from recompact.attribution.halving import Halving
from recompact.attribution.racing import Racing
from recompact.attribution.records import (
    RunOutcomes,
    boundary_named,
    digest,
    outcomes_in,
    retry_left_out,
    says_nothing,
    settings_of,
)
from recompact.attribution.verify import _order, remaining_steps
from recompact.engine.config import VerifyConfig
from recompact.engine.store.runs import BoundaryRow, continuation_rows
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.values.chat import Usage
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes

OUTGREW = "the context before the compaction outgrew the model's window, so there is no PRE to compare: 9 tokens"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "run.db") as opened:
        begin(opened)
        yield opened


def at(task: str, index: int = 1) -> BoundaryId:
    return BoundaryId(f"collect/{task}", index)


@pytest.mark.parametrize(
    ("arm_name", "ending", "error", "reason"),
    [
        ("PRE", "finished", "", ""),
        ("PRE", "step limit", "", ""),
        ("PRE", "context overflow", "9 tokens", OUTGREW),
        ("POST", "context overflow", "9 tokens", ""),
        ("PRE", "environment error", "no disk", "no disk"),
        ("POST", "environment error", "no disk", "no disk"),
        ("POST", "environment error", "", "the environment broke"),
        ("POST", "refused", "no", ""),
    ],
)
def test_a_continuation_says_nothing_where_the_environment_broke_or_pre_overflowed(
    arm_name: str, ending: str, error: str, reason: str
) -> None:
    assert says_nothing(arm_name, ending, error) == reason
    assert says_nothing(arm_name, ending) == ("" if not reason else says_nothing(arm_name, ending, ""))


def test_the_outcome_of_a_continuation_has_the_tokens_of_all_roles() -> None:
    whole = replace(continuation("a", 0.25, 3), usage={"agent": Usage(100, 7), "user": Usage(20, 3)})
    here = Draw(at("a"), "PRE", 0)
    assert outcome_of(here, whole) == Outcome(0.25, 3, 130)
    broken = replace(whole, ending="environment error", error="no disk")
    assert outcome_of(here, broken) == LeftOut("no disk")


def test_outcomes_are_those_of_boundaries_in_play_and_the_first_reason_is_told(store: Store) -> None:
    collect(store, "a", (5, 9))
    collect(store, "b")
    draw(store, "a", 1, "PRE", 0, 1.0, 4, tokens=40)
    draw(store, "a", 1, "POST", 2, 0.25, 6, tokens=60)
    draw(store, "b", 1, "PRE", 0)
    draw(store, "b", 1, "PRE", 1, ending="environment error", error="no disk")
    draw(store, "b", 1, "POST", 1, ending="environment error", error="no network")
    own = Outcomes({0: Outcome(1.0, 4, 40)}, {2: Outcome(0.25, 6, 60)})
    assert outcomes_in(store) == RunOutcomes({at("a"): own, at("a", 2): Outcomes()}, {at("b"): "no disk"})


def test_only_draws_that_the_environment_broke_are_made_anew(store: Store) -> None:
    for task in ("a", "b", "c"):
        collect(store, task)
    draw(store, "a", 1, "PRE", 0, ending="environment error")
    draw(store, "a", 1, "PRE", 1, ending="environment error")
    draw(store, "b", 1, "PRE", 0, ending="context overflow")
    draw(store, "b", 1, "POST", 0, ending="environment error")
    kept = draw(store, "c", 1, "PRE", 0)
    assert retry_left_out(store) == 2
    assert [row.name for row in continuation_rows(store)] == ["continue/b/1/PRE/0", kept]
    assert retry_left_out(store) == 0


def test_settings_are_the_defaults_until_a_run_was_verified(store: Store) -> None:
    assert settings_of(store) == VerifyConfig()
    chosen = VerifyConfig(0.25, 3.0, "halving", {"half": "up"})
    begin(store, verified=chosen)
    assert settings_of(store) == chosen
    store.set_metadata(replace(store.metadata, verified={**asdict(chosen), "half": "up"}))
    with pytest.raises(InputError, match="half"):  # a key of another version: the way out is to verify again
        settings_of(store)


def test_the_digest_tells_runs_apart_but_not_how_far_a_boundary_came_that_was_left_out(tmp_path: Path) -> None:
    def made(name: str, *, pages: int = 3, left_out: str = "b", more: bool = False) -> str:
        with Store.open(tmp_path / f"{name}.db") as store:
            begin(store)
            for task in ("a", "b", "c"):
                collect(store, task)
            draw(store, "a", 1, "PRE", 0, made=[turn(pages)])
            draw(store, left_out, 1, "POST", 0, ending="environment error")
            if more:
                draw(store, left_out, 1, "PRE", 0)
            return digest(store)

    usual = made("usual")
    assert made("same") == usual
    assert made("more", more=True) == usual
    assert made("pages", pages=4) != usual
    assert made("other", left_out="c") != usual


@pytest.mark.parametrize(("step", "steps", "left"), [(5, 20, 15), (19, 20, 1), (20, 20, 1), (5, 7, 2)])
def test_the_rest_of_a_trajectory_is_a_step_at_least(step: int, steps: int, left: int) -> None:
    assert remaining_steps(BoundaryRow("collect/a", 1, "a", step, 2000, 900, steps, True)) == left


def test_names_that_are_wrong_are_answered_with_names_that_are_there(store: Store) -> None:
    def answer(text: str) -> str:
        with pytest.raises(InputError) as raised:
            boundary_named(store, text)
        return str(raised.value).removeprefix(f"{store.path} has ")

    assert answer("a#1").startswith("no boundary 'a#1'; ")
    for task in ("book-1", "book-2", "book-3", "book-4", "letter"):
        collect(store, task, (5, 9) if task == "book-4" else (5,))
    assert answer("zzz") == "no boundary 'zzz'; it has book-1#1, book-2#1, book-3#1 …"
    assert answer("leter#1") == "no boundary 'leter#1'; it has letter#1 …"
    assert re.fullmatch(r"no boundary 'book#1'; it has (book-\d#1(, )?){3} …", answer("book#1"))
    assert answer("book-4") == "no boundary 'book-4'; task 'book-4' has book-4#1, book-4#2"
    assert answer("letter#2") == "no boundary 'letter#2'; task 'letter' has letter#1"
    assert boundary_named(store, "letter") == boundary_named(store, "letter#1") == at("letter")
    assert boundary_named(store, "book-4#2") == at("book-4", 2)


def test_where_boundaries_are_compared_first_draws_come_first_and_the_longest_of_them() -> None:
    rows = {at("a"): BoundaryRow("collect/a", 1, "a", 5, 2000, 900, 20, True)}
    order = _order(rows, Halving())
    assert order(at("a"), 0, Outcomes()) == (0, -15)  # as long as the trajectory went on
    assert order(at("a"), 2, Outcomes(arm((1, 4), (1, 6)))) == (2, -5)
    assert order(at("a"), 1, Outcomes(arm((1, 4)), arm((1, 9)))) == (1, -9)  # of the two arms the longer one


def test_where_each_is_judged_by_itself_what_has_begun_goes_on_and_what_may_take_longest_comes_first() -> None:
    rows = {at("a"): BoundaryRow("collect/a", 1, "a", 5, 2000, 900, 20, True)}
    order = _order(rows, Racing())
    assert order(at("a"), 0, Outcomes()) == (True, -15 * 10)
    assert order(at("a"), 1, Outcomes(arm((1, 4)))) == (False, -4 * 9)
    assert order(at("a"), 1, Outcomes(arm((1, 4)), arm((1, 9)))) == (False, -9 * 8)
