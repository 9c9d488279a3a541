"""Each way to fail becomes the right class, with the wait that the server asked for and a text that helps."""

from __future__ import annotations

import asyncio
import socket
from email.utils import formatdate
from typing import Any

import pytest
from models_support import ANSWER, HELLO, Scripted, ask, client
from sim_faults import Faults
from sim_server import serve

from recompact.models import failures
from recompact.models.endpoint import Endpoint
from recompact.models.failures import ModelFailure, ServerError, explain, retry_after
from recompact.values.chat import Reply, Request

BY_FAULT: dict[str, type[ModelFailure]] = {
    "429": failures.RateLimited,
    "429-ms": failures.RateLimited,
    "500": failures.Overloaded,
    "503": failures.Overloaded,
    "hang": failures.TimedOut,
    "cut": failures.Unreachable,
    "cut-midway": failures.Unreachable,
    "broken-json": failures.MalformedReply,
    "empty": failures.MalformedReply,
    "trickle": failures.TimedOut,
    "overflow": failures.ContextOverflow,
}


async def failure_of(request: Request = HELLO, **settings: Any) -> ModelFailure:
    with pytest.raises(ModelFailure) as caught:
        await ask(request, **settings)
    return caught.value


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize(("fault", "kind"), BY_FAULT.items())
def test_each_fault(fault: str, kind: type[ModelFailure], api: str) -> None:
    if (fault, api) == ("empty", "anthropic"):
        pytest.skip("a message without content is a reply there")
    patience = 0.3 if kind is failures.TimedOut else 30.0
    failure = asyncio.run(failure_of(faults=fault, api=api, timeout=patience))
    assert type(failure) is kind
    assert "sim at 127.0.0.1:" in str(failure)
    assert failure.retry_after == (0.05 if kind is failures.RateLimited else None)
    assert failure.__context__ is None


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
def test_a_trickle_is_read_by_the_patient(api: str) -> None:
    reply, _ = asyncio.run(ask(HELLO, faults="trickle", api=api))
    assert reply.message == ANSWER.message


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_bad_arguments_are_a_reply(api: str) -> None:
    reply, _ = asyncio.run(ask(HELLO, faults="bad-arguments", api=api))
    (call,) = reply.message.calls
    with pytest.raises(ValueError, match="not valid JSON"):
        call.parsed()


def test_one_attempt_only() -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}, faults=Faults(("500",))) as server, client(server) as model:
            with pytest.raises(failures.Overloaded):
                await model.reply(HELLO)
            assert server.received.total() == 1

    asyncio.run(run())


def test_nobody_listens() -> None:
    with socket.socket() as taken:  # bound but not listening: refuses for sure
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"

        async def run() -> None:
            async with client(url) as model:
                await model.reply(HELLO)

        with pytest.raises(failures.Unreachable, match=r"sim at 127"):
            asyncio.run(run())


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
def test_a_model_that_is_not_there(api: str) -> None:
    async def run() -> None:
        async with serve({"a": Scripted(), "b": Scripted()}) as server, client(server, api=api) as model:
            await model.reply(HELLO)

    with pytest.raises(failures.UnknownModel, match=r"127\.0\.0\.1:\d+ .*\bsim\b.* a, b\."):
        asyncio.run(run())


def test_a_path_that_is_not_there() -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}) as server, client(server.base_url.removesuffix("/v1")) as model:
            await model.reply(HELLO)

    with pytest.raises(failures.BadRequest, match=r"is /v1 missing"):
        asyncio.run(run())


def test_a_key_that_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}, require_key="right") as server, client(server, key_env="K") as model:
            await model.reply(HELLO)

    monkeypatch.setenv("K", "right")
    asyncio.run(run())
    monkeypatch.setenv("K", "wrong")
    with pytest.raises(failures.AuthenticationFailed, match="key in K"):
        asyncio.run(run())
    monkeypatch.delenv("K")
    with pytest.raises(failures.AuthenticationFailed, match="set K"):
        asyncio.run(run())


@pytest.mark.parametrize(
    "kind",
    [
        *(failures.RateLimited, failures.Overloaded, failures.ContextOverflow),
        *(failures.Refused, failures.BadRequest, failures.UnknownModel),
    ],
)
def test_failures_of_a_served_model_keep_their_class(kind: type[ModelFailure]) -> None:
    def fail(request: Request) -> Reply:
        raise kind("planted", 1.5)

    failure = asyncio.run(failure_of(script=fail))
    assert type(failure) is kind
    assert failure.retry_after == (None if kind is failures.UnknownModel else 1.5)


def test_half_a_character_cannot_be_sent() -> None:
    from recompact.values.chat import user

    failure = asyncio.run(failure_of(Request((user("a\ud83d"),))))
    assert type(failure) is failures.BadRequest


