"""The server as other programs see it: raw bytes, the openai package with and without streaming, counts, faults."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from models_support import ANSWER, CONVERSATION, HELLO, Scripted, client, says
from openai import AsyncOpenAI
from sim_faults import KINDS, LASTING, TRANSIENT, Faults
from sim_server import Server, serve

from recompact.errors import InputError
from recompact.models.endpoint import Endpoint
from recompact.models.failures import ModelFailure
from recompact.models.openai_wire import chat_body, responses_body
from recompact.values.chat import Decoding, Reply, Request, Usage, assistant, user

LONG = Reply(assistant("Das Ergebnis: “" + "äöü " * 100 + "”"), Usage(9, 8))


async def post(server: Server, path: str, body: object, **headers: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with session.post(server.base_url + path, data=data, headers=headers) as response:
            return response.status, await response.read()


def sdk(server: Server) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=server.base_url, api_key="any", max_retries=0)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", chat_body(Endpoint("sim"), CONVERSATION)),
        ("/responses", responses_body(Endpoint("sim"), CONVERSATION)),
        ("/chat/completions", {**chat_body(Endpoint("sim"), CONVERSATION), "stream": True}),
        ("/responses", {**responses_body(Endpoint("sim"), CONVERSATION), "stream": True}),
    ],
)
def test_the_same_request_gets_the_same_bytes(path: str, body: dict[str, Any]) -> None:
    async def run() -> list[bytes]:
        answers = []
        for _ in range(2):
            async with serve({"sim": Scripted()}) as server:
                answers += [(await post(server, path, body))[1] for _ in range(2)]
        return answers

    assert len(set(asyncio.run(run()))) == 1


def test_ids_differ_by_seed_and_model() -> None:
    async def run() -> set[str]:
        ids = set()
        async with serve({"a": Scripted(), "b": Scripted()}) as server:
            for model, seed in (("a", 1), ("a", 2), ("b", 1)):
                body = chat_body(Endpoint(model), Request((user("x"),), (), Decoding(seed=seed)))
                ids.add(json.loads((await post(server, "/chat/completions", body))[1])["id"])
        return ids

    assert len(asyncio.run(run())) == 3


def test_models_are_listed() -> None:
    async def run() -> list[str]:
        async with serve({"a": Scripted(), "b": Scripted()}) as server, sdk(server) as openai:
            return [model.id async for model in openai.models.list()]

    assert asyncio.run(run()) == ["a", "b"]


@pytest.mark.parametrize("reply", [ANSWER, LONG, says("")])
def test_chat_stream_read_by_the_openai_package(reply: Reply) -> None:
    async def run() -> None:
        async with serve({"sim": Scripted(reply)}) as server, sdk(server) as openai:
            async with openai.chat.completions.stream(
                model="sim", messages=[{"role": "user", "content": "x"}], stream_options={"include_usage": True}
            ) as stream:
                async for _ in stream:
                    pass
                final = await stream.get_final_completion()
            message = final.choices[0].message
            assert (message.content or "") == reply.message.content
            calls = [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls or ()]
            assert calls == [(c.id, c.name, c.arguments) for c in reply.message.calls]
            assert final.choices[0].finish_reason == ("tool_calls" if calls else "stop")
            assert final.usage is not None
            assert final.usage.prompt_tokens_details is not None
            assert final.usage.prompt_tokens_details.cached_tokens == reply.usage.cached

    asyncio.run(run())


@pytest.mark.parametrize("reply", [ANSWER, LONG, says(""), Reply(assistant("No."), Usage(), "refusal")])
def test_responses_stream_read_by_the_openai_package(reply: Reply) -> None:
    async def run() -> None:
        async with serve({"sim": Scripted(reply)}) as server, sdk(server) as openai:
            texts: list[str] = []
            async with openai.responses.stream(model="sim", input="x") as stream:
                async for event in stream:
                    if event.type == "response.output_text.delta":
                        texts.append(event.delta)
                final = await stream.get_final_response()
            if reply.finish != "refusal":
                assert final.output_text == "".join(texts) == reply.message.content
            calls = [(i.call_id, i.name, i.arguments) for i in final.output if i.type == "function_call"]
            assert calls == [(c.id, c.name, c.arguments) for c in reply.message.calls]
            assert final.usage is not None
            assert final.usage.input_tokens_details.cached_tokens == reply.usage.cached

    asyncio.run(run())


def test_plain_calls_by_the_openai_package() -> None:
    async def run() -> None:
        model = Scripted()
        async with serve({"sim": model}) as server, sdk(server) as openai:
            response = await openai.responses.create(
                model="sim",
                instructions="Be brief.",
                input=[{"role": "user", "content": [{"type": "input_text", "text": "hi"}]}],
                store=False,
            )
            assert response.output_text == "Done."
            assert [(m.role, m.content) for m in model.asked[-1].messages] == [("system", "Be brief."), ("user", "hi")]
            completion = await openai.chat.completions.create(
                model="sim",
                messages=[
                    {"role": "developer", "content": "Be brief."},
                    {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                ],
                stop="END",
            )
            assert completion.choices[0].message.content == "Done."
            assert [(m.role, m.content) for m in model.asked[-1].messages] == [("system", "Be brief."), ("user", "hi")]
            assert model.asked[-1].decoding.stop == ("END",)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/chat/completions", b"{", 400, "invalid_request"),
        ("/chat/completions", b"[]", 400, "invalid_request"),
        ("/chat/completions", {"model": "sim"}, 400, "invalid_request"),
        ("/chat/completions", {"model": "sim", "messages": [{"role": "user", "content": [3]}]}, 400, "invalid_request"),
        ("/responses", {"model": "sim", "input": [3]}, 400, "invalid_request"),
        ("/chat/completions", {"model": "x", "messages": []}, 404, "model_not_found"),
        ("/embeddings", {}, 404, "unknown_url"),
    ],
)
def test_bad_requests(path: str, body: object, status: int, code: str) -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}) as server:
            got, answer = await post(server, path, body)
            assert (got, json.loads(answer)["error"]["code"]) == (status, code)
            assert server.received.total() == 0

    asyncio.run(run())


def test_a_required_key() -> None:
    async def run() -> None:
        body = chat_body(Endpoint("sim"), HELLO)
        async with serve({"sim": Scripted()}, require_key="k") as server:
            assert (await post(server, "/chat/completions", body))[0] == 401
            assert (await post(server, "/responses", body, Authorization="Bearer other"))[0] == 401
            assert (await post(server, "/chat/completions", body, Authorization="Bearer k"))[0] == 200

    asyncio.run(run())


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "example.org", "::"])
def test_only_loopback(host: str) -> None:
    async def run() -> None:
        async with serve({}, host):
            pass

    with pytest.raises(InputError, match="on loopback only"):
        asyncio.run(run())


def test_a_port_that_is_taken() -> None:
    async def run() -> None:
        async with serve({}) as first:
            port = int(first.base_url.split(":")[2].removesuffix("/v1"))
            async with serve({}, port=port):
                pass

    with pytest.raises(InputError, match="choose another port"):
        asyncio.run(run())


def test_latency() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        async with serve({"sim": Scripted()}, latency=lambda request: 0.2) as server, client(server) as model:
            await model.reply(HELLO)  # connects
            started = loop.time()
            await model.reply(HELLO)
            return loop.time() - started

    assert 0.2 <= asyncio.run(run()) < 1


def test_stopping_frees_those_who_hang() -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}, faults=Faults(("hang",))) as server, client(server, timeout=60) as model:
            task = asyncio.create_task(model.reply(HELLO))
            await asyncio.sleep(0.3)
        with pytest.raises((ModelFailure, asyncio.CancelledError)):
            await task

    asyncio.run(asyncio.wait_for(run(), 5))


def test_one_call_in_three_fails_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """Every request gets through in the end, its good reply goes out once, and the record tells the same."""
    record = tmp_path / "record.jsonl"
    kinds = tuple(kind for kind in TRANSIENT if kind not in ("trickle", "hang"))
    requests = [Request((user(f"number {n}"),), (), Decoding(seed=n)) for n in range(90)]

    async def run() -> Server:
        async with (
            serve({"sim": Scripted()}, faults=Faults(kinds, 1 / 3), record_path=record) as server,
            client(server) as model,
        ):

            async def insist(request: Request) -> None:
                while True:
                    try:
                        await model.reply(request)
                        return
                    except ModelFailure as failure:
                        if not failure.retryable:
                            raise

            await asyncio.gather(*(insist(request) for request in requests))
        return server

    server = asyncio.run(run())
    failed = server.faults.total()
    assert 20 < failed < 80
    assert set(server.faults) == set(kinds)
    assert server.received.total() == len(requests) + failed
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    assert Counter(line["digest"] for line in lines if line["event"] == "request") == server.received
    # broken JSON and an empty reply go out whole with a good status, too
    spoiled = server.faults["broken-json"] + server.faults["empty"]
    replied = Counter(line["digest"] for line in lines if line["event"] == "reply" and line["status"] == 200)
    assert replied == server.replied
    assert replied.total() == len(requests) + spoiled
    assert set(replied) == {request.digest for request in requests}


def test_a_fault_is_a_function_of_request_and_arrival() -> None:
    faults = Faults(tuple(KINDS), 0.4)
    outcomes = [faults.of(f"digest {n}", 1) for n in range(3000)]
    assert outcomes == [faults.of(f"digest {n}", 1) for n in range(3000)]
    assert outcomes != [Faults(tuple(KINDS), 0.4, seed=1).of(f"digest {n}", 1) for n in range(3000)]
    counts = Counter(outcomes)
    assert 0.57 < counts[None] / 3000 < 0.63
    assert all(60 < counts[kind] < 140 for kind in KINDS)


def test_faults_of_the_request_come_back_and_others_pass() -> None:
    faults = Faults(tuple(KINDS), 0.5)
    for n in range(300):
        met = [faults.of(f"digest {n}", arrival) for arrival in range(1, 30)]
        lasting = {kind for kind in met if kind in LASTING}
        assert len(lasting) <= 1
        assert (set(met) == lasting) if lasting else (None in met)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("429,500,cut@0.33", Faults(("429", "500", "cut"), 0.33)),
        (" hang , 503 ", Faults(("hang", "503"), 1.0)),
        ("transient@.1", Faults(tuple(TRANSIENT), 0.1)),
        ("all,429@0", Faults(tuple(KINDS), 0.0)),
    ],
)
def test_parse_faults(text: str, expected: Faults) -> None:
    assert Faults.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("broken-jsn@0.1", "did you mean broken-json"),
        ("zzz", "there are 429"),
        ("429@often", "'often' is no number"),
        ("429@2", "rate from 0 to 1"),
        ("429@nan", "rate from 0 to 1"),
        ("", "at least one kind"),
    ],
)
def test_faults_that_are_none(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Faults.parse(text)
