"""What models were asked: kept once, rebuilt exactly, and refused where it is not what was sent."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from examples import examples
from hypothesis import given, strategies as st
from run_files import change_rows

from recompact.engine.config import Config, SuiteConfig
from recompact.engine.store.calls import kept_request
from recompact.engine.store.packing import pack, unpack
from recompact.engine.store.store import Store, StoreError
from recompact.models.journal import UnitCalls
from recompact.values.chat import Decoding, Message, Reply, Request, ToolCall, ToolSpec, assistant, system, user

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
    st.none() | st.integers(0, 3),  # a seed that the caller gives is replaced by the one of its unit
)


@examples(60)
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
        sizes = [len(row["asked"]) for row in store._rows("SELECT asked FROM calls ORDER BY ordinal")]
        last = kept_request(store, "u", 29)
    assert sizes == [9 + 4 * 32, *[9 + 32] * 29]  # tools, settings and two messages; then the new message alone
    assert last is not None
    assert last.decoding == replace(DECODING, seed=last.decoding.seed)


def test_a_unit_that_is_resumed_keeps_what_it_asks_then(tmp_path: Path) -> None:
    """What an earlier process asked is no base for a later one, which may not have it."""
    sent = [("agent", Request(conversation(*"abcdef"[:n]))) for n in range(1, 6)]
    with claimed(tmp_path / "run.db") as store:
        ask(store, "u", sent[:2])
        change_rows(store, "UPDATE calls SET asked = NULL")  # as an older version leaves it
        ask(store, "u", sent)
        kept = [kept_request(store, "u", ordinal) for ordinal in range(5)]
    assert kept[:2] == [None, None]
    assert [len(each.messages) for each in kept[2:] if each] == [4, 5, 6]


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE calls SET asked = x'00' WHERE ordinal = 2",
        "UPDATE calls SET asked = 1000000000000 WHERE ordinal = 2",
        "UPDATE calls SET asked = x'000000020000000000' WHERE ordinal = 2",
        "UPDATE calls SET asked = x'0000000900000001ff' WHERE ordinal = 2",
        "UPDATE calls SET asked = substr(asked, 1, length(asked) - 32) WHERE ordinal = 2",
        "UPDATE calls SET asked = (SELECT asked FROM calls WHERE ordinal = 1) WHERE ordinal = 2",
        "UPDATE calls SET asked = NULL WHERE ordinal = 0",
        "DELETE FROM calls WHERE ordinal = 1",
        "UPDATE calls SET request = 10000000000000 WHERE ordinal = 2",
        "UPDATE calls SET request = x'00' WHERE ordinal = 2",
    ],
)
def test_what_is_not_what_was_sent_is_refused(tmp_path: Path, damage: str) -> None:
    with claimed(tmp_path / "run.db") as store:
        ask(store, "u", [("agent", Request(conversation(*"abc"[:n]), TOOLS, DECODING)) for n in (1, 2, 3)])
        assert kept_request(store, "u", 2) is not None
        change_rows(store, damage)
        with pytest.raises(StoreError):
            kept_request(store, "u", 2)


@examples(100)
@given(st.binary(max_size=3000), st.lists(st.binary(max_size=2000), max_size=5), st.booleans())
def test_a_text_that_leans_on_others_comes_back(raw: bytes, others: list[bytes], repeats: bool) -> None:
    keys = {hashlib.sha256(text).digest(): text for text in others}
    texts = {key[:8]: pack(text, lambda name: None) for key, text in keys.items()}
    whole = b"".join(others) + raw if repeats else raw
    codec, data = pack(whole, texts.get, list(keys))
    assert unpack(codec, data, texts.get) == whole
    if codec == 2:
        assert len(data) < len(pack(whole, texts.get)[1])
        assert unpack(codec, data, lambda name: None) is None  # one that it leans on is gone


def test_a_prompt_that_repeats_a_conversation_costs_little(tmp_path: Path) -> None:
    chance = Random(1)
    turns = [f"observation {chance.randbytes(300).hex()}" for _ in range(12)]
    prompt = Request((system("Summarize."), user("\n\n".join(turns))))
    with claimed(tmp_path / "run.db") as store:
        ask(store, "u", [("agent", Request(conversation(*turns))), ("compressor", prompt)])
        kept = kept_request(store, "u", 1)
        assert kept is not None
        assert kept.message(store, 1) == prompt.messages[1]
        (row,) = store._rows("SELECT codec, length(data) AS n FROM texts WHERE hash = ?", (kept.messages[1],))
    assert row["codec"] == 2
    assert row["n"] < 600
