"""Many units at once: no barrier, nothing recorded twice or lost, and every way to fail is heard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from random import Random

import pytest
from execution_support import HERE
from hypothesis import given, strategies as st
from progress_support import Heard

from recompact.engine.execution.scheduler import InProcess, Unfinished, Unit, run_agenda, run_units
from recompact.engine.store.store import Store
from recompact.environments.protocol import EpisodeLost
from recompact.errors import InputError
from recompact.models.failures import (
    AuthenticationFailed,
    BadRequest,
    BrokenModel,
    CeilingReached,
    MalformedReply,
    ModelFailure,
    Overloaded,
    QuotaExhausted,
    UnknownModel,
)
from recompact.models.journal import UnitCalls
from recompact.values.chat import Reply, Request, assistant, canonical, user
from recompact.values.progress import SILENT, Progress


class Board:
    """Units by name, what was recorded of them, and the order in which they began."""

    def __init__(self, play: Callable[[str], Awaitable[str]] | None = None) -> None:
        self.begun: list[str] = []
        self.recorded: list[str] = []
        self.cancelled: list[str] = []
        self._play = play or _quick

    def unit(self, name: str, group: str = "") -> Unit[str]:
        async def play(calls: UnitCalls) -> str:
            assert calls.unit == name
            self.begun.append(name)
            try:
                return await self._play(name)
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise

        def record(value: str, seconds: float) -> None:
            assert value == f"value of {name}"
            assert seconds >= 0
            self.recorded.append(name)

        return Unit(name, play, record, group)

    async def run(self, names: Sequence[str], concurrency: int, progress: Progress = SILENT) -> None:
        async with asyncio.timeout(5):
            await run_units([self.unit(name) for name in names], HERE, concurrency, progress)


async def _quick(name: str) -> str:
    await asyncio.sleep(0)
    return f"value of {name}"


def failing(failures: Mapping[str, BaseException], then: Callable[[str], Awaitable[str]] = _quick) -> Board:
    """Units of these names fail, the others do not."""

    async def play(name: str) -> str:
        if name in failures:
            raise failures[name]
        return await then(name)

    return Board(play)


def names(count: int) -> list[str]:
    return [f"u{n}" for n in range(count)]


# --- order and places


@given(st.integers(0, 30), st.integers(1, 12), st.integers(0, 2**31))
def test_every_unit_is_recorded_once_and_no_more_run_at_once_than_may(count: int, concurrency: int, seed: int) -> None:
    chance = Random(seed)
    running = most = 0

    async def play(name: str) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(chance.randint(1, 4)):
            await asyncio.sleep(0)
        running -= 1
        return f"value of {name}"

    board, heard = Board(play), Heard()
    asyncio.run(board.run(names(count), concurrency, heard))
    assert board.begun == names(count)  # in the order that was given
    assert sorted(board.recorded) == sorted(names(count))
    assert heard.events == [("done",)] * count
    assert most == min(count, concurrency)


async def test_no_place_waits_for_the_slowest() -> None:
    """The first unit ends only when the last has begun: with a barrier anywhere, this would never end."""
    last = asyncio.Event()

    async def play(name: str) -> str:
        if name == "u0":
            await last.wait()
        if name == "u99":
            last.set()
        return f"value of {name}"

    board = Board(play)
    await board.run(names(100), 2)
    assert board.recorded[-1] in ("u0", "u99")
    assert len(board.recorded) == 100


async def test_an_agenda_is_asked_again_whenever_something_came_back() -> None:
    """A tree whose branches are known only when their parent is in; what came back is recorded already."""
    board = Board()
    asked: list[int] = []

    class Tree:
        def __init__(self) -> None:
            self.waiting = ["n"]

        def next(self, running: int) -> Unit[str] | None:
            asked.append(running)
            return board.unit(self.waiting.pop(0)) if self.waiting else None

        def take(self, unit: Unit[str], value: str) -> None:
            assert value == f"value of {unit.name}"
            assert unit.name in board.recorded
            if len(unit.name) < 4:
                self.waiting += [f"{unit.name}l", f"{unit.name}r"]

        def fail(self, unit: Unit[str]) -> None: ...

    async with asyncio.timeout(5):
        await run_agenda(Tree(), HERE, 3)
    assert len(board.recorded) == len(set(board.recorded)) == 1 + 2 + 4 + 8
    assert set(asked) == {0, 1, 2}  # never where all places are taken


async def test_a_ctrl_c_is_heard_although_the_models_never_wait() -> None:
    """Simulated models answer at once: without a pause between units the loop would first do all of them."""

    async def play(name: str) -> str:
        if name == "u3":
            asyncio.get_running_loop().call_soon(running.cancel)
        return f"value of {name}"

    board = Board(play)
    running = asyncio.create_task(board.run(names(1000), 4))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(board.begun) < 20
    assert set(board.recorded) == set(board.begun)  # what was played is not lost


# --- failures


async def test_units_that_fail_are_told_when_everything_else_is_done() -> None:
    busy = {"u3": Overloaded("busy"), "u7": Overloaded("still busy")}
    board, heard = failing(busy), Heard()
    with pytest.raises(Unfinished, match=r"^2 units .* u3: busy") as stopped:
        await board.run(names(20), 4, heard)
    assert [(unit.name, unit.failure) for unit in stopped.value.units] == list(busy.items())
    assert stopped.value.units[0].to_json() == {"unit": "u3", "kind": "overload", "error": "busy"}
    assert sorted(board.recorded) == sorted(set(names(20)) - busy.keys())
    assert heard.count("done") == 18


@pytest.mark.parametrize(("concurrency", "most"), [(1, 3), (3, 3), (8, 8)])
async def test_so_many_failures_in_a_row_mean_that_the_server_is_gone(concurrency: int, most: int) -> None:
    gone: dict[str, BaseException] = {name: Overloaded(f"{name} failed") for name in names(100)[10:]}
    board = failing(gone)
    with pytest.raises(Overloaded):
        await board.run(names(100), concurrency)
    assert sorted(board.recorded) == sorted(names(10))
    assert len(board.begun) <= 10 + most + concurrency


async def test_one_success_between_failures_counts_them_anew() -> None:
    board = failing({name: Overloaded("busy") for name in names(60) if int(name[1:]) % 3})
    with pytest.raises(Unfinished) as stopped:
        await board.run(names(60), 1)
    assert len(stopped.value.units) == 40
    assert len(board.recorded) == 20


async def test_failures_of_one_group_count_once() -> None:
    def board_of() -> Board:
        return failing({name: Overloaded("busy") for name in names(12)})

    board = board_of()
    one_group = [board.unit(name, group="same boundary") for name in names(20)]
    with pytest.raises(Unfinished) as stopped:
        await run_units(one_group, HERE, 2)
    assert len(stopped.value.units) == 12
    assert len(board.recorded) == 8
    board = board_of()
    four_groups = [board.unit(name, group=str(int(name[1:]) // 3)) for name in names(20)]
    with pytest.raises(Overloaded):
        await run_units(four_groups, HERE, 1)
    assert len(board.begun) == 7  # the first of the third group is one too many


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationFailed("wrong key"),
        UnknownModel("no such model"),
        QuotaExhausted("no credit"),
        InputError("a role"),
    ],
)
async def test_what_trying_again_will_not_mend_stops_everything_at_once(error: Exception) -> None:
    async def slow(name: str) -> str:
        await asyncio.sleep(0 if name in ("u0", "u1") else 60)
        return f"value of {name}"

    board = failing({"u4": error}, slow)
    with pytest.raises(type(error)) as caught:
        await board.run(names(100), 3)
    assert caught.value is error
    assert board.recorded == ["u0", "u1"]
    assert sorted(board.cancelled) == ["u2", "u3"]  # nothing is left behind
    assert board.begun == names(5)


@pytest.mark.parametrize(
    "failure", [BadRequest("400"), BadRequest("404"), MalformedReply("nothing in it"), BrokenModel("a bug")]
)
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_any_number_of_refusals_in_a_row_stops_nobody_else(failure: ModelFailure, concurrency: int) -> None:
    """Tasks that the server always refuses come first: with an end after so many in a row, no other was ever begun."""
    board = failing({name: type(failure)(f"{failure} of {name}") for name in names(40)[:30]})
    heard = Heard()
    with pytest.raises(Unfinished) as stopped:
        await board.run(names(40), concurrency, heard)
    assert sorted(board.recorded) == sorted(names(40)[30:])
    assert [unit.name for unit in stopped.value.units] == names(40)[:30]
    assert all(unit.failure.unit == unit.name for unit in stopped.value.units)
    assert heard.count("note") == 30  # each is told when it happens


async def test_a_refusal_between_signs_of_an_outage_shows_that_somebody_answers() -> None:
    failures: dict[str, BaseException] = {
        name: BadRequest("no") if int(name[1:]) % 3 == 2 else Overloaded("busy") for name in names(30)
    }
    with pytest.raises(Unfinished) as stopped:
        await failing(failures).run(names(30), 1)
    assert len(stopped.value.units) == 30


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("a bug"), "RuntimeError: a bug"),
        (KeyError("x"), "KeyError: 'x'"),
        (RecursionError("maximum recursion depth exceeded"), "RecursionError: maximum recursion depth exceeded"),
        (asyncio.CancelledError("from within"), "cancelled from within"),
    ],
)
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_unit_that_would_fail_again_is_set_aside_and_remembered(
    error: BaseException, reason: str, concurrency: int, tmp_path: Path
) -> None:
    with Store.open(tmp_path / "run.db") as store:
        for attempt in range(2):
            board = failing({"u5": error})
            with pytest.raises(Unfinished) as stopped:
                await run_units([board.unit(name) for name in names(20)], InProcess(store), concurrency)
            (unit,) = stopped.value.units
            assert (unit.name, unit.failure.kind) == ("u5", "set aside")
            assert reason in str(unit.failure)
            assert len(board.recorded) == 19
            assert board.begun.count("u5") == (attempt == 0)
            assert store.units_set_aside().keys() == {"u5"}, attempt
        assert store.retry_set_aside() == 1
        await run_units([Board().unit("u5")], InProcess(store), 1)


async def test_a_disk_that_was_full_for_a_moment_is_no_reason_to_set_a_unit_aside(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db") as store:
        with pytest.raises(Unfinished, match="No space left"):
            await run_units(
                [failing({"u1": OSError("No space left")}).unit(name) for name in names(3)], InProcess(store), 1
            )
        assert not store.units_set_aside()


async def test_what_cannot_be_recorded_is_set_aside_too(tmp_path: Path) -> None:
    async def play(calls: UnitCalls) -> object:
        return object()

    def record(value: object, seconds: float) -> None:
        canonical(value)

    with Store.open(tmp_path / "run.db") as store, pytest.raises(Unfinished, match="TypeError"):
        await run_units([Unit("u", play, record)], InProcess(store), 1)


async def test_at_a_ceiling_what_is_under_way_is_awaited_and_nothing_new_begins() -> None:
    async def play(name: str) -> str:
        await asyncio.sleep(0.05 if name != "u1" else 0)
        if name == "u1":
            raise CeilingReached("enough")
        return f"value of {name}"

    board = Board(play)
    with pytest.raises(CeilingReached, match="enough"):
        await board.run(names(40), 4)
    assert board.begun == names(4)
    assert sorted(board.recorded) == ["u0", "u2", "u3"]
    assert not board.cancelled


async def test_a_failure_to_record_is_no_failure_of_a_model() -> None:
    class Full(Exception):
        pass

    async def play(calls: UnitCalls) -> int:
        return 1

    def record(value: int, seconds: float) -> None:
        raise Full("the disk is full")

    with pytest.raises(Full):
        await run_units([Unit("u", play, record)], HERE, 2)


class Alarm(BaseException):
    """Not an `Exception`: nobody's `except Exception` catches it."""


