"""A run survives anything: a server that fails one call in three, and kill -9 at twenty random moments."""

from __future__ import annotations

import random
from pathlib import Path

import fakes
import pytest
from commands import finished, killed, reading_config
from fakes import PAGES, Noter, Reader
from run_files import select_rows
from sim_faults import TRANSIENT, Faults
from sim_server import Server, serve

from recompact.engine.store.records import read_trajectory
from recompact.engine.store.store import Store
from recompact.models.journal import seed_of
from recompact.models.protocol import ChatModel
from recompact.values.chat import Request

FAKES = Path(fakes.__file__)


def write_config(path: Path, server: Server, *, suite: str, concurrency: int, api: str = "chat") -> Path:
    model = f'api = "{api}"\ntimeout = 4\nretry_wait = 0.05\nattempts = 20\n'
    path.write_text(reading_config(f"{FAKES}:{suite}", server.base_url, concurrency=concurrency, model=model))
    return path


def pages_read(store: Store) -> list[list[int]]:
    """The pages that each trajectory looked at, in order."""
    out = []
    for row in select_rows(store, "SELECT unit FROM trajectories ORDER BY unit"):
        calls = [c for turn in read_trajectory(store, row["unit"]).turns for c in turn.message.calls]
        out.append([c.parsed()["page"] for c in calls if c.name == "look"])
    return out


@pytest.mark.parametrize("episodes", [20, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.slow
async def test_with_one_call_in_three_failing_no_step_is_lost_or_doubled(episodes: int, tmp_path: Path) -> None:
    digests = {}
    models: dict[str, ChatModel] = {"reader": Reader(), "noter": Noter()}
    for name, api, faults in (
        ("calm", "chat", None),
        ("faulty", "chat", Faults(tuple(TRANSIENT), rate=1 / 3, trickle_seconds=0.05)),
        ("faulty-responses", "responses", Faults(("429", "500", "cut", "broken-json"), rate=1 / 3)),
    ):
        async with serve(models, faults=faults) as server:
            suite = f"pages_suite_{episodes}"
            config = write_config(tmp_path / f"{name}.toml", server, suite=suite, concurrency=48, api=api)
            digests[name] = await finished("collect", config)
        with Store.read(tmp_path / "runs" / f"{name}.db") as store:
            assert pages_read(store) == [list(range(1, PAGES + 1))] * episodes
            calls = select_rows(store, "SELECT count(*) AS n FROM calls")[0]["n"]
        # Each call was answered well exactly once: what the server got beyond that were its own faults.
        failed = sum(n for kind, n in server.faults.items() if kind != "trickle")
        assert sum(server.received.values()) - failed == calls == 12 * episodes
        if faults:
            assert set(server.faults) == set(faults.kinds)
            assert failed > 0.3 * calls
    assert digests["calm"] == digests["faulty"]
    assert digests["calm"].startswith("digest: ")


@pytest.mark.parametrize(
    ("episodes", "kills"), [(20, 4), pytest.param(200, 20, marks=pytest.mark.slow)], ids=["some", "many"]
)
@pytest.mark.slow
async def test_kill_9_at_random_moments(episodes: int, kills: int, tmp_path: Path) -> None:
    received: list[int] = []

    def note(request: Request) -> None:
        assert request.decoding.seed is not None
        received.append(request.decoding.seed)

    chance = random.Random("kill")
    models: dict[str, ChatModel] = {"reader": Reader(note), "noter": Noter(note)}
    async with serve(models, latency=0.01) as server:
        whole = await finished(
            "collect", write_config(tmp_path / "whole.toml", server, suite=f"pages_suite_{episodes}", concurrency=50)
        )
        total = len(received)
        received.clear()
        config = write_config(tmp_path / "killed.toml", server, suite=f"pages_suite_{episodes}", concurrency=4)
        path = tmp_path / "runs" / "killed.db"
        journaled: set[int] = set()
        for _ in range(kills):
            before = len(received)
            await killed("collect", config, received=received, chance=chance, most=2 * total // (3 * kills))
            again = journaled & set(received[before:])
            assert not again, "a call that was journaled was sent again"
            if path.exists():
                with Store.read(path) as store:
                    rows = select_rows(store, "SELECT unit, ordinal FROM calls")
                    journaled = {seed_of(row["unit"], row["ordinal"]) for row in rows}
        before = len(received)
        assert await finished("collect", config) == whole
        assert not journaled & set(received[before:])
        assert total // 10 < len(journaled) < total
    with Store.read(path) as store:
        assert pages_read(store) == [list(range(1, PAGES + 1))] * episodes
