"""What a host can see and do, with and without bubblewrap."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from needs import needs
from processes import gone

from recompact.engine.assembly import open_suite
from recompact.engine.config import ConfigError
from recompact.engine.config_parser import parse_config
from recompact.environments import protection
from recompact.environments.hosted import HostedEpisode, HostedSuite
from recompact.environments.protection import describe
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.environments.sandbox import HostLimits, SandboxPolicy, find_bubblewrap, wrap_command
from recompact.environments.shell import Shell
from recompact.errors import InputError
from recompact.values.trajectory import Action

pytestmark = needs("linux")
PROGRAM, PROBLEM = find_bubblewrap()

SUITE = """
import os, subprocess, json
from recompact.values.chat import ToolSpec, user
from recompact.environments.protocol import Observation, Opening, Task
from recompact.values.trajectory import Score

class Shell:
    snapshots = "replay"
    def __init__(self, task): self.words = []
    def start(self): return Opening((user("x"),), (ToolSpec("run", "Run Python."),))
    def step(self, action):
        names = {"os": os, "subprocess": subprocess, "words": self.words, "out": ""}
        exec(action.arguments["code"], names)
        return Observation(json.dumps(names["out"]))
    def score(self): return Score.of(True)
    def close(self): pass

class Suite:
    name = "shell"
    def splits(self): return ("train",)
    def tasks(self, split): return [Task("t", "text")]
    def environment(self, task): return Shell(task)
"""
TASK = Task("t", "text")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    suite = tmp_path / "project"
    (suite / "runs").mkdir(parents=True)
    (suite / "runs" / "run.db").write_text("the run")
    (suite / "shell.py").write_text(SUITE)
    (suite / "data.txt").write_text("data")
    (tmp_path / "diary.txt").write_text("secret")
    return suite


def hosted(place: Path, **more: object) -> HostedSuite:
    return HostedSuite("shell.py:Suite", {}, place, timeout=20, hidden=(place / "runs",), **more)  # type: ignore[arg-type]


async def run(episode: HostedEpisode, code: str) -> str:
    return (await episode.step(Action("run", {"code": code}))).text.strip('"')


async def played(suite: HostedSuite, *codes: str) -> list[str]:
    episode = suite.episode(TASK)
    assert isinstance(episode, HostedEpisode)
    try:
        await episode.start()
        return [await run(episode, code) for code in codes]
    finally:
        await episode.close()


@pytest.mark.parametrize("mode", ["off", pytest.param("require", marks=needs("bubblewrap"))])
async def test_a_host_has_the_variables_of_a_short_list(
    place: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    for name in ("OPENAI_API_KEY", "MY_SETTING", "HARMLESS", "LC_ALL"):
        monkeypatch.setenv(name, "C.UTF-8")
    (names, home, wanted) = await played(
        hosted(place, sandbox=mode, env=("MY_SETTING",)),
        "out = ' '.join(os.environ)",
        "out = os.environ['HOME'] + ' ' + os.environ['TMPDIR']",
        "out = os.environ['MY_SETTING']",
    )
    threads = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"}
    allowed = {"PATH", "HOME", "TMPDIR", "LANG", "LANGUAGE", "TZ", "MY_SETTING", "PWD", "PYTHONHASHSEED", *threads}
    assert {name for name in names.split() if not name.startswith("LC_")} <= allowed
    assert str(Path.home()) not in home.split()
    assert wanted == "C.UTF-8"


@needs("bubblewrap")
async def test_a_host_that_is_sandboxed_sees_its_suite_and_nothing_of_the_driver(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diary = place.parent / "diary.txt"
    seen = await played(
        hosted(place),
        "out = open('data.txt').read()",
        "out = os.listdir('runs')",
        f"out = os.path.exists({str(diary)!r})",
        f"out = os.path.exists({str(Path.home() / '.ssh')!r}) or os.path.exists('/etc/shadow')",
        "out = max(int(n) for n in os.listdir('/proc') if n.isdigit()) < 50",
        f"out = os.path.exists('/proc/{os.getpid()}')",
        "out = sorted(os.listdir('/sys/class/net')) if os.path.exists('/sys') else 'none'",
        "out = os.getuid()",
        "open('/tmp/x', 'w').write('x'); open(os.environ['HOME'] + '/x', 'w').write('x'); out = 'written'",
    )
    assert seen == ["data", "[]", "false", "false", "true", "false", "none", "1000", "written"]


@needs("bubblewrap")
@pytest.mark.parametrize("target", ["data.txt", "new.txt", "/usr/new", "/etc/passwd", sys.prefix + "/new", "/dev/new"])
async def test_nothing_but_its_own_directories_can_be_written(place: Path, target: str) -> None:
    with pytest.raises(EnvironmentFailed, match=r"Read-only file system|Permission denied"):
        await played(hosted(place), f"open({target!r}, 'a').write('x')")
    assert (place / "data.txt").read_text() == "data"


@needs("bubblewrap")
async def test_what_the_config_names_can_be_read(place: Path) -> None:
    (text,) = await played(hosted(place, readable=("../diary.txt",)), "out = open('../diary.txt').read()")
    assert text == "secret"


@needs("bubblewrap")
@pytest.mark.parametrize(("named", "seen"), [("data", ["true", "false"]), ("..", ["false", "false"])])
async def test_an_option_that_names_the_home_directory_does_not_show_it(
    place: Path, monkeypatch: pytest.MonkeyPatch, named: str, seen: list[str]
) -> None:
    (place.parent / "data").mkdir()
    (place.parent / "data" / "x").write_text("x")
    (place / "shell.py").write_text(SUITE.replace("class Suite:", "class Suite:\n    def __init__(self, tree): pass"))
    monkeypatch.setenv("HOME", str(place.parent))
    tree = str(place.parent / named) if named == "data" else named
    suite = HostedSuite("shell.py:Suite", {"tree": tree}, place, timeout=20)
    paths = (place.parent / "data" / "x", place.parent / "diary.txt")
    assert await played(suite, *(f"out = os.path.exists({str(path)!r})" for path in paths)) == seen


@needs("bubblewrap")
async def test_the_network_is_there_only_if_it_is_asked_for(place: Path) -> None:
    code = "import socket; out = len(socket.if_nameindex())"
    (without,) = await played(hosted(place), code)
    (with_network,) = await played(hosted(place, network=True), code)
    assert int(without) <= 1
    import socket

    assert int(with_network) == len(socket.if_nameindex())


DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "{seconds}"], {{}})
    os._exit(0)
os.wait()
"""


