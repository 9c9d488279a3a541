"""Environments that are tiny and pure run inside the harness, as the suite's own objects, called directly."""

from __future__ import annotations

import asyncio
import math
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

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
    SuiteFailed,
    Task,
)
from recompact.environments.shaping import (
    WrongShape,
    behaviours_of,
    error_text,
    literals_of,
    shape_name,
    shape_observation,
    shape_opening,
    shape_score,
    shape_snapshot,
    shape_tasks,
    shape_texts,
)
from recompact.environments.snapshots import (
    REPLAY,
    Log,
    Mask,
    log_of,
    mask_of,
    put_back,
    record,
    replay,
    strategy_of,
    take,
)
from recompact.values.chat import Usage
from recompact.values.trajectory import Action, Score, Snapshot

T = TypeVar("T")


class InProcessSuite:
    """A suite whose environments live in this process."""

    def __init__(self, suite: Suite, timeout: float = math.inf) -> None:
        self._suite, self._timeout = suite, timeout
        self.name = _call(SuiteFailed, "the suite", "name", lambda: shape_name(suite.name))

    def splits(self) -> Sequence[str]:
        return _call(SuiteFailed, f"suite {self.name}", "splits", lambda: tuple(self._suite.splits()))

    async def tasks(self, split: str) -> Sequence[Task]:
        return _call(SuiteFailed, f"suite {self.name}", "tasks", lambda: shape_tasks(self._suite.tasks(split)))

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> Episode:
        return InProcessEpisode(
            lambda: self._suite.environment(task),
            task.id,
            suite=self._suite,
            suite_name=self.name,
            timeout=self._timeout,
        )

    async def behaviours(self, actions: Sequence[Action]) -> Sequence[Behaviour | None] | None:
        return self._hook("behaviour", lambda: behaviours_of(self._suite, actions))

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        return self._hook("literals", lambda: literals_of(self._suite, texts))

    def _hook(self, name: str, answers: Callable[[], T]) -> T:
        return _call(EnvironmentFailed, f"suite {self.name}", name, answers)


