"""What models were asked: kept once, rebuilt exactly, and refused where it is not what was sent."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from recompact.chat import Decoding, Message, Reply, Request, ToolCall, ToolSpec, assistant, system, user
from recompact.config import Config, SuiteConfig
from recompact.models.journal import UnitCalls
from recompact.store.requests import kept_request
from recompact.store.schema import MIGRATIONS
from recompact.store.store import Store, StoreError

TOOLS = (ToolSpec("look", "Looks.", {"type": "object", "properties": {"page": {"type": "integer"}}}),)
DECODING = Decoding(2048, 0.7, stop=("END",), response_schema={"type": "object"})


class Echo:
    """A model that repeats the last message."""

    name = "echo"

    async def reply(self, request: Request) -> Reply:
        return Reply(assistant(request.messages[-1].content))


def claimed(path: Path) -> Store:
    store = Store.open(path)
    identity = Config(suite=SuiteConfig(use="office")).identity()
    store.set_metadata(replace(store.metadata, identity=identity))
    return store


def ask(store: Store, unit: str, requests: list[tuple[str, Request]]) -> None:
    calls = UnitCalls(store, unit, store.metadata.seed)

    async def play() -> None:
        for role, request in requests:
            await calls.bound(Echo(), role).reply(request)

    asyncio.run(play())


def conversation(*texts: str) -> tuple[Message, ...]:
    return (system("Be brief."), *(user(text) for text in texts))


messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "tool"]),
    st.text(max_size=400),
    st.lists(st.builds(ToolCall, st.text(max_size=3), st.text(max_size=3), st.text(max_size=9)), max_size=2).map(tuple),
)
requests = st.builds(
    lambda texts, kept, tools, seed: (tuple(texts), kept, TOOLS if tools else (), Decoding(seed=seed)),
    st.lists(messages, max_size=6),
    st.integers(0, 8),
    st.booleans(),
    st.none(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["agent", "compressor"]), requests), min_size=1, max_size=8))
def test_every_request_comes_back_word_for_word(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]
) -> None:
    """Whatever a conversation shares with the one before it, in either role."""
    sent: list[tuple[str, Request]] = []
    last: dict[str, tuple[Message, ...]] = {}
    for role, (new, kept, tools, decoding) in steps:
        last[role] = (*last.get(role, ())[:kept], *new) or (user("nothing"),)
        sent.append((role, Request(last[role], tools, decoding)))
    with claimed(tmp_path_factory.mktemp("run") / "run.db") as store:
        ask(store, "collect/a", sent)
        for ordinal, (_, request) in enumerate(sent):
            kept_one = kept_request(store, "collect/a", ordinal)
            assert kept_one is not None
            read = tuple(kept_one.message(store, n) for n in range(len(kept_one.messages)))
            assert (read, kept_one.tools) == (request.messages, request.tools)


def test_a_conversation_that_grows_is_written_once(tmp_path: Path) -> None:
    texts = [f"observation {n} " + "x" * 500 for n in range(30)]
    with claimed(tmp_path / "run.db") as store:
        ask(store, "u", [("agent", Request(conversation(*texts[:n]), TOOLS, DECODING)) for n in range(1, 31)])
        sizes = [len(row["messages"]) for row in store._rows("SELECT messages FROM requests ORDER BY ordinal")]
        last = kept_request(store, "u", 29)
    assert sizes == [64, *[32] * 29]
    assert last is not None
    assert last.decoding == replace(DECODING, seed=last.decoding.seed)


def test_a_unit_that_is_resumed_keeps_what_it_asks_then(tmp_path: Path) -> None:
    """What an earlier process asked is no base for a later one, which may not have it."""
    sent = [("agent", Request(conversation(*"abcdef"[:n]))) for n in range(1, 6)]
    with claimed(tmp_path / "run.db") as store:
        ask(store, "u", sent[:2])
        with store.transaction():
            store._db.execute("DELETE FROM requests")  # as an older version leaves it
        ask(store, "u", sent)
        kept = [kept_request(store, "u", ordinal) for ordinal in range(5)]
    assert kept[:2] == [None, None]
    assert [len(each.messages) for each in kept[2:] if each] == [4, 5, 6]


def test_calls_that_are_dropped_take_their_requests_along(tmp_path: Path) -> None:
    with claimed(tmp_path / "run.db") as store:
        ask(store, "u", [("agent", Request(conversation(*"abc"[:n]))) for n in (1, 2, 3)])
        store.forget("u", 1)
        assert [row["ordinal"] for row in store._rows("SELECT ordinal FROM requests")] == [0]
        store.forget_units(["u"])
        assert store._rows("SELECT ordinal FROM requests") == []


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE requests SET shared = 1 WHERE ordinal = 2",
        "UPDATE requests SET base = 2 WHERE ordinal = 2",
        "UPDATE requests SET base = 'x' WHERE ordinal = 2",
        "UPDATE requests SET messages = x'00' WHERE ordinal = 2",
        "UPDATE requests SET messages = 7 WHERE ordinal = 2",
        "UPDATE requests SET decoding = x'00' WHERE ordinal = 2",
        "UPDATE requests SET tools = decoding WHERE ordinal = 2",
        "DELETE FROM requests WHERE ordinal = 1",
        "UPDATE calls SET request = x'00' WHERE ordinal = 2",
    ],
)
def test_what_is_not_what_was_sent_is_refused(tmp_path: Path, damage: str) -> None:
    with claimed(tmp_path / "run.db") as store:
        ask(store, "u", [("agent", Request(conversation(*"abc"[:n]), TOOLS, DECODING)) for n in (1, 2, 3)])
        assert kept_request(store, "u", 2) is not None
        with store.transaction():
            store._db.execute(damage)
        with pytest.raises(StoreError):
            kept_request(store, "u", 2)


def test_a_file_of_the_version_before_is_read_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with claimed(path) as store:
        ask(store, "u", [("agent", Request(conversation("a")))])
    connection = sqlite3.connect(path, isolation_level=None)
    for thing in ("TABLE requests", "TABLE harms", "VIEW effects", "TRIGGER continuation_added"):
        connection.execute(f"DROP {thing}")
    connection.execute("DROP TRIGGER continuation_removed")
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    with Store.read(path) as store:
        assert kept_request(store, "u", 0) is None
        assert store._rows("PRAGMA user_version")[0][0] == 3
    with Store.open(path) as store:
        assert store._rows("PRAGMA user_version")[0][0] == len(MIGRATIONS)
        assert kept_request(store, "u", 0) is None
