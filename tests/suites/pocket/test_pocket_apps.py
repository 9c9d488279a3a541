"""The catalogue, and every API of every app: documented, callable, and helpful when called wrongly."""

from __future__ import annotations

import json
from typing import Any

import pytest
from examples import examples
from hypothesis import given, strategies as st
from pocket_playing import SUITE, call, error, log_in, one_of, result

from recompact.suites.pocket import APPS, CATALOGUE, PocketEnvironment, Spec
from recompact.suites.pocket.apps.account import LOGINS
from recompact.suites.pocket.database import contents
from recompact.values.tokens import counter
from recompact.values.trajectory import Action


@pytest.fixture
def world() -> PocketEnvironment:
    """A world in which every kind of record exists."""
    return SUITE.environment(one_of("approve_related"))


def _sensible(world: PocketEnvironment, tokens: dict[str, str], spec: Spec) -> dict[str, Any]:
    """Arguments that work, found as an agent finds them: by listing."""

    def first(app: str, api: str, **arguments: Any) -> str:
        return str(result(world, app, api, token=tokens[app], **arguments)["items"][0]["id"])

    direction = "outgoing" if spec.name == "cancel_request" else "incoming"
    makers: dict[str, Any] = {
        "token": lambda: tokens[spec.app],
        "contact_id": lambda: first("contacts", "list_contacts"),
        "request_id": lambda: first("payments", "list_requests", direction=direction, status="pending"),
        "event_id": lambda: first("calendar", "list_events"),
        "message_id": lambda: first("mail", "list_messages"),
        "file_id": lambda: first("files", "list_files"),
        "email": lambda: "harbor.cycles@shop.example",
        "to": lambda: "harbor.cycles@shop.example",
        "app": lambda: "contacts",
        "api": lambda: "login",
        "end": lambda: "10:30",
        "username": lambda: result(world, "account", "show_profile")[LOGINS[spec.app]],
        "password": lambda: result(world, "account", "show_passwords")[spec.app],
        "query": lambda: "a",
        "folder": lambda: "archive",
    }
    needed = {p.name: p for p in spec.parameters if p.required}
    arguments = {name: makers[name]() if name in makers else p.example for name, p in needed.items()}
    if spec.name.startswith("update_"):
        arguments |= {"phone": "555-1"} if spec.app == "contacts" else {"place": "elsewhere"}
    return arguments


def test_there_are_enough_apis_and_every_one_is_listed_and_documented(world: PocketEnvironment) -> None:
    assert len(CATALOGUE) >= 30
    assert set(result(world, "documentation", "show_apps")) == set(APPS) == {spec.app for spec in CATALOGUE}
    count = counter()
    for app in APPS:
        listed = result(world, "documentation", "show_apis", app=app)
        assert listed == {spec.name: spec.description for spec in CATALOGUE if spec.app == app}
    for spec in CATALOGUE:
        page = call(world, "documentation", "show_api", app=spec.app, api=spec.name)
        document = json.loads(page.text)
        assert document["signature"] == spec.signature
        assert spec.signature.startswith(f"{spec.app}.{spec.name}(")
        assert set(document["parameters"]) == {p.name for p in spec.parameters}
        assert all(name in document["example"]["arguments"] for name in ("token",) if spec.needs_token)
        assert document["returns"]
        assert (40 if spec.app in ("documentation", "account") else 80) <= count(page.text) <= 210, spec.full_name


@pytest.mark.parametrize("spec", CATALOGUE, ids=lambda spec: spec.full_name)
def test_every_api_can_be_called_and_only_those_that_say_so_change_anything(
    world: PocketEnvironment, spec: Spec
) -> None:
    tokens = {app: log_in(world, app) for app in LOGINS}
    arguments = _sensible(world, tokens, spec)
    before = contents(world._db)
    assert result(world, spec.app, spec.name, **arguments) is not None
    assert (contents(world._db) != before) == spec.changes


@pytest.mark.parametrize("spec", [s for s in CATALOGUE if s.parameters], ids=lambda spec: spec.full_name)
def test_every_required_argument_is_asked_for(world: PocketEnvironment, spec: Spec) -> None:
    tokens = {app: log_in(world, app) for app in LOGINS}
    arguments = _sensible(world, tokens, spec)
    for parameter in spec.parameters:
        without = {name: value for name, value in arguments.items() if name != parameter.name}
        if parameter.required:
            text = error(world, spec.app, spec.name, **without)
            assert f"{parameter.name} is missing" in text
            assert ("login" if parameter.name == "token" else spec.signature) in text
        assert f"argument {parameter.name} must be" in error(
            world, spec.app, spec.name, **without, **{parameter.name: [1]}
        )


