"""A gateway that others can reach answers its own agent and nobody else, and strangers do not harm the agent."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import os
import re
import socket
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx2
import pytest
from agent_support import AGENT, Clerk, Forgetful, agent_config, collected, write_notes
from commands import recompact, served
from models_support import CONVERSATION
from needs import needs
from test_wire import BODIES, ENDPOINT
from test_wrap import write_config

from recompact.agents.server import AgentCallbacks, Exchange, Gateway
from recompact.agents.settings import REQUESTS_AT_ONCE, STEADY_KEY
from recompact.agents.wire.formats import FORMATS, WireFormat
from recompact.values.chat import Request, assistant, user
from recompact.values.loopback import CONNECTIONS

KEY = "the-key"
PYTHON = os.path.realpath(sys.executable)


@dataclass
class Guarded:
    """A gateway with a key, and what it has heard."""

    url: str = ""
    exchanges: list[Exchange] = field(default_factory=list)
    misused: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    answers: bool = True

    def arrive(self, exchange: Exchange) -> Exchange:
        self.exchanges.append(exchange)
        if self.answers:
            exchange.deliver(assistant("Yes."))
        return exchange


@asynccontextmanager
async def guarded_gateway(key: str = KEY) -> AsyncIterator[Guarded]:
    guarded = Guarded()
    gateway = Gateway(AgentCallbacks(guarded.arrive, guarded.misused.append, guarded.refused.append), key)
    listener = socket.create_server(("127.0.0.1", 0))
    await gateway.listen(listener)
    guarded.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield guarded
    finally:
        await gateway.close()


OWN = {
    "bearer": ("", {"Authorization": f"Bearer {KEY}"}),
    "x-api-key": ("", {"x-api-key": KEY}),
    "x-goog-api-key": ("", {"x-goog-api-key": KEY}),
    "in the address": (f"/{KEY}", {"Authorization": "Bearer the agent's own"}),
    "own page": (f"/{KEY}", {"Sec-Fetch-Site": "same-origin"}),
}
FOREIGN = {
    "nothing": ("", {}),
    "wrong bearer": ("", {"Authorization": "Bearer no"}),
    "begins alike": ("", {"Authorization": f"Bearer {KEY[:-1]}"}),
    "goes on": ("", {"x-api-key": KEY + "x"}),
    "not ASCII": ("/%C3%A9%FF", {}),
    "other host": (f"/{KEY}", {"Host": "evil.example"}),
    "other port": (f"/{KEY}", {"Host": "127.0.0.1:1"}),
    "foreign page": (f"/{KEY}", {"Origin": "http://evil.example"}),
    "a file": (f"/{KEY}", {"Origin": "null"}),
    "cross-site": (f"/{KEY}", {"Sec-Fetch-Site": "cross-site"}),
    "another page of this host": (f"/{KEY}", {"Sec-Fetch-Site": "same-site"}),
}


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("way", OWN)
async def test_the_agent_is_answered_wherever_its_key_is(form: WireFormat, way: str) -> None:
    prefix, headers = OWN[way]
    async with guarded_gateway() as guarded, httpx2.AsyncClient() as client:
        body = BODIES[form.name](ENDPOINT, CONVERSATION)
        answer = await client.post(f"{guarded.url}{prefix}/v1{form.path}", json=body, headers=headers)
        assert answer.status_code == 200
        assert (await client.get(f"{guarded.url}{prefix}/v1/models", headers=headers)).status_code == 200
        assert (await client.head(f"{guarded.url}{prefix}/", headers=headers)).status_code == 200
    assert (len(guarded.exchanges), guarded.refused, guarded.misused) == (1, [], [])


@pytest.mark.parametrize("way", FOREIGN)
async def test_a_stranger_is_refused_and_counted_and_the_agent_is_not_blamed(way: str) -> None:
    prefix, headers = FOREIGN[way]
    async with guarded_gateway() as guarded, httpx2.AsyncClient() as client:
        for content in (b"junk", json.dumps(BODIES["chat"](ENDPOINT, CONVERSATION)).encode()):
            url = f"{guarded.url}{prefix}/v1/chat/completions"
            assert (await client.post(url, content=content, headers=headers)).status_code in (401, 403)
        assert (await client.get(f"{guarded.url}{prefix}/v1/models", headers=headers)).status_code in (401, 403)
    assert (guarded.exchanges, guarded.misused, len(guarded.refused)) == ([], [], 3)
    assert KEY not in "".join(guarded.refused)


async def test_more_requests_than_there_is_room_for_wait() -> None:
    async with guarded_gateway() as guarded, httpx2.AsyncClient(limits=httpx2.Limits(), timeout=60) as client:
        guarded.answers = False
        body = BODIES["chat"](ENDPOINT, CONVERSATION)
        url = f"{guarded.url}/{KEY}/v1/chat/completions"
        posts = [asyncio.ensure_future(client.post(url, json=body)) for _ in range(REQUESTS_AT_ONCE + 5)]
        while len(guarded.exchanges) < REQUESTS_AT_ONCE:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        assert len(guarded.exchanges) == REQUESTS_AT_ONCE
        guarded.answers = True
        for exchange in tuple(guarded.exchanges):
            exchange.deliver(assistant("Yes."))
        assert {answer.status_code for answer in await asyncio.gather(*posts)} == {200}
    assert (len(guarded.exchanges), guarded.misused) == (REQUESTS_AT_ONCE + 5, [])


MANY = {
    "messages": b'{"messages":[' + b'{"role":"user","content":""},' * 100_000 + b'{"role":"user","content":"x"}]}',
    "tools": b'{"messages":[{"role":"user","content":"x"}],"tools":[' + b"{}," * 200_001 + b"{}]}",
    "objects": b'{"messages":[{"role":"user","content":[' + b"{}," * 5_000_000 + b"{}]}]}",
}


@pytest.mark.parametrize("kind", MANY)
async def test_a_request_of_very_many_values_is_refused_before_it_is_made_of_them(kind: str) -> None:
    """A packed one of 100 KB became a gigabyte, and nothing else was answered for most of a minute."""
    packed, headers = gzip.compress(MANY[kind]), {"Content-Encoding": "gzip"}
    async with guarded_gateway() as guarded, httpx2.AsyncClient(timeout=60) as client:
        url = f"{guarded.url}/{KEY}/v1/chat/completions"
        assert (await client.post(url, content=packed, headers=headers)).status_code == 413
    assert (len(guarded.exchanges), len(guarded.misused)) == (0, 1)


async def test_a_long_text_with_much_punctuation_is_no_request_of_many_values() -> None:
    body = BODIES["chat"](ENDPOINT, Request((user('{"a": [1, 2]}, ' * 250_000),)))
    async with guarded_gateway() as guarded, httpx2.AsyncClient(timeout=60) as client:
        assert (await client.post(f"{guarded.url}/{KEY}/v1/chat/completions", json=body)).status_code == 200
    assert (len(guarded.exchanges), guarded.misused) == (1, [])


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("half", [b"\\ud800", b"\\uDFFF", b"\xed\xa0\x80"], ids=["first", "second", "as bytes"])
async def test_halves_of_characters_in_a_request_are_replaced(form: WireFormat, half: bytes) -> None:
    """Programs make them of bytes that are no text, and no model takes them: the unit could never be finished."""
    async with guarded_gateway() as guarded, httpx2.AsyncClient() as client:
        body = json.dumps(BODIES[form.name](ENDPOINT, Request((user("Hello."),)))).encode()
        for each in (body, body.replace(b"Hello.", b"He" + half + b"llo."), body.replace(b"Hello.", b"\\ud83d\\ude00")):
            url = f"{guarded.url}/{KEY}/v1{form.path}"
            assert (await client.post(url, content=each)).status_code == 200
    texts = [exchange.request.messages[-1].content for exchange in guarded.exchanges]
    assert [re.sub("\ufffd+", "?", text) for text in texts] == ["Hello.", "He?llo.", "😀"]
    assert [exchange.mended for exchange in guarded.exchanges] == [False, True, False]


async def test_what_is_not_http_is_answered_and_not_printed(caplog: pytest.LogCaptureFixture) -> None:
    junk = (b"GET / HTTP/1.1\r\nHost\x00: x\r\n\r\n", b"POST / HTTP/9\r\n\r\n", b"\x16\x03\x01\x02\x00\r\n\r\n")
    with caplog.at_level(logging.INFO):
        async with guarded_gateway() as guarded:
            for sent in (*junk, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n"):
                reader, writer = await asyncio.open_connection("127.0.0.1", int(guarded.url.rpartition(":")[2]))
                writer.write(sent)
                assert (await reader.read()).startswith(b"HTTP/1.0 400")
                writer.close()
    assert [record.getMessage() for record in caplog.records] == []
    assert guarded.misused == []


ENDINGS = {
    "not packed": (b"Content-Encoding: gzip\r\nContent-Length: 9\r\n", b"not gzip!", True),
    "no chunk": (b"Transfer-Encoding: chunked\r\n", b"ZZ\r\n", False),
    "cut off": (b"Content-Length: 9\r\n", b"cut", False),
}


@pytest.mark.parametrize("prefix", ["", f"/{KEY}"], ids=["stranger", "agent"])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_body_that_ends_badly_is_not_printed(
    ending: str, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    head, body, whole = ENDINGS[ending]
    with caplog.at_level(logging.INFO):
        async with guarded_gateway() as guarded:
            host = guarded.url.removeprefix("http://")
            reader, writer = await asyncio.open_connection(*host.split(":"))
            begin = f"POST {prefix}/v1/chat/completions HTTP/1.1\r\nHost: {host}\r\n".encode()
            writer.write(begin + head + b"\r\n")
            await asyncio.sleep(0.1)
            writer.write(body)
            if whole or not prefix:
                assert b"40" in (await reader.readline())
            else:
                await asyncio.sleep(0.1)
            writer.close()
            await asyncio.sleep(0.1)
    assert [record.getMessage() for record in caplog.records] == []
    assert len(guarded.misused) == (1 if whole and prefix else 0)


async def test_a_packed_request_is_read_up_to_a_size() -> None:
    body = json.dumps(BODIES["chat"](ENDPOINT, CONVERSATION)).encode()
    async with guarded_gateway() as guarded, httpx2.AsyncClient(timeout=60) as client:
        for packed in (gzip.compress(body), zlib.compress(body), gzip.compress(bytes(40 << 20))):
            headers = {"Content-Encoding": "gzip" if packed[:2] == b"\x1f\x8b" else "deflate"}
            url = f"{guarded.url}/{KEY}/v1/chat/completions"
            answer = await client.post(url, content=packed, headers=headers)
            assert answer.status_code == (413 if len(guarded.exchanges) == 2 and guarded.misused else 200)
    assert (len(guarded.exchanges), len(guarded.misused)) == (2, 1)


STRANGER = """import os, urllib.error, urllib.request
address = os.environ["OPENAI_BASE_URL"].split("/")[2]
for path in ("/v1/chat/completions", "/v1/messages", "/wrong/v1/responses"):
    for content in (b"junk", b'{"messages": 3}', b"{" * 5000):
        try:
            urllib.request.urlopen("http://" + address + path, content)
        except urllib.error.HTTPError as refusal:
            assert refusal.code == 401
