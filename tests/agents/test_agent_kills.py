"""kill -9 on the driver, at twenty random moments, with agents in the loop."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import pytest
from agent_support import AGENT, Clerk, Forgetful, write_notes
from commands import finished, killed
from run_files import select_rows
from workspace_support import needs_bubblewrap

from recompact.chat import Request
from recompact.embedded.simulation.server import serve
from recompact.models.journal import seed_of
from recompact.store.store import Store

pytestmark = needs_bubblewrap
TASKS = [f"book-{n}" for n in range(6)]


def write_config(path: Path, url: str) -> Path:
    command = [os.path.realpath(sys.executable), "{home}/agent.py", "responses", "stream", "{task}", "title"]
    path.write_text(
        f'[suite]\nuse = "workspace"\n[models.clerk]\nid = "clerk"\nbase_url = "{url}"\n'
        f'[models.forgetful]\nid = "forgetful"\nbase_url = "{url}"\n'
        f'[agent]\nmodel = "clerk"\ncommand = {json.dumps(command)}\n[agent.files]\n"agent.py" = {json.dumps(AGENT)}\n'
        '[compressor]\nmodel = "forgetful"\nbudget = 450\n[run]\ncounter = "characters"\nconcurrency = 2\n'
    )
    return path


def agents_of(mark: str) -> list[str]:
    """Processes on this machine that have the mark among their arguments."""
    lines = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return [line for line in lines if mark in line and "launcher.py" in line]


@pytest.mark.slow
async def test_the_same_digest_and_no_journaled_call_sent_again(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks", *TASKS)
    received: list[int] = []

    def note(request: Request) -> None:
        assert request.decoding.seed is not None
        received.append(request.decoding.seed)

    chance = random.Random("agents")
    async with serve({"clerk": Clerk(note), "forgetful": Forgetful(note)}, latency=0.02) as server:
        whole = await finished("collect", write_config(tmp_path / "whole.toml", server.base_url))
        total = len(received)
        received.clear()
        config = write_config(tmp_path / "killed.toml", server.base_url)
        path = tmp_path / "runs" / "killed.db"
        journaled: set[int] = set()
        for _ in range(20):
            before = len(received)
            await killed("collect", config, received=received, chance=chance, most=max(1, total // 30))
            assert not journaled & set(received[before:]), "a call that was journaled was sent again"
            if path.exists():
                with Store.read(path) as store:
                    rows = select_rows(store, "SELECT unit, ordinal FROM calls")
                    journaled = {seed_of(row["unit"], row["ordinal"]) for row in rows}
        before = len(received)
        assert await finished("collect", config) == whole
        assert not journaled & set(received[before:])
        assert journaled
    assert agents_of(str(tmp_path)) == []
