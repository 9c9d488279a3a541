"""A key is planted and every failure provoked, also by a server that repeats the key: it never shows anywhere."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from models_support import HELLO, Scripted, client

from recompact.embedded.simulation.faults import KINDS, Faults
from recompact.embedded.simulation.server import serve
from recompact.errors import InputError
from recompact.models.endpoint import Endpoint
from recompact.models.failures import ModelFailure
from recompact.models.openai import OpenAIModel
from recompact.models.secrets import scrubber

KEY = "sk-planted/Key+4711=="


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    caplog.set_level(logging.DEBUG)


def shown(error: BaseException) -> str:
    """All that anyone could print of an error, its causes and its attributes included."""
    seen = [str(error), repr(error), repr(vars(error)), *traceback.format_exception(error)]
    for other in (error.__cause__, error.__context__):
        if other is not None:
            seen.append(shown(other))
    return "\n".join(seen)


async def provoke(url: str, **settings: object) -> ModelFailure | None:
    async with client(url, key_env="PLANTED_KEY", timeout=0.3, **settings) as model:
        assert KEY not in repr(model) + repr(vars(model))
        try:
            await model.reply(HELLO)
        except ModelFailure as failure:
            return failure
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_faults(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}, faults=Faults((kind,))) as server:
            failure = await provoke(server.base_url)
            assert (failure is None) == (kind == "bad-arguments")
            assert failure is None or KEY not in shown(failure)

    asyncio.run(run())
    assert KEY not in caplog.text


@asynccontextmanager
async def parrot(status: int, content_type: str) -> AsyncIterator[str]:
    """A server that answers everything with the headers it was sent."""

    async def answer(http: web.Request) -> web.Response:
        told = http.headers["Authorization"]
        text = f'{{"error": {{"message": "you sent {told}", "code": "{told}"}}}}' if "json" in content_type else told
        return web.Response(text=text, status=status, content_type=content_type, headers={"X-Echo": told})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 429, 500])
def test_a_server_that_repeats_the_key(status: int, content_type: str, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        async with parrot(status, content_type) as url:
            failure = await provoke(url)
            assert failure is not None
            assert KEY not in shown(failure)
            assert "planted" not in str(failure)

    asyncio.run(run())
    assert KEY not in caplog.text


def test_no_connection(caplog: pytest.LogCaptureFixture) -> None:
    failure = asyncio.run(provoke("http://127.0.0.1:1/v1"))
    assert failure is not None
    assert KEY not in shown(failure) + caplog.text


@pytest.mark.parametrize("key", ["sk-two\nlines-secret", "sk-ümlaut-secret", "sk-tab\tsecret"])
def test_a_key_that_no_header_can_carry(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED_KEY", key)
    with pytest.raises(InputError, match="key in PLANTED_KEY holds characters") as caught:
        OpenAIModel(Endpoint("m", "http://127.0.0.1:1/v1", key_env="PLANTED_KEY"))
    assert "secret" not in str(caught.value)


def test_space_around_a_key_is_not_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serve({"sim": Scripted()}, require_key=KEY) as server:
            assert await provoke(server.base_url) is None

    monkeypatch.setenv("PLANTED_KEY", f" {KEY}\n")
    asyncio.run(run())


def test_a_password_in_the_address_is_refused() -> None:
    with pytest.raises(InputError, match="contains a user or password") as caught:
        OpenAIModel(Endpoint("m", "https://me:secret@example.org/v1"))
    assert "secret" not in str(caught.value)


def test_scrubber() -> None:
    scrub = scrubber(KEY)
    assert scrub(f"a {KEY} b sk-planted%2FKey%2B4711%3D%3D c") == "a [key] b [key] c"
    assert scrub("Incorrect API key provided: sk-abcd***wxyz.") == "Incorrect API key provided: [key]"
    assert scrubber("")("task-force of disk-usage") == "task-force of disk-usage"
