"""Where the pairs of a gate come from: whole tasks, stored compactions that are compacted again and continued, or
probes of such compactions, without continuing anything."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from recompact.attribution.continuations import NO_SUMMARY
from recompact.attribution.records import says_nothing
from recompact.engine.config import Config
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import BROKEN, boundary_rows, continuation_rows, is_simulated, trajectory_row
from recompact.engine.study import Study
from recompact.environments.protocol import Opening
from recompact.errors import InputError
from recompact.evaluation.arms import NONE, PROMPTED, Arm, built_in_arms, parse_arms
from recompact.evaluation.evaluate import EvaluationPlan, PlannedRun, play_plan, tasks_of, unit_of
from recompact.evaluation.gate import Gate, Pair, PairSource, Pick, Result
from recompact.evaluation.probes import CompactionPoint
from recompact.evaluation.probing import KIND as PROBE, Compacted, compaction_unit, unit_name
from recompact.evaluation.replay import POST, PRE, ReplayCase, case_of, draw_unit, refuse_evaluation, try_restore
from recompact.models.failures import SetAside
from recompact.values.candidate import read_record
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template, resolve
from recompact.values.trajectory import Trajectory


def parse_side(text: str, config: Config, own: Template) -> Arm:
    """BASE or NEW: an arm as `recompact evaluate` takes it, or a template by its directory or name.

    A bare template is called by its directory and the beginning of its hash, since a directory has another text in the
    next pull request.
    """
    name = text.partition("@")[0]
    if "=" in text or name in built_in_arms() or ("+" in text and not Path(text).exists()):
        return parse_arms([text], config.compressor, own)[0]
    template = resolve(text, Path())
    place = re.sub(r"[^\w.-]+", "-", Path(text).resolve().name if Path(text).is_dir() else text).strip("-.")
    return parse_arms([f"{place or 'template'}-{template.hash[:6]}={text}"], config.compressor, own)[0]


def own_arm(config: Config) -> Arm:
    """What a config itself compacts with, named after its file."""
    return Arm(config.file.stem if config.file else "config", config.compressor.kind)


@dataclass(frozen=True)
class Side:
    """One of the two: its arm, and the study that it is played in, which both may share."""

    study: Study
    arm: Arm


async def task_pairs(base: Side, new: Side) -> PairSource:
    """Whole tasks, from the beginning to the end, as trajectories of an evaluation. Both studies must have the same."""
    tasks, others = [await tasks_of(side.study) for side in (base, new)]
    if [task.id for task in tasks] != [task.id for task in others]:
        raise InputError(
            f"{base.study.config.file} and {new.study.config.file} have other tasks: give them the same [suite]"
        )
    sides = [Side(side.study, side.arm.completed(side.study)) for side in (base, new)]
    by_id = {task.id: task for task in tasks}
    together = base.study is new.study

    async def play(picks: Sequence[Pick]) -> list[Pair | None]:
        aside: dict[str, str] = {}
        for own in [sides] if together else [[side] for side in sides]:
            runs = [
                PlannedRun(unit_of(side.arm.key, pick.item, pick.run), side.arm, by_id[pick.item], pick.run)
                for pick in picks
                for side in own
            ]
            plan = EvaluationPlan(tuple(side.arm for side in own), tuple(tasks), tuple(runs))
            aside |= await _play(play_plan(own[0].study, plan))
        return [Pair(pick.item, pick.run, *(_task_result(side, pick, aside) for side in sides)) for pick in picks]

    first, second = (side.arm for side in sides)
    same = together and first.key == second.key
    return PairSource(
        Gate(first.name, second.name, identical=same),
        list(by_id),
        play,
        lambda: any(is_simulated(side.study.store) for side in sides),
    )


def _task_result(side: Side, pick: Pick, aside: Mapping[str, str]) -> Result:
    unit = unit_of(side.arm.key, pick.item, pick.run)
    if unit in aside:
        return Result(None, reason=aside[unit])
    row = trajectory_row(side.study.store, unit)
    if row.ending == BROKEN:
        return Result(None, reason="the environment broke")
    return Result(float(row.success), row.steps)


async def _play(work: Awaitable[None]) -> dict[str, str]:
    """Do this. Returns the units that would fail again, with the reason; raises for those that may succeed another
    time."""
    try:
        await work
    except Unfinished as unfinished:
        if waiting := [unit for unit in unfinished.units if not isinstance(unit.failure, SetAside)]:
            raise Unfinished(waiting) from None
        return {unit.name: str(unit.failure) for unit in unfinished.units}
    return {}


def replay_pairs(study: Study, base: Arm, new: Arm) -> PairSource:
    """Stored compactions of a run: each compacted again and continued to the end, with compaction off.

    Continuations that the run's verification made stand in where they are what would be drawn: all from before the
    compaction (the arm none), and the first from each recorded summary, for the compressor that wrote it. The others
    from that summary share its luck, so a second draw of the same boundary gets a fresh summary.
    """
    refuse_evaluation(study.store)
    ids = [row.id for row in boundary_rows(study.store)]
    if not ids:
        raise InputError(f"{study.store.path} has no compaction: collect tasks that are long enough, or use --tasks")
    replays = _Replays(study, (base.completed(study), new.completed(study)), {str(id): id for id in ids})
    first, second = replays.arms
    gate = Gate(first.name, second.name, noun="compaction", identical=first.key == second.key)
    return PairSource(gate, list(replays.ids), replays.play, lambda: is_simulated(study.store))


@dataclass(frozen=True)
class _Replays:
    """The compactions of a run that are played, and what is known of them by their names."""

    study: Study
    arms: tuple[Arm, Arm]
    ids: Mapping[str, BoundaryId]
    failed: dict[str, str] = field(default_factory=dict)
    cases: dict[str, ReplayCase] = field(default_factory=dict)
    openings: dict[str, Opening] = field(default_factory=dict)

    async def play(self, picks: Sequence[Pick]) -> list[Pair | None]:
        units, places = [], []
        finished = self.study.store.finished("trajectory")
        for pick in picks:
            case = await self._case(pick.item)
            both = [self._place(case, arm, pick.run) for arm in self.arms] if case else None
            missing = [(arm, unit) for arm, unit in both or () if isinstance(unit, str) and unit not in finished]
            if case is not None and missing and not await self._can_restore(case):
                both = None
            elif case is not None:
                opening = self.openings.get(str(case.id))
                units += [draw_unit(case, unit, arm, opening, self.failed) for arm, unit in missing if opening]
            places.append(both)
        once = {unit.name: unit for unit in units}
        aside = await _play(self.study.complete("gate", "trajectory", once.values()))
        return [
            Pair(pick.item, pick.run, *(self._result(unit, aside) for _, unit in both)) if both else None
            for pick, both in zip(picks, places, strict=True)
        ]

    async def _case(self, name: str) -> ReplayCase | None:
        if name not in self.cases:
            try:
                self.cases[name] = await case_of(self.study, self.ids[name])
            except InputError as error:
                self.failed[name] = str(error)
                return None
        return self.cases[name]

    async def _can_restore(self, case: ReplayCase) -> bool:
        name = str(case.id)
        if name not in self.openings and name not in self.failed:
            try:
                self.openings[name] = await try_restore(case)
            except InputError as error:
                self.failed[name] = str(error)
        return name in self.openings

    def _place(self, case: ReplayCase, arm: Arm, run: int) -> tuple[Arm | None, str | Result]:
        """Where a side's draw of this number is: a unit, or a continuation that the run has."""
        rows = continuation_rows(self.study.store, case.id.unit, case.id.index)
        name: str
        if arm.kind == NONE and arm.compressor is None:
            stored = [row for row in rows if row.arm == PRE]
            played, name = None, PRE
        else:
            own = own_arm(self.study.config).completed(self.study).key == arm.key
            stored = [row for row in rows if own and row.arm == POST and row.draw == 0]
            played, name = arm, arm.key
        usable = [row for row in stored if not says_nothing(row.arm, row.ending)]
        if run < len(usable):
            return played, Result(float(usable[run].success), usable[run].steps)
        return played, case.unit(name, run - len(usable))

    def _result(self, place: str | Result, aside: dict[str, str]) -> Result:
        if isinstance(place, Result):
            return place
        if place in self.study.store.finished("trajectory"):
            continuation: Trajectory = read_trajectory(self.study.store, place)
            return Result(float(continuation.score.success), continuation.steps)
        reason = aside.get(place) or self.failed.get(place, "")
        # A compressor that writes nothing fails the agent; an environment that broke says nothing about it.
        return Result(0.0 if reason.startswith(NO_SUMMARY) else None, reason=reason)


