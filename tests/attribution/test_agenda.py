"""Draws as they fall due: no barrier, no place empty, the same result whatever the order, and not quadratic."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from execution_support import HERE
from progress_support import Heard

from recompact.attribution.agenda import DrawAgenda, LeftOut, Order, with_outcome
from recompact.attribution.allocation import Allocation
from recompact.attribution.halving import Halving
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform
from recompact.engine.execution.scheduler import Unfinished, Unit, run_agenda
from recompact.models.failures import AuthenticationFailed, MalformedReply, Overloaded
from recompact.models.journal import UnitCalls
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes
from recompact.values.progress import SILENT, Progress


def boundaries(count: int) -> dict[BoundaryId, Outcomes]:
    return {BoundaryId(f"collect/task-{n // 3:04d}", n % 3 + 1): Outcomes() for n in range(count)}


def outcome(draw: Draw) -> Outcome:
    """Always the same for the same draw."""
    chance = Random(str(draw))
    hurt = draw.arm == "POST" and Random(str(draw.boundary)).random() < 0.2
    return Outcome(float(chance.random() < (0.2 if hurt else 0.9)), chance.randint(3, 12) + 6 * hurt)


Made = DrawAgenda[Outcome | LeftOut]
Play = Callable[[Draw], Awaitable[Outcome | LeftOut]]


def agenda_of(
    allocation: Allocation,
    count: int,
    play: Play,
    concurrency: int,
    *,
    order: Order = lambda boundary, first, outcomes: (),
    progress: Progress = SILENT,
) -> Made:
    def unit(draw: Draw) -> Unit[Outcome | LeftOut]:
        async def played(calls: UnitCalls) -> Outcome | LeftOut:
            return await play(draw)

        name = f"{draw.boundary} {draw.arm} {draw.number}"
        return Unit(name, played, lambda value, seconds: None, group=str(draw.boundary))

    return DrawAgenda(
        allocation, boundaries(count), unit, lambda draw, value: value, concurrency, order=order, progress=progress
    )


async def finished(agenda: Made) -> Made:
    await run_agenda(agenda, HERE, agenda.concurrency, agenda.progress)
    return agenda


async def drawn(
    allocation: Allocation,
    count: int,
    concurrency: int,
    seed: int = 0,
    started: list[Draw] | None = None,
    order: Order = lambda boundary, first, outcomes: (),
) -> Made:
    chance = Random(seed)

    async def draw(wanted: Draw) -> Outcome:
        if started is not None:
            started.append(wanted)
        for _ in range(chance.randint(0, 5)):
            await asyncio.sleep(0)
        return outcome(wanted)

    return await finished(agenda_of(allocation, count, draw, concurrency, order=order))


@pytest.mark.parametrize("allocation", [Halving(), Uniform(2), Racing()], ids=lambda a: a.name)
async def test_the_result_does_not_depend_on_concurrency_or_order(allocation: Allocation) -> None:
    found = [await drawn(allocation, 40, n, seed) for n, seed in ((1, 0), (5, 1), (64, 2), (64, 3))]
    assert all(f.outcomes == found[0].outcomes for f in found)
    assert not allocation.due(found[0].outcomes)


async def test_one_place_finishes_an_arm_before_it_turns_to_another() -> None:
    started: list[Draw] = []
    await drawn(Uniform(3), 30, 1, started=started)
    for n in range(0, len(started), 6):
        assert len({draw.boundary for draw in started[n : n + 6]}) == 1
        assert [draw.arm for draw in started[n : n + 6]] == ["PRE"] * 3 + ["POST"] * 3
    for seed in range(5):
        started.clear()
        await drawn(Halving(), 30, 4, seed, started, order=lambda boundary, first, outcomes: (first,))
        for pre, post in zip(started[:60:2], started[1:60:2], strict=True):
            assert (pre.boundary, pre.arm, post.arm) == (post.boundary, "PRE", "POST")


async def test_a_draw_that_fails_leaves_its_context_to_others() -> None:
    """Contexts of failed draws do not stay in use: the place goes on with the same arm."""
    started: list[Draw] = []

    async def fails_at_first(wanted: Draw) -> Outcome:
        started.append(wanted)
        if wanted.number == 0:
            raise MalformedReply("odd")
        return outcome(wanted)

    with pytest.raises(Unfinished):
        await finished(agenda_of(Uniform(3), 10, fails_at_first, 1))
    assert [draw.number for draw in started] == [0, 1, 2] * 20


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
        await finished(agenda_of(Halving(), 40, draw, 8))
    assert rounds == {0, 1, 2}


async def test_a_boundary_that_is_left_out_is_drawn_no_more_and_the_rest_does_not_depend_on_when() -> None:
    broken = set(list(boundaries(40))[3:20:5])
    found = []
    for concurrency in (1, 7, 64):

        async def draw(wanted: Draw) -> Outcome | LeftOut:
            await asyncio.sleep(0)
            if wanted.boundary in broken and wanted.arm == "POST":
                return LeftOut("it differs")
            return outcome(wanted)

        made = await finished(agenda_of(Halving(), 40, draw, concurrency))
        found.append((made.outcomes, made.left_out))
    assert found[0] == found[1] == found[2]
    outcomes, left_out = found[0]
    assert left_out == dict.fromkeys(sorted(broken), "it differs")
    assert not broken & outcomes.keys()


async def test_a_model_that_fails_once_leaves_its_draw_unfinished_and_one_that_always_will_stops_all() -> None:
    async def overloaded(wanted: Draw) -> Outcome:
        if str(wanted.boundary) == "task-0001#2":
            raise Overloaded("busy")
        return outcome(wanted)

    agenda = agenda_of(Uniform(2), 30, overloaded, 3)
    with pytest.raises(Unfinished) as stopped:
        await finished(agenda)
    assert [u.name for u in stopped.value.units] == [
        f"task-0001#2 {arm} {n}" for arm in ("PRE", "POST") for n in (0, 1)
    ]
    assert sum(len(o.pre) + len(o.post) for o in agenda.outcomes.values()) == 29 * 4

    async def refused(wanted: Draw) -> Outcome:
        raise AuthenticationFailed("wrong key")

    with pytest.raises(AuthenticationFailed):
        await finished(agenda_of(Uniform(2), 30, refused, 3))


@dataclass
class Counting(Allocation):
    """An allocation that counts how often it is asked."""

    inner: Allocation
    asked: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.inner.name

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        self.asked.append(len(outcomes))
        return self.inner.due(outcomes)


@pytest.mark.slow
async def test_asking_does_not_grow_with_the_square_of_the_boundaries() -> None:
    asked = {}
    for count in (200, 2000):
        counting = Counting(Halving())
        await drawn(counting, count, 16)
        asked[count] = len(counting.asked)
    assert asked[2000] < 2 * asked[200] + 50 < 500


async def test_the_smallest_in_order_begins_first_and_never_changes_the_result() -> None:
    started: list[BoundaryId] = []

    async def draw(wanted: Draw) -> Outcome:
        started.append(wanted.boundary)
        return outcome(wanted)

    def last_first(boundary: BoundaryId, first: int, outcomes: Outcomes) -> tuple[float, ...]:
        return (-list(boundaries(30)).index(boundary),)

    agenda = await finished(agenda_of(Uniform(1), 30, draw, 4, order=last_first))
    assert list(dict.fromkeys(started)) == list(boundaries(30))[::-1]
    assert agenda.outcomes == (await drawn(Uniform(1), 30, 4)).outcomes


async def test_progress_expects_what_is_due_and_hears_of_every_draw() -> None:
    async def draw(wanted: Draw) -> Outcome:
        return outcome(wanted)

    heard = Heard()
    agenda = await finished(agenda_of(Halving(), 8, draw, 4, progress=heard))
    made = sum(len(o.pre) + len(o.post) for o in agenda.outcomes.values())
    expected = [event[1] for event in heard.events if event[0] == "expect"]
    assert made == agenda.finished == heard.count("done")
    assert expected[0] == 16  # one draw in each arm of every boundary
    assert max(expected) == expected[-1] == made


def test_the_first_reason_to_leave_a_boundary_out_is_kept_and_later_outcomes_of_it_are_no_matter() -> None:
    async def never(wanted: Draw) -> Outcome:
        raise AssertionError("nothing is played here")

    agenda = agenda_of(Uniform(2), 1, never, 4)
    units = [agenda.next(n) for n in range(4)]
    assert agenda.next(4) is None
    (here,) = boundaries(1)
    values: list[Outcome | LeftOut] = [Outcome(1.0, 5), LeftOut("first"), LeftOut("second"), Outcome(0.0, 5)]
    for unit, value in zip(units, values, strict=True):
        assert unit is not None
        agenda.take(unit, value)
    assert agenda.left_out == {here: "first"}
    assert agenda.outcomes == {}
    assert agenda.finished == 4
    assert agenda.next(0) is None


def test_one_more_outcome_stands_in_its_arm_under_its_number() -> None:
    (here,) = boundaries(1)
    before = Outcomes({0: Outcome(1.0, 5)}, {1: Outcome(0.0, 7)})
    new = Outcome(0.5, 6)
    assert with_outcome(before, Draw(here, "PRE", 2), new) == Outcomes({**before.pre, 2: new}, before.post)
    assert with_outcome(before, Draw(here, "POST", 0), new) == Outcomes(before.pre, {**before.post, 0: new})
    assert len(before.pre) == len(before.post) == 1


async def test_what_is_equally_pressing_goes_by_boundary_arm_and_number() -> None:
    started: list[Draw] = []
    await drawn(Uniform(2), 2, 1, started=started)
    first, second = boundaries(2)
    assert started == [Draw(b, arm, n) for b in (first, second) for arm in ("PRE", "POST") for n in (0, 1)]
