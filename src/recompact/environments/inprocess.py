"""Environments that are tiny and pure run inside the harness, as the suite's own objects, called directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recompact.chat import Usage
from recompact.environments.hooks import behaviours_of, literals_of
from recompact.environments.protocol import (
    AsyncAsk,
    Behaviour,
    Environment,
    EnvironmentFailed,
    Episode,
    Literals,
    Observation,
    Opening,
    Strategy,
    Suite,
    Task,
)
from recompact.environments.snapshots.directory import SnapshotRefused
from recompact.environments.snapshots.mask import Mask, mask_of
from recompact.environments.snapshots.replay import Log, log_of, record, replay
from recompact.environments.snapshots.strategy import FORK, REPLAY, put_back, strategy_of, take
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
        environment = self._suite.environment(task)
        return InProcessEpisode(environment, task.id, mask_of(environment, self._suite))

    async def behaviours(self, actions: Sequence[Action]) -> Sequence[Behaviour | None] | None:
        try:
            return behaviours_of(self._suite, actions)
        except Exception as error:
            raise self._failed("behaviour", error) from error

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        try:
            return literals_of(self._suite, texts)
        except Exception as error:
            raise self._failed("literals", error) from error

    def _failed(self, hook: str, error: Exception) -> EnvironmentFailed:
        return EnvironmentFailed(f"suite {self.name}: {hook} raised {type(error).__name__}: {error}")


class InProcessEpisode:
    """One environment of this process. Whatever it raises is an error of this episode and of nothing else."""

    def __init__(self, environment: Environment, task: str, mask: Mask | None = None) -> None:
        if hasattr(environment, "ask"):
            raise EnvironmentFailed(
                f"task {task}: this environment asks for a model, which only a hosted one can: set [suite] host = true"
            )
        self._environment = environment
        self._task = task
        self._mask = mask if mask is not None else mask_of(environment)
        try:
            self._strategy: Strategy = strategy_of(environment)
        except SnapshotRefused as error:
            raise EnvironmentFailed(f"task {task}: {error}") from None
        if self._strategy == FORK:
            raise EnvironmentFailed(
                f"task {task}: this environment forks its process for a snapshot, which only a hosted one can:"
                " set [suite] host = true"
            )
        self._log: Log = []
        self._whole = True  # the log begins at the start: not so after the state was put back

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
        if self._strategy == REPLAY:
            return self._replay_snapshot()
        try:
            return Snapshot(self._strategy, take(self._environment, self._strategy))
        except NotImplementedError:
            return self._replay_snapshot()
        except Exception as error:
            raise self._failed("snapshot", error) from error

    async def restore(self, snapshot: Snapshot) -> None:
        if snapshot.strategy in (REPLAY, FORK):
            if self._log:
                raise EnvironmentFailed(f"task {self._task}: only a fresh episode can be restored by replay")
            await replay(log_of(snapshot), self.step, self.agrees)
            return
        try:
            self._whole = False
            put_back(self._environment, snapshot.strategy, snapshot.data)
        except Exception as error:
            raise self._failed("restore", error) from error

    async def agrees(self, recorded: str, seen: str) -> bool:
        """Whether two observations are the same, apart from what the environment masks."""
        if recorded == seen or self._mask is None:
            return recorded == seen
        return self._mask(recorded) == self._mask(seen)

    async def close(self) -> None:
        self._environment.close()

    def _replay_snapshot(self) -> Snapshot:
        if not self._whole:
            raise EnvironmentFailed(f"task {self._task}: its state was put back, so its actions are not all known")
        return record(self._log)

    def _failed(self, verb: str, error: Exception) -> EnvironmentFailed:
        return EnvironmentFailed(f"task {self._task}: {verb} raised {type(error).__name__}: {error}")
