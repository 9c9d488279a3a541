"""Snapshots, determinism and the course of an episode."""

from __future__ import annotations

import json

from pocket_playing import SUITE, call, error, log_in, one_of, result

from recompact.environments.protocol import Observation
from recompact.suites.pocket import BY_NAME, TOKEN, PocketEnvironment, play
from recompact.suites.pocket.environment import pristine
from recompact.values.trajectory import Action


def _played(family: str) -> tuple[PocketEnvironment, list[Action], list[Observation]]:
    task = one_of(family)
    environment = SUITE.environment(task)
    steps = play(environment, BY_NAME[family].solve, task.data["parameters"], thorough=True).steps
    return environment, [action for action, _ in steps], [observation for _, observation in steps]


def test_the_same_actions_give_the_same_observations_from_every_snapshot() -> None:
    for family in BY_NAME:
        environment, actions, seen = _played(family)
        environment.start()
        states = []
        for action in actions:
            states.append(environment.snapshot())
            environment.step(action)
        for index in (0, len(actions) // 2, len(actions) - 1):
            other = SUITE.environment(one_of(family))  # another instance of the same task
            other.restore(states[index])
            assert [other.step(action) for action in actions[index:]] == seen[index:]
            assert other.score() == environment.score()
            assert other.score().success
            assert other.snapshot() == environment.snapshot()


def test_branches_do_not_touch_each_other() -> None:
    environment = SUITE.environment(one_of("trip_debts"))
    environment.start()
    token = log_in(environment, "payments")
    state = environment.snapshot()
    balance = result(environment, "payments", "show_balance", token=token)["balance"]
    branches = [SUITE.environment(one_of("trip_debts")) for _ in range(2)]
    for amount, branch in zip((5, 7), branches, strict=True):
        branch.restore(state)
        result(branch, "payments", "send_money", token=token, email="piet.the.baker@shop.example", amount=amount)
    nested = branches[1].snapshot()
    result(branches[1], "payments", "send_money", token=token, email="piet.the.baker@shop.example", amount=1)
    balances = [result(b, "payments", "show_balance", token=token)["balance"] for b in (environment, *branches)]
    assert balances == [balance, round(balance - 5, 2), round(balance - 8, 2)]
    environment.restore(nested)
    assert result(environment, "payments", "show_balance", token=token)["balance"] == round(balance - 7, 2)
    environment.restore(state)
    assert environment.snapshot() == state


def test_a_finished_episode_stays_finished_in_its_snapshot() -> None:
    environment, _, _ = _played("contact_detail")
    other = SUITE.environment(one_of("contact_detail"))
    other.restore(environment.snapshot())
    assert other.score().success
    late = other.step(Action("finish", {"answer": "something else"}))
    assert late.done
    assert late.error
    assert other.score().success


def test_worlds_are_made_from_the_seed_alone() -> None:
    task = one_of("party_shares")
    first = pristine(task.data["seed"], task.data["family"])
    pristine.cache_clear()
    assert pristine(task.data["seed"], task.data["family"]) == first
    assert pristine("another seed", task.data["family"]) != first


def test_snapshots_are_small() -> None:
    assert len(SUITE.environment(one_of("approve_related")).snapshot()) < 120_000


def test_every_login_gives_a_new_token_and_the_old_ones_stay_valid() -> None:
    environment = SUITE.environment(one_of("event_time"))
    first, second = log_in(environment, "calendar"), log_in(environment, "calendar")
    again = SUITE.environment(one_of("event_time"))
    assert (log_in(again, "calendar"), log_in(again, "calendar")) == (first, second)
    assert first != second
    for token in (first, second):
        assert TOKEN.fullmatch(token)
        result(environment, "calendar", "list_events", token=token)
    assert "not valid for mail" in error(environment, "mail", "list_messages", token=first)


def test_results_are_compact_json() -> None:
    environment = SUITE.environment(one_of("event_time"))
    text = call(environment, "account", "show_profile").text
    assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


def test_arguments_may_be_left_out_or_written_as_text() -> None:
    environment = SUITE.environment(one_of("event_time"))
    described = result(environment, "documentation", "show_apis", app="mail")
    call_as_text = {"app": "documentation", "api": "show_apis", "arguments": '{"app": "mail"}'}
    assert json.loads(environment.step(Action("call_api", call_as_text)).text) == described
    assert not environment.step(Action("call_api", {"app": "account", "api": "show_profile"})).error


def test_a_number_is_a_fine_answer() -> None:
    task = one_of("received_since")
    environment = SUITE.environment(task)
    right = play(environment, BY_NAME["received_since"].solve, task.data["parameters"]).steps[-1][0]
    environment.start()
    environment.step(Action("finish", {"answer": float(right.arguments["answer"])}))
    assert environment.score().success
