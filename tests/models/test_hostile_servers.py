"""Servers that send too much, elsewhere, or a key back, and calls that cost something and bring no reply."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from loopback import served_app
from models_support import HELLO, client

from recompact.engine.store.store import Store
from recompact.models import failures, openai
from recompact.models.endpoint import RetryPolicy
from recompact.models.limits import Retrying
from recompact.models.shape import Shaped
from recompact.values.chat import Decoding, Reply, Request, Usage, user

KEY = "planted-Key-4711-abcdef"
APIS = ("chat", "responses", "anthropic")
Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def reply_of(api: str, text: str, call: str = "", model: str = "m") -> dict[str, object]:
    """A reply in each API, with a text or, where it is named, a call."""
    counts = {"input_tokens": 7, "output_tokens": 3}
    if api == "chat":
        function = {"id": call, "type": "function", "function": {"name": call, "arguments": json.dumps({"a": call})}}
        message = {"role": "assistant", "content": text, **({"tool_calls": [function]} if call else {})}
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        return {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage, "model": model}
    if api == "responses":
        item: dict[str, object] = {"type": "message", "content": [{"type": "output_text", "text": text}]}
        if call:
            item = {"type": "function_call", "call_id": call, "name": call, "arguments": json.dumps({"a": call})}
        return {"output": [item], "usage": counts, "model": model, "status": "completed"}
    block: dict[str, object] = {"type": "text", "text": text}
    if call:
        block = {"type": "tool_use", "id": call, "name": call, "input": {"a": call}}
    return {"type": "message", "content": [block], "usage": counts, "model": model, "stop_reason": "end_turn"}


def packed_as(coding: str, body: bytes) -> bytes:
    return gzip.compress(body) if coding == "gzip" else zlib.compress(body) if coding == "deflate" else body


def answering(body: bytes, status: int = 200, coding: str = "", **headers: str) -> Answer:
    packing = {"Content-Encoding": coding} if coding else {}

    async def answer(http: web.Request) -> web.Response:
        return web.Response(
            body=body, status=status, headers={"Content-Type": "application/json", **packing, **headers}
        )

    return answer


async def failure_of(url: str, api: str) -> failures.ModelFailure:
    async with client(url, api=api, timeout=30.0) as model:
        with pytest.raises(failures.ModelFailure) as caught:
            await model.reply(HELLO)
    return caught.value


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("coding", ["gzip", "deflate", ""])
def test_an_answer_beyond_its_limit_is_malformed(
    api: str, status: int, coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "MOST_BYTES", 1_000_000)
    body = json.dumps(reply_of(api, "x" * 3_000_000)).encode()
    packed = packed_as(coding, body)
    with served_app(answering(packed, status, coding)) as url:
        failure = asyncio.run(failure_of(url, api))
    assert isinstance(failure, failures.MalformedReply)


def test_an_answer_that_is_packed_twice_or_in_an_unknown_way_is_malformed() -> None:
    for coding in ("gzip, gzip", "br", "zstd"):
        with served_app(answering(gzip.compress(b"{}"), coding=coding)) as url:
            assert isinstance(asyncio.run(failure_of(url, "chat")), failures.MalformedReply)


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("coding", ["gzip", "deflate", "identity"])
def test_an_answer_of_ordinary_size_is_unpacked(api: str, coding: str) -> None:
    body = json.dumps(reply_of(api, "hello " * 1000)).encode()
    packed = packed_as(coding, body)
    with served_app(answering(packed, coding=coding)) as url:

        async def ask() -> Reply:
            async with client(url, api=api) as model:
                return await model.reply(HELLO)

        assert asyncio.run(ask()).message.content == "hello " * 1000


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_prompt_is_not_sent_on_to_another_server(api: str, status: int) -> None:
    received: list[bytes] = []

    async def other(http: web.Request) -> web.Response:
        received.append(await http.read())
        return web.json_response(reply_of(api, "mine"))

    with served_app(other) as target, served_app(answering(b"", status, Location=f"{target}/x")) as url:
        failure = asyncio.run(failure_of(url, api))
    assert isinstance(failure, failures.BadRequest)
    assert received == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("address", ["http:/there", "http:"])
def test_a_prompt_is_not_sent_to_another_port_by_an_address_without_a_host(api: str, address: str) -> None:
    """The HTTP library takes the host from the request then, though not the port."""
    with served_app(answering(b"", 307, Location=address)) as url:
        failure = asyncio.run(failure_of(url, api))
    assert isinstance(failure, failures.BadRequest)
    assert "refused" in str(failure)


def test_a_redirect_to_the_same_server_is_followed() -> None:
    async def answer(http: web.Request) -> web.StreamResponse:
        if http.path != "/v1/there":
            return web.Response(status=308, headers={"Location": "/v1/there"})
        return web.json_response(reply_of("chat", "there"))

    async def ask(url: str) -> str:
        async with client(url) as model:
            return (await model.reply(HELLO)).message.content

    with served_app(answer) as url:
        assert asyncio.run(ask(url)) == "there"


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("where", ["content", "call", "model"])
def test_a_key_in_a_reply_is_taken_out_and_noted(api: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    parts = {"content": (f"the key is {KEY}", ""), "call": ("", KEY), "model": ("hi", "")}[where]
    body = reply_of(api, *parts, model=KEY if where == "model" else "m")

    async def ask(url: str) -> Reply:
        async with client(url, api=api, key_env="PLANTED_KEY") as model:
            return await Shaped(model).reply(HELLO)

    with served_app(answering(json.dumps(body).encode())) as url:
        reply = asyncio.run(ask(url))
    assert KEY not in repr(reply)
    assert len(reply.notes) == 1


ESCAPED = {
    "in Unicode": '{{"path": "{}"}}'.format("".join(f"\\u{ord(each):04x}" for each in KEY)),
    "in part": '{{"path": "{}"}}'.format(KEY.replace("-", "\\u002d")),
    "as a name": '{{"{}": 1}}'.format(KEY.replace("p", "\\u0070")),
    "within": '[{{"a": ["so {} there"]}}]'.format(KEY.replace("4", "\\u0034")),
}


@pytest.mark.parametrize("api", ["chat", "responses"])  # Anthropic's arguments are no text
@pytest.mark.parametrize("way", ESCAPED)
def test_a_key_that_only_the_reader_of_arguments_would_see_is_taken_out(
    api: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    body = json.dumps(reply_of(api, "", "look")).replace(json.dumps('{"a": "look"}'), json.dumps(ESCAPED[way]))
    assert json.loads(ESCAPED[way])
    assert KEY in json.dumps(json.loads(ESCAPED[way]))

    async def ask(url: str) -> Reply:
        async with client(url, api=api, key_env="PLANTED_KEY") as model:
            return await Shaped(model).reply(HELLO)

    with served_app(answering(body.encode())) as url:
        reply = asyncio.run(ask(url))
    arguments = json.loads(reply.message.calls[0].arguments)
    assert KEY not in json.dumps(arguments)
    assert "[key]" in json.dumps(arguments)
    assert len(reply.notes) == 1


def test_arguments_with_escapes_and_without_a_key_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    written = '{ "path":"a\\/b\\u00e9", "path": 1.50 }'
    body = json.dumps(reply_of("chat", "", "look")).replace(json.dumps('{"a": "look"}'), json.dumps(written))

    async def ask(url: str) -> Reply:
        async with client(url, key_env="PLANTED_KEY") as model:
            return await model.reply(HELLO)

    with served_app(answering(body.encode())) as url:
        reply = asyncio.run(ask(url))
    assert (reply.message.calls[0].arguments, reply.notes) == (written, ())


def test_a_word_in_place_of_a_key_and_what_looks_like_one_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", "dummy")
    text = "a dummy, a Bearer token123 and sk-notours4711"

    async def ask(url: str) -> Reply:
        async with client(url, key_env="PLANTED_KEY") as model:
            return await model.reply(HELLO)

    with served_app(answering(json.dumps(reply_of("chat", text)).encode())) as url:
        reply = asyncio.run(ask(url))
    assert (reply.message.content, reply.notes) == (text, ())


REQUEST = Request((user("words " * 50),), (), Decoding(max_output_tokens=40))
BILLED = {"usage": {"prompt_tokens": 60, "completion_tokens": 9}, "choices": []}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BILLED, (60, 9)),  # as the server says
        ({"usage": {"prompt_tokens": 10**9, "completion_tokens": 9}, "choices": []}, (0, 40)),  # impossible
        ({"choices": 3}, (0, 40)),
        ("nonsense", (0, 40)),
    ],
)
def test_what_a_reply_cost_that_cannot_be_read_is_counted(body: object, expected: tuple[int, int]) -> None:
    lost: list[Usage] = []

    async def ask(url: str) -> None:
        async with client(url) as model:
            with pytest.raises(failures.MalformedReply):
                await Retrying(Shaped(model), RetryPolicy(3, 0.001), lost=lost.append).reply(REQUEST)

    with served_app(answering(json.dumps(body).encode())) as url:
        asyncio.run(ask(url))
    assert len(lost) == 3
    tokens_in, tokens_out = expected
    assert all(each.output == tokens_out and (each.input == tokens_in or not tokens_in) for each in lost)
    assert all(each.input > 40 and each.calls == 1 for each in lost)


FAILED = {"error": {"message": "It failed.", "code": 500}}
PRICED = {"usage": {"input_tokens": 60, "output_tokens": 9}}
COMPLETE = reply_of("chat", "Yes.")


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, {**FAILED, **PRICED}, (60, 9)),
        (200, {**COMPLETE, **FAILED, **PRICED}, (60, 9)),
        (200, {**FAILED, "usage": {"prompt_tokens": 10**9, "completion_tokens": 9}}, (0, 40)),  # impossible
        (500, {**FAILED, **PRICED}, (60, 9)),
        (429, {**FAILED, **PRICED}, (60, 9)),
        (504, FAILED, (0, 40)),  # somebody between gave up waiting; the model may have answered
        (500, FAILED, None),
        (500, {**FAILED, "usage": {"input_tokens": 0, "output_tokens": 0}}, None),
    ],
)
@pytest.mark.parametrize("api", APIS)
def test_an_error_that_says_what_it_cost_is_counted(
    status: int, body: object, expected: tuple[int, int] | None, api: str
) -> None:
    lost: list[Usage] = []

    async def ask(url: str) -> None:
        async with client(url, api=api) as model:
            with pytest.raises(failures.ModelFailure):
                await Retrying(Shaped(model), RetryPolicy(2, 0.001), lost=lost.append).reply(REQUEST)

    with served_app(answering(json.dumps(body).encode(), status)) as url:
        asyncio.run(ask(url))
    assert len(lost) == (0 if expected is None else 2)
    tokens_in, tokens_out = expected or (0, 0)
    assert all(each.output == tokens_out and (each.input == tokens_in or not tokens_in) for each in lost)


def test_a_call_that_timed_out_is_counted_by_its_estimate() -> None:
    lost: list[Usage] = []

    async def silent(http: web.Request) -> web.Response:
        await asyncio.sleep(1)
        return web.Response()

    async def ask(url: str) -> None:
        async with client(url, timeout=0.1) as model:
            with pytest.raises(failures.TimedOut):
                await Retrying(Shaped(model), RetryPolicy(2, 0.001), lost=lost.append).reply(REQUEST)

    with served_app(silent) as url:
        asyncio.run(ask(url))
    assert [(each.output, each.calls, each.estimated) for each in lost] == [(40, 1, 1)] * 2


def test_calls_without_a_reply_stay_counted_in_the_run(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db") as store:
        store.note_unanswered("m", Usage(10, 5, calls=1, estimated=1))
        store.note_unanswered("m", Usage(20, 1, calls=1))
    with Store.read(tmp_path / "run.db") as store:
        assert store.spent() == {("m", "unanswered"): Usage(30, 6, calls=2, estimated=1)}
