"""Who limits how many processes a command starts, and that a command which doubles itself does no harm."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import needs
from processes import alive
from sentences import numbers_in

from recompact.environments import protection, sandbox
from recompact.environments.control_groups import ControlGroup, parents_of_groups
from recompact.environments.hosted import HostedEpisode, HostedSuite
from recompact.environments.process_tree import descendants, kill_all, stop_tree
from recompact.environments.protection import ProcessLimit, describe, most_tasks, process_limit, setting
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.environments.sandbox import HostLimits, SandboxMode, SandboxPolicy, find_bubblewrap, wrap_command
from recompact.environments.shell import CommandLimits, Shell
from recompact.values.trajectory import Action

pytestmark = needs("linux")
PROGRAM, PROBLEM = find_bubblewrap()
GROUPS = process_limit().groups
EITHER = [pytest.param(True, marks=needs("bubblewrap")), pytest.param(False, marks=needs("control groups"))]
BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


class Peak:
    """How many processes there are at most below this one, as long as it is looked at."""

    def __init__(self) -> None:
        self.most = 0

    async def look(self) -> None:
        while True:
            self.most = max(self.most, len(descendants(os.getpid(), most=5000)))
            await asyncio.sleep(0.005)


async def with_peak(work: asyncio.Future[Any]) -> int:
    peak = Peak()
    looking = asyncio.ensure_future(peak.look())
    try:
        await asyncio.wait({work})
    finally:
        looking.cancel()
    return peak.most


@needs("process limit")
@pytest.mark.parametrize("sandboxed", EITHER)
async def test_a_command_that_doubles_itself_is_stopped_by_the_kernel(directory: Path, sandboxed: bool) -> None:
    shell = Shell(PROGRAM if sandboxed else None, "/place", CommandLimits(processes=20))
    work = asyncio.ensure_future(asyncio.to_thread(shell.run, BOMB, directory))
    most = await with_peak(work)
    assert numbers_in(work.result().stopped or "") == ["20"]
    assert most <= len(descendants(os.getpid())) + most_tasks(20) + 5
    assert shell.run("echo alive", directory).output == "alive\n"


@needs("bubblewrap")
def test_a_command_has_its_processes_and_threads(directory: Path) -> None:
    """The kernel counts threads as well, and so stops later than the watch does."""
    shell = Shell(PROGRAM, "/place", CommandLimits(processes=30))
    outcome = shell.run("for n in $(seq 20); do sleep 0.3 & done; wait; echo all", directory)
    assert (outcome.stopped, outcome.output) == ("", "all\n")


SUITE = """
import os
from recompact.values.chat import ToolSpec, user
from recompact.environments.protocol import Observation, Opening, Task
from recompact.values.trajectory import Score

class Bomb:
    def __init__(self, task): pass
    def start(self): return Opening((user("x"),), (ToolSpec("go", "Go."),))
    def step(self, action):
        while action.arguments["bomb"]:
            try:
                if os.fork() == 0 and action.arguments["leave"]:
                    os.setsid()
            except OSError:
                pass
        return Observation("here")
    def score(self): return Score.of(True)
    def close(self): pass

class Suite:
    name = "bomb"
    def splits(self): return ("train",)
    def tasks(self, split): return [Task("t", "text")]
    def environment(self, task): return Bomb(task)