"""


def test_strangers_do_not_end_a_session_of_wrap(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    (tmp_path / "agent.py").write_text(STRANGER + AGENT)
    place = tmp_path / "tasks" / "notes" / "files"
    with served({"clerk": Clerk(), "forgetful": Forgetful()}) as server:
        config = write_config(tmp_path / "mine.toml", server.base_url)
        agent = [PYTHON, tmp_path / "agent.py", "messages", "stream", "Read the notes."]
        ended = recompact("wrap", "--out", tmp_path / "out.jsonl", "--json", config, "--", *agent, cwd=place)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert json.loads(ended.stdout)["ending"] == "finished"


@needs("bubblewrap")
async def test_an_agent_with_its_users_rights_has_a_key_that_models_do_not_see(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    shows = AGENT.replace("output = ended.stdout", "output = os.environ['OPENAI_API_KEY'] + ended.stdout")
    config = agent_config(tmp_path / "tasks", agent='sandbox = "off"')
    files = {"agent.py": STRANGER + shows}
    (trajectory,) = await collected(replace(config, agent=replace(config.agent, files=files)), tmp_path / "run.db")
    assert trajectory.ending == "finished", trajectory.error
    assert trajectory.turns[0].results[0].content.startswith(STEADY_KEY)
    assert [each.text for each in trajectory.incidents if "refused" in each.text] == [
        "the gateway refused a request: it has no key, or a wrong one, 9 times"
    ]


@needs("bubblewrap")
async def test_an_agent_that_floods_its_gateway_waits_for_its_answers(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    (trajectory,) = await collected(agent_config(tmp_path / "tasks", trick="flood"), tmp_path / "run.db")
    assert trajectory.ending == "finished", trajectory.error


@pytest.mark.parametrize("key", ["", KEY], ids=["of a sandbox", "with a key"])
async def test_idle_connections_do_not_take_the_place_of_the_agents(key: str, caplog: pytest.LogCaptureFixture) -> None:
    """In a sandbox the agent itself opens them: their ends are descriptors of the harness, which others need."""
    async with guarded_gateway(key) as guarded, httpx2.AsyncClient(timeout=60) as client:
        body, url = BODIES["chat"](ENDPOINT, CONVERSATION), f"{guarded.url}/{key}/v1/chat/completions"
        assert (await client.post(url, json=body)).status_code == 200  # on a connection that it keeps
        before = len(os.listdir("/proc/self/fd"))
        port = int(guarded.url.rpartition(":")[2])
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3 * CONNECTIONS)]
        await asyncio.sleep(0.2)
        assert len(os.listdir("/proc/self/fd")) - before - len(idle) <= CONNECTIONS
        assert (await client.post(url, json=body)).status_code == 200
        assert (await httpx2.AsyncClient(timeout=60).post(url, json=body)).status_code == 200
        for _, writer in idle:
            writer.close()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert (len(guarded.exchanges), guarded.refused, guarded.misused) == (3, [], [])


async def test_an_agent_that_asks_on_too_many_connections_gets_no_more() -> None:
    async with guarded_gateway() as guarded:
        port = int(guarded.url.rpartition(":")[2])
        head = f"GET /{KEY}/v1/models HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
        answered = 0
        pairs = []
        for _ in range(CONNECTIONS + 20):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            pairs.append(writer)
            with contextlib.suppress(ConnectionError):
                writer.write(head)
                answered += (await reader.read(12)).startswith(b"HTTP/1.1 200")
        for writer in pairs:
            writer.close()
    assert answered == CONNECTIONS
