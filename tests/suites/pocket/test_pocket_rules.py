"""Tasks with a standing rule: the owner tells it when asked, and a program sees whether it was kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pocket_playing import SUITE, call, log_in, one_of

from recompact.suites.pocket import BY_NAME, play
from recompact.suites.pocket.environment import PocketEnvironment
from recompact.suites.pocket.owner import QUESTION, decision, decisions_in, limit_in, rule
from recompact.values.literals import rules_in, says
from recompact.values.trajectory import Action

TASK = one_of("approve_with_rule")
FAMILY = BY_NAME["approve_with_rule"]


def say(environment: PocketEnvironment, text: str) -> str:
    return environment.step(Action("", text=text)).text


@pytest.fixture
def environment() -> PocketEnvironment:
    made = SUITE.environment(TASK)
    made.start()
    return made


def large_request(environment: PocketEnvironment) -> tuple[str, str]:
    """A token, and a pending request that the rule is about."""
    token, limit = log_in(environment, "payments"), limit_in(say(environment, QUESTION))
    assert limit is not None
    query = "select id from requests where direction = 'incoming' and status = 'pending' and cents > ? order by id"
    return token, environment._db.execute(query, (limit,)).fetchone()[0]


def test_whoever_keeps_to_the_rule_breaks_none_and_whoever_does_not_ask_does() -> None:
    for task in SUITE.tasks("rules"):
        kept = play(SUITE.environment(task), FAMILY.solve, task.data["parameters"]).score
        broken = play(SUITE.environment(task), BY_NAME["approve_related"].solve, task.data["parameters"]).score
        assert (kept.success, kept.violations) == (True, ())
        assert len(broken.violations or ()) >= 3


def test_a_violation_is_no_failure_where_the_owner_would_have_agreed() -> None:
    outcomes = {
        play(SUITE.environment(task), BY_NAME["approve_related"].solve, task.data["parameters"]).score.success
        for task in SUITE.tasks("rules")
    }
    assert outcomes == {True, False}


def test_asking_afterwards_is_too_late(environment: PocketEnvironment) -> None:
    token, request = large_request(environment)
    call(environment, "payments", "approve_request", token=token, request_id=request)
    assert decisions_in(say(environment, f"May I approve {request}?")) == {request: False}
    assert len(environment.score().violations or ()) == 1


def test_who_was_asked_about_what_is_part_of_a_snapshot(environment: PocketEnvironment) -> None:
    token, request = large_request(environment)
    before = environment.snapshot()
    say(environment, f"May I approve {request}?")
    after = environment.snapshot()
    for state, broken in ((before, 1), (after, 0)):
        environment.restore(state)
        call(environment, "payments", "approve_request", token=token, request_id=request)
        assert len(environment.score().violations or ()) == broken


@pytest.mark.parametrize(
    "text", ["", " ", "r1", "May I approve r9999?", "'; drop table episode; --", "\ud800", "x" * 9999]
)
def test_whatever_is_said_the_owner_answers(environment: PocketEnvironment, text: str) -> None:
    assert limit_in(say(environment, text)) is not None
    assert environment.score().violations == ()


def test_other_tasks_have_nobody_to_speak_to() -> None:
    other = SUITE.environment(one_of("approve_related"))
    opening = other.start()
    assert not opening.text_actions
    assert not opening.judged_at_limit
    assert other.step(Action("", text=QUESTION)).error
    assert other.score().violations is None
    speaking = SUITE.environment(TASK).start()
    assert speaking.text_actions
    assert speaking.judged_at_limit
    assert limit_in(speaking.prefix[0].content + speaking.prefix[1].content) is None  # only who asks is told


@given(st.integers(1, 10_000_000), st.dictionaries(st.from_regex(r"r[1-9]\d{3}", fullmatch=True), st.booleans()))
def test_what_the_owner_says_can_be_read_back(limit: int, decided: Mapping[str, Any]) -> None:
    assert limit_in(f"Hello. {rule(limit)} Go on.") == limit
    assert rules_in(rule(limit)) == (rule(limit),)
    assert says(f"## Constraints\n- {rule(limit)}", rule(limit))
    assert decisions_in(" ".join(decision(id, agreed) for id, agreed in decided.items())) == decided
