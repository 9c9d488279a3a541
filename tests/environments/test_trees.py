"""What others write is read within limits and by descriptors: nothing leads a reader out of its directory."""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from places import deep

from recompact.agents import episode as agent_episode
from recompact.agents.client import Function
from recompact.agents.episode import AgentEpisode
from recompact.agents.normalizer import Manifest
from recompact.agents.settings import AgentSettings
from recompact.environments.files import ActionError, Files, Tree, TreeLimits, TreeRefused, TreeTooLarge, tree_excess
from recompact.environments.own_directory import empty_directory
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.environments.sandbox import HostLimits
from recompact.environments.snapshots import SnapshotRefused, archive
from recompact.values.chat import Reply, Request, Usage, assistant
from recompact.values.trajectory import Action, Score

AT_CWD, EXCHANGE = -100, 2
EXCHANGING = f"""
import ctypes, sys
exchange = ctypes.CDLL(None, use_errno=True).renameat2
one, other = (path.encode() for path in sys.argv[1:])
while True:
    exchange({AT_CWD}, one, {AT_CWD}, other, {EXCHANGE})
"""


def can_exchange(tmp_path: Path) -> bool:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    other.mkdir()
    try:
        return bool(ctypes.CDLL(None).renameat2(AT_CWD, bytes(one), AT_CWD, bytes(other), EXCHANGE) == 0)
    except AttributeError:
        return False


@pytest.fixture
def raced(tmp_path: Path) -> Iterator[Path]:
    """A workspace in which a directory and a link to the outside change places all the time."""
    if sys.platform != "linux" or not can_exchange(tmp_path):
        pytest.skip("the file system cannot exchange two names")
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    (workspace / "inner").mkdir(parents=True)
    (workspace / "inner" / "harmless").write_text("inside")
    outside.mkdir()
    (outside / "secret").write_text("outside")
    (workspace / "link").symlink_to(outside)
    racer = subprocess.Popen([sys.executable, "-c", EXCHANGING, str(workspace / "inner"), str(workspace / "link")])
    try:
        yield workspace
    finally:
        racer.kill()
        racer.wait()


def test_a_directory_that_becomes_a_link_is_not_followed(raced: Path) -> None:
    names: set[str] = set()
    for _ in range(3000):
        names |= Manifest(raced).change().keys()
    assert {name.rpartition("/")[2] for name in names} <= {"inner", "link", "harmless"}


def test_a_snapshot_has_nothing_of_the_outside(raced: Path) -> None:
    for _ in range(2000):
        try:
            data = archive(raced)
        except SnapshotRefused:
            continue
        assert b"secret" not in data


def test_a_file_is_not_read_through_a_link_that_was_a_directory(raced: Path) -> None:
    files = Files(raced, "/workspace")
    for _ in range(3000):
        for directory in ("inner", "link"):
            with pytest.raises(ActionError):
                files.read(f"{directory}/secret")


