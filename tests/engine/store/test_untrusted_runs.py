"""A run that somebody else has written: reading it makes no code run, and what was changed in it is noticed."""

from __future__ import annotations

import json
import os
import pickle
import sqlite3
import zlib
from pathlib import Path

import pytest
from fakes import pages_suite

from recompact.engine.store import packing, store as store_module
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.store import Store, StoreError
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import EnvironmentFailed
from recompact.values.trajectory import Action, Snapshot

SOURCE = Path(store_module.__file__).parents[1]


def test_nothing_of_ours_unpickles() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text().replace("literal_eval(", "")
        for word in ("import pickle", "import marshal", "import shelve", "import dill", "pickle.load", "eval("):
            assert word not in text, f"{path}: {word}"


def written(path: Path, data: str | bytes) -> bytes:
    with Store.open(path) as store, store.transaction():
        return store.put(data)


def tamper(path: Path, codec: int, data: bytes) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE texts SET codec = ?, data = ?", (codec, data))
    connection.close()


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (0, b"another text"),
        (1, zlib.compress(b"another text")),
        (1, b"no zlib at all"),
        (1, zlib.compress(b"text" * 100)[:-3]),
        (2, b""),
        (2, zlib.compress(b"text" * 100)),
        (2, b"\x01" + b"8 bytes." + zlib.compress(b"text" * 100)),
        (7, b"text" * 100),
    ],
)
def test_a_text_that_was_changed_is_an_error_that_names_the_run(tmp_path: Path, codec: int, data: bytes) -> None:
    key = written(tmp_path / "run.db", "text" * 100)
    tamper(tmp_path / "run.db", codec, data)
    with (
        Store.read(tmp_path / "run.db") as store,
        pytest.raises(StoreError, match=r"run\.db .*changed"),
    ):
        store.text(key)


def test_a_text_never_takes_more_memory_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "_MOST", 10_000_000)
    bomb = b"\0" * 50_000_000
    key = written(tmp_path / "run.db", bomb)
    asked: list[int] = []
    unpacking = zlib.decompressobj

    class Counting:
        def __init__(self) -> None:
            self._inner = unpacking()

        def decompress(self, data: bytes, most: int) -> bytes:
            raw = self._inner.decompress(data, most)
            asked.append(len(raw))
            return raw

        @property
        def eof(self) -> bool:
            return self._inner.eof

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    with Store.read(tmp_path / "run.db") as store, pytest.raises(StoreError, match="is damaged"):
        store.blob(key)
    assert asked == [10_000_001]


@pytest.mark.parametrize("document", ["[" * 100_000, "no json", "[]", "{}", '{"task": 5}', "null"])
def test_a_document_that_is_none_is_an_error_that_names_the_run(tmp_path: Path, document: str) -> None:
    path = tmp_path / "run.db"
    with Store.open(path) as store, store.transaction():
        store.finish("collect/t", "trajectory", document, 0.0)
    with Store.read(path) as store, pytest.raises(StoreError, match=r"run\.db .*changed"):
        read_trajectory(store, "collect/t")


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return Path.touch, (Path("evil"),)  # type: ignore[return-value]


async def test_a_snapshot_makes_no_code_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    suite = pages_suite()
    task = suite.tasks("train")[0]
    episode = InProcessEpisode(suite.environment(task), task.id)
    await episode.start()
    with pytest.raises(EnvironmentFailed, match="not JSON"):
        await episode.restore(Snapshot("state", pickle.dumps([Evil(), None])))
    assert not os.listdir(tmp_path)


async def test_state_that_is_json_comes_back_and_other_state_is_replayed() -> None:
    from snapshot_suites import WORDS, words

    task = words.tasks("train")[0]
    episode = InProcessEpisode(words.environment(task), task.id)
    await episode.start()
    await episode.step(WORDS[0])
    snapshot = await episode.snapshot()
    assert (snapshot.strategy, json.loads(snapshot.data)) == ("state", [{"words": ["a"]}, None])
    await episode.step(Action("lock"))
    assert (await episode.snapshot()).strategy == "replay"
