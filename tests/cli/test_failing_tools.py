"""Tools that raise, hang or are async, models behind a wrong address, and Ctrl-C while a tool works: what is said."""

from __future__ import annotations

import http.server
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from commands import recompact, served

from recompact.environments.functions import function_suite
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage
from recompact.values.trajectory import Action

SUITE = """\
import asyncio
import time
from recompact import function_suite

PAGES = {1: "one"}


def page(number: int) -> str:
    return PAGES[number]


async def wait(number: int) -> str:
    await asyncio.sleep(0)
    return f"waited {number}"


def sleep(number: int) -> str:
    open("asleep", "w").close()
    try:
        while True:
            time.sleep(0.01)
    except Exception:
        return "never"


tasks = {name: ("Call it.", "x") for name in ("a", "b", "c")}
suite = function_suite("pages", [page, wait, sleep], tasks)
"""


class Caller:
    """Calls one tool over and over, with the numbers from 1 on."""

    name = "caller"

    def __init__(self, tool: str) -> None:
        self._tool = tool

    async def reply(self, request: Request) -> Reply:
        number = sum(message.role == "assistant" for message in request.messages) + 1
        call = ToolCall(f"c{number}", self._tool, json.dumps({"number": number}))
        return Reply(Message("assistant", "", (call,)), Usage(10, 2, 0, 0, 1))


def write_config(place: Path, url: str, timeout: float = 120.0) -> Path:
    (place / "pages.py").write_text(SUITE)
    config = place / "pages.toml"
    config.write_text(
        f'[suite]\nuse = "pages.py:suite"\ntimeout = {timeout}\n[models.caller]\nid = "caller"\nbase_url = "{url}"\n'
        '[agent]\nmodel = "caller"\n[compressor]\nkind = "fifo"\nbudget = 100000\n[run]\nstep_limit = 5\n'
    )
    return config


def test_check_names_the_tool_that_raises_and_collect_the_step_limit(tmp_path: Path) -> None:
    with served({"caller": Caller("page")}) as server:
        config = write_config(tmp_path, server.base_url)
        checked = recompact("check", config, "--play")
        collected = recompact("collect", config)
    assert "page raised KeyError in 4 of 5 calls, pages.py:9" in checked.stdout, checked.stdout + checked.stderr
    assert "3 of 3 ended at the step limit ([run] step_limit = 5)" in collected.stderr


def test_async_tools_run(tmp_path: Path) -> None:
    with served({"caller": Caller("wait")}) as server:
        config = write_config(tmp_path, server.base_url)
        assert recompact("collect", config).returncode == 0
        assert "waited 5" in recompact("show", tmp_path / "runs" / "pages.db", "a").stdout


def test_a_tool_that_hangs_breaks_its_own_episode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with served({"caller": Caller("sleep")}) as server:
        config = write_config(tmp_path, server.base_url, timeout=0.3)
        collected = recompact("collect", config)
    assert collected.returncode == 2
    assert "step sleep took longer than 0.3 s ([suite] timeout)" in collected.stderr
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


async def test_a_tool_that_swallows_everything_is_interrupted_again() -> None:
    def deaf(number: int) -> str:
        for _ in range(2):
            try:
                time.sleep(30)
            except BaseException:
                continue
        return "back"

    suite = function_suite("deaf", [deaf], {"a": ("?", "x")})
    episode = InProcessEpisode(suite.environment(Task("a", "?")), "a", timeout=0.1)
    await episode.start()
    begun = time.monotonic()
    assert (await episode.step(Action("deaf", {"number": 1}))).text == "back"
    assert time.monotonic() - begun < 10
    with pytest.raises(EnvironmentFailed, match="step nothing"):
        await episode.step(Action("nothing", {}))


@contextmanager
def pages(status: int, text: str) -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST

        def log_message(self, format: str, *arguments: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()


@pytest.mark.parametrize(("status", "text"), [(200, "<!doctype html><p>Welcome"), (404, "<p>Not found")])
def test_calls_that_all_go_to_a_wrong_address_end_the_run(status: int, text: str, tmp_path: Path) -> None:
    with pages(status, text) as (url, asked):
        ended = recompact("collect", write_config(tmp_path, url))
    assert ended.returncode == 2
    assert "is /v1 missing at the end of base_url?" in ended.stderr
    assert len(asked) <= 3 * 3 + 3  # three tasks, three tries each, and the list of models


def test_the_first_interrupt_says_what_it_waits_for_and_the_second_does_not_wait(tmp_path: Path) -> None:
    with served({"caller": Caller("sleep")}) as server:
        config = write_config(tmp_path, server.base_url)
        command = [sys.executable, "-m", "recompact", "collect", str(config)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd=tmp_path)
        assert process.stderr is not None
        begun = time.monotonic()
        while not (tmp_path / "asleep").exists() and time.monotonic() - begun < 60:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = b""
        while b"waiting" not in said and (line := process.stderr.readline()):
            said += line
        assert process.poll() is None
        for _ in range(20):  # on a busy machine a signal may find Python where it drops what a handler raises
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(3)
                break
        assert process.returncode == 130
        process.stderr.close()
    assert b"waiting for sleep (pages.py:" in said, said
