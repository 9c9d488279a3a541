"""`recompact verify` survives kill -9 at random moments: the same digest, no draw repeated, no call sent again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from commands import finished, killed
from run_files import select_rows
from verify_support import FickleNoter, ShakyReader, config_text

from recompact.engine.store.runs import continuation_rows
from recompact.engine.store.store import Store
from recompact.models.journal import seed_of
from recompact.simulation.server import Server, serve
from recompact.values.chat import Request


def write_config(path: Path, server: Server, suite: str, concurrency: int) -> Path:
    path.write_text(config_text(suite, server.base_url, concurrency=concurrency))
    return path


@pytest.mark.parametrize(("suite", "kills"), [("books_6", 2), pytest.param("books_10", 6, marks=pytest.mark.slow)])
async def test_kill_9_at_random_moments(suite: str, kills: int, tmp_path: Path) -> None:
    received: list[int] = []

    def note(request: Request) -> None:
        assert request.decoding.seed is not None
        received.append(request.decoding.seed)

    chance = random.Random("kill verify")
    async with serve({"reader": ShakyReader(note), "noter": FickleNoter(note)}, latency=0.005) as server:
        whole = write_config(tmp_path / "whole.toml", server, suite, 32)
        config = write_config(tmp_path / "killed.toml", server, suite, 4)
        assert await finished("collect", whole) == await finished("collect", config)
        received.clear()
        expected = await finished("verify", whole)
        assert expected.startswith("digest: ")
        total = len(received)
        assert len(set(received)) == total > 100
        received.clear()
        path = tmp_path / "runs" / "killed.db"
        journaled: set[int] = set()
        drawn: set[str] = set()
        for _ in range(kills):
            before = len(received)
            await killed("verify", config, received=received, chance=chance, most=2 * total // (3 * kills))
            assert not journaled & set(received[before:]), "a call that was journaled was sent again"
            with Store.read(path) as store:
                rows = select_rows(store, "SELECT unit, ordinal FROM calls WHERE unit LIKE 'continue/%'")
                journaled = {seed_of(row["unit"], row["ordinal"]) for row in rows}
                now = {row.name for row in continuation_rows(store)}
            assert drawn <= now
            drawn = now
        before = len(received)
        assert await finished("verify", config) == expected
        assert not journaled & set(received[before:])
        assert total // 10 < len(journaled) < total
        assert drawn
        sent = len(received)
        assert await finished("verify", tmp_path / "runs" / "killed.db") == expected
        assert len(received) == sent  # all is there: nobody is asked
