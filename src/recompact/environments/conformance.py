"""Checks that an environment comes back as it was, for anyone who connects their own.

Each check passes or says what differed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from recompact.environments.protocol import AsyncAsk, EnvironmentFailed, Episode, Episodes, Observation, Task
from recompact.environments.snapshots import Mask, excerpts, masker
from recompact.errors import InputError
from recompact.values.texts import all_of
from recompact.values.trajectory import Action, Score, Snapshot


@dataclass(frozen=True)
class Check:
    """One property, whether it holds, and what was observed."""

    name: str
    passed: bool
    text: str


@dataclass(frozen=True)
class ConformanceReport:
    """What `conformance` found. It prints as one line for each check."""

    task: str
    strategy: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)

    def __str__(self) -> str:
        head = f"task {self.task}, snapshots by {self.strategy}: {'passed' if self.passed else 'FAILED'}"
        lines = [f"  {'ok    ' if check.passed else 'FAILED'} {check.name}: {check.text}" for check in self.checks]
        return "\n".join([head, *lines])


async def conformance(
    episodes: Episodes,
    task: Task,
    actions: Sequence[Action],
    *,
    at: int | None = None,
    branches: int = 50,
    mask: Mask | Iterable[str] | None = None,
    ask: AsyncAsk | None = None,
) -> ConformanceReport:
    """Check that episodes of this task can be brought back to a state, whatever other episodes did meanwhile.

    `actions` should make the environment use everything it has; snapshots are taken after `at` of them (default: half).
    `mask` is for environments that name none themselves.
    """
    at = len(actions) // 2 if at is None else at
    if not 0 < at < len(actions) - 1:
        raise InputError(
            f"conformance needs at least one action before a snapshot and two after it, not {at} of {len(actions)}"
        )
    trial = _Trial(episodes, task, tuple(actions), at, branches, masker(mask), ask)
    checks = [await _run_check(name, check, trial) for name, check in _CHECKS.items()]
    return ConformanceReport(task.id, trial.strategy, tuple(checks))


@dataclass
class _Trial:
    """The episodes to try, and how two of them are compared."""

    episodes: Episodes
    task: Task
    actions: tuple[Action, ...]
    at: int
    branches: int
    mask: Mask | None
    ask: AsyncAsk | None
    strategy: str = "nothing"

    @property
    def remaining(self) -> tuple[Action, ...]:
        return self.actions[self.at :]

    @asynccontextmanager
    async def fresh(self) -> AsyncIterator[Episode]:
        episode = self.episodes.episode(self.task, self.ask)
        try:
            await episode.start()
            yield episode
        finally:
            await episode.close()

    @asynccontextmanager
    async def restored(self, snapshot: Snapshot) -> AsyncIterator[Episode]:
        async with self.fresh() as episode:
            await episode.restore(snapshot)
            yield episode

    async def snapshot(self, episode: Episode) -> Snapshot:
        snapshot = await episode.snapshot()
        if snapshot is None:
            raise _DiffersError("the episode gives no snapshot")
        self.strategy = snapshot.strategy
        return snapshot

    async def compare(self, whose: str, episode: Episode, seen: _Playthrough, expected: _Playthrough) -> None:
        """Fail with the first difference between two plays of the same actions."""
        for number, (action, now, before) in enumerate(
            zip(self.actions[-len(expected.observations) :], seen.observations, expected.observations, strict=True),
            len(self.actions) - len(expected.observations) + 1,
        ):
            where = f"{whose}, action {number} ({action.name or 'text'})"
            if not await self._agrees(episode, before.text, now.text):
                one, other = excerpts(now.text, before.text)
                raise _DiffersError(f"{where} gave {one!r} instead of {other!r}")
            if (now.done, now.error) != (before.done, before.error):
                raise _DiffersError(f"{where} gave {_flags(now)} instead of {_flags(before)}")
        if seen.score != expected.score:
            raise _DiffersError(f"{whose}, the score was {seen.score} instead of {expected.score}")

    async def _agrees(self, episode: Episode, recorded: str, seen: str) -> bool:
        if self.mask is not None:
            recorded, seen = self.mask(recorded), self.mask(seen)
        agrees: Callable[[str, str], Awaitable[bool]] | None = getattr(episode, "agrees", None)
        return recorded == seen if agrees is None else await agrees(recorded, seen)


@dataclass(frozen=True)
class _Playthrough:
    observations: tuple[Observation, ...]
    score: Score


class _DiffersError(Exception):
    pass


def _flags(observation: Observation) -> str:
    return f"done={observation.done}, error={observation.error}"


async def _play(episode: Episode, actions: Sequence[Action]) -> _Playthrough:
    return _Playthrough(tuple([await episode.step(action) for action in actions]), await episode.score())


async def _run_check(name: str, check: Callable[[_Trial], Awaitable[str]], trial: _Trial) -> Check:
    try:
        return Check(name, True, await check(trial))
    except (_DiffersError, EnvironmentFailed) as failure:
        return Check(name, False, str(failure))


# -- the checks ------------------------------------------------------------------------------------------------------


async def _replay_equal(trial: _Trial) -> str:
    """The same actions give the same observations in a second episode."""
    async with trial.fresh() as first, trial.fresh() as second:
        expected = await _play(first, trial.actions)
        await trial.compare("in a second episode", second, await _play(second, trial.actions), expected)
    verb = "gives" if len(trial.actions) == 1 else "give"
    return f"{all_of(len(trial.actions), 'action')} {verb} the same results in a second episode"


async def _undisturbed(trial: _Trial) -> str:
    """Taking snapshots changes nothing in the episode they are taken from."""
    async with trial.fresh() as plain, trial.fresh() as watched:
        expected = await _play(plain, trial.actions)
        seen = []
        for action in trial.actions:
            await trial.snapshot(watched)
            seen.append(await watched.step(action))
        played = _Playthrough(tuple(seen), await watched.score())
        await trial.compare("with a snapshot before each action", watched, played, expected)
    return "taking snapshots does not change the episode"


async def _restored(trial: _Trial) -> str:
    """What follows in a restored episode is what followed in the original, including from a stored snapshot."""
    async with trial.fresh() as original:
        await _steps(original, trial.actions[: trial.at])
        snapshot = await trial.snapshot(original)
        expected = await _play(original, trial.remaining)
        for whose, taken in {
            "restored": snapshot,
            "restored a second time": snapshot,
            "restored from its stored bytes": Snapshot(snapshot.strategy, bytes(snapshot.data)),
        }.items():
            async with trial.restored(taken) as copy:
                await trial.compare(whose, copy, await _play(copy, trial.remaining), expected)
    return f"after a snapshot at action {trial.at} the observations and the score are the same"


async def _independent(trial: _Trial) -> str:
    """Branches do not affect each other or the original."""
    async with trial.fresh() as original:
        await _steps(original, trial.actions[: trial.at])
        snapshot = await trial.snapshot(original)
        async with trial.restored(snapshot) as one, trial.restored(snapshot) as other:
            # One that does something else. It may fail: only its effect on the others counts.
            async with trial.restored(snapshot) as stranger:
                with suppress(EnvironmentFailed):
                    await _steps(stranger, [*reversed(trial.remaining[:-1]), *trial.remaining[:-1]])
            pairs = [(await one.step(action), await other.step(action)) for action in trial.remaining]
            first = _Playthrough(tuple(a for a, _ in pairs), await one.score())
            second = _Playthrough(tuple(b for _, b in pairs), await other.score())
            await trial.compare("beside another branch", other, second, first)
            last = await _play(original, trial.remaining)
            await trial.compare("in the original, after its branches,", original, last, first)
    return "branches do not affect one another or the original"


async def _nested(trial: _Trial) -> str:
    """A snapshot of a branch is as good as any, and leaves the first one as it was."""
    async with AsyncExitStack() as stack:
        original = await stack.enter_async_context(trial.fresh())
        await _steps(original, trial.actions[: trial.at])
        first = snapshot = await trial.snapshot(original)
        expected = await _play(original, trial.remaining)
        for depth, action in enumerate(trial.remaining[:-1], 1):
            branch = await stack.enter_async_context(trial.restored(snapshot))
            await branch.step(action)
            snapshot = await trial.snapshot(branch)
            if depth == 3:
                break
        copy = await stack.enter_async_context(trial.restored(snapshot))
        remaining = trial.remaining[depth:]
        part = _Playthrough(expected.observations[depth:], expected.score)
        await trial.compare(f"in a branch of a branch ({depth} deep)", copy, await _play(copy, remaining), part)
        again = await stack.enter_async_context(trial.restored(first))
        await trial.compare(
            "restored after its branches had branches", again, await _play(again, trial.remaining), expected
        )
    return f"snapshots of branches, {depth} deep, can be restored too"


async def _many(trial: _Trial) -> str:
    """The last of many branches is like the first."""
    async with trial.fresh() as original:
        await _steps(original, trial.actions[: trial.at])
        snapshot = await trial.snapshot(original)
        expected = await _play(original, trial.remaining)
        slots = asyncio.Semaphore(4)

        async def branch(number: int) -> None:
            async with slots, trial.restored(snapshot) as copy:
                await _steps(copy, trial.remaining[: 1 + number % len(trial.remaining)])

        results = await asyncio.gather(*map(branch, range(trial.branches)), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        async with trial.restored(snapshot) as copy:
            whose = f"restored after {trial.branches} branches"
            await trial.compare(whose, copy, await _play(copy, trial.remaining), expected)
    return f"the branch after {trial.branches} others is like the first"


async def _steps(episode: Episode, actions: Sequence[Action]) -> None:
    for action in actions:
        await episode.step(action)


_CHECKS: dict[str, Callable[[_Trial], Awaitable[str]]] = {
    "replay equal": _replay_equal,
    "undisturbed": _undisturbed,
    "restored": _restored,
    "independent": _independent,
    "nested": _nested,
    "after many branches": _many,
}
