"""How fast the engine is where nothing else is in the way: an instant model, a trivial environment, journal on.

    python benchmarks/engine.py            # the engine, and beside it the same loop in inspect-ai if it is installed
    python benchmarks/engine.py --json
    python benchmarks/engine.py --against OTHER/src    # by processor time, in turn: has a change slowed it down?

Prints agent steps per second at 1, 16 and 128 concurrent episodes with peak memory, whether memory grows with the
number of finished steps, and whether a step costs more late in a long episode than early. Each measurement runs in a
process of its own. `make bench` installs inspect-ai beside Recompact in an environment of its own, as a yardstick.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from recompact.engine.execution.scheduler import InProcess, Unit, run_units
from recompact.engine.rollout import Agent, run_episode
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import Observation, Opening, Task
from recompact.models.journal import UnitCalls
from recompact.values.chat import Message, Reply, Request, ToolCall, ToolSpec, Usage, system, user
from recompact.values.progress import SILENT, Silent
from recompact.values.tokens import counter
from recompact.values.trajectory import Action, Score, Trajectory

OBSERVATION = json.dumps([{"id": n, "sender": f"person-{n}", "amount": n * 7.5} for n in range(8)])


class InstantModel:
    """Answers at once with the next call; every text is different, so nothing is saved by deduplication."""

    name = "instant"

    async def reply(self, request: Request) -> Reply:
        n = len(request.messages)
        call = ToolCall(f"call_{n}", "look", json.dumps({"page": n, "of": request.decoding.seed}))
        return Reply(Message("assistant", "", (call,)), Usage(n * 100, 20, 0, 0, 1), model="instant")


class TrivialEnvironment:
    """Gives the same page again and again, and is never done."""

    def start(self) -> Opening:
        tool = ToolSpec("look", "Look at a page.", {"type": "object", "properties": {"page": {"type": "integer"}}})
        return Opening((system("Read the pages."), user("Read them all.")), (tool,))

    def step(self, action: Action) -> Observation:
        return Observation(f"page {action.arguments['page']}: {OBSERVATION}")

    def score(self) -> Score:
        return Score.of(True)

    def snapshot(self) -> bytes:
        return b""

    def restore(self, state: bytes) -> None: ...

    def close(self) -> None: ...


class Marks(Silent):
    """The time of every step."""

    def __init__(self, marks: list[float]) -> None:
        self._marks = marks

    def step(self) -> None:
        self._marks.append(time.perf_counter())


def memory() -> float:
    """Peak resident memory so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def result(steps: int, seconds: float, marks: list[float]) -> dict[str, Any]:
    return {"steps": steps, "seconds": seconds, "rate": steps / seconds, "megabytes": memory(), "marks": marks}


def measure(concurrency: int, episodes: int, steps: int) -> dict[str, Any]:
    """Run episodes of `steps` steps; the time of each step is kept for the first episode only."""
    count = counter()
    marks: list[float] = []
    with tempfile.TemporaryDirectory() as scratch, Store.open(Path(scratch) / "bench.db") as store:

        def unit(number: int) -> Unit[Trajectory]:
            name = f"bench/{number}"

            async def play(calls: UnitCalls) -> Trajectory:
                return await run_episode(
                    Task(str(number), "Read them all."),
                    InProcessEpisode(TrivialEnvironment(), str(number)),
                    Agent(calls.bound(InstantModel(), "agent")),
                    count=count,
                    step_limit=steps,
                    progress=Marks(marks) if number == 0 else SILENT,
                )

            def record(trajectory: Trajectory, seconds: float) -> None:
                write_trajectory(store, name, trajectory, phase="bench", run=0, groups={}, seconds=0.0)

            return Unit(name, play, record)

        started, begun = time.perf_counter(), time.process_time()
        asyncio.run(run_units(map(unit, range(episodes)), InProcess(store), concurrency))
        processor, seconds = time.process_time() - begun, time.perf_counter() - started
    return {**result(episodes * steps, seconds, marks), "processor": processor}