@pytest.mark.parametrize("error", [Alarm("fire"), GeneratorExit()])
@pytest.mark.parametrize("concurrency", [1, 4])
async def test_no_exception_of_a_unit_hangs_or_ends_silently(error: BaseException, concurrency: int) -> None:
    board = failing({"u5": error})
    with pytest.raises(type(error)):
        await board.run(names(20), concurrency)
    assert "u5" not in board.recorded
    assert board.recorded[:2] == ["u0", "u1"]
    assert len(board.recorded) < 20


async def test_an_agenda_or_a_progress_that_raises_stops_everything_and_cancels_what_runs() -> None:
    async def play(name: str) -> str:
        await asyncio.sleep(0 if name == "u0" else 60)
        return f"value of {name}"

    def raises() -> None:
        raise ValueError("no")

    board = Board(play)
    with pytest.raises(ValueError, match="no"):
        await board.run(names(5), 3, Heard(raises))
    assert board.recorded == ["u0"]
    assert sorted(board.cancelled) == ["u1", "u2"]


async def test_a_failure_after_others_is_the_one_that_is_raised() -> None:
    """Units that were set aside do not hide what stopped the run."""
    failures: dict[str, BaseException] = {"u1": Overloaded("busy"), "u8": AuthenticationFailed("wrong key")}
    with pytest.raises(ModelFailure, match="wrong key"):
        await failing(failures).run(names(20), 2)