def _record_errors() -> list[tuple[str, str, dict[str, Any], str]]:
    missing = "nothing has the id 'zzz'"
    return [
        ("contacts", "show_contact", {"contact_id": "zzz"}, missing),
        ("contacts", "update_contact", {"contact_id": "zzz", "phone": "1"}, missing),
        ("contacts", "delete_contact", {"contact_id": "zzz"}, missing),
        ("payments", "approve_request", {"request_id": "zzz"}, missing),
        ("payments", "decline_request", {"request_id": "zzz"}, missing),
        ("payments", "cancel_request", {"request_id": "zzz"}, missing),
        ("payments", "send_money", {"email": "no@body.example", "amount": 1}, "payments.find_user"),
        ("payments", "request_money", {"email": "no@body.example", "amount": 1}, "payments.find_user"),
        ("payments", "send_money", {"email": "harbor.cycles@shop.example", "amount": 1.005}, "two decimals"),
        ("payments", "send_money", {"email": "harbor.cycles@shop.example", "amount": 0}, "from 0.01 to 10000"),
        ("payments", "send_money", {"email": "harbor.cycles@shop.example", "amount": 10000}, "not enough money"),
        ("payments", "list_transactions", {"since": "yesterday"}, "a date like"),
        ("payments", "list_transactions", {"since": "2025-02-30"}, "a date like"),
        ("payments", "list_transactions", {"direction": "both"}, "one of received, sent"),
        ("payments", "list_transactions", {"page_size": 50}, "page_size must be from 1 to 6, not 50"),
        ("payments", "list_transactions", {"page": 99}, "there is no page 99: this list has pages 1 to"),
        ("payments", "list_transactions", {"page": 0}, "there is no page 0"),
        ("payments", "list_transactions", {"after": "2025-01-01"}, "has no argument 'after'; expected payments.list"),
        ("calendar", "show_event", {"event_id": "zzz"}, missing),
        ("calendar", "delete_event", {"event_id": "zzz"}, missing),
        ("calendar", "update_event", {"event_id": "zzz", "place": "x"}, missing),
        ("calendar", "create_event", {"title": "x", "date": "2025-01-01", "start": "9", "end": "10:00"}, "time like"),
        (
            "calendar",
            "create_event",
            {"title": "x", "date": "2025-01-01", "start": "11:00", "end": "10:00"},
            "must end after it starts",
        ),
        ("calendar", "create_event", {"title": " ", "date": "2025-01-01", "start": "09:00", "end": "10:00"}, "empty"),
        ("mail", "read_message", {"message_id": "zzz"}, missing),
        ("mail", "move_message", {"message_id": "zzz", "folder": "archive"}, missing),
        ("mail", "delete_message", {"message_id": "zzz"}, missing),
        ("mail", "send_message", {"to": "a@b.example, c@d.example", "subject": "x", "body": "y"}, "one email address"),
        ("mail", "send_message", {"to": "a@b.example", "subject": "\ud800", "body": "y"}, "valid text"),
        ("files", "read_file", {"file_id": "zzz"}, missing),
        ("files", "append_to_file", {"file_id": "zzz", "text": "x"}, missing),
        ("files", "move_file", {"file_id": "zzz", "folder": "x"}, missing),
        ("files", "delete_file", {"file_id": "zzz"}, missing),
        ("files", "create_file", {"folder": "notes", "name": "Gift ideas.txt", "content": "x"}, "already"),
    ]


@pytest.mark.parametrize(("app", "api", "arguments", "text"), _record_errors())
def test_errors_of_the_apps(world: PocketEnvironment, app: str, api: str, arguments: dict[str, Any], text: str) -> None:
    token = log_in(world, app)
    state = world.snapshot()
    assert text in error(world, app, api, token=token, **arguments)
    assert world.snapshot() == state


def test_errors_that_need_a_record(world: PocketEnvironment) -> None:
    tokens = {app: log_in(world, app) for app in LOGINS}
    pay, mail = {"token": tokens["payments"]}, {"token": tokens["mail"]}
    incoming = result(world, "payments", "list_requests", **pay, direction="incoming", status="pending")["items"]
    outgoing = result(world, "payments", "list_requests", **pay, direction="outgoing", status="pending")["items"]
    result(world, "payments", "approve_request", **pay, request_id=incoming[0]["id"])
    twice = error(world, "payments", "approve_request", **pay, request_id=incoming[0]["id"])
    assert "approved already" in twice
    assert "is outgoing" in error(world, "payments", "decline_request", **pay, request_id=outgoing[0]["id"])
    own = result(world, "account", "show_profile")["email"]
    assert "your own account" in error(world, "payments", "send_money", **pay, email=own, amount=1)
    sent = result(world, "mail", "list_messages", **mail, folder="sent")["items"][0]["id"]
    assert "cannot be moved" in error(world, "mail", "move_message", **mail, message_id=sent, folder="archive")
    contact = result(world, "contacts", "list_contacts", token=tokens["contacts"])["items"][0]
    taken = {"name": "x", "email": contact["email"], "phone": "1", "relationship": "friend"}
    assert "is already contact" in error(world, "contacts", "add_contact", token=tokens["contacts"], **taken)
    nothing = {"token": tokens["contacts"], "contact_id": contact["id"]}
    assert "at least one of" in error(world, "contacts", "update_contact", **nothing)
    event = result(world, "calendar", "list_events", token=tokens["calendar"])["items"][0]["id"]
    assert "at least one of" in error(world, "calendar", "update_event", token=tokens["calendar"], event_id=event)


