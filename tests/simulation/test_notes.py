"""What the simulated models read and write as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from recompact.simulation.notes import (
    SPECS,
    Event,
    argument_key,
    events_of,
    is_page,
    read_notes,
    write_call,
    write_list,
    write_result,
    write_signature,
)
from recompact.suites.pocket import BY_NAME, PocketSuite, play
from recompact.values.chat import Message, ToolCall, assistant

SUITE = PocketSuite()


def reads(task: Any) -> list[Event]:
    """What the oracle of a task looks up."""
    family = BY_NAME[task.groups["family"]]
    events = []
    for action, observation in play(SUITE.environment(task), family.solve, task.data["parameters"]).steps:
        if action.name == "call_api":
            given = action.arguments
            event = Event(given["app"], given["api"], argument_key(given["arguments"]), json.loads(observation.text))
            if not event.changes and event.app != "account" and event.api != "login":
                events.append(event)
    return events


@pytest.mark.parametrize("family", sorted(BY_NAME))
def test_every_result_that_a_plan_needs_can_be_written_down_and_read_back(family: str) -> None:
    for task in [t for t in SUITE.tasks("train") if t.groups["family"] == family][:3]:
        lists: dict[tuple[str, str], list[Event]] = {}
        for event in reads(task):
            if is_page(event.result):
                given = {k: v for k, v in event.given.items() if k != "page"}
                lists.setdefault((event.name, argument_key(given)), []).append(event)
            elif len(json.dumps(event.result)) < 120:
                assert read_notes(write_result(event)).results[event.name, event.arguments] == event.result
        for (name, arguments), events in lists.items():
            notes = read_notes(write_list(name, json.loads(arguments), [e.result for e in events]))
            for event in events:
                items = [{k: v for k, v in row.items() if k != "preview"} for row in event.result["items"]]
                assert notes.results[name, event.arguments] == {**event.result, "items": items}


@pytest.mark.parametrize("family", sorted({task.groups["family"] for task in SUITE.tasks("train")}))
def test_a_plan_that_runs_on_written_notes_alone_comes_to_the_same_end(family: str) -> None:
    """Tables with constants factored out and texts cut to what matters still carry what the plan needs."""
    task = next(t for t in SUITE.tasks("train") if t.groups["family"] == family)
    plan, parameters = BY_NAME[family].solve, task.data["parameters"]
    text: list[str] = []
    lists: dict[tuple[str, str], list[Event]] = {}
    for event in reads(task):
        if is_page(event.result):
            given = {k: v for k, v in event.given.items() if k != "page"}
            lists.setdefault((event.name, argument_key(given)), []).append(event)
        else:
            text.append(write_result(event))
    text += [write_list(name, json.loads(given), [e.result for e in events]) for (name, given), events in lists.items()]
    notes = read_notes("\n".join(text))

    class FromNotes:
        def __init__(self) -> None:
            self.calls: list[str] = []

        def call(self, app: str, name: str, /, **arguments: Any) -> Any:
            full = f"{app}.{name}"
            if SPECS[full].changes:
                self.calls.append(write_call(full, arguments))
                return {}
            return notes.results[full, argument_key(arguments)]

    api = FromNotes()
    answer = plan(api, parameters)
    played = play(SUITE.environment(task), plan, parameters)
    calls = [a.arguments for a, _ in played.steps if a.name == "call_api"]
    expected = [
        write_call(f"{c['app']}.{c['api']}", c["arguments"]) for c in calls if SPECS[f"{c['app']}.{c['api']}"].changes
    ]
    assert api.calls == expected
    assert played.steps[-1][0].arguments["answer"] == (answer if answer is not None else "done")


@pytest.mark.parametrize(
    "rows", [[], [{"id": "t1", "amount": 2.5}], [{"amount": 2.5}] * 3, [{"id": "t1"}, {"id": "t2"}]]
)
def test_lists_of_any_shape_come_back(rows: list[dict[str, Any]]) -> None:
    page = {"items": rows, "page": 1, "pages": 1, "total": len(rows)}
    text = "before\n" + write_list("payments.list_transactions", {}, [page]) + "\n- after"
    assert read_notes(text).results["payments.list_transactions", argument_key({})] == page


def test_signatures_are_recognised_only_where_all_that_is_required_stands() -> None:
    for name, spec in SPECS.items():
        assert name in read_notes(f"Use {write_signature(spec)} for this.").signatures
    partial = read_notes("payments.send_money(token, amount) was looked up")
    assert "payments.send_money" in partial.names
    assert "payments.send_money" not in partial.signatures


@pytest.mark.parametrize(
    ("line", "done"),
    [
        ('- [x] payments.send_money(amount=12.5, email="ann@post.example", note="trip")', True),
        ("- Sent: payments.send_money of 12.5 to ann@post.example for trip", True),
        ('- [ ] payments.send_money(amount=12.5, email="ann@post.example", note="trip")', False),
        ('- [x] payments.send_money(amount=99, email="ann@post.example", note="trip")', False),
        ("- [x] Some of the changes were made.", False),
    ],
)
def test_a_change_counts_as_done_only_where_that_very_one_is_reported(line: str, done: bool) -> None:
    given = {"email": "ann@post.example", "amount": 12.5, "note": "trip"}
    assert read_notes(line).says_done("payments.send_money", given) is done


def test_tokens_and_passwords() -> None:
    notes = read_notes("- payments token: pay-521d6d4b\n- Passwords: contacts d46b9f, mail r0e671\npassword: unknown")
    assert notes.tokens == {"payments": "pay-521d6d4b"}
    assert notes.passwords == {"contacts": "d46b9f", "mail": "r0e671"}
    assert read_notes("contacts.login(username, password)").passwords == {}


@given(st.text(max_size=600))
def test_any_text_can_be_read(text: str) -> None:
    read_notes(text)


def test_a_masked_result_is_no_error_and_a_masked_change_was_made() -> None:
    calls = [
        ToolCall("1", "call_api", '{"app": "files", "api": "list_files", "arguments": {}}'),
        ToolCall("2", "call_api", '{"app": "payments", "api": "send_money", "arguments": {"amount": 5}}'),
    ]
    line = "[The result of call_api, 900 characters, was left out.]"
    messages = (assistant("", *calls), *(Message("tool", line, call_id=call.id) for call in calls))
    assert [(event.name, event.error) for event in events_of(messages)] == [("payments.send_money", "")]