def test_cancelling_stays_cancelling() -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}, faults=Faults(("hang",))) as server, client(server) as model:
            task = asyncio.create_task(model.reply(HELLO))
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run())


SAYINGS: list[tuple[int, object, type[ModelFailure]]] = [
    # OpenAI
    (429, {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}, failures.RateLimited),
    (429, {"error": {"message": "You exceeded", "type": "insufficient_quota"}}, failures.QuotaExhausted),
    (429, {"error": {"message": "Request too large for gpt on TPM", "code": "x"}}, failures.BadRequest),
    (400, {"error": {"message": "", "code": "context_length_exceeded"}}, failures.ContextOverflow),
    (400, {"error": {"message": "Your input exceeds the context window of this model."}}, failures.ContextOverflow),
    (400, {"error": {"message": "flagged as violating our usage policy", "code": "invalid_prompt"}}, failures.Refused),
    (400, {"error": {"message": "Unsupported value: 'temperature'", "code": "x"}}, failures.BadRequest),
    (401, {"error": {"message": "Incorrect API key provided: sk-abc***xyz"}}, failures.AuthenticationFailed),
    (403, {"error": {"message": "Country not supported"}}, failures.AuthenticationFailed),
    (529, "overloaded", failures.Overloaded),
    (502, "<html>Bad gateway</html>", failures.Overloaded),
    (408, "", failures.TimedOut),
    # Azure
    (400, {"error": {"message": "content management policy", "code": "content_filter"}}, failures.Refused),
    # vLLM, old and new
    (400, {"object": "error", "message": "This model's maximum context length is 8192"}, failures.ContextOverflow),
    (
        400,
        {
            "error": {
                "message": "The decoder prompt (length 9) is longer than the maximum model length of 8",
                "code": 400,
            }
        },
        failures.ContextOverflow,
    ),
    # llama.cpp
    (
        400,
        {
            "error": {
                "code": 400,
                "message": "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
                "type": "exceed_context_size_error",
            }
        },
        failures.ContextOverflow,
    ),
    (500, {"error": {"code": 500, "message": "Context size has been exceeded."}}, failures.ContextOverflow),
    (503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}, failures.Overloaded),
    # llama-cpp-python, SGLang, LM Studio, Ollama, Gemini
    (400, {"error": {"message": "Requested tokens (9) exceed context window of 8"}}, failures.ContextOverflow),
    (400, {"error": {"message": "The input (9 tokens) is longer than the model's context"}}, failures.ContextOverflow),
    (400, {"error": "Trying to keep the first 9 tokens when context the overflows."}, failures.ContextOverflow),
    (400, {"error": {"message": "prompt too long; exceeded max context length"}}, failures.ContextOverflow),
    (400, {"error": {"message": "The input token count (9) exceeds the maximum"}}, failures.ContextOverflow),
    # DeepSeek, FastAPI
    (402, {"error": {"message": "Insufficient Balance"}}, failures.QuotaExhausted),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, failures.BadRequest),
]


@pytest.mark.parametrize(("status", "body", "kind"), SAYINGS)
def test_what_servers_say(status: int, body: object, kind: type[ModelFailure]) -> None:
    said, text = explain(Endpoint("m", "https://h.example/v1"), status, ServerError.read(body), True)
    assert said is kind
    assert "m at h.example:443" in text


@pytest.mark.parametrize(
    ("status", "body", "names"),
    [
        (404, {"error": {"message": "The model `x` does not exist.", "code": 404, "type": "NotFoundError"}}, True),
        (404, {"error": {"message": 'model "x" not found, try pulling it first'}}, True),
        (403, {"error": {"message": "Project has no access to model x", "code": "model_not_found"}}, True),
        (400, {"error": {"message": "invalid model ID"}}, True),
        (404, {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}, False),
        (404, "404: Not Found", False),
    ],
)
def test_which_404_means_the_model(status: int, body: object, names: bool) -> None:
    assert ServerError.read(body).names_model(status) is names


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"code": 429, "message": "slow down"}}, 429),
        ({"error": {"code": "server_error", "message": "sorry"}, "status": "failed"}, 500),
        ({"error": {"code": "rate_limit_exceeded", "message": ""}}, 429),
        ({"error": {"code": "invalid_prompt", "message": ""}}, 400),
        ({"error": None, "choices": []}, 0),
        ([], 0),
    ],
)
def test_an_error_inside_a_good_status(body: object, status: int) -> None:
    assert ServerError.read(body).status == status


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "tomorrow"}, None),
        ({"retry-after": formatdate(1030, usegmt=True)}, 30.0),
        ({"retry-after": formatdate(900, usegmt=True)}, 0.0),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, lambda: 1000.0) == seconds
