"""Holders and branches: bounded, replaceable by a replay, killed when they must be, and never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fakes import Scripted, calling
from processes import alive, gone, linux_only
from snapshot_suites import ROLLS, TASK, do

from recompact.engine.execution.episodes import run_episode
from recompact.engine.rollout import Agent
from recompact.environments.hosted import HostedEpisode, HostedSuite
from recompact.environments.lodging import Lodging
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.snapshots.holders import Holders
from recompact.values.tokens import counter
from recompact.values.trajectory import Snapshot

pytestmark = linux_only
SUPPORT = Path(__file__).parents[2] / "support"


def hosted(kind: str = "Living", holders: Holders | None = None, timeout: float = 20) -> HostedSuite:
    spec, options = "snapshot_suites.py:OneTask", {"kind": kind}
    return HostedSuite(spec, options, SUPPORT, timeout=timeout, holders=Holders() if holders is None else holders)


@asynccontextmanager
async def started(suite: HostedSuite) -> AsyncIterator[HostedEpisode]:
    episode = suite.episode(TASK)
    assert isinstance(episode, HostedEpisode)
    try:
        await episode.start()
        yield episode
    finally:
        await episode.close()


async def pid_of(episode: HostedEpisode, what: str = "pid") -> int:
    """Of the process itself, or of a child that it starts, as they are seen from outside their sandbox."""
    inner = int((await episode.step(do(what))).text)
    link = episode._process.link
    assert link is not None
    pid = link.resolve(inner)
    assert pid is not None
    return pid


async def rolled(episode: HostedEpisode, count: int = 3) -> Snapshot:
    for action in ROLLS[:count]:
        await episode.step(action)
    return await episode.snapshot()


async def test_a_branch_outlives_the_original_and_starts_no_process_of_its_own() -> None:
    suite = hosted()
    async with started(suite) as original:
        snapshot = await rolled(original)
        following = (await original.step(do())).text
        first = await pid_of(original)
    await gone(first)
    async with started(suite) as branch:
        assert branch._process._link is None  # the opening is known: nothing had to be started
        await branch.restore(snapshot)
        assert (await branch.step(do())).text == following
        assert await pid_of(branch) != first
    suite.holders.close()


async def test_many_branches_at_once() -> None:
    suite = hosted()
    async with started(suite) as original:
        snapshot = await rolled(original)

    async def one() -> str:
        async with started(suite) as branch:
            await branch.restore(snapshot)
            return (await branch.step(do())).text

    assert set(await asyncio.gather(*(one() for _ in range(40)))) == {FIRST[3]}
    assert suite.holders.count == 1
    suite.holders.close()


async def test_what_is_stored_does_not_depend_on_the_process() -> None:
    one, other = hosted(), hosted()
    async with started(one) as first, started(other) as second:
        assert (await rolled(first)).data == (await rolled(second)).data
    one.holders.close()
    other.holders.close()


async def test_a_later_process_replays_once_and_forks_from_then_on() -> None:
    suite, later = hosted(), hosted()
    async with started(suite) as original:
        snapshot = await rolled(original)
        following = (await original.step(do())).text
    suite.holders.close()
    stored = Snapshot(snapshot.strategy, snapshot.data)
    for held in (0, 1):
        assert later.holders.count == held
        async with started(later) as copy:
            await copy.restore(stored)
            assert (await copy.step(do())).text == following
    async with started(later) as original:  # a later state is reached from the holder that comes nearest
        longer = await rolled(original, 5)
        following = (await original.step(do())).text
    later.holders.drop(max(later.holders, key=lambda holder: len(holder.held.log)))
    async with started(later) as copy:
        await copy.restore(longer)
        assert (await copy.step(do())).text == following
    later.holders.close()


async def test_the_number_of_holders_is_bounded_and_a_replay_takes_the_place_of_a_dropped_one() -> None:
    suite = hosted(holders=Holders(limit=2))
    async with started(suite) as original:
        taken = [await rolled(original, 1) for _ in range(4)]
        pids = [holder.pid for holder in suite.holders]
        assert len(pids) == 2
    for count, snapshot in enumerate(taken, 1):
        async with started(suite) as copy:
            await copy.restore(snapshot)
            assert (await copy.step(do())).text == FIRST[count]
        assert suite.holders.count <= 2
    for pid in pids:
        await gone(pid)  # both were replaced by more recent ones
    suite.holders.close()


async def test_no_holders_at_all_is_a_replay_too() -> None:
    suite = hosted(holders=Holders(limit=0))
    async with started(suite) as original:
        snapshot = await rolled(original)
    async with started(suite) as copy:
        await copy.restore(snapshot)
        assert (await copy.step(do())).text == FIRST[3]


async def test_memory_is_bounded_and_the_one_unused_for_longest_goes_first() -> None:
    suite = hosted(holders=Holders(memory=90 * 1024 * 1024))
    async with started(suite) as original:
        first = await rolled(original, 1)
        second = await rolled(original, 1)
        async with started(suite) as copy:
            await copy.restore(first)  # so that the second is the one unused for longest
        await original.step(do("memory", size=60_000_000))
        await original.snapshot()
        await original.step(do("memory", size=60_000_000))
        await original.snapshot()
        holders_left = [getattr(snapshot, "holder", "") for snapshot in (first, second)]
        alive = {holder.id for holder in suite.holders}
        assert holders_left[1] not in alive
        assert 1 <= len(alive) < 4
    suite.holders.close()


async def test_a_holder_that_died_is_replaced_without_a_word() -> None:
    suite = hosted()
    async with started(suite) as original:
        snapshot = await rolled(original)
    for holder in suite.holders:
        os.kill(holder.pid, signal.SIGKILL)
    async with started(suite) as copy:
        await copy.restore(snapshot)
        assert (await copy.step(do())).text == FIRST[3]
    suite.holders.close()


async def test_a_dropped_holder_stays_until_its_last_branch_has_ended() -> None:
    suite = hosted()
    async with started(suite) as original:
        snapshot = await rolled(original)
    async with started(suite) as branch:
        await branch.restore(snapshot)
        holder = next(iter(suite.holders)).pid
        suite.holders.close()
        await asyncio.sleep(0.1)
        assert (await branch.step(do())).text == FIRST[3]
        assert alive(holder)
    await gone(holder)


async def test_the_kill_timer_ends_a_branch_with_its_children_and_leaves_the_holder() -> None:
    suite = hosted(timeout=2)
    async with started(suite) as original:
        snapshot = await rolled(original)
        async with started(suite) as branch:
            await branch.restore(snapshot)
            child, pid = await pid_of(branch, "child"), await pid_of(branch)
            with pytest.raises(EnvironmentFailed, match="step took longer than 2 s and its host was killed"):
                await branch.step(do("hang"))
            await gone(child, pid)
        async with started(suite) as branch:
            await branch.restore(snapshot)
            assert (await branch.step(do())).text == FIRST[3]
        assert (await original.step(do())).text == FIRST[3]
    suite.holders.close()


async def test_a_branch_that_dies_says_how() -> None:
    suite = hosted()
    async with started(suite) as original:
        snapshot = await rolled(original)
    async with started(suite) as branch:
        await branch.restore(snapshot)
        with pytest.raises(EnvironmentFailed, match="its host died during step \\(exit code 7\\)"):
            await branch.step(do("exit", code=7))
        await branch.restore(snapshot)  # and can be had again
        assert (await branch.step(do())).text == FIRST[3]
    suite.holders.close()


async def test_copies_outside_the_memory_are_removed_in_the_end() -> None:
    suite = hosted("Threaded")
    places = []
    async with started(suite) as original:
        snapshot = await rolled(original)
        places.append((await original.step(do("where"))).text)
        for _ in range(2):
            async with started(suite) as branch:
                await branch.restore(snapshot)
                places.append((await branch.step(do("where"))).text)
    assert len(set(places)) == 3
    (holder,) = suite.holders
    lodging = holder.lodging
    assert isinstance(lodging, Lodging)
    assert len(list(lodging.private.glob("tmp/recompact-test-*"))) == 1  # the holder's own
    suite.holders.close()
    await gone(holder.pid)
    assert not lodging.private.exists()


async def test_a_rollout_goes_on_from_a_fork() -> None:
    suite = hosted()
    async with started(suite) as original:
        snapshot = await rolled(original)
    model = Scripted(calling(("do", {"what": "roll"})))
    trajectory = await run_episode(
        TASK, suite.episode(TASK), Agent(model), count=counter(), step_limit=1, snapshot=snapshot
    )
    assert trajectory.turns[0].results[0].content == FIRST[3]
    suite.holders.close()


DRIVER = """
import asyncio, os, sys
sys.path[:0] = [{here!r}, {tests!r}]
from test_fork_holders import hosted, pid_of, rolled, started, TASK
from snapshot_suites import do