def probe_pairs(study: Study, points: Sequence[CompactionPoint], base: Arm, new: Arm) -> PairSource:
    """Compaction points, each compacted by both: the share of the facts that later calls used and that are still shown.

    Nothing is continued, so it is cheap, and says as much about harm as probes do.
    """
    asked = {point.name: point for point in points if point.facts}
    if not asked:
        raise InputError("no later call used anything that a compaction consumed: there is nothing to ask for")
    arms = [arm.completed(study) for arm in (base, new)]

    def unit(pick: Pick, arm: Arm) -> str:
        return unit_name(asked[pick.item], arm.key, "gate", pick.run)

    async def play(picks: Sequence[Pick]) -> list[Pair | None]:
        units = {
            unit(pick, arm): compaction_unit(study, unit(pick, arm), asked[pick.item], arm, 1)
            for pick, arm in product(picks, arms)
            if arm.kind != NONE
        }
        aside = await _play(study.complete("gate", PROBE, units.values()))
        return [Pair(pick.item, pick.run, *(result(pick, arm, aside) for arm in arms)) for pick in picks]

    def result(pick: Pick, arm: Arm, aside: Mapping[str, str]) -> Result:
        point = asked[pick.item]
        if arm.kind == NONE:
            return Result(1.0, point.pre.size)
        if (name := unit(pick, arm)) in aside:
            return Result(None, reason=aside[name])
        compacted = read_record(Compacted, study.store.result(name))
        if not compacted.texts:
            return Result(0.0, reason=f"{NO_SUMMARY}: {compacted.failed}")
        shown = sum(fact.shown_in(compacted.texts[0]) for fact in point.facts)
        return Result(shown / len(point.facts), compacted.tokens[0])

    first, second = arms
    asks = any(PROMPTED in arm.kind for arm in arms)
    same = first.key == second.key
    gate = Gate(first.name, second.name, "compaction", "recall", "tokens", identical=same)
    return PairSource(gate, list(asked), play, lambda: asks and is_simulated(study.store))