"""


@needs("process limit")
@pytest.mark.parametrize("leave", [False, True])
@pytest.mark.parametrize("sandboxed", EITHER)
async def test_a_host_that_doubles_itself_is_killed_and_its_neighbour_goes_on(
    tmp_path: Path, sandboxed: bool, leave: bool
) -> None:
    (tmp_path / "bomb.py").write_text(SUITE)
    others = set(descendants(os.getpid()))  # of tests that ran before in this process
    limits = HostLimits(processes=30)
    mode: SandboxMode = "require" if sandboxed else "off"
    suite = HostedSuite("bomb.py:Suite", {}, tmp_path, timeout=60, sandbox=mode, limits=limits)
    evil, good = suite.episode(Task("t", "text")), suite.episode(Task("t", "text"))
    assert isinstance(evil, HostedEpisode)
    await asyncio.gather(evil.start(), good.start())
    before = len(descendants(os.getpid()))
    work = asyncio.ensure_future(evil.step(Action("go", {"bomb": True, "leave": leave})))
    most = await with_peak(work)
    with pytest.raises(EnvironmentFailed, match="30 processes"):
        work.result()
    assert most <= before + most_tasks(30)
    assert (await good.step(Action("go", {"bomb": False, "leave": False}))).text == "here"
    await asyncio.gather(evil.close(), good.close())
    assert set(descendants(os.getpid())) <= others


@needs("bubblewrap", "root")
@pytest.mark.parametrize(("tasks", "fails"), [(12, True), (40, False)])
def test_the_limit_inside_holds_for_an_ordinary_user(tasks: int, fails: bool) -> None:
    assert PROGRAM
    script = f'{setting(tasks)}; exec "$0" "$@"'
    start_many = "import subprocess as s\np = [s.Popen(['sleep', '5']) for _ in range(20)]\n[q.kill() for q in p]"
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None or shutil.which("setpriv") is None:
        pytest.skip("the system has no Python, or no setpriv")
    policy = SandboxPolicy("/", variables={"PATH": "/usr/bin:/bin"})
    command = wrap_command(PROGRAM, ["/bin/sh", "-c", script, python, "-c", start_many], policy)
    user = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups"]
    if subprocess.run([*user, *wrap_command(PROGRAM, ["/bin/true"], policy)], capture_output=True).returncode:
        pytest.skip("an ordinary user cannot shut anything in here")
    ran = subprocess.run([*user, *command], capture_output=True, text=True, timeout=60)
    assert (ran.returncode != 0) == fails, ran.stderr
    assert ("Resource temporarily unavailable" in ran.stderr) == fails


def test_what_limits_processes_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is only watched stands in the last clause, after what the kernel limits, if that is anything."""
    words, sizes = {"processes", "memory", "home", "workspace"}, HostLimits()
    large = HostLimits(disk=sizes.memory + 1)
    for limit, program, limits, limited in (
        (ProcessLimit(inside=True), "bwrap", sizes, {"processes", "home"}),
        (ProcessLimit(inside=True), "old", sizes, {"processes"}),
        (ProcessLimit(inside=True), "bwrap", large, {"processes"}),
        (ProcessLimit(inside=True), None, sizes, set()),
        (ProcessLimit(groups=Path("/groups")), None, sizes, {"processes"}),
        (ProcessLimit(groups=Path("/groups"), memory=True), None, sizes, {"processes", "memory"}),
        (ProcessLimit(), "bwrap", sizes, {"home"}),
    ):
        monkeypatch.setattr(protection, "process_limit", lambda limit=limit: limit)
        monkeypatch.setattr(protection, "find_bubblewrap", lambda program=program: (program, ""))
        monkeypatch.setattr(sandbox, "_help", lambda program: "--size BYTES" if program == "bwrap" else "")
        text = protection.describe_limit(program is not None, limits, "their workspace")
        held, _, rest = text.partition("only watched")
        assert ({w for w in words if w in held}, {w for w in words if w in rest}) == (limited, words - limited)
        assert describe("off").endswith(protection.describe_limit(False, limits))


@needs("control groups")
def test_a_group_is_removed_with_all_that_is_in_it() -> None:
    assert GROUPS is not None
    group = ControlGroup.new(GROUPS, 50)
    assert group.place is not None
    inner = ControlGroup.new(group.place, 50)
    script = "(setsid sleep 1000 &) ; setsid sleep 1000 & exec sleep 1000"
    processes = [subprocess.Popen(each.entered(["sh", "-c", script])) for each in (group, inner)]
    while len(group.pids()) < 6:
        time.sleep(0.01)
    group.remove()
    assert not group.place.exists()
    assert [process.wait(5) for process in processes] == [-9, -9]
    group.remove()  # once more does no harm


@needs("control groups")
def test_what_a_killed_harness_has_left_is_removed_by_the_next() -> None:
    assert GROUPS is not None
    code = (
        "import os; from pathlib import Path; from recompact.environments.control_groups import ControlGroup\n"
        f"group = ControlGroup.new(Path({str(GROUPS)!r}), 9); ControlGroup.new(group.place, 9)\n"
        "print(group.place, flush=True); os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", code]
    first, second = (Path(subprocess.run(command, capture_output=True, text=True).stdout.strip()) for _ in range(2))
    assert first != second
    assert not first.exists()
    ControlGroup(second).remove()
    assert not second.exists()


@needs("control groups")
def test_a_group_for_a_command_that_cannot_be_started_is_removed() -> None:
    assert GROUPS is not None
    with pytest.raises(KeyError), ControlGroup.new(GROUPS, 5).kept_on_success() as group:
        raise KeyError
    assert group.place is not None
    assert not group.place.exists()


@needs("control groups")
def test_it_is_known_afterwards_that_the_kernel_refused_a_process() -> None:
    assert GROUPS is not None
    for tasks, fails in ((1, True), (16, False)):
        group = ControlGroup.new(GROUPS, tasks)
        try:
            assert not group.refused()
            done = subprocess.run(group.entered(["timeout", "60", "true"]), capture_output=True, check=False)
            assert bool(done.returncode) == fails
            assert group.refused() == fails
        finally:
            group.remove()
        assert not group.refused()  # nothing is known of one that is gone
    assert not ControlGroup().refused()


@needs("control groups")
def test_memory_that_is_in_no_process_is_limited_by_the_kernel() -> None:
    """A file without a name in memory, which no limit of a process counts."""
    if not process_limit().memory:
        pytest.skip("no control group limits memory here")
    code = "import os\nf = os.memfd_create('x')\nfor _ in range(96): os.write(f, bytes(1 << 20))"
    for memory, ends in ((64, -signal.SIGKILL), (512, 0)):
        group = ControlGroup.new(GROUPS or Path(), 16, memory << 20, process_limit().memory_groups)
        try:
            done = subprocess.run(group.entered([sys.executable, "-c", code]), capture_output=True, check=False)
            ended_by_kernel = group.out_of_memory()
        finally:
            group.remove()
        assert done.returncode == ends
        assert ended_by_kernel == (ends != 0)
        assert not any(place and place.exists() for place in (group.place, group.memory))


