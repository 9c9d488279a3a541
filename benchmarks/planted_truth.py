"""Planted truth: what a compaction of a simulated run really lost, and what that did, from very many continuations.

    python benchmarks/planted_truth.py RUN.db TRUTH.json --draws 100

Estimators are tested against this: H and B follow from the draws as closely as one likes. The file has, for each
boundary, the facts that PRE shows and POST does not, and all draws of both arms. It exists for runs of pocket with the
simulated models only. Options of the agent, such as its world, are read from the run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from recompact.attribution.continuations import continuation_unit
from recompact.attribution.effects import channel_of
from recompact.engine.rollout import Agent, run_episode
from recompact.engine.store.metadata import RunMetadata
from recompact.engine.store.records import read_boundary
from recompact.engine.store.runs import boundary_rows, trajectory_row
from recompact.engine.store.store import Store
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import Task
from recompact.models.journal import seed_of
from recompact.simulation.agent import SimulatedAgent, claims, conditions
from recompact.simulation.knowledge import Knowledge, knowledge_of
from recompact.simulation.notes import is_page
from recompact.suites.pocket import PocketSuite, parse
from recompact.values.chat import Reply, Request
from recompact.values.context import Context
from recompact.values.outcome import ARMS, PAPER, BoundaryId, ContinuationArm, Thresholds
from recompact.values.progress import SILENT, Progress
from recompact.values.tokens import counter
from recompact.values.trajectory import Boundary


@dataclass(frozen=True)
class LostFact:
    """One fact that the context before shows and the context after does not."""

    kind: str  # a kind of fact, as in recompact.simulation.parameters
    what: str


@dataclass(frozen=True)
class Draws:
    """Outcomes of one arm, in order of their draws."""

    success: tuple[bool, ...]
    steps: tuple[int, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class BoundaryTruth:
    """One boundary with its planted truth."""

    task: str
    index: int
    step: int
    trajectory_success: bool
    lost: tuple[LostFact, ...]
    pre: Draws
    post: Draws

    @property
    def hazard(self) -> float:
        """H: success lost."""
        return fmean(self.pre.success) - fmean(self.post.success)

    @property
    def burden(self) -> float:
        """B: steps added."""
        return fmean(self.post.steps) - fmean(self.pre.steps)


def lost_facts(pre: Context, post: Context, task: str) -> tuple[LostFact, ...]:
    """The difference between what an agent can know from the two contexts, and what the summary made up."""
    before, _, _ = knowledge_of(pre.messages)
    after, _, _ = knowledge_of(post.messages)
    facts = [LostFact("token", app) for app in sorted(before.tokens.keys() - after.tokens.keys())]
    if before.passwords and not after.passwords:
        facts.append(LostFact("token", "passwords"))
    facts += [LostFact("signature", name) for name in sorted(before.signatures - after.signatures)]
    facts += _lost_results(before, after)
    facts += _lost_mutations(before, after)
    understood = parse(task)
    before_text = (pre.summary.text if pre.summary else task).lower()
    after_text = post.summary.text.lower() if post.summary else task.lower()
    for value in conditions(understood[1]) if understood else ():
        if value.lower() in before_text and value.lower() not in after_text:
            facts.append(LostFact("predicate", value))
    facts += [LostFact("open", claim) for claim in claims(after.summary) if claim not in claims(before.summary)]
    return tuple(facts)


def _lost_results(before: Knowledge, after: Knowledge) -> list[LostFact]:
    """Results that are gone, and lists that look complete although a page of them is missing."""
    facts = []
    for key, result in sorted(before.reads.items(), key=lambda item: item[0]):
        name, arguments = key
        if name.startswith(("documentation.", "account.")) or name.endswith(".login"):
            continue
        kept = after.reads.get(key)
        if kept is None:
            facts.append(LostFact("set", f"{name}({arguments})"))
        elif is_page(result) and kept["pages"] < result["pages"]:
            facts.append(LostFact("page", f"{name} ends after page {kept['pages']} of {result['pages']}"))
    return facts


def _lost_mutations(before: Knowledge, after: Knowledge) -> list[LostFact]:
    mutations = {key for key, times in before.done.items() if times} | set(before.reported)
    return [
        LostFact("mutation", f"{name}({arguments})")
        for name, arguments in sorted(mutations)
        if not after.done[name, arguments] and not after.says_done(name, json.loads(arguments))
    ]


class _Seeded:
    """The simulated agent as one unit of work sees it: a seed for each call, and no journal, since calls are free."""

    name = "sim-agent"

    def __init__(self, unit: str, seed: int, options: Mapping[str, Any]) -> None:
        self._unit, self._seed, self._next = unit, seed, 0
        self._model = SimulatedAgent(**options)

    async def reply(self, request: Request) -> Reply:
        seed = seed_of(self._unit, self._next, self._seed)
        self._next += 1
        decoding = request.decoding.seeded(seed)
        return await self._model.reply(Request(request.messages, request.tools, decoding, request.chain))


async def _sample(
    task: Task,
    boundary: Boundary,
    arm: ContinuationArm,
    draws: range,
    metadata: RunMetadata,
    options: Mapping[str, Any],
) -> Draws:
    suite = PocketSuite()
    outcomes = []
    for draw in draws:
        # Seeds of their own: a verification of the same run must not be measured by its own draws.
        unit = f"truth/{continuation_unit(task.id, boundary.index, arm, draw)}"
        episode = InProcessEpisode(suite.environment(task), task.id)
        agent = Agent(_Seeded(unit, metadata.seed, options))
        outcomes.append(
            await run_episode(
                task,
                episode,
                agent,
                count=counter(),
                step_limit=metadata.step_limit - boundary.step,
                snapshot=boundary.snapshot,
                context=boundary.pre if arm == "PRE" else boundary.post,
                actions=boundary.actions,
                observation_tokens=metadata.observation_tokens,
            )
        )
    return Draws(
        tuple(t.score.success for t in outcomes),
        tuple(t.steps for t in outcomes),
        tuple(sum(u.total for u in t.usage.values()) for t in outcomes),
    )


def boundary_truth(
    path: Path, unit: str, index: int, split: str, draws: int, options: Mapping[str, Any] = MappingProxyType({})
) -> BoundaryTruth:
    """The truth about one boundary of a run. Runs in a process of its own."""
    with Store.read(path) as store:
        row = trajectory_row(store, unit)
        boundary = read_boundary(store, BoundaryId(unit, index))
        metadata = store.metadata
    task = next(t for t in PocketSuite().tasks(split) if t.id == row.task)
    pre, post = (asyncio.run(_sample(task, boundary, arm, range(draws), metadata, options)) for arm in ARMS)
    lost = lost_facts(boundary.pre, boundary.post, task.text)
    return BoundaryTruth(task.id, index, boundary.step, row.success, lost, pre, post)


def run_truth(
    path: Path, draws: int, progress: Progress = SILENT, options: Mapping[str, Any] = MappingProxyType({})
) -> list[BoundaryTruth]:
    """The truth about every boundary of a run, on all cores; `options` are those of the run's simulated agent."""
    with Store.read(path) as store:
        rows = boundary_rows(store)
        split = store.metadata.split
    progress.stage("truth", len(rows))
    truths = []
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(boundary_truth, path, row.unit, row.index, split, draws, dict(options)) for row in rows]
        try:
            for job in jobs:
                truths.append(job.result())
                progress.done()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return truths


