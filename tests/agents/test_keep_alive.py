"""A slow model does not make an agent's client give up, whether it asks for a stream or not."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import openai
import pytest
from models_support import CONVERSATION
from test_wire import BODIES, ENDPOINT, READERS

from recompact.agents import server
from recompact.agents.server import AgentCallbacks, Exchange, Gateway
from recompact.agents.wire.formats import FORMATS, STREAMED_CONTENTS, WireFormat
from recompact.values.chat import assistant

SLOW = 1.0  # seconds that the model takes
IMPATIENT = 0.4  # seconds that the client waits for the next byte


@asynccontextmanager
async def slow_gateway() -> AsyncIterator[str]:
    def arrive(exchange: Exchange) -> Exchange:
        asyncio.get_running_loop().call_later(SLOW, exchange.deliver, assistant("At last."))
        return exchange

    gateway = Gateway(AgentCallbacks(arrive, pytest.fail))
    listener = socket.create_server(("127.0.0.1", 0))
    await gateway.listen(listener)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        await gateway.close()


def posted(url: str, form: WireFormat) -> Any:
    """What the simplest client there is gets."""
    body = json.dumps(BODIES[form.name](ENDPOINT, CONVERSATION)).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/v1{form.path}", body), timeout=IMPATIENT) as response:
        assert response.headers["Content-Type"] == "application/json"
        return json.load(response)


@pytest.mark.parametrize("form", FORMATS[:3], ids=lambda form: form.name)
async def test_an_answer_that_is_no_stream(form: WireFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ALIVE", 0.1)
    async with slow_gateway() as url:
        answer = await asyncio.to_thread(posted, url, form)
    assert READERS[form.name](answer, 0).message.content == "At last."


async def test_without_a_sign_of_life_the_client_gives_up() -> None:
    """That the clients of these tests are impatient."""
    async with slow_gateway() as url:
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(posted, url, FORMATS[0])


@pytest.mark.parametrize("stream", [False, True])
async def test_the_official_clients(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import anthropic  # takes a second, and only this test needs it

    monkeypatch.setattr(server, "ALIVE", 0.1)
    timeout = httpx2.Timeout(IMPATIENT)
    async with slow_gateway() as url:
        one = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0, timeout=timeout)
        other = anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0, timeout=IMPATIENT)
        messages: Any = [{"role": "user", "content": "x"}]
        async with one, other:
            if stream:
                chunks = await one.chat.completions.create(model="m", messages=messages, stream=True)
                text = "".join([c.choices[0].delta.content or "" async for c in chunks if c.choices])
                async with other.messages.stream(model="m", messages=messages, max_tokens=9) as events:
                    spoken = "".join([part async for part in events.text_stream])
            else:
                text = str((await one.chat.completions.create(model="m", messages=messages)).choices[0].message.content)
                (block,) = (await other.messages.create(model="m", messages=messages, max_tokens=9)).content
                assert block.type == "text"
                spoken = block.text
    assert text == spoken == "At last."


async def test_an_episode_that_ends_meanwhile_cuts_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """White space alone is no JSON: nobody takes it for an answer."""
    monkeypatch.setattr(server, "ALIVE", 0.05)
    gateway = Gateway(AgentCallbacks(lambda exchange: exchange, pytest.fail))
    listener = socket.create_server(("127.0.0.1", 0))
    await gateway.listen(listener)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    asking = asyncio.create_task(asyncio.to_thread(posted, url, FORMATS[0]))
    await asyncio.sleep(0.3)
    await gateway.close()
    with pytest.raises(Exception, match=r"Expecting value|IncompleteRead"):
        await asking


async def test_geminis_client_reads_a_stream_that_begins_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pattern for events: white space may stand before one, and nothing else."""
    monkeypatch.setattr(server, "ALIVE", 0.1)
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}).encode()

    def streamed(url: str) -> str:
        place = f"{url}/v1beta/models/m{STREAMED_CONTENTS.path}?alt=sse"
        with urllib.request.urlopen(urllib.request.Request(place, body), timeout=IMPATIENT) as response:
            text: str = response.read().decode()
            return text

    async with slow_gateway() as url:
        text = await asyncio.to_thread(streamed, url)
    match = re.fullmatch(r"\s*data: (.*)\n\n", text)
    assert match
    assert json.loads(match[1])["candidates"][0]["content"]["parts"] == [{"text": "At last."}]