async def main():
    suite, pids = hosted(timeout=100), []
    original = suite.episode(TASK)
    await original.start()
    pids.append(await pid_of(original, "child"))
    pids.append(await pid_of(original))
    snapshot = await rolled(original)
    branches = []
    for number in range(3):
        branch = suite.episode(TASK)
        await branch.restore(snapshot)
        pids += [await pid_of(branch), await pid_of(branch, "child")]
        snapshot = await rolled(branch, number + 1)
        branches.append(branch)
    pids += [holder.pid for holder in suite.holders]
    if os.fork() == 0:  # a worker that survives and must keep nothing else alive
        import time
        time.sleep(8)
        os._exit(0)
    print(*pids, flush=True)
    await asyncio.gather(*(branch.step(do("hang")) for branch in branches))

asyncio.run(main())
"""


def test_nothing_is_left_running_after_the_driver_was_killed() -> None:
    code = DRIVER.format(here=str(SUPPORT), tests=str(Path(__file__).parent))
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 12  # the original and three branches, a child of each, and four holders
    assert all(map(alive, pids))
    time.sleep(0.2)
    driver.kill()
    driver.wait()
    asyncio.run(gone(*pids))


def _what_follows() -> dict[int, str]:
    """What the environment says after so many actions, told by the environment itself."""
    from snapshot_suites import Living

    environment = Living(TASK)
    return {count: environment.step(do()).text for count in range(len(ROLLS))}


FIRST = _what_follows()
