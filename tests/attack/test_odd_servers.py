"""Servers that are odd on every reply: the command ends with a sentence and an exit code, whatever they send, and goes
on where it stopped once they are well."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import odd_replies
import pytest
from aiohttp import web
from commands import Done, recompact
from loopback import served_app
from odd_replies import BODIES, finishing_reply, kinds
from run_files import select_rows

from recompact.engine.store.store import Store

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
SEED = int(os.environ.get("RECOMPACT_ATTACK_SEED", "1"))


def sending(body: bytes = b"", status: int = 200, **headers: str) -> Answer:
    async def answer(http: web.Request) -> web.Response:
        return web.Response(body=body, status=status, headers={"Content-Type": "application/json", **headers})

    return answer


async def hang_up(http: web.Request) -> web.StreamResponse:
    assert http.transport is not None
    http.transport.abort()
    return web.Response()


async def hang(http: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3)
    return web.Response()


async def stop_halfway(http: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "5000", "Content-Type": "application/json"})
    await response.prepare(http)
    await response.write(b'{"choices": [')
    return await hang_up(http)


async def send_for_ever(http: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(http)
    for _ in range(30):
        await response.write(b" ")
        await asyncio.sleep(0.1)
    return response


async def speak_no_http(http: web.Request) -> web.StreamResponse:
    assert http.transport is not None
    http.transport.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    return await hang_up(http)


SAYS = json.dumps({"error": {"message": "no", "code": "odd"}}).encode()
SERVERS: dict[str, Answer] = {
    **{f"status {status}": sending(SAYS, status) for status in (400, 401, 403, 404, 408, 409, 413, 418, 422)},
    **{f"status {status}": sending(b"<html>", status) for status in (204, 429, 500, 502, 503, 504, 529, 599)},
    "too busy for ever": sending(SAYS, 429, **{"Retry-After": "1e9"}),
    "too busy since always": sending(SAYS, 503, **{"Retry-After": "-5"}),
    "redirects to itself": sending(b"", 307, Location="/v1/chat/completions"),
    "redirects to nowhere": sending(b"", 308, Location="http://[::"),
    "hangs up": hang_up,
    "hangs": hang,
    "stops halfway": stop_halfway,
    "sends for ever": send_for_ever,
    "speaks no HTTP": speak_no_http,
    "claims to be packed": sending(b"{}", 200, **{"Content-Encoding": "gzip"}),
    "unpacks to much": sending(gzip.compress(bytes(300_000_000), 1), 200, **{"Content-Encoding": "gzip"}),
    "a number of 100,000 digits": sending(b'{"choices": ' + b"9" * 100_000 + b"}"),
}


def collect(place: Path, url: str, api: str, *more: str) -> Done:
    config = place / "odd.toml"
    config.write_text(
        f"""
[suite]
use = "{odd_replies.__file__}:two_tasks"
[models.odd]
id = "odd"
base_url = "{url}"
api = "{api}"
attempts = 2
retry_wait = 0.001
max_wait = 0.01
timeout = 1
[agent]
model = "odd"
[compressor]
kind = "none"
[run]
step_limit = 3
"""
    )
    return recompact("collect", config, *more)


def outcomes(place: Path) -> dict[str, bool]:
    path = place / "runs" / "odd.db"
    if not path.exists():
        return {}
    with Store.read(path) as store:
        rows = select_rows(store, "SELECT task, success FROM trajectories")
        return {row["task"]: bool(row["success"]) for row in rows}


def attack(answer: Answer, api: str, place: Path) -> Done:
    """Let a server be odd all the time, and then well."""
    server = [answer]

    async def forward(http: web.Request) -> web.StreamResponse:
        return await server[0](http)

    with served_app(forward) as url:
        odd = collect(place, url, api)
        before = outcomes(place)
        server[0] = sending(json.dumps(finishing_reply(api)).encode())
        well = collect(place, url, api, *(["--retry"] if "--retry" in odd.stderr else []))
    assert "Traceback" not in odd.stderr + well.stderr
    assert (odd.returncode == 0) == (len(before) == 2), odd.stderr  # 0 only where every task has an outcome
    assert odd.returncode in (0, 1, 2), odd.stderr
    assert well.returncode == 0, well.stderr
    after = outcomes(place)
    assert {task: after[task] for task in before} == before
    assert all(success for task, success in after.items() if task not in before)
    assert len(after) == 2
    return odd


FEW = {  # and what each of them is taken for
    "status 401": "wants a key",
    "status 500": "(overload)",
    "hangs up": "(unreachable)",
    "redirects to itself": "(bad request)",
    "redirects to nowhere": "(bad request)",
    "claims to be packed": "(malformed reply)",
}


@pytest.mark.parametrize("name", FEW)
def test_a_server_that_is_always_odd_ends_the_command_and_nothing_else(name: str, tmp_path: Path) -> None:
    odd = attack(SERVERS[name], "chat", tmp_path)
    assert odd.returncode != 0
    assert FEW[name] in odd.stderr
    assert "recompact collect" in odd.stderr  # how to go on


@pytest.mark.attack
@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("name", SERVERS)
def test_every_server_that_is_always_odd(name: str, api: str, tmp_path: Path) -> None:
    assert attack(SERVERS[name], api, tmp_path).returncode != 0


@pytest.mark.attack
@pytest.mark.parametrize("api", BODIES)
def test_every_kind_of_odd_reply_all_the_time(
    api: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """By a sample: a reply may be of use for all that is odd about it, but never ends the command in another way."""
    names = random.Random(SEED).sample(sorted(kinds(api)), 15)
    for number, name in enumerate(names):
        (place := tmp_path / str(number)).mkdir()
        try:
            attack(sending(kinds(api)[name]), api, place)
        except AssertionError as error:
            raise AssertionError(f"{api}, {name}") from error
    record_property("tried", f"{len(names)} kinds of reply that a server of {api} gave to every request")
