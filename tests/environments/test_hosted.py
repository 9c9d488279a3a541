"""Environments in a process of their own: same verbs, and a crash that harms nobody else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest
from fakes import Scripted, calling
from processes import alive, gone, seen_from_outside
from sentences import numbers_in

from recompact.engine.rollout import Agent, run_episode
from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import EnvironmentFailed, Task
from recompact.values.chat import Request
from recompact.values.tokens import counter
from recompact.values.trajectory import Action

SUITE = """
import os, sys, time
from recompact.values.chat import Request, system, user
from recompact.environments.protocol import Observation, Opening, Task
from recompact.values.chat import ToolSpec
from recompact.values.trajectory import Score

class Env:
    def __init__(self, task, asks):
        self.n = 0
        if asks:
            self.ask = None
    def start(self):
        print("noise on standard output")
        return Opening((system("s"), user("t")), (ToolSpec("do", "Do it."),))
    def step(self, action):
        what = action.arguments["what"]
        if what == "crash": os._exit(7)
        if what == "segfault": os.kill(os.getpid(), 11)
        if what == "hang": time.sleep(60)
        if what == "raise": raise ValueError("no such thing")
        if what == "ask":
            return Observation(self.ask("user", Request((user("hello user"),))).message.content)
        if what == "child": return Observation(str(os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "60")))
        if what == "key": return Observation(os.environ.get("OPENAI_API_KEY", "no key"))
        if what == "big": return Observation("x" * 3_000_000)
        self.n += 1
        return Observation(str(self.n), done=what == "end")
    def score(self): return Score.of(self.n == 3, n=self.n)
    def snapshot(self): return str(self.n).encode()
    def restore(self, state): self.n = int(state)
    def close(self): pass

class Suite:
    name = "odd"
    def __init__(self, asks=False): self.asks = asks
    def splits(self): return ("train",)
    def tasks(self, split): return [Task("t1", "text", {"g": "1"}, {"d": 2})]
    def environment(self, task): return Env(task, self.asks)
"""
TASK = Task("t1", "text")


@pytest.fixture
def suite(tmp_path: Path) -> HostedSuite:
    (tmp_path / "odd.py").write_text(SUITE)
    return HostedSuite("odd.py:Suite", directory=tmp_path, timeout=10)


def do(what: str) -> Action:
    return Action("do", {"what": what})


async def test_the_verbs_work_across_the_pipe(suite: HostedSuite) -> None:
    assert await suite.tasks("train") == [Task("t1", "text", {"g": "1"}, {"d": 2})]
    episode = suite.episode(TASK)
    opening = await episode.start()
    assert [m.content for m in opening.prefix] == ["s", "t"]
    assert opening.tools[0].name == "do"
    assert (await episode.step(do("x"))).text == "1"
    snapshot = await episode.snapshot()
    assert snapshot is not None
    assert (await episode.step(do("x"))).text == "2"
    other = suite.episode(TASK)
    await other.start()
    await other.restore(snapshot)
    assert (await other.step(do("x"))).text == "2"
    assert (await episode.step(do("end"))).done
    assert (await episode.score()).success
    assert not (await other.score()).success
    assert len((await episode.step(do("big"))).text) == 3_000_000
    await episode.close()
    await other.close()


async def test_an_interpreter_with_none_of_our_packages_plays_an_episode(tmp_path: Path) -> None:
    """Benchmarks have environments of their own, in which neither Recompact nor what it needs is installed. Ours must
    not hide theirs either: what lies beside the host's own file is no module of a suite."""
    venv.create(tmp_path / "own", symlinks=True)
    (tmp_path / "odd.py").write_text(
        SUITE.replace("return Observation(str(self.n)", "import shell; return Observation(shell.WHOSE")
    )
    (tmp_path / "shell.py").write_text("WHOSE = 'of the suite'")
    suite = HostedSuite("odd.py:Suite", directory=tmp_path, timeout=10, python=str(tmp_path / "own" / "bin" / "python"))
    episode = suite.episode(TASK)
    await episode.start()
    assert (await episode.step(do("end"))).text == "of the suite"
    await episode.close()


@pytest.mark.parametrize(
    ("what", "excerpt"),
    [
        ("crash", "its host died during step (exit code 7)"),
        ("segfault", "its host died during step (exit code -11)"),
        ("raise", "step raised ValueError: no such thing"),
    ],
)
async def test_a_crash_is_an_error_of_that_episode_and_of_nothing_else(
    suite: HostedSuite, what: str, excerpt: str
) -> None:
    async def run(last: str) -> tuple[str, str]:
        model = Scripted(calling(("do", {"what": "x"})), calling(("do", {"what": last})))
        trajectory = await run_episode(TASK, suite.episode(TASK), Agent(model), count=counter(), step_limit=2)
        return trajectory.ending, trajectory.error

    broken, fine = await asyncio.gather(run(what), run("end"))
    assert broken[0] == "environment error"
    assert excerpt in broken[1]
    assert fine == ("finished", "")


