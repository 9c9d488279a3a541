"""A suite that does all it can to end the run, beside good tasks that must not notice.

In process: nothing that an environment raises or returns reaches beyond its episode. In hosts: nothing that it does
with its process either; nothing is left running, and nothing outside is changed.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import hostile_suite
import pytest
from fakes import calling
from hostile_suite import GOOD, HOSTED, IN_PROCESS, ONLY_SANDBOXED, SHAPED, UNHARMED, HostileSuite
from needs import needs

from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import AgentConfig, CompressorConfig, Config, RunConfig
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.store import Store
from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import Episodes, Suite
from recompact.environments.sandbox import HostLimits, find_bubblewrap
from recompact.values.chat import Reply, Request
from recompact.values.trajectory import Trajectory

SUPPORT = Path(hostile_suite.__file__).parent
MIB = 1024**2


class Counting:
    """Does three things, then ends."""

    name = "counting"

    async def reply(self, request: Request) -> Reply:
        seen = [m.content.split()[0] for m in request.messages if m.role == "tool"]
        last = max((int(word) for word in seen if word.isdigit()), default=len(seen))
        return calling(("do", {"end": last >= 3}))


async def collected(suite: Suite | Episodes, path: Path, concurrency: int) -> dict[str, Trajectory]:
    config = Config(
        agent=AgentConfig(model="counting"),
        compressor=CompressorConfig(kind="fifo", budget=400, model="counting"),
        run=RunConfig(step_limit=8, concurrency=concurrency),
    )
    models = {"counting": Counting(), "sim-optimizer": Counting()}
    async with open_study(config, path, models=models, suite=suite) as study:
        units = await collect(study)
    with Store.read(path) as store:
        return {unit.removeprefix("collect/"): read_trajectory(store, unit) for unit in units}


def check_good(trajectories: dict[str, Trajectory]) -> None:
    good = [trajectory for task, trajectory in trajectories.items() if task.startswith("good-")]
    assert len(good) == GOOD
    for trajectory in good:
        assert (trajectory.ending, trajectory.error) == ("finished", ""), trajectory.task
        assert trajectory.score.success
        assert trajectory.score.details == {"count": 4}
        assert trajectory.boundaries
        assert not trajectory.incidents


async def test_nothing_in_process_ends_more_than_its_episode(tmp_path: Path) -> None:
    assert len(IN_PROCESS) >= 40
    started = time.monotonic()
    trajectories = await collected(HostileSuite(), tmp_path / "run.db", 8)
    print(f"{len(IN_PROCESS)} behaviours in process beside {GOOD} good tasks: {time.monotonic() - started:.0f} s")
    check_good(trajectories)
    assert trajectories.keys() > IN_PROCESS.keys()
    for task in IN_PROCESS:
        trajectory = trajectories[task]
        if task in SHAPED or task.startswith("close-"):
            assert trajectory.ending == "finished", (task, trajectory.error)
        else:
            assert trajectory.ending == "environment error", task
            assert f"suite hostile, task {task}: " in trajectory.error
            assert len(trajectory.error) < 3000


async def test_what_json_has_no_form_for_becomes_text(tmp_path: Path) -> None:
    trajectories = await collected(
        HostileSuite(names=["score-decimal", "score-set", "score-deep"]), tmp_path / "r.db", 4
    )
    assert trajectories["score-set"].score.details == {"some": [1, 2, 3], "frozen": ["a", "b"]}
    assert trajectories["score-decimal"].score.details == {"x": "1.5"}
    assert trajectories["score-deep"].score.details.keys() == {"unreadable"}


def tree_hash(place: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(path for path in place.rglob("*") if "__pycache__" not in path.parts):
        total.update(f"{path.relative_to(place)} {path.lstat().st_mode} ".encode())
        total.update(path.read_bytes() if path.is_file() else b"")
    return total.hexdigest()


def running_with(mark: str, sleep: str) -> Iterator[str]:
    """Processes that have the mark among their variables, or sleep for as long as only ours do."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if mark.encode() in (place / "environ").read_bytes() or sleep in command:
                yield f"{place.name}: {command[:200]}"
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue


@needs("linux")
async def test_nothing_in_a_host_ends_more_than_its_episode_or_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandboxed = find_bubblewrap()[0] is not None
    names = [name for name in HOSTED if sandboxed or name not in ONLY_SANDBOXED]
    assert len(names) >= 60
    canary, run = tmp_path / "canary", tmp_path / "runs"
    canary.mkdir()
    run.mkdir()
    (canary / "thesis.txt").write_text("years of work")
    mark, sleep = uuid.uuid4().hex, str(31_536_000 + uuid.uuid4().int % 10**9)
    listening = socket.create_server(("127.0.0.1", 0))
    variables = {"HOSTILE_MARK": mark, "HOSTILE_SLEEP": sleep, "CANARY": str(canary), "RUN": str(run)}
    variables["PORT"] = str(listening.getsockname()[1])
    for name, value in {**variables, "OPENAI_API_KEY": "sk-hostile"}.items():
        monkeypatch.setenv(name, value)
    suite = HostedSuite(
        "hostile_suite.py:HostileSuite",
        {"kind": "hosted", "names": names},
        SUPPORT,
        timeout=8,
        env=tuple(variables),
        limits=HostLimits(memory=1024 * MIB, processes=64, file=16 * MIB, message=16 * MIB),
    )
    before = tree_hash(canary), tree_hash(SUPPORT)
    files = len(os.listdir("/proc/self/fd"))
    started = time.monotonic()
    try:
        trajectories = await collected(suite, run / "run.db", 16)
        seconds = time.monotonic() - started
    finally:
        listening.close()
    print(f"{len(names)} behaviours in hosts beside {GOOD} good tasks: {seconds:.0f} s, sandboxed: {sandboxed}")
    check_good(trajectories)
    for name in names:
        trajectory = trajectories[name]
        harmless = name in UNHARMED or name in SHAPED
        assert trajectory.ending == ("finished" if harmless else "environment error"), (name, trajectory.error)
        if not harmless:
            assert f"suite hostile_suite.py:HostileSuite, task {name}: " in trajectory.error, trajectory.error
    assert list(running_with(mark, sleep)) == []
    assert (tree_hash(canary), tree_hash(SUPPORT)) == before
    assert len(os.listdir("/proc/self/fd")) <= files
