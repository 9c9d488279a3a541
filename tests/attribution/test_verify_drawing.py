"""The scheduler by itself: no barrier, no place empty, the same result whatever the order, and not quadratic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from recompact.attribution.drawing import Drawn, LeftOut, draw_all

from recompact.attribution.allocation import Allocation
from recompact.attribution.halving import Halving
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform
from recompact.models.failures import AuthenticationFailed, Overloaded
from recompact.outcome import BoundaryId, Draw, Outcome, Outcomes


def boundaries(count: int) -> dict[BoundaryId, Outcomes]:
    return {BoundaryId(f"collect/task-{n // 3:04d}", n % 3 + 1): Outcomes() for n in range(count)}


def outcome(draw: Draw) -> Outcome:
    """Always the same for the same draw."""
    chance = Random(str(draw))
    hurt = draw.arm == "POST" and Random(str(draw.boundary)).random() < 0.2
    return Outcome(float(chance.random() < (0.2 if hurt else 0.9)), chance.randint(3, 12) + 6 * hurt)


async def drawn(
    allocation: Allocation, count: int, concurrency: int, seed: int = 0, started: list[Draw] | None = None
) -> Drawn:
    chance = Random(seed)

    async def draw(wanted: Draw) -> Outcome:
        if started is not None:
            started.append(wanted)
        for _ in range(chance.randint(0, 5)):
            await asyncio.sleep(0)
        return outcome(wanted)

    return await draw_all(allocation, boundaries(count), draw, concurrency=concurrency)


@pytest.mark.parametrize("allocation", [Halving(), Uniform(2), Racing()], ids=lambda a: a.name)
async def test_the_result_does_not_depend_on_concurrency_or_order(allocation: Allocation) -> None:
    found = [await drawn(allocation, 40, n, seed) for n, seed in ((1, 0), (5, 1), (64, 2), (64, 3))]
    assert all(f.known == found[0].known for f in found)
    assert not allocation.due(found[0].known)


async def test_draws_of_one_boundary_begin_side_by_side() -> None:
    started: list[Draw] = []
    await drawn(Uniform(3), 30, 4, started=started)
    for n in range(0, len(started), 6):
        assert len({draw.boundary for draw in started[n : n + 6]}) == 1
        assert [draw.arm for draw in started[n : n + 6]] == ["PRE"] * 3 + ["POST"] * 3
    started.clear()
    await drawn(Halving(), 30, 4, started=started)
    for pre, post in zip(started[:60:2], started[1:60:2], strict=True):
        assert (pre.boundary, pre.arm, post.arm) == (post.boundary, "PRE", "POST")


async def test_no_round_waits_for_the_end_of_the_round_before() -> None:
    """One continuation takes for ever: the others go on into the last round meanwhile."""
    hold = asyncio.Event()
    slow = Draw(BoundaryId("collect/task-0000", 1), "PRE", 0)
    rounds: set[int] = set()

    async def draw(wanted: Draw) -> Outcome:
        if wanted == slow:
            await hold.wait()
        rounds.add(wanted.number)
        if wanted.number == 2:
            hold.set()
        return outcome(wanted)

    async with asyncio.timeout(5):
        await draw_all(Halving(), boundaries(40), draw, concurrency=8)
    assert rounds == {0, 1, 2}


async def test_a_boundary_that_is_left_out_is_drawn_no_more_and_the_rest_does_not_depend_on_when() -> None:
    broken = set(list(boundaries(40))[3:20:5])
    found = []
    for concurrency in (1, 7, 64):

        async def draw(wanted: Draw) -> Outcome:
            await asyncio.sleep(0)
            if wanted.boundary in broken and wanted.arm == "POST":
                raise LeftOut("it differs")
            return outcome(wanted)

        found.append(await draw_all(Halving(), boundaries(40), draw, concurrency=concurrency))
    assert found[0] == found[1] == found[2]
    assert found[0].left_out == dict.fromkeys(sorted(broken), "it differs")
    assert not broken & found[0].known.keys()


async def test_a_model_that_fails_once_leaves_its_draw_unfinished_and_one_that_always_will_stops_all() -> None:
    async def overloaded(wanted: Draw) -> Outcome:
        if str(wanted.boundary) == "task-0001#2":
            raise Overloaded("busy")
        return outcome(wanted)

    found = await draw_all(Uniform(2), boundaries(30), overloaded, concurrency=3)
    assert [u.unit for u in found.unfinished] == [f"task-0001#2 {arm} {n}" for arm in ("PRE", "POST") for n in (0, 1)]
    assert sum(len(o.pre) + len(o.post) for o in found.known.values()) == 29 * 4

    async def refused(wanted: Draw) -> Outcome:
        raise AuthenticationFailed("wrong key")

    with pytest.raises(AuthenticationFailed):
        await draw_all(Uniform(2), boundaries(30), refused, concurrency=3)


@dataclass
class Counting:
    """An allocation that counts how often it is asked."""

    inner: Allocation
    asked: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    def due(self, known: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        self.asked.append(len(known))
        return self.inner.due(known)

    def retained(self, known: Mapping[BoundaryId, Outcomes]) -> Sequence[BoundaryId]:
        return self.inner.retained(known)


async def test_asking_does_not_grow_with_the_square_of_the_boundaries() -> None:
    asked = {}
    for count in (200, 2000):
        counting = Counting(Halving())
        await drawn(counting, count, 16)
        asked[count] = len(counting.asked)
    assert asked[2000] < 2 * asked[200] + 50 < 500