def test_in_version_2_one_group_limits_processes_and_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel makes these files with a group; here they are made with any directory."""
    make = Path.mkdir

    def mkdir(path: Path, *args: Any, **options: Any) -> None:
        make(path, *args, **options)
        for name in ("memory.max", "memory.swap.max"):
            (path / name).write_text("max")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    group = ControlGroup.new(tmp_path, 9, 1 << 20, tmp_path / "elsewhere")
    assert group.place is not None
    assert group.memory is None
    written = [(group.place / name).read_text() for name in ("pids.max", "memory.max", "memory.swap.max")]
    assert written == ["9", str(1 << 20), "0"]
    assert group.entered(["true"])[-2:] == [str(group.place / group.place.name / "cgroup.procs"), "true"]


@pytest.mark.parametrize(
    ("file", "before"), [("memory.events", "low 0\noom 3\n"), ("memory.oom_control", "under_oom 1\n")]
)
def test_what_the_kernel_ended_for_its_memory_is_known(tmp_path: Path, file: str, before: str) -> None:
    group = ControlGroup(tmp_path)
    inside = tmp_path / tmp_path.name
    inside.mkdir()
    for count, known in ((0, False), (2, True)):
        (inside / file).write_text(f"{before}oom_kill {count}\n")
        assert group.out_of_memory() is known


def test_without_a_group_commands_run_as_they_are() -> None:
    assert ControlGroup().entered(["true"]) == ["true"]
    assert not ControlGroup().out_of_memory()
    ControlGroup().remove()


MOUNTS_V1 = "30 1 0:5 / /empty rw - tmpfs  rw\n39 31 0:36 {root} {place}/pids rw,relatime - cgroup cgroup rw,pids\n"
MOUNTS_V2 = "31 23 0:28 {root} {place} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("membership", "mounts", "root", "handing_down", "expected"),
    [
        ("8:pids:/\n0::/\n", MOUNTS_V1, "/", (), ["pids"]),
        ("8:cpu,pids:/user/a\n0::/\n", MOUNTS_V1, "/", (), ["pids/user/a"]),
        ("8:pids:/docker/x/y\n", MOUNTS_V1, "/docker/x", (), ["pids/y"]),
        ("8:pids:/elsewhere\n", MOUNTS_V1, "/docker/x", (), ["pids"]),
        ("0::/user.slice/a.scope\n", MOUNTS_V2, "/", ("user.slice", "."), ["user.slice", "."]),
        ("0::/\n", MOUNTS_V2, "/", (), []),  # a container: what is in it is in its uppermost group
        ("0::/a\n", "", "/", ("a",), []),
        ("8:cpu:/\n", MOUNTS_V1, "/", (), []),
    ],
)
def test_groups_are_looked_for_where_they_can_be_made(
    tmp_path: Path, membership: str, mounts: str, root: str, handing_down: tuple[str, ...], expected: list[str]
) -> None:
    for name in ("user.slice/a.scope", "a"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "cgroup.subtree_control").write_text("cpu\n")
    for name in handing_down:
        (tmp_path / name / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (tmp_path / "self").write_text(membership)
    (tmp_path / "mounts").write_text(mounts.format(root=root, place=tmp_path))
    found = list(parents_of_groups(tmp_path / "self", tmp_path / "mounts"))
    assert found == [tmp_path / name for name in expected]


def test_a_machine_without_control_groups_has_none(tmp_path: Path) -> None:
    assert list(parents_of_groups(tmp_path / "self", tmp_path / "mounts")) == []


def test_groups_that_cannot_be_made_limit_nothing(tmp_path: Path) -> None:
    assert not protection._holds_in_groups(tmp_path / "missing")


@pytest.fixture
def growing() -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes on starting others, up to a bound."""
    script = "for n in $(seq 300); do sleep 30 & sleep 0.002; done; wait"
    process = subprocess.Popen(["sh", "-c", script], start_new_session=True)
    yield process
    kill_all(descendants(process.pid))
    process.wait()


def test_a_tree_that_grows_is_stopped_and_then_killed(growing: subprocess.Popen[bytes]) -> None:
    time.sleep(0.2)
    stopped = stop_tree(growing.pid)
    before = set(descendants(growing.pid))
    time.sleep(0.2)
    assert set(descendants(growing.pid)) <= before  # one may have been about to end when it was stopped
    assert before <= set(stopped)
    assert set(descendants(growing.pid)) <= set(stopped)
    kill_all(stopped)
    growing.wait(60)
    end = time.monotonic() + 60
    while any(map(alive, stopped)):
        assert time.monotonic() < end
        time.sleep(0.02)