async def test_a_unit_whose_episode_was_lost_begins_again_from_its_journal(tmp_path: Path) -> None:
    """No call is sent again, and the others do not wait."""
    sent: list[int | None] = []

    class Oracle:
        name = "oracle"

        async def reply(self, request: Request) -> Reply:
            sent.append(request.decoding.seed)
            return Reply(assistant(f"answer {len(sent)}"))

    losses = 3
    values: list[str] = []

    async def play(calls: UnitCalls) -> str:
        nonlocal losses
        model = calls.bound(Oracle(), "agent")
        answers = []
        for _ in range(5):
            answers.append((await model.reply(Request((user("And now?"),)))).message.content)
            if len(answers) == 4 - losses and losses:
                losses -= 1
                raise EpisodeLost("its node is gone")
        return " ".join(answers)

    with Store.open(tmp_path / "run.db") as store:
        await run_units([Unit("u", play, lambda value, seconds: values.append(value))], InProcess(store), 2)
    assert values == ["answer 1 answer 2 answer 3 answer 4 answer 5"]
    assert len(sent) == len(set(sent)) == 5


async def test_a_unit_that_is_lost_again_and_again_is_left_for_the_next_command() -> None:
    board = failing({"u1": EpisodeLost("its node is gone")})
    with pytest.raises(Unfinished, match=r"10 times.* its node is gone"):
        await board.run(names(4), 2)
    assert sorted(board.recorded) == ["u0", "u2", "u3"]