def sparse(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(300 * 1024**3)


def crowd(root: Path) -> None:
    for number in range(600):
        (root / str(number)).touch()


LIMITS = TreeLimits(10_000_000, entries=500)


@pytest.mark.parametrize(("leave", "what"), [(deep, "200 deep"), (sparse, "10,000,000 bytes"), (crowd, "500 entries")])
def test_a_reader_has_limits(leave: Callable[[Path], None], what: str, place: Path) -> None:
    leave(place)
    with pytest.raises(TreeTooLarge, match=what):
        Manifest(place, limits=LIMITS).change()
    empty_directory(place)
    assert list(place.iterdir()) == []


@pytest.mark.needs("linux")
def test_pipes_and_sockets_hold_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    assert Manifest(tmp_path).change().keys() == {"pipe", "socket"}
    with pytest.raises(SnapshotRefused):
        archive(tmp_path)
    with pytest.raises(ActionError, match="not a regular file"):
        Files(tmp_path, "/workspace").read("pipe")


def test_a_reading_ends_when_nobody_waits_for_it(tmp_path: Path) -> None:
    sparse(tmp_path)
    stop = threading.Event()
    with Tree(tmp_path, TreeLimits(1024**4), stop=stop) as tree:
        (entry,) = tree.walk()
        parts = tree.content(entry)
        next(parts)
        stop.set()
        with pytest.raises(TreeRefused):
            next(parts)


def test_depth_is_no_way_around_the_limit_of_the_disk(place: Path) -> None:
    deep(place)
    assert "deep" in tree_excess(place, 1024**3)
    empty_directory(place)
    assert tree_excess(place, 1024**3) == ""


class Work:
    """A task whose check would pass."""

    def lay_out(self, workspace: Path) -> None: ...

    def judge(self, workspace: Path, answer: str) -> Score:
        return Score.of(True)


@pytest.mark.parametrize("leave", [deep, sparse])
async def test_what_cannot_be_looked_at_fails_the_task_of_the_agent(leave: Callable[[Path], None]) -> None:
    def agent(task: str, workspace: Path, client: object) -> None:
        ask = client.chat.completions.create  # type: ignore[attr-defined]
        ask(model="m", messages=[{"role": "user", "content": task}])
        leave(workspace)
        ask(model="m", messages=[{"role": "user", "content": task}, {"role": "user", "content": "again"}])

    limits = HostLimits(disk=10_000_000)
    settings = AgentSettings(("agent",), unsafe=True, limits=limits)
    episode = AgentEpisode(settings, Task("t", "Do it."), Work(), None, Function(agent), single=True)
    try:
        await episode.start()
        assert (await episode.step(Action("", {}, "go on"))).done
        score = await episode.score()
    finally:
        await episode.close()
    assert not score.success
    assert score.details["reason"]


async def test_what_is_recorded_of_such_an_agent_has_no_path_of_this_machine() -> None:
    """Its directories have other names each time, and what is recorded would differ with them."""

    def agent(task: str, workspace: Path, client: object) -> None:
        ask = client.chat.completions.create  # type: ignore[attr-defined]
        ask(model="m", messages=[{"role": "user", "content": task}])
        workspace.rmdir()
        ask(model="m", messages=[{"role": "user", "content": task}, {"role": "user", "content": "again"}])

    settings = AgentSettings(("agent",), unsafe=True)
    episode = AgentEpisode(settings, Task("t", "Do it."), Work(), None, Function(agent), single=True)
    try:
        await episode.start()
        assert episode._directories is not None
        root = str(episode._directories.root)
        observation = await episode.step(Action("", {}, "go on"))
        score = await episode.score()
    finally:
        await episode.close()
    assert observation.done
    assert not score.success
    assert root not in observation.text + score.details["reason"]
    assert "/workspace is not a directory" in score.details["reason"]


async def test_what_all_conversations_of_an_agent_take_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are kept in the harness, which has other episodes."""
    monkeypatch.setattr(agent_episode, "KEPT_CHARACTERS", 10_000)
    asked: list[Request] = []

    async def answer(role: str, request: Request) -> Reply:
        asked.append(request)
        return Reply(assistant("yes"), Usage(1, 1, calls=1))

    def agent(task: str, workspace: Path, client: object) -> None:
        ask = client.chat.completions.create  # type: ignore[attr-defined]
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        first = {"role": "user", "content": task}
        ask(model="m", messages=[first], tools=tools)
        for number in range(100):
            ask(model="m", messages=[{"role": "user", "content": f"{number} " * 500}])

    settings = AgentSettings(("agent",), unsafe=True)
    episode = AgentEpisode(settings, Task("t", "Do it."), Work(), answer, Function(agent))
    try:
        await episode.start()
        with pytest.raises(EnvironmentFailed, match="characters together"):
            await episode.step(Action("", {}, "go on"))
    finally:
        await episode.close()
    assert 0 < len(asked) < 10


async def test_an_agent_is_watched_while_its_model_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_episode, "_DISK_LOOK", 0.1)

    def agent(task: str, workspace: Path, client: object) -> None:
        workspaces.append(workspace)
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": task}])  # type: ignore[attr-defined]

    workspaces: list[Path] = []
    settings = AgentSettings(("agent",), unsafe=True, limits=HostLimits(disk=10_000_000))
    episode = AgentEpisode(settings, Task("t", "Do it."), Work(), None, Function(agent), single=True)
    try:
        await episode.start()
        (workspaces[0] / "large").write_bytes(bytes(20_000_000))
        async with asyncio.timeout(60):
            while episode._excess is None:
                await asyncio.sleep(0.05)
        assert (await episode.step(Action("", {}, "go on"))).done
        score = await episode.score()
    finally:
        await episode.close()
    assert not score.success
    assert "[agent.limits] disk" in score.details["reason"]


async def test_what_an_agent_uses_too_much_of_fails_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no environment error, which would keep the task out of what is compared."""
    monkeypatch.setattr(agent_episode, "_LOOK", 0.0)

    def agent(task: str, workspace: Path, client: object) -> None:
        ask = client.chat.completions.create  # type: ignore[attr-defined]
        ask(model="m", messages=[{"role": "user", "content": task}])
        ask(model="m", messages=[{"role": "user", "content": task}, {"role": "user", "content": "again"}])

    settings = AgentSettings(("agent",), unsafe=True)
    episode = AgentEpisode(settings, Task("t", "Do it."), Work(), None, Function(agent), single=True)
    try:
        await episode.start()
        assert episode._agent is not None
        monkeypatch.setattr(type(episode._agent), "excess", lambda agent: "it had more than 64 processes")
        assert (await episode.step(Action("", {}, "go on"))).done
        score = await episode.score()
    finally:
        await episode.close()
    assert (score.success, score.details["reason"]) == (False, "it had more than 64 processes")
