"""Arms that compact at the same place share their steps up to there: exactly, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from progress_support import Heard

from recompact.adaptation.selection import Cell, fit_runs
from recompact.engine import shared_starts
from recompact.engine.assembly import open_study
from recompact.engine.collection import trajectory_unit
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.shared_starts import sharing
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import open_run, trajectories
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import EnvironmentFailed
from recompact.evaluation.arms import Arm
from recompact.evaluation.evaluate import digest, evaluate, open_evaluation, unit_of
from recompact.models.journal import UnitCalls, seed_of
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request
from recompact.values.trajectory import Snapshot, Trajectory

NONE = Arm("none", "none")
PROMPTING = Arm("prompting", "prompted", scope="history")
FIFO = Arm("fifo", "fifo")
SMALL = Arm("small", "fifo", budget=1500)


def config(share: bool = True, tasks: int = 3) -> Config:
    text = f"[suite]\nlimit = {tasks}\n[compressor]\nbudget = 2048\n[run]\nshare_prefix = {str(share).lower()}\n"
    return parse_config(text, Path("c.toml"))


def played(path: Path, *commands: Sequence[Arm], share: bool = True, runs: int = 1) -> dict[str, Trajectory]:
    """The trajectories of all arms after these commands, by unit."""

    async def play(arms: Sequence[Arm]) -> None:
        async with open_evaluation(config(share), path) as study:
            await evaluate(study, arms, runs)

    for arms in commands:
        asyncio.run(play(arms))
    with open_run(path) as store:
        return {row.unit: read_trajectory(store, row.unit) for row in trajectories(store, phase="evaluate")}


def test_arms_of_one_budget_have_the_same_steps_up_to_the_first_compaction(tmp_path: Path) -> None:
    found = played(tmp_path / "r.db", [NONE, PROMPTING, FIFO, SMALL])
    shared = 0
    for task in {made.task for made in found.values()}:
        same = [made for unit, made in found.items() if made.task == task and "2048" in unit]
        assert len(same) == 2
        firsts = {made.boundaries[0].step if made.boundaries else made.steps for made in same}
        assert {made.shared for made in same} == firsts  # recorded, and nothing later is shared
        assert len({made.turns[: made.shared] for made in same}) == 1
        shared += firsts.pop()
        (alone,) = [made for unit, made in found.items() if made.task == task and unit.startswith("evaluate/none")]
        assert alone.shared == 0
    with open_run(tmp_path / "r.db") as store:
        saved = sharing(store, "evaluate")
        agents = store._rows("SELECT count(*) AS n FROM calls WHERE role = 'agent'")[0]["n"]
    assert saved.steps - saved.steps_played == shared > 0  # two arms played it once
    assert saved.steps_played == agents
    assert saved.tokens > saved.tokens_paid
    assert saved.statement


def test_a_shared_start_ends_over_the_budget_whatever_the_configs_trigger(tmp_path: Path) -> None:
    async def play() -> None:
        own = config()
        phase = replace(own, compressor=replace(own.compressor, trigger="phase"))
        async with open_evaluation(phase, tmp_path / "r.db") as study:
            await evaluate(study, [replace(FIFO, trigger="budget")], 1)

    asyncio.run(play())
    with open_run(tmp_path / "r.db") as store:
        found = [read_trajectory(store, row.unit) for row in trajectories(store, phase="evaluate")]
    firsts = [each.boundaries[0].pre.size for each in found if each.boundaries]
    assert firsts
    assert min(firsts) > 2048


class Spliced(UnitCalls):
    """The calls of a unit whose first ones have the random numbers of another."""

    def __init__(self, calls: UnitCalls, other: str, number: int) -> None:
        super().__init__(calls._journal, f"{calls.unit}-whole", calls.seed)
        self.unit_of_rest, self.other, self.number = calls.unit, other, number

    async def reply(self, model: ChatModel, role: str, request: Request) -> Reply:
        ordinal, self._next = self._next, self._next + 1
        first = ordinal < self.number
        name, at = (self.other, ordinal) if first else (self.unit_of_rest, ordinal - self.number)
        return await model.reply(replace(request, decoding=request.decoding.seeded(seed_of(name, at, self.seed))))


@pytest.mark.parametrize("arm", [PROMPTING, FIFO], ids=lambda arm: arm.name)
def test_sharing_changes_nothing_but_the_random_numbers(tmp_path: Path, arm: Arm) -> None:
    """Played whole with the numbers of the shared start and then its own, an arm's trajectory is the same in every
    byte: so its distribution is the same, and so is every mean."""
    path = tmp_path / "r.db"
    found = played(path, [arm])

    async def whole() -> list[Trajectory]:
        async with open_evaluation(config(), path) as study:
            complete = arm.completed(study)
            made = []
            for task in await study.tasks():
                unit = unit_of(complete.key, task.id, 0)
                start = f"evaluate/shared/2048/{task.id}/0"
                number = read_trajectory(study.store, start).steps
                plain = trajectory_unit(complete.study(study), unit, task, phase="evaluate", snapshots=False)
                made.append(await plain.play(Spliced(UnitCalls(study.store, unit, 0), start, number)))
            return made

    for again in asyncio.run(whole()):
        (shared,) = [made for made in found.values() if made.task == again.task]
        assert shared.shared > 0
        assert replace(shared, shared=0) == again


def test_the_order_in_which_arms_are_added_changes_nothing(tmp_path: Path) -> None:
    at_once = played(tmp_path / "once.db", [FIFO, PROMPTING])
    assert played(tmp_path / "later.db", [PROMPTING], [PROMPTING, FIFO]) == at_once
    with open_run(tmp_path / "once.db") as one, open_run(tmp_path / "later.db") as other:
        assert digest(one, list(at_once)) == digest(other, list(at_once))


@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, after: int) -> None:
    class Killing(Heard):
        def done(self) -> None:
            super().done()
            if self.events.count(("done",)) == after:
                raise RuntimeError("killed")

    async def killed() -> None:
        async with open_evaluation(config(), tmp_path / "killed.db", progress=Killing()) as study:
            await evaluate(study, [FIFO, PROMPTING], 1)

    with pytest.raises(RuntimeError, match="killed"):
        asyncio.run(killed())
    assert played(tmp_path / "killed.db", [FIFO, PROMPTING]) == played(tmp_path / "whole.db", [FIFO, PROMPTING])


def test_without_an_exact_snapshot_every_arm_begins_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = played(tmp_path / "apart.db", [PROMPTING, FIFO], share=False)
    monkeypatch.setattr(shared_starts, "EXACT", ())
    assert played(tmp_path / "inexact.db", [PROMPTING, FIFO]) == apart
    assert not any(made.shared for made in apart.values())
    with open_run(tmp_path / "inexact.db") as store:
        starts = trajectories(store, phase="shared")
        assert [row.ending for row in starts].count("compaction due") == 1  # the one that told, and no more
        assert sharing(store, "evaluate").steps_played > sharing(store, "evaluate").steps
        assert sharing(store, "evaluate").statement == ""


def test_an_arm_that_cannot_be_restored_begins_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(self: InProcessEpisode, snapshot: Snapshot) -> None:
        raise EnvironmentFailed("it does not go back")

    apart = played(tmp_path / "apart.db", [FIFO], share=False)
    monkeypatch.setattr(InProcessEpisode, "restore", refuse)
    found = played(tmp_path / "r.db", [FIFO])
    compacted = {unit for unit, made in found.items() if made.boundaries}
    assert compacted
    assert all(found[unit] == apart[unit] for unit in compacted)


def test_finished_arms_need_no_start(tmp_path: Path) -> None:
    before = played(tmp_path / "r.db", [FIFO], share=False)
    assert played(tmp_path / "r.db", [FIFO]) == before
    with open_run(tmp_path / "r.db") as store:
        assert trajectories(store, phase="shared") == []


def test_candidates_share_their_starts_in_a_selection(tmp_path: Path) -> None:
    async def select() -> None:
        async with open_study(config(), tmp_path / "r.db") as study:
            other = replace(study.template, first=study.template.first + "\nKeep every token.\n")
            cells = [Cell(task.id, 0) for task in await study.tasks()]
            await fit_runs(study, {"original": study.template, "other": other}, cells)
            await fit_runs(study, {"original": study.template, "other": other}, cells, "again/")

    asyncio.run(select())
    with open_run(tmp_path / "r.db") as store:
        rows = trajectories(store, phase="select")
        made = {row.unit: read_trajectory(store, row.unit) for row in rows}
        assert len(trajectories(store, phase="shared")) == 2 * 3  # fresh runs have fresh starts
        assert sharing(store, "select").steps_played < sharing(store, "select").steps
    assert len(made) == 2 * 2 * 3
    assert all(one.shared for one in made.values())
    by_start = {(one.task, "again" in unit, one.turns[: one.shared]) for unit, one in made.items()}
    assert len(by_start) == 2 * 3
