"""kill -9 on the driver, at twenty random moments, with agents in the loop."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import uuid
from pathlib import Path

import pytest
from agent_support import AGENT, Clerk, Forgetful, write_notes
from commands import finished, killed
from needs import needs
from processes import marked, nothing_marked
from run_files import select_rows
from sim_server import serve

from recompact.engine.store.store import Store
from recompact.models.journal import seed_of
from recompact.values.chat import Request

pytestmark = needs("bubblewrap")
TASKS = [f"book-{n}" for n in range(6)]


def write_config(path: Path, url: str, mark: str) -> Path:
    command = [os.path.realpath(sys.executable), "{home}/agent.py", "responses", "stream", "{task}", "title-and-daemon"]
    path.write_text(
        f'[suite]\nuse = "workspace"\n[models.clerk]\nid = "clerk"\nbase_url = "{url}"\n'
        f'[models.forgetful]\nid = "forgetful"\nbase_url = "{url}"\n'
        f'[agent]\nmodel = "clerk"\ncommand = {json.dumps(command)}\n'
        f'variables = {{ MARK = "{mark}" }}\n[agent.files]\n"agent.py" = {json.dumps(AGENT)}\n'
        '[compressor]\nmodel = "forgetful"\nbudget = 450\n[run]\ncounter = "characters"\nconcurrency = 2\n'
    )
    return path


@pytest.mark.slow
async def test_the_same_digest_and_no_journaled_call_sent_again(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks", *TASKS)
    received: list[int] = []

    def note(request: Request) -> None:
        assert request.decoding.seed is not None
        received.append(request.decoding.seed)

    chance = random.Random("agents")
    mark = f"mark-{uuid.uuid4().hex}"
    most = 0
    async with serve({"clerk": Clerk(note), "forgetful": Forgetful(note)}, latency=0.02) as server:
        whole = await finished("collect", write_config(tmp_path / "whole.toml", server.base_url, mark))
        await nothing_marked(mark)
        total = len(received)
        received.clear()
        config = write_config(tmp_path / "killed.toml", server.base_url, mark)
        path = tmp_path / "runs" / "killed.db"
        journaled: set[int] = set()
        for _ in range(20):
            before = len(received)
            process = asyncio.create_task(
                killed("collect", config, received=received, chance=chance, most=max(1, total // 30))
            )
            while not process.done():
                most = max(most, len(marked(mark)))
                await asyncio.sleep(0.05)
            await process
            await nothing_marked(mark)
            assert not journaled & set(received[before:]), "a call that was journaled was sent again"
            if path.exists():
                with Store.read(path) as store:
                    rows = select_rows(store, "SELECT unit, ordinal FROM calls")
                    journaled = {seed_of(row["unit"], row["ordinal"]) for row in rows}
        before = len(received)
        assert await finished("collect", config) == whole
        assert not journaled & set(received[before:])
        assert journaled
        await nothing_marked(mark)
    assert most >= 4, "at some moment an agent, its daemon and their sandbox were seen"


async def test_what_is_left_running_would_be_seen() -> None:
    """That the check of this file can fail: a process whose parent has ended is found by its mark."""
    mark = f"mark-{uuid.uuid4().hex}"
    script = (
        "import os, subprocess, sys; print(subprocess.Popen(['sleep', '60'], stdout=-3, start_new_session=True).pid)"
    )
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script), env={**os.environ, "MARK": mark}, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await parent.communicate()
    child = int(out)
    try:
        assert marked(mark) == {child: "sleep"}
        with pytest.raises(AssertionError, match=f"left running: {{{child}: 'sleep'}}"):
            await nothing_marked(mark, 0.1)
    finally:
        os.kill(child, signal.SIGKILL)
    await nothing_marked(mark)
