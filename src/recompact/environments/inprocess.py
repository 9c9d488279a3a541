"""Environments that are tiny and pure run inside the harness: a suite's own objects, called directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recompact.chat import Usage
from recompact.environments.protocol import (
    AsyncAsk,
    Environment,
    EnvironmentFailed,
    Episode,
    Observation,
    Opening,
    Suite,
    Task,
)
from recompact.environments.replay import STRATEGY as REPLAY
from recompact.environments.replay import Log, record, replay
from recompact.trajectory import Action, Score, Snapshot


class InProcessSuite:
    """A suite whose environments live in this process."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite

    @property
    def name(self) -> str:
        return self._suite.name

    async def tasks(self, split: str) -> Sequence[Task]:
        return self._suite.tasks(split)

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> Episode:
        return InProcessEpisode(self._suite.environment(task), task.id)


class InProcessEpisode:
    """One environment of this process. Whatever it raises is an error of this episode and of nothing else."""

    def __init__(self, environment: Environment, task: str) -> None:
        if hasattr(environment, "ask"):
            raise EnvironmentFailed(
                f"task {task}: this environment asks for a model, which only a hosted one can: set [suite] host = true"
            )
        self._environment = environment
        self._task = task
        self._log: Log = []

    @property
    def usage(self) -> Mapping[str, Usage]:
        return {}

    async def start(self) -> Opening:
        try:
            return self._environment.start()
        except Exception as error:
            raise self._failed("start", error) from error

    async def step(self, action: Action) -> Observation:
        try:
            observation = self._environment.step(action)
        except Exception as error:
            raise self._failed(f"step {action.name}", error) from error
        self._log.append((action, observation.text))
        return observation

    async def score(self) -> Score:
        try:
            return self._environment.score()
        except Exception as error:
            raise self._failed("score", error) from error

    async def snapshot(self) -> Snapshot:
        try:
            return Snapshot("state", self._environment.snapshot())
        except NotImplementedError:
            return record(self._log)

    async def restore(self, snapshot: Snapshot) -> None:
        if snapshot.strategy == REPLAY:
            await replay(snapshot, self.step)
        else:
            self._environment.restore(snapshot.data)

    async def close(self) -> None:
        self._environment.close()

    def _failed(self, verb: str, error: Exception) -> EnvironmentFailed:
        return EnvironmentFailed(f"task {self._task}: {verb} raised {type(error).__name__}: {error}")