def sleeping(seconds: str) -> list[int]:
    pids = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if seconds.encode() in each.read_bytes():
                pids.append(int(each.parent.name))
        except OSError:
            continue
    return pids


@pytest.mark.parametrize("mode", ["off", pytest.param("require", marks=needs("bubblewrap"))])
async def test_daemons_end_with_their_episode(place: Path, mode: str) -> None:
    seconds = str(31_536_000 + uuid.uuid4().int % 10**8)
    suite = hosted(place, sandbox=mode)
    episode = suite.episode(TASK)
    assert isinstance(episode, HostedEpisode)
    await episode.start()
    await run(episode, DAEMON.format(seconds=seconds))
    async with asyncio.timeout(5):
        while not (pids := sleeping(seconds)):
            await asyncio.sleep(0.02)
    await episode.close()
    await gone(*pids)


@pytest.mark.parametrize("mode", ["off", pytest.param("require", marks=needs("bubblewrap"))])
async def test_limits_hold(place: Path, mode: str) -> None:
    limits = HostLimits(memory=512 * 1024**2, file=10**6, cpu_seconds=1, processes=40)
    for code, excerpt in (
        ("open(os.environ['TMPDIR'] + '/f', 'wb').write(b'x' * 2_000_000)", "File too large"),
        ("bytearray(10**9)", "MemoryError"),
        ("while True: pass", r"died during step \(exit code -9\)"),
        (
            "p = [subprocess.Popen(['sleep', '20']) for _ in range(50)]; p[0].wait()",
            "more than 40 processes|Resource temp",
        ),
    ):
        with pytest.raises(EnvironmentFailed, match=excerpt):
            await played(hosted(place, sandbox=mode, limits=limits), code)


