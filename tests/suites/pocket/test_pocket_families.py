"""Every task of every family: the oracle passes, doing nothing and every wrong way fails, the request can be read."""

from __future__ import annotations

import json

import pytest
from pocket_playing import SUITE, TASKS, of_family

from recompact.suites.pocket import CATALOGUE, FAMILIES, RULED, Family, parse, play, read_task_message
from recompact.values.tokens import counter
from recompact.values.trajectory import Action

every_family = pytest.mark.parametrize("family", [*FAMILIES, *RULED], ids=lambda family: family.name)
CHANGING = {spec.full_name for spec in CATALOGUE if spec.changes}
CALLS = {"easy": (4, 8), "medium": (12, 36), "hard": (18, 36)}
TOKENS = {"easy": (600, 2000), "medium": (2300, 6000), "hard": (3300, 10000)}


@every_family
def test_the_oracle_passes_and_every_wrong_way_fails(family: Family) -> None:
    for task in of_family(family.name):
        environment = SUITE.environment(task)
        parameters = task.data["parameters"]
        right = play(environment, family.solve, parameters)
        assert right.score.success, (task.id, right.score.details)
        assert not any(observation.error for _, observation in right.steps)
        mutations = [json.dumps(action.to_json()) for action, _ in right.steps if _changes(action)]
        assert len(mutations) == len(set(mutations)), "a mutation done must be told from one still to do"
        for name, plan in family.wrong.items():
            assert not play(environment, plan, parameters).score.success, (task.id, name)
        for guess in (None, "0", "", "done"):
            idle = play(environment, lambda _, __, guess=guess: guess, parameters)  # type: ignore[misc]
            assert not idle.score.success, (task.id, guess)
        environment.close()


def _changes(action: Action) -> bool:
    return f"{action.arguments.get('app')}.{action.arguments.get('api')}" in CHANGING


@every_family
def test_an_unfinished_episode_fails(family: Family) -> None:
    environment = SUITE.environment(of_family(family.name)[0])
    environment.start()
    assert not environment.score().success
    assert environment.score().details["problems"] == ["the task was not finished"]


@every_family
def test_what_was_not_asked_for_fails(family: Family) -> None:
    """The right plan, with one harmless-looking extra deed before it."""
    task = of_family(family.name)[0]
    extras = (
        ("contacts", "add_contact", {"name": "A B", "email": "a@b.example", "phone": "1", "relationship": "friend"}),
        ("calendar", "create_event", {"title": "x", "date": "2025-01-01", "start": "01:00", "end": "02:00"}),
        ("mail", "send_message", {"to": "a@b.example", "subject": "x", "body": "y"}),
        ("files", "create_file", {"folder": "notes", "name": "x", "content": "y"}),
        ("payments", "send_money", {"email": "marigold.books@shop.example", "amount": 1}),
    )
    for app, name, arguments in extras:

        def plan(api, parameters, app=app, name=name, arguments=arguments):  # type: ignore[no-untyped-def]
            api.call(app, name, **arguments)
            return family.solve(api, parameters)

        assert not play(SUITE.environment(task), plan, task.data["parameters"]).score.success, name


@every_family
def test_a_family_names_enough_wrong_ways_and_only_its_apps(family: Family) -> None:
    assert len(family.wrong) >= 3
    assert not family.tempting or family.tempting in family.wrong
    assert 2 <= len(family.phrasings) <= 4
    task = of_family(family.name)[0]
    steps = play(SUITE.environment(task), family.solve, task.data["parameters"]).steps
    used = {action.arguments["app"] for action, _ in steps if action.name == "call_api"}
    assert used - {"account"} == set(family.apps)


@every_family
def test_effort(family: Family) -> None:
    """Calls of somebody who knows no API beforehand, `show_apis` aside, and the size of the history."""
    count = counter()
    low, high = CALLS[family.difficulty]
    for task in of_family(family.name)[:6]:
        steps = play(SUITE.environment(task), family.solve, task.data["parameters"], thorough=True).steps
        calls = sum(action.arguments.get("api") != "show_apis" for action, _ in steps)
        assert low <= calls <= high, (task.id, calls)
        size = sum(count(json.dumps(action.to_json())) + count(observation.text) for action, observation in steps)
        assert TOKENS[family.difficulty][0] <= size <= TOKENS[family.difficulty][1], (task.id, size)
        assert max(count(observation.text) for _, observation in steps) <= 440


def test_requests_can_be_read_back() -> None:
    for task in TASKS:
        read = parse(task.text)
        assert read is not None, task.text
        assert (read[0].name, read[1]) == (task.groups["family"], task.data["parameters"])
        asked = read_task_message(SUITE.prefix(task)[-1].content)
        assert asked is not None
        assert asked[1] == task.text
    assert parse("What is the meaning of life?") is None
    assert read_task_message("Good morning.") is None


def test_requests_never_give_an_id_away() -> None:
    from recompact.suites.pocket import RECORD_ID, TOKEN

    assert not any(RECORD_ID.search(task.text) or TOKEN.search(task.text) for task in TASKS)


def test_phrasings_vary() -> None:
    for family in FAMILIES:
        shapes = {
            next(i for i, pattern in enumerate(family._patterns) if pattern.fullmatch(task.text))
            for task in of_family(family.name)
        }
        assert shapes == set(range(len(family.phrasings))), family.name