def write_truth(truths: Sequence[BoundaryTruth], path: Path) -> None:
    data = [{**asdict(truth), "hazard": truth.hazard, "burden": truth.burden} for truth in truths]
    path.write_text(json.dumps(data), encoding="utf-8")


def read_truth(path: Path) -> list[BoundaryTruth]:
    return [_truth(data) for data in json.loads(path.read_text(encoding="utf-8"))]


def _truth(data: Mapping[str, Any]) -> BoundaryTruth:
    arms = {name: Draws(**{k: tuple(v) for k, v in data[name].items()}) for name in ("pre", "post")}
    return BoundaryTruth(
        data["task"],
        data["index"],
        data["step"],
        data["trajectory_success"],
        tuple(LostFact(**lost) for lost in data["lost"]),
        arms["pre"],
        arms["post"],
    )


def truth_summary(truths: list[BoundaryTruth], draws: int, thresholds: Thresholds = PAPER) -> dict[str, Any]:
    """The picture of these boundaries that the paper draws of its own."""
    hazard, burden = thresholds.hazard, thresholds.burden
    hazards = [t.hazard for t in truths]
    burdens = [t.burden for t in truths]
    harmful = [t for t in truths if channel_of(t.hazard, t.burden, thresholds) != "none"]
    lost: dict[str, int] = {}
    for truth in truths:
        for kind in {fact.kind for fact in truth.lost}:
            lost[kind] = lost.get(kind, 0) + 1
    return {
        "boundaries": len(truths),
        "draws_in_each_arm": draws,
        "harmful": len(harmful),
        "harmful_share": round(len(harmful) / len(truths), 4) if truths else 0.0,
        f"hazard_at_least_{hazard:g}": sum(h >= hazard for h in hazards),
        f"burden_at_least_{burden:g}": sum(b >= burden for b in burdens),
        "hazard_within_0.1": sum(abs(h) < 0.1 for h in hazards),
        "burden_above_0.5": sum(b > 0.5 for b in burdens),
        f"burden_above_0.5_and_below_{burden:g}": sum(0.5 < b < burden for b in burdens),
        "boundaries_that_lost_a_fact_of_kind": dict(sorted(lost.items())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write what each compaction of a simulated run really lost.")
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--draws", type=int, default=100, help="continuations in each arm")
    arguments = parser.parse_args()
    with Store.read(arguments.run) as store:
        models = store.metadata.identity.get("models", {})
    options: Mapping[str, Any] = next(
        (each["options"] for each in models.values() if each.get("use") == "sim-agent"), {}
    )
    truths = run_truth(arguments.run, arguments.draws, options=options)
    write_truth(truths, arguments.out)
    print(json.dumps(truth_summary(truths, arguments.draws), indent=2))


if __name__ == "__main__":
    main()