def test_a_machine_without_bubblewrap_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recompact.environments.host_process.find_bubblewrap", lambda: (None, "bwrap is not installed"))
    monkeypatch.setattr(protection, "find_bubblewrap", lambda: (None, "bwrap is not installed"))
    problem = "hosts are not sandboxed, they run with your rights, without your variables: bwrap is not installed"
    assert describe().startswith(f"{problem}; ")
    with pytest.raises(InputError, match=r'sandbox = "require".* bwrap is'):
        hosted(place, sandbox="require")
    config = parse_config('[suite]\nuse = "shell.py:Suite"\nhost = true\nsandbox = "require"', place / "c.toml")
    with pytest.raises(ConfigError, match=r"line 4: \[suite\] sandbox: .*bwrap"):
        open_suite(config)
    assert hosted(place).sandbox == "auto"


def test_the_protection_in_force_is_one_line() -> None:
    assert "\n" not in describe()
    assert describe("off").startswith("hosts are not sandboxed")
    if PROGRAM:
        assert describe().startswith("hosts are sandboxed by bubblewrap, without network; ")
        assert describe("require", network=True).startswith("hosts are sandboxed by bubblewrap, with network; ")


def test_no_environment_gets_the_key_of_a_model() -> None:
    text = "[suite]\nhost = true\nenv = ['LUNA']\n[models.luna]\nid = 'x'\nkey_env = 'LUNA'"
    with pytest.raises(ConfigError, match=r"line 3: \[suite\] env = 'LUNA' is the key of a model"):
        parse_config(text, Path("c.toml"))


def test_what_only_concerns_hosts_does_not_make_another_run() -> None:
    plain = parse_config("[suite]\nhost = true", Path("c.toml"))
    other = parse_config(
        "[suite]\nhost = true\nnetwork = true\nenv = ['A']\nreadable = ['b']\nsandbox = 'off'\n"
        "[suite.limits]\nmemory = 1000000",
        Path("c.toml"),
    )
    assert other.identity() == plain.identity()
    assert other.suite.limits == HostLimits(memory=1_000_000)
    with pytest.raises(ConfigError, match=r"memory .*\b1\b"):
        parse_config("[suite.limits]\nmemory = 0", Path("c.toml"))


@needs("bubblewrap")
def test_a_policy_is_of_use_to_anybody(tmp_path: Path) -> None:
    assert PROGRAM is not None
    (tmp_path / "in.txt").write_text("in")
    policy = SandboxPolicy(
        "/desk", writable=[(tmp_path, "/desk")], variables={"PATH": "/usr/bin:/bin"}, hostname="office"
    )
    command = wrap_command(
        PROGRAM, ["/bin/sh", "-c", "cat in.txt; hostname; echo out > out.txt; env; ls /home"], policy
    )
    ran = subprocess.run(command, capture_output=True, text=True, env={"SECRET": "x"}, check=False)
    assert ran.stdout.startswith("inoffice\n")
    assert "SECRET" not in ran.stdout
    assert (tmp_path / "out.txt").read_text() == "out\n"


BOUNDED = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from pathlib import Path
from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import Task
from recompact.values.trajectory import Action

async def one(suite):
    episode = suite.episode(Task("t", "x"))
    try:
        await episode.start()
        return (await episode.step(Action("run", {"code": "out = 1"}))).text
    finally:
        await episode.close()

async def main():
    suite = HostedSuite("shell.py:Suite", {}, Path(sys.argv[1]), timeout=60)
    print(*await asyncio.gather(*(one(suite) for _ in range(16))))

