"""`recompact verify` survives kill -9 at random moments: the same digest, no draw repeated, no call sent again."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from commands import killed, recompact, served
from run_files import select_rows
from sim_server import Server
from verify_support import FickleNoter, ShakyReader, config_text

from recompact.engine.store.runs import continuation_rows
from recompact.engine.store.store import Store
from recompact.models.journal import seed_of
from recompact.values.chat import Request


def write_config(path: Path, server: Server, suite: str, concurrency: int) -> Path:
    path.write_text(config_text(suite, server.base_url, concurrency=concurrency))
    return path


def last_line(*arguments: object) -> str:
    ended = recompact(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(("suite", "kills"), [("books_3", 1), pytest.param("books_10", 6, marks=pytest.mark.slow)])
def test_kill_9_at_random_moments(suite: str, kills: int, tmp_path: Path) -> None:
    received: list[int] = []

    def note(request: Request) -> None:
        assert request.decoding.seed is not None
        received.append(request.decoding.seed)

    chance = random.Random("kill verify")
    with served({"reader": ShakyReader(note), "noter": FickleNoter(note)}, latency=0.005) as server:
        whole = write_config(tmp_path / "whole.toml", server, suite, 32)
        config = write_config(tmp_path / "killed.toml", server, suite, 4)
        assert last_line("collect", whole) == last_line("collect", config)
        received.clear()
        expected = last_line("verify", whole)
        assert expected.startswith("digest: ")
        total = len(received)
        assert len(set(received)) == total > 50
        received.clear()
        path = tmp_path / "runs" / "killed.db"
        journaled: set[int] = set()
        drawn: set[str] = set()
        for _ in range(kills):
            before = len(received)
            most = 2 * total // (3 * kills)
            asyncio.run(killed("verify", config, received=received, chance=chance, most=most))
            assert not journaled & set(received[before:]), "a call that was journaled was sent again"
            with Store.read(path) as store:
                rows = select_rows(store, "SELECT unit, ordinal FROM calls WHERE unit LIKE 'continue/%'")
                journaled = {seed_of(row["unit"], row["ordinal"]) for row in rows}
                now = {row.name for row in continuation_rows(store)}
            assert drawn <= now
            drawn = now
        before = len(received)
        assert last_line("verify", config) == expected
        assert not journaled & set(received[before:])
        assert total // 10 < len(journaled) < total
        assert drawn
        sent = len(received)
        assert last_line("verify", tmp_path / "runs" / "killed.db") == expected
        assert len(received) == sent  # all is there: nobody is asked