def inspect_rate(concurrency: int, episodes: int, steps: int) -> dict[str, Any]:
    """The same loop in inspect-ai: its react agent on mockllm, with a tool that returns the same page."""
    inspect_ai: Any = import_module("inspect_ai")  # not among the project's own dependencies
    agent: Any = import_module("inspect_ai.agent")
    dataset: Any = import_module("inspect_ai.dataset")
    model: Any = import_module("inspect_ai.model")
    tools: Any = import_module("inspect_ai.tool")

    def look() -> Any:
        async def execute(page: int) -> str:
            """Look at a page.

            Args:
                page: number of the page
            """
            return f"page {page}: {OBSERVATION}"

        return execute

    async def per_call(messages: Any, offered: Any, tool_choice: Any, config: Any) -> Any:
        n = len(messages)
        name, arguments = ("submit", {"answer": "done"}) if n >= 2 * steps else ("look", {"page": n})
        output = model.ModelOutput.for_tool_call("mockllm/model", name, arguments)
        # A stated usage keeps mockllm from counting tokens, for which it would download a vocabulary.
        output.usage = model.ModelUsage(input_tokens=n * 100, output_tokens=20, total_tokens=n * 100 + 20)
        return output

    task = inspect_ai.Task(
        dataset=[dataset.Sample(input="Read them all.", id=n + 1) for n in range(episodes)],
        solver=agent.react(prompt="Read the pages.", tools=[tools.tool(look)()]),
        message_limit=4 * steps,
    )
    config = model.GenerateConfig(max_connections=concurrency)
    mock = model.get_model("mockllm/model", custom_outputs=per_call, config=config)
    with tempfile.TemporaryDirectory() as scratch:
        started, begun = time.perf_counter(), time.process_time()
        (log,) = inspect_ai.eval(
            task, model=mock, log_dir=scratch, display="none", max_samples=concurrency, log_level="error", score=False
        )
        processor, seconds = time.process_time() - begun, time.perf_counter() - started
        if log.status != "success":
            raise SystemExit(f"inspect-ai: {str(log.error)[:200]}")
        done = sum(1 for sample in log.samples or () for m in sample.messages if m.role == "assistant")
    return {**result(done, seconds, []), "processor": processor}


def apart(kind: str, concurrency: int, episodes: int, steps: int, source: str = "") -> dict[str, Any]:
    """One measurement in a process of its own, so that memory is that measurement's."""
    command = [sys.executable, __file__, "--one", kind, str(concurrency), str(episodes), str(steps)]
    environment = os.environ | ({"PYTHONPATH": source} if source else {})
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}")
    measured: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return measured


def compare(other: str, pairs: int = 15) -> None:
    """Steps per second of processor time, which a busy machine disturbs less than time itself."""
    here = str(Path(__file__).resolve().parent.parent / "src")
    for concurrency in (1, 16):
        spent: dict[str, list[float]] = {here: [], other: []}
        for number in range(pairs):
            for source in (here, other) if number % 2 else (other, here):
                spent[source].append(apart("recompact", concurrency, 60, 30, source)["processor"])
        ratios = [there / ours for there, ours in zip(spent[other], spent[here], strict=True)]
        share = statistics.median(ratios), min(spent[other]) / min(spent[here])
        print(
            f"  {concurrency:>4} at once: {share[0]:.1%} of its steps per second (median pair), {share[1]:.1%} (best)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--against", help="the src directory of another version")
    args = parser.parse_args()
    if args.against:
        compare(args.against)
        return
    if args.one:
        kind, *numbers = args.one
        work = measure if kind == "recompact" else inspect_rate
        print(json.dumps(work(*map(int, numbers))))
        return
    report: dict[str, Any] = {"rates": {}, "inspect": {}}
    for concurrency in (1, 16, 128):
        report["rates"][concurrency] = apart("recompact", concurrency, 256, 30)
    few, many = (apart("recompact", 16, n, 30) for n in (100, 1600))
    report["memory"] = {"steps": [few["steps"], many["steps"]], "megabytes": [few["megabytes"], many["megabytes"]]}
    long = apart("recompact", 1, 20, 200)["marks"]
    early, late = (1e6 * (long[i + 20] - long[i]) / 20 for i in (10, 178))
    report["long"] = {"early_us": early, "late_us": late}
    for concurrency in (1, 16):
        try:
            report["inspect"][concurrency] = apart("inspect", concurrency, 64, 30)
        except RuntimeError as error:
            report["inspect"] = {"error": str(error)}
            break
    for part in (*report["rates"].values(), *(p for p in report["inspect"].values() if isinstance(p, dict))):
        part.pop("marks", None)
    print(json.dumps(report, indent=2)) if args.json else show(report)


def show(report: dict[str, Any]) -> None:
    def line(concurrency: int, r: dict[str, Any], more: str = "") -> None:
        print(f"  {concurrency:>4} at once: {r['rate']:>8,.0f} steps/s, peak memory {r['megabytes']:.0f} MB{more}")

    print("Recompact, instant model, trivial environment, journal on, 256 episodes of 30 steps")
    for concurrency, r in report["rates"].items():
        line(concurrency, r)
    (few, many), (before, after) = report["memory"]["steps"], report["memory"]["megabytes"]
    print(f"  memory after {few:,} steps {before:.0f} MB, after {many:,} steps {after:.0f} MB")
    early, late = report["long"]["early_us"], report["long"]["late_us"]
    print(f"  a step of a 200-step episode: {early:.0f} us at steps 11-30, {late:.0f} us at steps 179-198")
    if "error" in report["inspect"]:
        print(f"inspect-ai was not measured: {report['inspect']['error']}")
        return
    print("inspect-ai, its react agent on mockllm, 64 episodes of 30 steps")
    for concurrency, r in report["inspect"].items():
        ours = report["rates"][concurrency]
        times = (ours["steps"] / ours[unit] / (r["steps"] / r[unit]) for unit in ("seconds", "processor"))
        line(concurrency, r, "; Recompact does {:.1f} times as many, {:.1f} by processor time".format(*times))


if __name__ == "__main__":
    main()
