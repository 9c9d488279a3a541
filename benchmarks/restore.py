"""How long it takes to bring an environment back to a boundary, by strategy and by how much was done before it.

    python benchmarks/restore.py                    # a table: median and 95th percentile, in milliseconds
    python benchmarks/restore.py --officebench TREE # with its tasks; or RECOMPACT_OFFICEBENCH
    python benchmarks/restore.py --json

The replayed environment is the pocket world in a host. A replay is timed without the start of its process, which is
shown separately. OfficeBench is measured after one action in all templates of its tree, question answering with a
made-up corpus. Expected: pocket < 1 ms; replay linear in depth.

tau2-bench and AppWorld are timed where they are installed (docs/tau2.md, docs/appworld.md); `--only SUITE` times one.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.loading import host_needs
from recompact.environments.protocol import Episode, Strategy, Suite, Task
from recompact.environments.snapshots import archive, unpack
from recompact.suites.officebench.suite import OfficeBenchSuite
from recompact.suites.officebench.tree import VARIABLE
from recompact.suites.pocket import PocketEnvironment, PocketSuite
from recompact.suites.qa.suite import QaSuite
from recompact.values.chat import Reply, Request, assistant
from recompact.values.trajectory import Action, Snapshot

DEPTHS = (1, 10, 50, 200)
CALLS = (("account", "show_profile"), ("account", "show_passwords"), ("documentation", "show_apps"))


class PocketBy(PocketSuite):
    """The pocket world with a strategy other than its own; loaded by the hosts that this benchmark starts."""

    def __init__(self, strategy: Strategy = "replay") -> None:
        super().__init__()
        self._strategy = strategy

    def environment(self, task: Task) -> PocketEnvironment:
        environment = super().environment(task)
        environment.snapshots = self._strategy  # type: ignore[attr-defined]
        return environment


@dataclass(frozen=True)
class Measured:
    what: str
    depth: int | None
    median_ms: float
    p95_ms: float
    n: int


def summarize_times(what: str, depth: int | None, seconds: Sequence[float]) -> Measured:
    ordered = sorted(seconds)
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return Measured(what, depth, statistics.median(ordered) * 1000, p95 * 1000, len(ordered))


def action(number: int) -> Action:
    app, api = CALLS[number % len(CALLS)]
    return Action("call_api", {"app": app, "api": api, "arguments": {}})


async def at_depth(episode: Episode, depth: int) -> Snapshot:
    """Start an episode, do `depth` actions and take a snapshot."""
    await episode.start()
    for number in range(depth):
        await episode.step(action(number))
    snapshot = await episode.snapshot()
    assert snapshot is not None
    return snapshot


async def pocket(task: Task, depth: int, count: int) -> Measured:
    suite = InProcessSuite(PocketSuite())
    snapshot = await at_depth(suite.episode(task), depth)
    times = []
    for _ in range(count):
        episode = suite.episode(task)
        await episode.start()
        started = time.perf_counter()
        await episode.restore(snapshot)
        times.append(time.perf_counter() - started)
        await episode.close()
    return summarize_times("pocket, in process", depth, times)


def hosted_suite(strategy: Strategy) -> HostedSuite:
    return HostedSuite("restore.py:PocketBy", {"strategy": strategy}, Path(__file__).parent)


async def measure_replay(task: Task, depth: int, count: int) -> list[Measured]:
    suite = hosted_suite("replay")
    original = suite.episode(task)
    snapshot = await at_depth(original, depth)
    await original.close()
    starts, times = [], []
    for _ in range(count):
        episode = suite.episode(task)
        began = time.perf_counter()
        await episode.start()
        started = time.perf_counter()
        await episode.restore(snapshot)
        times.append(time.perf_counter() - started)
        starts.append(started - began)
        await episode.close()
    return [summarize_times("replay in a host", depth, times), summarize_times("start of a host", None, starts)]


def directory(count: int, files: int = 20, size: int = 4096) -> list[Measured]:
    content = random.Random(0)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "tree"
        for number in range(files):
            path = root / f"folder{number % 4}" / f"file{number}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.randbytes(size))
        taking, restoring = [], []
        for _ in range(count):
            started = time.perf_counter()
            data = archive(root)
            taking.append(time.perf_counter() - started)
            started = time.perf_counter()
            unpack(data, root)
            restoring.append(time.perf_counter() - started)
    what = f"directory of {files} files, {files * size // 1024} KiB"
    return [summarize_times(what, None, restoring), summarize_times(f"taking it ({what})", None, taking)]


async def in_process(what: str, suite: Suite, tasks: Sequence[Task], actions: Sequence[Action]) -> list[Measured]:
    """A snapshot of each task after these actions, and its restore in another episode."""
    episodes = InProcessSuite(suite)
    taking, restoring = [], []
    for task in tasks:
        original, other = episodes.episode(task), episodes.episode(task)
        await original.start()
        await other.start()
        for each in actions:
            await original.step(each)
        started = time.perf_counter()
        snapshot = await original.snapshot()
        taking.append(time.perf_counter() - started)
        assert snapshot is not None
        started = time.perf_counter()
        await other.restore(snapshot)
        restoring.append(time.perf_counter() - started)
        await original.close()
        await other.close()
    return [
        summarize_times(f"{what}, in process", len(actions), restoring),
        summarize_times(f"taking it ({what})", len(actions), taking),
    ]


async def officebench(tree: str) -> list[Measured]:
    suite = OfficeBenchSuite(tree)
    every = [*suite.tasks("train"), *suite.tasks("test")]
    templates = list({task.data["template"]: task for task in every}.values())
    calculation = Action("act", {"action": "calculator.calculate", "arguments": {"expression": "6 * 7"}})
    return await in_process(f"OfficeBench, {len(templates)} templates", suite, templates, [calculation])


def questions(directory: Path) -> QaSuite:
    """A suite with a made-up corpus."""
    corpus, tasks = directory / "corpus.jsonl", directory / "tasks.jsonl"
    corpus.write_text("".join(f'{{"title": "{n}", "text": "passage {n}"}}\n' for n in range(1000)))
    tasks.write_text('{"questions": [{"question": "What is passage 7?", "answers": ["7"]}]}\n')
    return QaSuite(tasks, corpus=corpus)


async def question_answering(count: int) -> list[Measured]:
    with tempfile.TemporaryDirectory() as name:
        suite = questions(Path(name))
        searches = [Action("search", {"query": f"passage {n}"}) for n in range(10)]
        return await in_process("question answering", suite, list(suite.tasks("train")) * count, searches)


BENCHMARKS: dict[str, tuple[str, str, Action]] = {  # the module that says what is missing, a split, an action
    "tau2-retail": ("recompact.suites.tau2", "test", Action("get_order_details", {"order_id": "#W2611340"})),
    "appworld": (
        "recompact.suites.appworld",
        "train",
        Action("execute_python", {"code": "print(apis.supervisor.show_account_passwords())"}),
    ),
}


async def customer(role: str, request: Request) -> Reply:
    return Reply(assistant("Hello."))


async def benchmark(name: str, depth: int, count: int) -> list[Measured]:
    """Snapshots and restores of an installed benchmark; nothing, with a message, where it is not installed."""
    module, split, act = BENCHMARKS[name]
    if (problem := importlib.import_module(module).missing()) is not None:
        print(f"{name} is left out: {problem}", file=sys.stderr)
        return []
    needs = host_needs(name, {})
    assert needs is not None
    suite = HostedSuite(name, needs.options, Path(), needs.python, sandbox=needs.sandbox)
    task = (await suite.tasks(split))[0]
    original = suite.episode(task, customer)
    began = time.perf_counter()
    await original.start()
    starts = [time.perf_counter() - began]
    for _ in range(depth):
        await original.step(act)
    taking, restoring, strategy = [], [], ""
    for _ in range(count):
        started = time.perf_counter()
        snapshot = await original.snapshot()
        taking.append(time.perf_counter() - started)
        assert snapshot is not None
        strategy = snapshot.strategy
        copy = suite.episode(task, customer)
        await copy.start()
        started = time.perf_counter()
        await copy.restore(snapshot)
        restoring.append(time.perf_counter() - started)
        await copy.close()
    await original.close()
    kind = f"{name}, {strategy}"
    return [
        summarize_times(f"taking a snapshot ({kind})", depth, taking),
        summarize_times(f"restore ({kind})", depth, restoring),
        summarize_times(f"start of a host ({name})", None, starts),
    ]


async def everything(count: int, tree: str | None, only: str | None = None) -> list[Measured]:
    if only is not None:
        return await benchmark(only, 10, count)
    task = PocketSuite().tasks("train")[0]
    found = [await pocket(task, depth, count * 5) for depth in DEPTHS]
    starts = []
    for depth in DEPTHS:
        replay, start = await measure_replay(task, depth, max(3, count // 5))
        found.append(replay)
        starts.append(start)
    found.append(min(starts, key=lambda start: start.median_ms))
    found += await question_answering(count)
    if tree:
        found += await officebench(tree)
    for name in BENCHMARKS:
        found += await benchmark(name, 10, max(3, count // 5))
    return found + directory(count * 2)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time the restoring of environments.")
    parser.add_argument("--count", type=int, default=40, help="how many restores for each line (default 40)")
    parser.add_argument("--officebench", default=os.environ.get(VARIABLE), help="the task tree of OfficeBench")
    parser.add_argument("--only", choices=BENCHMARKS, help="only this benchmark")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = asyncio.run(everything(args.count, args.officebench, args.only))
    if args.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    print(f"{'what':<46} {'depth':>6} {'median ms':>10} {'p95 ms':>10} {'n':>5}")
    for each in found:
        depth = "" if each.depth is None else each.depth
        print(f"{each.what:<46} {depth:>6} {each.median_ms:>10.2f} {each.p95_ms:>10.2f} {each.n:>5}")


if __name__ == "__main__":
    main()