asyncio.run(main())
"""


def test_the_number_of_hosts_is_bounded_by_the_files_that_can_be_opened(place: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", BOUNDED, str(place)], capture_output=True, text=True, check=False)
    assert ran.stdout.split() == ["1"] * 16, ran.stderr
    assert "4 hosts" in ran.stderr


def test_a_low_limit_of_open_files_is_raised_where_that_is_allowed() -> None:
    code = (
        "import resource; hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard));"
        "from recompact.environments.host_usage import open_files_limit; print(open_files_limit(), hard)"
    )
    limit, hard = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert int(limit) == min(int(hard), 65_536)


async def test_a_flood_of_output_is_bounded_and_harms_nobody(place: Path) -> None:
    suite = hosted(place)
    flooding, other = suite.episode(TASK), suite.episode(TASK)
    assert isinstance(flooding, HostedEpisode)
    assert isinstance(other, HostedEpisode)
    await asyncio.gather(flooding.start(), other.start())
    task = asyncio.create_task(run(flooding, "while True: os.write(1, b'x' * 100_000)"))
    await asyncio.sleep(0.3)
    assert await run(other, "out = 'here'") == "here"
    log = flooding._client._log
    assert log is not None
    assert len(log._tail) <= 4000
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.gather(flooding.close(), other.close())


KILLED = """
import asyncio, os, sys
from pathlib import Path
from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import Task

async def main():
    episode = HostedSuite("shell.py:Suite", {}, Path(sys.argv[1]), timeout=60).episode(Task("t", "x"))
    await episode.start()
    print(episode._client._process.private, flush=True)
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), 9)
    await episode.close()

