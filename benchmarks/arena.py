"""Episodes of one world, played from their first compaction on: up to there no template matters, so it is played once.

All arms share that part exactly, and go on from it with the same seeds for the same calls (common random numbers).
Simulated models in this process, with no run file: a comparison of templates costs seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from recompact.compressors.fifo import Fifo
from recompact.compressors.prompted import Prompted
from recompact.compressors.protocol import Compressor, Scope
from recompact.engine.rollout import Agent, run_episode
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import Opening, Task
from recompact.models.journal import seed_of
from recompact.models.protocol import ChatModel
from recompact.simulation.agent import SimulatedAgent, act
from recompact.simulation.compressor import SimulatedCompressor, draft_summary
from recompact.simulation.parameters import Habits, Traits, World
from recompact.suites.pocket import PocketSuite
from recompact.values.chat import Reply, Request, Usage, assistant
from recompact.values.context import Context
from recompact.values.template import Template
from recompact.values.tokens import counter
from recompact.values.trajectory import Boundary, Snapshot, Trajectory

BUDGET = 2048
STEP_LIMIT = 50
COUNT = lru_cache(maxsize=100_000)(counter())  # results of calls recur from run to run
SUITE = PocketSuite()


@dataclass(frozen=True)
class Arm:
    """What takes the place of the history: nothing, FIFO, or a template, perhaps with another compressor's habits."""

    kind: str  # none, fifo or prompted
    template: Template | None = None
    habits: Habits | None = None  # in place of the world's own
    scope: Scope = "history"
    stream: str = ""  # another stream of chance from the first compaction on: the same arm once more


NONE, FIFO = Arm("none"), Arm("fifo")


@dataclass(frozen=True)
class Outcome:
    """One episode. `shared` are the steps before the first compaction; the last three are sums over compactions."""

    success: bool
    steps: int
    shared: int
    compactions: int = 0
    summary_tokens: int = 0
    bound: int = 0  # compactions at which something had to go for want of room
    displaced: int = 0  # facts that had to go


@dataclass(frozen=True)
class _Start:
    """An episode as it is before its first compaction."""

    context: Context
    snapshot: Snapshot


Results = Mapping[str, Sequence[Sequence[Outcome]]]
"""By the name of the arm: a row for each task, a column for each run."""


def play(
    world: World, tasks: Sequence[Task], arms: Mapping[str, Arm], runs: Sequence[int], budget: int = BUDGET
) -> Results:
    """Every arm on every task, task by task: what is common is played once."""
    outcomes: dict[str, list[list[Outcome]]] = {name: [] for name in arms}

    async def every() -> None:
        for task in tasks:
            played = [await _play_arms(world, task, arms, run, budget) for run in runs]
            for name in arms:
                outcomes[name].append([one[name] for one in played])

    asyncio.run(every())
    return outcomes


def play_boundaries(world: World, tasks: Sequence[Task], arm: Arm, run: int) -> list[tuple[Task, Boundary]]:
    """Every compaction of an arm, with both contexts."""

    async def every() -> list[tuple[Task, Boundary]]:
        boundaries = []
        for task in tasks:
            unit = f"arena/{task.id}/{run}"
            start = await _start(world, task, unit, BUDGET)
            if isinstance(start, _Start):
                trajectory, _ = await _continue(world, task, arm, unit, start, BUDGET)
                boundaries += [(task, boundary) for boundary in trajectory.boundaries]
        return boundaries

    return asyncio.run(every())


async def _play_arms(world: World, task: Task, arms: Mapping[str, Arm], run: int, budget: int) -> dict[str, Outcome]:
    unit = f"arena/{task.id}/{run}"
    start = await _start(world, task, unit, budget)
    if isinstance(start, Trajectory):
        outcome = Outcome(start.score.success, start.steps, start.steps)
        return dict.fromkeys(arms, outcome)
    return {name: await _go_on(world, task, arm, unit, start, budget) for name, arm in arms.items()}


async def _start(world: World, task: Task, unit: str, budget: int) -> _Start | Trajectory:
    """The common part, or the whole episode where nothing is compacted in it."""
    start = _STARTS.get(_common(world, unit, budget))
    if start is None:
        start = _STARTS[_common(world, unit, budget)] = await _begin(world, task, unit, budget)
    return start


