"""How long a report takes and how large it gets: 168 tasks, 3 runs, 7 arms, and a verified run beside them.

    python benchmarks/report.py            # under half a minute, most of it for making the records
    python benchmarks/report.py --json

Records are made up and written through the store as real ones are: an evaluation of 3,528 trajectories and a run with
hundreds of boundaries of three draws in each arm. Measures what `recompact report` does, from opening the runs to the
written file, figures included. The goal is under 10 seconds and under 5 MB.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from random import Random

from recompact.attribution.continuations import continuation_unit
from recompact.cli.report import write_report
from recompact.engine.collection import unit_of
from recompact.engine.config import Config, SuiteConfig, VerifyConfig
from recompact.engine.store.metadata import RunMetadata
from recompact.engine.store.records import write_continuation, write_trajectory
from recompact.engine.store.store import Store
from recompact.environments.protocol import Task
from recompact.evaluation import arms as evaluated
from recompact.evaluation.arms import note_arms
from recompact.evaluation.evaluate import PHASE, plan_runs
from recompact.models.journal import JournaledReply
from recompact.values.chat import Message, Reply, ToolCall, Usage, assistant, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.outcome import ARMS, ContinuationArm
from recompact.values.template import Template, default_template
from recompact.values.trajectory import Action, Boundary, Score, Trajectory

TASKS, RUNS, BOUNDARIES = 168, 3, 400
STEPS = 24
PREFIX = (system("You are an agent in a made-up office."), user("Do what the task says."))
COMPRESSORS = ("prompting", "PAIR", "ACON-UT")


def arms() -> list[evaluated.Arm]:
    """None, and three templates in two scopes each: seven."""
    own = default_template()
    found = [evaluated.Arm("none", "none")]
    for number, name in enumerate(COMPRESSORS):
        clause = f"- Keep every condition of the task as it was given, rule {number}.\n"
        template = Template(own.system, own.first + clause * number, own.update + clause * number)
        found += [evaluated.Arm(name, "prompted", 4096, scope, "quoted", template) for scope in ("history", "prefix")]
    return found


def tasks() -> list[Task]:
    return [Task(f"office-{n:03d}", f"Task {n}", groups=_groups(n)) for n in range(TASKS)]


def _groups(n: int) -> dict[str, str]:
    return {"difficulty": str(n % 3 + 1), "family": f"family-{n % 12}", "apps": str(n % 4 + 1)}


def make_evaluation(path: Path) -> None:
    """Seven arms that differ in how often they succeed."""
    chosen = arms()
    turns = (Turn(assistant("Next."), (user("Go on."),), 4),) * 40
    with Store.open(path) as store:
        _claim(store, PHASE)
        note_arms(store, chosen)
        for entry in plan_runs(tasks(), chosen, RUNS):
            chance = Random(entry.unit)
            skill = 0.85 if entry.arm.name == "none" else 0.72 + 0.04 * COMPRESSORS.index(entry.arm.name)
            steps = chance.randrange(8, 36) + 4 * (entry.arm.name == "prompting")
            made = Trajectory(
                entry.task.id,
                turns[:steps],
                (),
                "finished",
                Score.of(chance.random() < skill),
                Context(PREFIX),
                usage={"agent": Usage(steps * 3000, steps * 80), "compressor": Usage(9000, 1500)},
                peak=chance.randrange(3000, 9000),
                peak_reported=chance.randrange(3000, 9000),
            )
            write_trajectory(store, entry.unit, made, phase=PHASE, run=entry.run, groups=entry.task.groups, seconds=0.0)


def make_verified(path: Path) -> None:
    """Boundaries of trajectories with three each; one in twelve does harm."""
    with Store.open(path) as store:
        _claim(store, "verify")
        store.set_metadata(replace(store.metadata, verified=asdict(VerifyConfig(allocation="uniform:3"))))
        for task in tasks()[: -(-BOUNDARIES // 3)]:
            unit = unit_of(task)
            boundaries = tuple(_boundary(task.id, index) for index in (1, 2, 3))
            won = Random(task.id).random() < 0.8
            made = Trajectory(task.id, _turns(task.id, STEPS), boundaries, "finished", Score.of(won), Context(PREFIX))
            write_trajectory(store, unit, made, phase="collect", run=0, groups=task.groups, seconds=0.0)
            for boundary in boundaries:
                for arm, draw, continuation in _continuations(task.id, boundary):
                    name = continuation_unit(task.id, boundary.index, arm, draw)
                    write_continuation(store, name, unit, boundary.index, arm, draw, continuation, seconds=0.0)


def _continuations(task: str, boundary: Boundary) -> Iterator[tuple[ContinuationArm, int, Trajectory]]:
    harmful = Random(f"{task}#{boundary.index}").random() < 1 / 12
    for draw in range(3):
        for arm in ARMS:
            chance = Random(f"{task}#{boundary.index}/{arm}/{draw}")
            bad = harmful and arm == "POST"
            steps = chance.randrange(6, 14) + 6 * bad
            score = Score.of(chance.random() < (0.1 if bad else 0.9), answer=f"the answer {chance.random():.3f}")
            name = f"{task}/{arm}/{draw}"
            yield arm, draw, Trajectory(task, _turns(name, steps), (), "finished", score, boundary.pre)


def _boundary(task: str, index: int) -> Boundary:
    turns = _turns(f"{task}/{index}", 8)
    pre = Context(PREFIX, _summary(task, index - 1) if index > 1 else None, turns)
    post = Context(PREFIX, _summary(task, index), turns[-1:])
    actions = tuple(Action.of(call) for turn in turns for call in turn.message.calls)
    return Boundary(index, 8 * index, pre, post, None, actions)


def _summary(task: str, index: int) -> Summary:
    lines = "\n".join(f"- record {n} of {task} belongs to person-{n}, open since 2026-03-{n:02d}" for n in range(40))
    return Summary(f"## Goal\nSummary {index} of {task}\n## Progress\n{lines}", 900)


def _turns(name: str, steps: int) -> tuple[Turn, ...]:
    """Turns from a stock of a hundred: a run keeps each text once."""
    chance = Random(name)
    return tuple(_turn(chance.randrange(100)) for _ in range(steps))


@cache
def _turn(number: int) -> Turn:
    chance = Random(number)
    arguments = {"page": chance.randrange(9), "token": f"tok-{chance.randrange(99)}"}
    call = ToolCall(f"c{number}", "look", json.dumps(arguments))
    rows = [{"id": f"r{chance.randrange(10**4)}", "amount": chance.randrange(9999) / 100} for _ in range(24)]
    seen = Message("tool", json.dumps(rows), call_id=call.id)
    return Turn(Message("assistant", "Next I look.", (call,)), (seen,), 300)


def _claim(store: Store, command: str) -> None:
    config = Config(suite=SuiteConfig(use="office", split="test"))
    identity = {**config.identity(), "template": default_template().hash}
    store.set_metadata(RunMetadata(command=command, suite="office", version="0.1.0", identity=identity))
    for role in ("agent", "compressor"):
        reply = Reply(assistant("made up"), Usage(1000, 100, 0, 0, 1), model=f"made-up-{role}")
        store.journal(JournaledReply(f"claim/{role}", 0, role, f"made-up-{role}", "00" * 32, reply, 0.0))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--keep", type=Path, help="write the runs and the report there instead of a scratch directory")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        home = chosen.keep or Path(scratch)
        runs = home / "evaluate.db", home / "verified.db"
        for run, make in zip(runs, (make_evaluation, make_verified), strict=True):
            if not run.exists():
                make(run)
        made = write_report(tuple(map(str, runs)), home, home / "report.html")
    if chosen.json:
        print(json.dumps(made, indent=2))
        return
    print(f"{TASKS} tasks x {RUNS} runs x {len(arms())} arms, {made['boundaries']} boundaries of three pairs of draws")
    print(f"{made['seconds']:.1f} seconds, {made['bytes'] / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