def test_errors_of_the_counter(world: PocketEnvironment) -> None:
    assert "the apps are: documentation, account" in error(world, "bank", "login")
    assert "did you mean list_transactions?" in error(world, "payments", "list_transaction")
    assert "the apps are" in error(world, "documentation", "show_apis", app="bank")
    assert "it has: login, list_contacts" in error(world, "documentation", "show_api", app="contacts", api="x")
    profile, passwords = result(world, "account", "show_profile"), result(world, "account", "show_passwords")
    assert result(world, "account", "show_passwords", app="mail") == {"mail": passwords["mail"]}
    assert "one of contacts" in error(world, "account", "show_passwords", app="bank")
    by_email = {"username": profile["email"], "password": passwords["contacts"]}
    assert "takes your phone number" in error(world, "contacts", "login", **by_email)
    assert "account.show_passwords" in error(world, "payments", "login", username=profile["email"], password="x")
    wrong = error(world, "payments", "show_balance", token="pay-00000000")
    assert "get one with payments.login" in wrong


def test_errors_of_the_tools(world: PocketEnvironment) -> None:
    for action, text in (
        (Action("pay", {}), "the tools are call_api and finish"),
        (Action("", {}, "hello"), "the tools are call_api and finish"),
        (Action("call_api", {"api": "login"}), "call_api needs app"),
        (Action("call_api", {"app": "mail"}), "call_api needs api"),
        (Action("call_api", {"app": "mail", "api": "login", "username": "x"}), "put it inside arguments"),
        (Action("call_api", {"app": "mail", "api": "login", "arguments": "x"}), "must be a JSON object"),
        (Action("call_api", {"app": 10**5000, "api": "login"}), "there is no app that number"),
        (Action("call_api", {"app": 3, "api": "login"}), "there is no app 3"),
        (Action("call_api", {"app": "mail", "api": None}), "mail has no API None"),
        (Action("finish", {"result": "x"}), "finish takes answer only"),
        (Action("finish", {"answer": ["x"]}), "answer must be a string"),
    ):
        observation = world.step(action)
        assert observation.error
        assert not observation.done
        assert text in json.loads(observation.text)["error"]


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("2025-05-01"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
_names = st.sampled_from(sorted({p.name for spec in CATALOGUE for p in spec.parameters})) | st.text()
_GARBAGE_WORLD = SUITE.environment(one_of("approve_related"))
_TOKENS = {app: log_in(_GARBAGE_WORLD, app) for app in LOGINS}
_READY = _GARBAGE_WORLD.snapshot()


@examples(300)
@given(
    st.sampled_from(CATALOGUE),
    st.dictionaries(_names, _values, max_size=6),
    st.booleans(),
    st.one_of(st.none(), _values),
)
def test_garbage_never_raises_and_never_changes_anything_when_refused(
    spec: Spec, arguments: dict[str, Any], with_token: bool, instead: Any
) -> None:
    world = _GARBAGE_WORLD
    world.restore(_READY)
    if with_token and spec.needs_token:
        arguments = {**arguments, "token": _TOKENS[spec.app]}
    given_arguments = arguments if instead is None else instead
    observation = world.step(Action("call_api", {"app": spec.app, "api": spec.name, "arguments": given_arguments}))
    observation.text.encode("utf-8")
    assert (list(json.loads(observation.text)) == ["error"]) == observation.error
    if observation.error:
        assert world.snapshot() == _READY


@examples(100)
@given(st.text(), st.dictionaries(st.sampled_from(("app", "api", "arguments", "answer")) | st.text(), _values))
def test_garbage_tools_never_raise(name: str, arguments: dict[str, Any]) -> None:
    world = _GARBAGE_WORLD
    for tool in (name, "call_api", "finish"):
        world.restore(_READY)
        observation = world.step(Action(tool, arguments))
        observation.text.encode("utf-8")
        if observation.error:
            assert world.snapshot() == _READY
        world.score()