_STARTS: dict[tuple[float, float, str, int], _Start | Trajectory] = {}
"""The common parts that this process has played. They hold an environment's state each: some 70 KB."""


def _common(world: World, unit: str, budget: int) -> tuple[float, float, str, int]:
    """All that an episode depends on before it has a summary: of what is drawn, how much the agent wanders."""
    return world.traits.wander, world.traits.wander_on, unit, budget


class Player:
    """The simulated agent without an account of its tokens: the same messages for the same seeds."""

    name = SimulatedAgent.name

    def __init__(self, traits: Traits, unit: str, next_call: int = 0) -> None:
        self._traits, self._unit, self._next = traits, unit, next_call

    async def reply(self, request: Request) -> Reply:
        rng = Random(f"agent/{seed_of(self._unit, self._next)}")
        self._next += 1
        return Reply(act(request.messages, rng, self._traits), Usage(), model=self.name)


async def _begin(world: World, task: Task, unit: str, budget: int) -> _Start | Trajectory:
    episode = InProcessEpisode(SUITE.environment(task), task.id)
    agent = Agent(Player(world.traits, f"{unit}/agent"))
    trajectory = await run_episode(
        task, episode, agent, count=COUNT, budget=budget, step_limit=STEP_LIMIT, stop_when_due=True
    )
    if trajectory.ending != "compaction due":
        return trajectory
    stop = trajectory.boundaries[-1]
    assert stop.snapshot is not None
    return _Start(stop.pre, stop.snapshot)


async def _go_on(world: World, task: Task, arm: Arm, unit: str, start: _Start, budget: int) -> Outcome:
    steps = len(start.context.turns)
    trajectory, log = await _continue(world, task, arm, unit, start, budget)
    written = [b.post.summary.tokens for b in trajectory.boundaries if b.post.summary is not None]
    return Outcome(
        trajectory.score.success,
        steps + trajectory.steps,
        steps,
        len(trajectory.boundaries),
        sum(written),
        log.bound,
        log.displaced,
    )


async def _continue(
    world: World, task: Task, arm: Arm, unit: str, start: _Start, budget: int
) -> tuple[Trajectory, _Log]:
    """What comes of a start under an arm."""
    # What follows is the world's own, or the chances of worlds that share a beginning would go together.
    own = f"{unit}/world {world.number}{arm.stream}"
    log = _Log(arm.habits or world.habits, f"{own}/compressor")
    episode = InProcessEpisode(SUITE.environment(task), task.id)
    agent = Agent(Player(world.traits, f"{own}/agent"))
    trajectory = await run_episode(
        task,
        episode,
        agent,
        count=COUNT,
        snapshot=start.snapshot,
        context=start.context,
        compressor=_compressor(arm, task, log),
        budget=budget,
        step_limit=STEP_LIMIT - len(start.context.turns),
        snapshots=False,
    )
    return trajectory, log


class _Log:
    """The simulated compressor, with what it had no room for."""

    name = SimulatedCompressor.name

    def __init__(self, habits: Habits, unit: str) -> None:
        self._habits, self._unit, self._next, self.bound, self.displaced = habits, unit, 0, 0, 0

    async def reply(self, request: Request) -> Reply:
        rng = Random(f"compressor/{seed_of(self._unit, self._next)}")
        self._next += 1
        draft = draft_summary(request.messages, rng, self._habits)
        facts = sum(item.kind is not None for item in draft.displaced)
        self.bound += facts > 0
        self.displaced += facts
        return Reply(assistant(draft.text), Usage(), model=self.name)


def _compressor(arm: Arm, task: Task, model: ChatModel) -> Callable[[Opening], Compressor | None]:
    if arm.kind == "none":
        return lambda opening: None
    if arm.kind == "fifo" or arm.template is None:
        return lambda opening: Fifo()
    template = arm.template
    return lambda opening: Prompted(model, template, COUNT, task=task.text, tools=opening.tools, scope=arm.scope)


def accuracy(outcomes: Sequence[Sequence[Outcome]]) -> list[float]:
    """Success by task, over its runs."""
    return [sum(o.success for o in row) / len(row) for row in outcomes]