async def test_the_kill_timer_ends_what_hangs_and_all_its_children(suite: HostedSuite, tmp_path: Path) -> None:
    impatient = HostedSuite(suite.spec, directory=tmp_path, timeout=2)
    episode = impatient.episode(TASK)
    await episode.start()
    inner = int((await episode.step(do("child"))).text)
    child = seen_from_outside(episode._client._process.pids()[0], inner)  # type: ignore[attr-defined]
    assert child is not None
    with pytest.raises(EnvironmentFailed, match=r"\b2 s\b"):
        await episode.step(do("hang"))
    await gone(child)
    with pytest.raises(EnvironmentFailed, match="host is gone"):
        await episode.step(do("x"))
    await episode.close()


async def test_keys_do_not_reach_an_environment(suite: HostedSuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    episode = suite.episode(TASK)
    await episode.start()
    assert (await episode.step(do("key"))).text == "no key"
    await episode.close()


async def test_an_environment_asks_the_harness_for_its_model(suite: HostedSuite, tmp_path: Path) -> None:
    asking = HostedSuite(suite.spec, {"asks": True}, tmp_path, timeout=10)
    model = Scripted("I am the user.")

    async def ask(role: str, request: Request) -> object:
        assert role == "user"
        return await model.reply(request)

    episode = asking.episode(TASK, ask)  # type: ignore[arg-type]
    await episode.start()
    assert (await episode.step(do("ask"))).text == "I am the user."
    assert model.requests[0].messages[0].content == "hello user"
    assert episode.usage["user"].calls == 1
    await episode.close()


@pytest.mark.parametrize(
    ("change", "excerpt"),
    [
        ({"spec": "odd.py:Nothing"}, "has no 'Nothing'"),
        ({"spec": "missing.py:Suite"}, "there is no file .*missing.py"),
        ({"options": {"wrong": 1}}, "there is no option 'wrong'; it takes asks"),
        ({"python": "/nonexistent/python"}, "could not be started"),
    ],
)
async def test_a_suite_that_cannot_be_loaded_says_why(
    suite: HostedSuite, change: dict[str, object], excerpt: str
) -> None:
    from dataclasses import replace

    with pytest.raises(EnvironmentFailed, match=excerpt):
        await replace(suite, **change).tasks("train")  # type: ignore[arg-type]


def test_a_host_needs_nothing_but_the_standard_library() -> None:
    code = "import sys, recompact.environments.host; print(*{name.split('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "recompact" in loaded
    assert not loaded & {"openai", "pydantic", "click", "rich", "rs_bpe", "asyncio"}


BARE = """
import sys
sys.path.append(sys.argv[1])
from pathlib import Path
from recompact.environments.loading import SUITES, load_suite
from recompact.errors import InputError
for name in SUITES.names():
    SUITES.find(name)
try:
    load_suite("appworld", {"seconds": 0}, Path())
except InputError as error:
    print(error)
"""


def test_suites_and_the_check_of_their_options_need_no_more_than_that() -> None:
    """AppWorld's packages want another pydantic than ours, so none of ours may be needed where environments live."""
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run([sys.executable, "-S", "-I", "-c", BARE, source], capture_output=True, text=True)
    assert (done.stdout.split("'")[1], done.stderr) == ("seconds", "")
    assert numbers_in(done.stdout) == ["0"]


async def test_an_environment_is_closed_before_its_host_is_killed(tmp_path: Path) -> None:
    closing = SUITE.replace("def close(self): pass", "def close(self): open('closed', 'w').close()")
    (tmp_path / "odd.py").write_text(closing)
    episode = HostedSuite("odd.py:Suite", directory=tmp_path, timeout=10, sandbox="off").episode(TASK)
    await episode.start()
    await episode.close()
    assert "closed" in os.listdir(tmp_path)


async def test_an_interrupted_verb_leaves_no_answer_for_the_next(suite: HostedSuite) -> None:
    episode = suite.episode(TASK)
    await episode.start()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await episode.step(do("hang"))
    with pytest.raises(EnvironmentFailed, match="interrupted"):
        await episode.step(do("x"))
    await episode.close()


def test_hosts_die_with_the_harness(suite: HostedSuite, tmp_path: Path) -> None:
    driver = f"""
import asyncio, os, sys, time
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
from pathlib import Path
from recompact.environments.hosted import HostedSuite
from recompact.environments.protocol import Task
from recompact.values.trajectory import Action
async def main():
    episode = HostedSuite("odd.py:Suite", directory=Path({str(tmp_path)!r}), timeout=50).episode(Task("t1", "x"))
    await episode.start()
    if os.fork() == 0:  # a worker that survives and must keep nothing else alive
        time.sleep(30)
        os._exit(0)
    print(episode._client._process.pids()[0], flush=True)
    await episode.step(Action("do", {{"what": "hang"}}))
asyncio.run(main())
"""
    process = subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    host = int(process.stdout.readline())
    assert alive(host)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 60
    while alive(host) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(host)