class InProcessEpisode:
    """One environment of this process. A wrong return value or any exception is an error of this episode alone.

    `environment` is one that exists, or a function that makes it, which the first verb calls. A verb that takes longer
    than `timeout` seconds breaks the episode.
    """

    def __init__(
        self,
        environment: Environment | Callable[[], Environment],
        task: str,
        *,
        suite: Suite | None = None,
        suite_name: str = "",
        timeout: float = math.inf,
    ) -> None:
        self._suite, self._timeout = suite, timeout
        self._what = f"suite {suite_name}, task {task}" if suite_name else f"task {task}"
        self._environment: Environment | None = None
        self._make = environment if not hasattr(type(environment), "close") and callable(environment) else None
        self._mask: Mask | None = None
        self._strategy: Strategy = "state"
        self._log: Log = []
        self._whole = True  # the log begins at the start; no longer once the state was put back
        self.changes: Counter[str] = Counter()
        if self._make is None:
            self._open(lambda: environment)

    @property
    def usage(self) -> Mapping[str, Usage]:
        return {}

    async def start(self) -> Opening:
        return self._do("start", lambda environment: shape_opening(environment.start()))

    async def step(self, action: Action) -> Observation:
        verb = f"step {action.name}".rstrip()
        observation = self._do(verb, lambda environment: shape_observation(environment.step(action)))
        self._log.append((action, observation.text))
        return observation

    async def score(self) -> Score:
        return self._do("score", lambda environment: shape_score(environment.score()))

    async def snapshot(self) -> Snapshot:
        try:
            data = self._do("snapshot", lambda environment: shape_snapshot(take(environment, self._strategy)), True)
            return Snapshot(self._strategy, data)
        except NotImplementedError:
            if not self._whole:
                text = "its state was put back, so its actions are not all known"
                raise EnvironmentFailed(f"{self._what}: {text}") from None
            return record(self._log)

    async def restore(self, snapshot: Snapshot) -> None:
        if snapshot.strategy == REPLAY:
            if self._log:
                raise EnvironmentFailed(f"{self._what}: only a fresh episode can be restored by replay")
            await replay(log_of(snapshot), self.step, self.agrees)
            return
        self._whole = False
        self._do("restore", lambda environment: put_back(environment, snapshot.strategy, snapshot.data))

    async def agrees(self, recorded: str, seen: str) -> bool:
        """Whether two observations are the same, apart from what the environment masks."""
        mask = self._mask
        if recorded == seen or mask is None:
            return recorded == seen
        one, other = self._do("mask", lambda environment: shape_texts([mask(recorded), mask(seen)], 2))
        return one == other

    async def close(self) -> None:
        """Nothing depends on a closed environment any more, so a failure to close is only counted."""
        environment, self._environment, self._make = self._environment, None, None
        if environment is not None:
            try:
                _call(EnvironmentFailed, self._what, "close", environment.close)
            except EnvironmentFailed:
                self.changes["close failed"] += 1

    def _do(self, verb: str, work: Callable[[Environment], T], optional: bool = False) -> T:
        if self._environment is None:
            if self._make is None:
                raise EnvironmentFailed(f"{self._what}: it is closed, so {verb} cannot be done")
            self._open(self._make)
        environment = self._environment
        assert environment is not None
        try:
            with _time_limit(self._timeout):
                return _call(EnvironmentFailed, self._what, verb, lambda: work(environment), optional)
        except _TooLongError:
            raise EnvironmentFailed(
                f"{self._what}: {verb} took longer than {self._timeout:g} s ([suite] timeout)"
            ) from None

    def _open(self, make: Callable[[], Any]) -> None:
        environment = _call(EnvironmentFailed, self._what, "environment", make)
        self._environment = environment
        asks, self._mask = _call(
            EnvironmentFailed,
            self._what,
            "environment",
            lambda: (hasattr(environment, "ask"), mask_of(environment, self._suite)),
        )
        self._strategy = _call(EnvironmentFailed, self._what, "snapshots", lambda: strategy_of(environment))
        if asks:
            text = "this environment asks for a model, which only a hosted one can: set [suite] host = true"
            raise EnvironmentFailed(f"{self._what}: {text}")


class _TooLongError(BaseException):
    """Not an `Exception`: a tool's own handlers should not take it for theirs."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise in whatever this thread does when the time is up, and every second after that. Only the main thread can be
    interrupted; elsewhere there is no limit."""
    if seconds == math.inf or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    earlier = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, earlier)


def _call(failure: type[EnvironmentFailed], what: str, verb: str, work: Callable[[], T], optional: bool = False) -> T:
    """Call the user's code. Whatever it raises becomes a failure, since it must not end more than its own episode.

    That includes what would otherwise end a program or a task: nobody cancels code that does not await.
    """
    try:
        return work()
    except WrongShape as error:
        raise failure(f"{what}: {verb} returned the wrong thing: {error}") from None
    except NotImplementedError as error:
        if optional:
            raise
        raise failure(f"{what}: {verb} raised {error_text(error)}") from error
    except BaseException as error:
        if type(error) is _TooLongError or (issubclass(type(error), KeyboardInterrupt) and _is_the_users(error)):
            raise
        raise failure(f"{what}: {verb} raised {error_text(error)}") from _carried_cause(error)


def _carried_cause(error: BaseException) -> BaseException | None:
    """The cause to show. One that would end a program or a task when it is raised again is not carried along."""
    return error if issubclass(type(error), Exception) else None  # isinstance would ask what it says of itself


def _is_the_users(error: BaseException) -> bool:
    """Whether somebody pressed Ctrl-C, or stopped us in another way: asyncio's own handler raised it, or ours for other
    signals, or Python's, which leaves no frame."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = frame.tb_frame.f_globals.get("__name__") if frame is not None else None
    if module in (asyncio.runners.__name__, "recompact.cli.stopping"):
        return True
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler
