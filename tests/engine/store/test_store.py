"""The run file: texts, journal, records, versions, locks, and what happens when the disk is full."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples import examples
from fakes import Noter, Reader, pages_suite
from hypothesis import given, strategies as st
from needs import require
from run_files import select_rows

from recompact.compressors.prompted import Prompted
from recompact.engine.rollout import Agent, run_episode
from recompact.engine.store.checksums import FORMAT
from recompact.engine.store.metadata import RunMetadata
from recompact.engine.store.records import read_boundary, read_trajectory, write_trajectory
from recompact.engine.store.store import Store, StoreError
from recompact.environments.inprocess import InProcessEpisode
from recompact.models.journal import JournaledReply, UnitCalls, seed_of
from recompact.models.shape import shape_reply
from recompact.values.chat import Decoding, Message, Reply, Request, ToolCall, Usage, assistant, user
from recompact.values.outcome import BoundaryId
from recompact.values.template import default_template
from recompact.values.tokens import counter
from recompact.values.trajectory import Trajectory

texts = st.text(st.characters(), max_size=400)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    texts,
    st.lists(st.builds(ToolCall, texts, texts, texts), max_size=2).map(tuple),
    texts,
)
replies = st.builds(
    Reply,
    messages,
    st.builds(Usage, *[st.integers(0, 10**9)] * 5),
    st.sampled_from(["stop", "length", "refusal"]),
    st.text(max_size=40),
)


@given(st.lists(texts | st.binary(max_size=2000), max_size=8))
@examples(50)  # it waits for the disk
def test_texts_come_back_as_they_went_in_and_are_kept_once(
    tmp_path_factory: pytest.TempPathFactory, data: list[str | bytes]
) -> None:
    with Store.open(tmp_path_factory.mktemp("s") / "run.db") as store:
        for _ in range(2):
            with store.transaction():
                keys = [store.put(item) for item in data]
        for item, key in zip(data, keys, strict=True):
            assert (store.text(key) if isinstance(item, str) else store.blob(key)) == item
        assert select_rows(store, "SELECT count(*) AS n FROM texts")[0]["n"] == len(set(keys))


class Answers:
    """A model that gives prepared replies and counts what it is asked."""

    name = "answers"

    def __init__(self, replies: list[Reply]) -> None:
        self.replies = replies
        self.asked = 0

    async def reply(self, request: Request) -> Reply:
        self.asked += 1
        return self.replies[self.asked - 1]


@given(st.lists(replies, min_size=1, max_size=6), st.integers(0, 6))
@examples(50)
def test_journal_replay_is_the_identity_wherever_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, prepared: list[Reply], cut: int
) -> None:
    import asyncio

    requests = [Request((user(f"question {n}"),), decoding=Decoding(temperature=1.0)) for n in range(len(prepared))]

    async def ask(store: Store, model: Answers, upto: int) -> list[Reply]:
        bound = UnitCalls(store, "unit").bound(model, "agent")
        return [await bound.reply(request) for request in requests[:upto]]

    expected = [shape_reply(reply, request) for reply, request in zip(prepared, requests, strict=True)]
    with Store.open(tmp_path_factory.mktemp("s") / "run.db") as store:
        asyncio.run(ask(store, Answers(prepared), cut))
        rest = Answers(prepared[cut:])
        assert asyncio.run(ask(store, rest, len(prepared))) == expected
        assert rest.asked == max(0, len(prepared) - cut)
        nobody = Answers([])
        assert asyncio.run(ask(store, nobody, len(prepared))) == expected
        assert nobody.asked == 0
        spent = sum((r.usage for r in expected), Usage())
        assert store.spent() == {("answers", "agent"): spent}


async def test_a_replay_that_takes_another_way_forgets_the_old_one(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db") as store:
        first = [Reply(assistant(str(n))) for n in range(3)]
        bound = UnitCalls(store, "u").bound(Answers(first), "agent")
        for n in range(3):
            await bound.reply(Request((user(f"q{n}"),)))
        calls = UnitCalls(store, "u")
        model = Answers([Reply(assistant("new"))])
        again = calls.bound(model, "agent")
        assert (await again.reply(Request((user("q0"),)))).message.content == "0"
        assert (await again.reply(Request((user("other"),)))).message.content == "new"
        assert calls.differed
        assert model.asked == 1
        assert sorted(store.journaled("u")) == [0, 1]
        assert sum(usage.calls for usage in store.spent().values()) == 4  # what was forgotten was paid for all the same


async def test_each_call_of_a_unit_has_its_own_seed(tmp_path: Path) -> None:
    seeds: list[int | None] = []

    class Seeds:
        name = "seeds"

        async def reply(self, request: Request) -> Reply:
            seeds.append(request.decoding.seed)
            return Reply(assistant("ok"))

    with Store.open(tmp_path / "run.db") as store:
        bound = UnitCalls(store, "u", seed=7).bound(Seeds(), "agent")
        for _ in range(3):
            await bound.reply(Request((user("same"),)))
    assert seeds == [seed_of("u", n, 7) for n in range(3)]
    assert len(set(seeds)) == 3


async def a_trajectory() -> Trajectory:
    suite = pages_suite()
    task = suite.tasks("train")[0]
    return await run_episode(
        task,
        InProcessEpisode(suite.environment(task), task.id),
        Agent(Reader()),
        count=counter(),
        step_limit=20,
        compressor=lambda opening: Prompted(Noter(), default_template(), counter()),
        budget=500,
    )


async def test_a_trajectory_comes_back_equal_with_all_its_boundaries(tmp_path: Path) -> None:
    trajectory = await a_trajectory()
    assert trajectory.boundaries
    with Store.open(tmp_path / "run.db") as store:
        write_trajectory(store, "u", trajectory, phase="collect", run=0, groups={"a": "b"}, seconds=1.0)
    with Store.read(tmp_path / "run.db") as store:
        assert read_trajectory(store, "u") == trajectory
        assert read_boundary(store, BoundaryId("u", 1)) == trajectory.boundaries[0]


async def test_the_digest_is_of_results_and_not_of_timings_or_order(tmp_path: Path) -> None:
    trajectory = await a_trajectory()
    digests = set()
    for name, units, seconds in (("a", ["x", "y"], 1.0), ("b", ["y", "x"], 2.0), ("c", ["x"], 1.0)):
        with Store.open(tmp_path / f"{name}.db") as store:
            for unit in units:
                write_trajectory(store, unit, trajectory, phase="p", run=0, groups={}, seconds=seconds)
            digests.add((name, store.digest()))
    by_name = dict(digests)
    assert by_name["a"] == by_name["b"] != by_name["c"]


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db") as store:
        with pytest.raises(KeyError), store.transaction():
            store.put("half")
            raise KeyError("stop")
        assert select_rows(store, "SELECT * FROM texts") == []


def _hold(path: Path, ready: object, release: object) -> None:
    with Store.open(path):
        ready.set()  # type: ignore[attr-defined]
        release.wait(20)  # type: ignore[attr-defined]


def test_a_second_writer_is_refused_and_a_reader_is_not(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    spawn = multiprocessing.get_context("spawn")
    ready, release = spawn.Event(), spawn.Event()
    holder = spawn.Process(target=_hold, args=(path, ready, release))
    holder.start()
    try:
        assert ready.wait(20)
        with pytest.raises(StoreError, match=rf"in use by process {holder.pid}.*another --run"):
            Store.open(path)
        with Store.read(path) as store:
            assert store.metadata == RunMetadata()
    finally:
        release.set()
        holder.join(20)
    Store.open(path).close()


@pytest.mark.parametrize("version", [1, FORMAT - 1, FORMAT + 1, 99])
def test_a_file_of_another_format_is_refused_and_left_as_it_is(tmp_path: Path, version: int) -> None:
    path = tmp_path / "run.db"
    Store.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={version}")
    whose = "a newer" if version > FORMAT else "an older"
    for opening in (Store.open, Store.read):
        with pytest.raises(StoreError, match=f"written by {whose} Recompact"):
            opening(path)
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (version,)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE mine (x)")
    with pytest.raises(StoreError, match="another program"):
        Store.open(other)
    view = tmp_path / "view.db"
    with sqlite3.connect(view) as db:
        db.execute("CREATE VIEW mine AS SELECT 1")
    with pytest.raises(StoreError, match="another program"):
        Store.open(view)
    text = tmp_path / "text.db"
    text.write_text("this is not a database, and it is long enough to be looked at" * 20)
    with pytest.raises(StoreError, match=r"text\.db"):
        Store.open(text)
    with pytest.raises(StoreError, match="no run"):
        Store.read(tmp_path / "nothing.db")


def test_a_file_without_one_of_its_tables_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    Store.open(path).close()
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE dropped")
    for opening in (Store.open, Store.read):
        with pytest.raises(StoreError, match=r"run\.db is damaged.*\bdropped\b"):
            opening(path)


def test_damaged_pages_are_reported_with_the_file_and_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Store.open(path) as store, store.transaction():
        for number in range(200):
            store.finish(f"unit/{number}", "trajectory", f"result {number}", 0.0)
    pages = path.read_bytes()
    size = int.from_bytes(pages[16:18], "big")
    with sqlite3.connect(path) as db:
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'units'").fetchone()
    path.write_bytes(pages[: (root - 1) * size] + b"\xa5" * size + pages[root * size :])
    with Store.read(path) as store:
        for read in (store.finished, store.digest, lambda: store.result("unit/7")):
            with pytest.raises(StoreError, match=r"run\.db .*damaged.*--run"):
                read()


def test_a_damaged_list_of_tables_is_reported_like_any_other_page(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    Store.open(path).close()
    pages = path.read_bytes()
    path.write_bytes(pages[:100] + b"\xa5" * 300 + pages[400:])
    for opening in (Store.open, Store.read):
        with pytest.raises(StoreError, match=r"run\.db .*damaged"):
            opening(path)


def test_a_file_that_nobody_has_written_to_yet_reads_as_an_empty_run(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.touch()
    with Store.read(path) as store:
        assert store.metadata == RunMetadata()
        assert store.finished() == set()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB, where the machine lets us make one."""
    place = tmp_path / "small"
    place.mkdir()
    require("root")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("this machine does not let us mount a small file system")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_is_said_plainly_and_loses_nothing_recorded(small_disk: Path) -> None:
    path = small_disk / "run.db"
    store = Store.open(path)
    kept = 0
    with pytest.raises(StoreError, match="free some space"):
        for n in range(10_000):
            reply = Reply(assistant(os.urandom(2000).hex()), Usage(1, 1, 0, 0, 1))
            store.journal(JournaledReply("u", n, "agent", "m", "00" * 32, reply, 0.0))
            kept = n + 1
    assert kept > 3
    assert len(store.journaled("u")) == kept
    store.close()
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    with Store.open(path) as store:
        assert len(store.journaled("u")) == kept
        store.journal(JournaledReply("u", kept, "agent", "m", "00" * 32, Reply(assistant("more")), 0.0))


def test_a_run_that_may_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's directory: SQLite may not put its files beside the run."""
    path = tmp_path / "theirs #1?.db"
    with Store.open(path) as store:
        store.set_metadata(RunMetadata(suite="office"))
    for beside in (f"{path}-wal", f"{path}-shm"):
        Path(beside).unlink(missing_ok=True)
    monkeypatch.setattr(os, "access", lambda file, mode: mode != os.W_OK)
    with Store.read(path) as store:
        assert store.metadata.suite == "office"
        assert not Path(f"{path}-shm").exists()
    Path(f"{path}-wal").write_bytes(b"more")
    with pytest.raises(StoreError, match=r"not closed \(.*-wal has more\).*copy both"):
        Store.read(path)
