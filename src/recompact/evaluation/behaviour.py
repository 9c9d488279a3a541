"""What an agent does after a compaction, and what its summaries keep, counted from records in the suite's own terms.

The suite's hooks say what an action is for and which literals count; what a missing hook would have said is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recompact.attribution.divergence import actions_of, consumed_texts, literals, occurs, turn_actions
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import overview, trajectories
from recompact.engine.store.store import Store
from recompact.environments.protocol import Behaviour, EnvironmentFailed, Episodes, Literals
from recompact.errors import InputError
from recompact.evaluation.arm_runs import common, left_out, read_arms
from recompact.evaluation.evaluate import PHASE as EVALUATE, unit_of
from recompact.evaluation.summary import SIMULATED
from recompact.values.progress import SILENT, Progress
from recompact.values.stats import RESAMPLES, Estimate, bootstrap_ratios
from recompact.values.tables import Cell, Column, Table, columns, estimate_cell
from recompact.values.texts import quantity
from recompact.values.trajectory import Boundary, Trajectory

FIRST, STEPS, CALLS, KEPT, HELD = "documentation_first", "steps_to_change", "documentation_calls", "kept.", "held."
ANY = "literals"  # the one kind where the suite names none: numbers, dates, ids, addresses and quoted words


@dataclass(frozen=True)
class Ratio(Estimate):
    """A share or a mean with its interval, over `of` compactions, literals or trajectories."""

    of: int


@dataclass(frozen=True)
class ArmBehaviour:
    """One arm in figures, by key: `documentation_first`, `steps_to_change`, `documentation_calls`; for each kind of
    literal `kept.KIND`, the share of those consumed that the summary keeps, and `held.KIND`, the share of summaries
    that hold any."""

    label: str
    tasks: int
    trajectories: int
    compactions: int
    figures: Mapping[str, Ratio]


@dataclass(frozen=True)
class Behaviours:
    """All arms over the same tasks. `says_behaviour` and `says_literals` tell which hooks the suite has."""

    suite: str
    arms: tuple[ArmBehaviour, ...]
    says_behaviour: bool
    says_literals: bool
    left_out: int  # tasks that not every arm has finished
    simulated: bool
    broken: int = 0  # tasks that all have finished, but in one of whose runs the environment broke


async def behaviours(
    store: Store,
    episodes: Episodes,
    resamples: int = RESAMPLES,
    *,
    progress: Progress = SILENT,
) -> Behaviours:
    """What the agents of a run did after its compactions. Progress is told of each trajectory read."""
    arms, left_out, broken = _units(store)
    progress.stage("behaviour", sum(len(units) for by_task in arms.values() for units in by_task.values()))

    def read(unit: str) -> Trajectory:
        progress.done()
        return read_trajectory(store, unit)

    measured, hooks = [], (True, True)
    for label, by_task in arms.items():  # one at a time: the texts of all together may be large
        runs = {task: [read(unit) for unit in units] for task, units in by_task.items()}
        kinds, named = await _ask_suite(episodes, [trajectory for each in runs.values() for trajectory in each])
        measured.append(_measure(label, runs, kinds, named, resamples))
        hooks = (kinds is not None, named is not None)
    run = overview(store)
    return Behaviours(run.suite, tuple(measured), *hooks, left_out, run.simulated, broken)


def _units(store: Store) -> tuple[dict[str, dict[str, tuple[str, ...]]], int, int]:
    """By arm and task, the units of its runs: the arms of an evaluation over the tasks that all have finished, or the
    one that a run was collected with. Then how many tasks are left out: not finished, or broken."""
    if store.metadata.command != EVALUATE:
        rows = trajectories(store)
        if not rows:
            raise InputError(f"{store.path} has no trajectories yet: finish recompact collect or evaluate first")
        return {overview(store).compressor: {row.task: (row.unit,) for row in rows}}, 0, 0
    begun = [arm for arm in read_arms(store) if arm.rows]
    shared = common(begun)
    if not shared.tasks:
        why = f"has no task yet that every arm has finished{shared.broken_words}"
        raise InputError(f"{store.path} {why}: continue with recompact evaluate")
    units = {
        arm.label: {
            task: tuple(unit_of(arm.settings["key"], task, run) for run in range(shared.runs)) for task in shared.tasks
        }
        for arm in begun
    }
    return units, shared.left_out, len(shared.broken)


_Kinds = Mapping[str, Behaviour | None]
_Named = Mapping[str, Literals]


async def _ask_suite(episodes: Episodes, runs: Sequence[Trajectory]) -> tuple[_Kinds | None, _Named | None]:
    """What the suite says about all actions and texts, each asked about once."""
    actions = {action.key: action for trajectory in runs for action in actions_of(trajectory)}
    summed_up = [boundary for trajectory in runs for boundary in trajectory.boundaries if boundary.post.summary]
    texts = dict.fromkeys(text for each in summed_up for text in (*consumed_texts(each), _summary(each)))
    try:
        kinds = await episodes.behaviours(list(actions.values()))
        named = await episodes.literals(list(texts))
    except EnvironmentFailed as failure:
        raise InputError(f"{failure}. The hooks `behaviour` and `literals` of a suite: docs/environments.md") from None
    return (
        None if kinds is None else dict(zip(actions, kinds, strict=True)),
        None if named is None else dict(zip(texts, named, strict=True)),
    )


def _summary(boundary: Boundary) -> str:
    return boundary.post.summary.text if boundary.post.summary else ""


_Counts = dict[str, dict[str, list[tuple[float, float]]]]
"""For each figure, by task: what is counted and out of how many. The figure is the quotient of their sums."""


def _measure(
    label: str, runs: Mapping[str, Sequence[Trajectory]], kinds: _Kinds | None, named: _Named | None, resamples: int
) -> ArmBehaviour:
    counts: _Counts = {}
    every = [(task, trajectory) for task, own in runs.items() for trajectory in own]
    for task, trajectory in every:
        after = _after(trajectory, kinds) if kinds is not None else ()
        for key, count, of in (*after, *_kept_literals(trajectory, named)):
            counts.setdefault(key, {}).setdefault(task, []).append((count, of))
    compactions = sum(len(trajectory.boundaries) for _, trajectory in every)
    return ArmBehaviour(label, len(runs), len(every), compactions, _ratios(counts, list(runs), resamples))


def _after(trajectory: Trajectory, kinds: _Kinds) -> Iterable[tuple[str, float, float]]:
    """The first action after each compaction, the steps to the next mutation, or to the end where there is none, and
    the look-ups of all."""
    turns = [[kinds[action.key] for action in turn_actions(turn)] for turn in trajectory.turns]
    for boundary in trajectory.boundaries:
        if after := turns[boundary.step :]:
            yield FIRST, after[0][0] == "documentation", 1
            yield STEPS, next((n for n, turn in enumerate(after, 1) if "mutation" in turn), len(after)), 1
    yield CALLS, sum(turn.count("documentation") for turn in turns), 1


def _kept_literals(trajectory: Trajectory, named: _Named | None) -> Iterable[tuple[str, float, float]]:
    """By kind, how many of the literals that each summary replaced are in it, and whether it holds any."""
    for boundary in trajectory.boundaries:
        if boundary.post.summary is None:
            continue
        summary, texts = _summary(boundary), consumed_texts(boundary)
        if named is None:
            before = {ANY: {literal for text in texts for literal in literals(text)}}
            after = {ANY: {literal for literal in before[ANY] if occurs(literal, summary)} | set(literals(summary))}
        else:
            before, after = {}, {kind: set(of_kind) for kind, of_kind in named[summary].items()}
            for text in texts:
                for kind, of_kind in named[text].items():
                    before.setdefault(kind, set()).update(of_kind)
        for kind in dict.fromkeys([*before, *after]):
            consumed, held = before.get(kind, set()), after.get(kind, set())
            yield f"{KEPT}{kind}", len(consumed & held), len(consumed)
            yield f"{HELD}{kind}", bool(held), 1


def _ratios(counts: _Counts, tasks: Sequence[str], resamples: int) -> dict[str, Ratio]:
    """Quotients of sums over tasks; tasks are resampled whole, so that what belongs to one stays together."""
    by_task = [[by.get(task, []) for task in tasks] for by in counts.values()]
    pairs = [([sum(x for x, _ in entry) for entry in by], [sum(y for _, y in entry) for entry in by]) for by in by_task]
    return {
        key: Ratio(estimate.value, estimate.low, estimate.high, round(sum(of)))
        for key, (_, of), estimate in zip(counts, pairs, bootstrap_ratios(pairs, resamples), strict=True)
        if estimate is not None
    }


HOOKS = "docs/environments.md shows how"


def behaviour_table(behaviours: Behaviours) -> Table:
    """One row for each arm; only the columns that some arm has."""
    known = list(dict.fromkeys(key for arm in behaviours.arms for key in arm.figures))
    named = [key for kind in (KEPT, HELD) for key in known if key.startswith(kind)]
    keys = [key for key in (FIRST, STEPS, *named, CALLS) if key in known]
    rows = tuple(
        (arm.label, arm.compactions, *(_cell(key, arm.figures.get(key)) for key in keys)) for arm in behaviours.arms
    )
    title = f"{behaviours.suite}: behaviour after a compaction"
    return Table(
        title,
        (*columns("arm", "compactions"), *(Column(key.replace(".", "_"), _title(key)) for key in keys)),
        rows,
        notes(behaviours),
    )


def _title(key: str) -> str:
    if key.startswith(KEPT):
        return f"{key.removeprefix(KEPT)} kept, %"
    if key.startswith(HELD):
        return f"{key.removeprefix(HELD)} held, %"
    return {FIRST: "look-up first, %", STEPS: "steps to change", CALLS: "look-ups a task"}[key]


def _cell(key: str, ratio: Ratio | None) -> Cell:
    share = key == FIRST or key.startswith((KEPT, HELD))
    return estimate_cell(ratio, 0, scale=100) if share else estimate_cell(ratio, 1)


def notes(behaviours: Behaviours) -> tuple[str, ...]:
    """What the columns mean, and what is missing and how to get it."""
    tasks = behaviours.arms[0].tasks
    lines = [f"{quantity(tasks, 'task')}; 95 % intervals: bootstrap over tasks, {RESAMPLES:,} resamples."]
    lines += ["With fewer than 20 tasks they come out too narrow."] if tasks < 20 else []
    if behaviours.says_behaviour:
        lines.append(
            "look-up first: compactions whose first action after is a documentation look-up; steps to change: from a"
            " compaction to the next mutation, or to the end; look-ups a task: documentation calls per trajectory."
        )
    else:
        lines.append(
            f"The suite {behaviours.suite!r} does not say which actions look something up or change something, so what"
            f" the agent did after a compaction is not counted: give it a method behaviour(action); {HOOKS}."
        )
    lines.append(
        "kept: of the literals in what a summary replaced, the share that stands in the summary; held: the share of"
        " summaries that hold any."
    )
    if not behaviours.says_literals:
        lines.append(
            f"The suite {behaviours.suite!r} does not name kinds of literals: {ANY} are all numbers, dates, ids,"
            f" addresses and quoted words; tokens and call signatures apart need a method literals(text); {HOOKS}."
        )
    lines += left_out(behaviours.left_out, behaviours.broken)
    return (*lines, SIMULATED) if behaviours.simulated else tuple(lines)


def to_json(behaviours: Behaviours) -> dict[str, Any]:
    """All figures, in full."""
    return {**asdict(behaviours), "notes": list(notes(behaviours))}