asyncio.run(main())
"""


def test_what_a_killed_harness_has_left_is_removed_by_the_next(place: Path) -> None:
    def played_elsewhere(end: str) -> Path:
        command = [sys.executable, "-c", KILLED, str(place), end]
        return Path(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip())

    left = played_elsewhere("killed")
    assert left.exists()
    other = played_elsewhere("closed")
    assert not left.parent.exists()
    assert not other.parent.exists()


def test_a_bubblewrap_that_does_not_work_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found, problem = find_bubblewrap.__wrapped__()
    assert found is None
    assert "(No permissions to create new namespace)" in problem


@needs("bubblewrap")
def test_a_mount_may_bear_the_name_of_a_directory_outside(tmp_path: Path) -> None:
    """A project may lie in a directory that has the name of a mount point; what is hidden there is not inside."""
    project, task = tmp_path / "project", tmp_path / "task"
    (project / "src").mkdir(parents=True)
    (task / "answers").mkdir(parents=True)
    (task / "note.txt").write_text("seen")
    assert PROGRAM
    policy = SandboxPolicy("/", readable=[(task, str(project))], hidden=[project / "src", task / "answers"])
    command = ["/bin/sh", "-c", f"cat {project}/note.txt; ls -R {project}"]
    shown = subprocess.run(wrap_command(PROGRAM, command, policy), capture_output=True, text=True, check=False)
    assert shown.stderr == ""
    assert shown.stdout.startswith("seen")
    assert "src" not in shown.stdout


@needs("bubblewrap")
def test_what_is_hidden_stays_hidden_under_another_name(tmp_path: Path) -> None:
    task = tmp_path / "task"
    (task / "answers").mkdir(parents=True)
    (task / "answers" / "key.txt").write_text("42")
    (task / "note.txt").write_text("seen")
    assert PROGRAM
    policy = SandboxPolicy("/", readable=[(task, "/elsewhere")], hidden=[task / "answers"])
    command = ["/bin/sh", "-c", "cat /elsewhere/note.txt; cat /elsewhere/answers/key.txt; ls /elsewhere/answers"]
    shown = subprocess.run(wrap_command(PROGRAM, command, policy), capture_output=True, text=True, check=False)
    assert shown.stdout == "seen"


@needs("bubblewrap")
def test_a_directory_and_what_lies_in_it_can_both_be_hidden(tmp_path: Path) -> None:
    """As the runs of a study are, and the run that is under way among them."""
    runs = tmp_path / "study" / "runs"
    runs.mkdir(parents=True)
    (runs / "mine.db").write_text("secret")
    assert PROGRAM
    for hidden in ([runs, runs / "mine.db"], [runs / "mine.db", runs]):
        policy = SandboxPolicy("/", readable=[(runs.parent, "/study")], hidden=hidden)
        command = ["/bin/sh", "-c", "cat /study/runs/mine.db; ls -A /study/runs"]
        shown = subprocess.run(wrap_command(PROGRAM, command, policy), capture_output=True, text=True, check=False)
        assert shown.stdout == "", shown.stderr
        assert "bwrap" not in shown.stderr


@needs("bubblewrap")
@pytest.mark.parametrize("order", [1, -1])
def test_what_is_named_within_a_hidden_directory_is_all_that_is_seen_of_it(tmp_path: Path, order: int) -> None:
    study = tmp_path / "study"
    for name in ("tasks/check", "tasks/tools/key", "tasks/tools/bin"):
        (study / name).mkdir(parents=True)
        (study / name / "x").write_text(name)
    assert PROGRAM
    readable = [(study, "/study"), (study / "tasks" / "tools", "/study/tasks/tools")]
    hidden = [study / "tasks", study / "tasks" / "tools" / "key"]
    policy = SandboxPolicy("/", readable=readable, hidden=hidden[::order])
    command = ["/bin/sh", "-c", "find /study -type f; touch /study/tasks/y"]
    shown = subprocess.run(wrap_command(PROGRAM, command, policy), capture_output=True, text=True, check=False)
    assert shown.stdout.split() == ["/study/tasks/tools/bin/x"], shown.stderr
    assert "Read-only file system" in shown.stderr


@needs("bubblewrap")
@pytest.mark.parametrize("kind", ["directory", "file"])
def test_what_is_shown_within_a_directory_leaves_nothing_in_it(tmp_path: Path, kind: str) -> None:
    tools, work = tmp_path / "tools", tmp_path / "episode" / "work"
    tools.mkdir()
    work.mkdir(parents=True)
    (tools / "tool").write_text("a tool")
    shown = (tools, "/desk/own/tools") if kind == "directory" else (tools / "tool", "/desk/own/tools/tool")
    shell = Shell(PROGRAM, "/desk", readable=(shown,))
    assert shell.run("cat own/tools/tool; touch x", work).output == "a tool"
    assert sorted(path.name for path in work.rglob("*")) == ["x"]
    shell.run("mkdir -p own; echo mine > own/kept", work)
    assert sorted(path.name for path in work.rglob("*")) == ["kept", "own", "x"]


@needs("bubblewrap")
def test_a_link_that_was_laid_where_something_is_shown_leads_nowhere(tmp_path: Path) -> None:
    outside, tools, work = tmp_path / "outside", tmp_path / "tools", tmp_path / "episode" / "work"
    for place in (outside / "empty", tools, work):
        place.mkdir(parents=True)
    before = sorted(outside.rglob("*"))
    inner = ((tools, "/desk/own/empty"), (tools, "/desk/own/new"))
    shell = Shell(PROGRAM, "/desk", readable=inner)
    shell.run(f"mv own other; ln -s {outside} own", work)
    assert sorted(outside.rglob("*")) == before
    (work / "own").unlink(missing_ok=True)
    (work / "own").symlink_to(outside)
    shell.run("true", work)
    assert sorted(outside.rglob("*")) == before


@needs("bubblewrap")
@pytest.mark.parametrize("inside", ["/", "/desk", "/tmp"])
def test_nothing_is_shown_over_what_a_sandbox_has_for_itself(tmp_path: Path, inside: str) -> None:
    with pytest.raises(InputError, match=re.escape(inside)):
        Shell(PROGRAM, "/desk", readable=((tmp_path, inside),)).run("true", tmp_path)


@needs("bubblewrap")
async def test_an_interpreter_may_be_reached_by_a_link_in_the_directory_of_the_suite(place: Path) -> None:
    (place / "tools").symlink_to(sys.prefix)
    suite = hosted(place, sandbox="require", python=f"tools/bin/{Path(sys.executable).name}")
    assert await played(suite, "out = 'it runs'") == ["it runs"]
