"""The ceiling holds at any concurrency: it is overshot by one call at the most, and all that was sent is counted."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from examples import examples
from fakes import Scripted
from hypothesis import given, strategies as st

from recompact.engine.execution.scheduler import InProcess, Unit, run_units
from recompact.engine.store.store import Store
from recompact.models.endpoint import Price
from recompact.models.failures import CeilingReached, Overloaded
from recompact.models.journal import UnitCalls
from recompact.models.limits import Metered, Spending
from recompact.models.shape import request_tokens
from recompact.values.chat import Decoding, Reply, Request, Usage, assistant, user
from recompact.values.tokens import counter

COUNT = counter()
LIMIT = 400  # output tokens of a call
PRICE = Price(1.0, 4.0)


class Server:
    """Takes its time, writes something between nothing and the limit, and counts input by a vocabulary of its own."""

    name = "server"

    def __init__(self, seed: int, factor: float = 1.0) -> None:
        self._chance, self._factor = random.Random(seed), factor
        self.calls: list[Usage] = []
        self.now = self.most = 0

    async def reply(self, request: Request) -> Reply:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self._chance.uniform(0.0001, 0.004))
        self.now -= 1
        sent = int(request_tokens(request, COUNT) * self._factor)
        usage = Usage(sent, self._chance.randint(1, LIMIT), calls=1)
        self.calls.append(usage)
        return Reply(assistant("so"), usage)


def unit(name: str, model: Metered, calls: int) -> Unit[None]:
    async def play(unit_calls: UnitCalls) -> None:
        bound = unit_calls.bound(model, "agent")
        for n in range(calls):
            words = " ".join(f"word{m}" for m in range(50 + 10 * n))
            await bound.reply(Request((user(words),), (), Decoding(max_output_tokens=LIMIT)))

    return Unit(name, play, lambda value, seconds: None)


@pytest.mark.parametrize("ceiling", ["tokens", "money"])
@pytest.mark.parametrize("factor", [1.0, 0.7, 1.4])
@pytest.mark.parametrize("at_once", [16, 64, 200])
async def test_overshoot(at_once: int, factor: float, ceiling: str, tmp_path: Path) -> None:
    spending = Spending(150_000, None) if ceiling == "tokens" else Spending(None, 0.35)
    server = Server(at_once, factor)
    model = Metered("server", server, spending, PRICE, COUNT)
    with Store.open(tmp_path / "run.db") as store:
        units = [unit(f"u{n}", model, 40) for n in range(at_once)]
        with pytest.raises(CeilingReached):
            await run_units(units, InProcess(store), at_once)
        journaled = sum(store.spent().values(), Usage())
    assert server.now == 0
    assert server.most == at_once  # the ceiling is far at first: everybody is served at once
    # Nothing that was sent is lost: the server's own books, the journal and the tally agree.
    assert journaled == sum(server.calls, Usage())
    assert spending.tokens == journaled.total
    assert spending.money == pytest.approx(PRICE.of(journaled))
    over, largest = spending.tokens - 150_000, max(usage.total for usage in server.calls)
    if ceiling == "money":
        over = int(1e6 * (spending.money - 0.35))
        largest = int(1e6 * max(PRICE.of(usage) for usage in server.calls))
    print(f"{at_once} calls at once, server counts {factor:.1f}x: {over} over the ceiling, largest call {largest}")
    assert 0 <= over <= largest


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=30),
    st.integers(1, 3000),
    st.integers(1, 12),
)
@examples(60)
def test_it_stops_neither_early_nor_more_than_one_call_late(outputs: list[int], ceiling: int, at_once: int) -> None:
    """Whatever calls cost: as long as what was spent is below the ceiling, the next one is sent."""

    class Given:
        name = "given"

        def __init__(self) -> None:
            self.left = list(outputs)

        async def reply(self, request: Request) -> Reply:
            await asyncio.sleep(0)
            return Reply(assistant("x"), Usage(10, self.left.pop(), calls=1))

    async def run() -> None:
        spending = Spending(tokens_ceiling=ceiling)
        given = Given()
        model = Metered("given", given, spending, Price(), COUNT)
        places = asyncio.Semaphore(at_once)

        async def ask() -> bool:
            async with places:
                try:
                    await model.reply(Request((user("x " * 5),), (), Decoding(max_output_tokens=300)))
                except CeilingReached:
                    return False
                return True

        async with asyncio.timeout(10):
            answered = await asyncio.gather(*(ask() for _ in outputs))
        assert spending.tokens - ceiling <= 310
        assert all(answered) or spending.tokens >= ceiling
        assert sum(answered) == len(outputs) - len(given.left)

    asyncio.run(run())


@pytest.mark.parametrize("limit", [None, 300])
async def test_the_first_answers_without_a_limit_come_one_at_a_time(limit: int | None) -> None:
    """Nobody knows how long they will be: sent together, all of them would be beyond the ceiling."""

    class Long:
        name = "long"
        at_once = most = 0

        async def reply(self, request: Request) -> Reply:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            await asyncio.sleep(0.001)
            self.at_once -= 1
            return Reply(assistant("x"), Usage(10, 300, calls=1))

    spending, model = Spending(tokens_ceiling=1000), Long()
    metered = Metered("long", model, spending, Price(), COUNT)
    request = Request((user("x"),), (), Decoding(max_output_tokens=limit))
    ends = await asyncio.gather(*(metered.reply(request) for _ in range(20)), return_exceptions=True)
    assert sum(isinstance(end, CeilingReached) for end in ends) == 16
    assert spending.tokens == 4 * 310  # no more than one call beyond
    assert model.most > 1, "once their length is known, as many are sent as fit"


async def test_exactly_at_the_ceiling_is_the_end() -> None:
    spending = Spending(tokens_ceiling=45)
    model = Metered("m", Scripted(*["ok"] * 5), spending, Price())
    for _ in range(3):  # 15 each
        await model.reply(Request((user("hello"),)))
    assert spending.tokens == 45
    with pytest.raises(CeilingReached, match=r"\b45 tokens.*\b45\b"):
        await model.reply(Request((user("hello"),)))


async def test_one_below_the_ceiling_is_not() -> None:
    spending = Spending(tokens_ceiling=46)
    model = Metered("m", Scripted(*["ok"] * 5), spending, Price())
    for _ in range(4):
        await model.reply(Request((user("hello"),)))
    assert spending.tokens == 60


async def test_a_call_that_fails_gives_its_room_back() -> None:
    spending = Spending(tokens_ceiling=10_000)
    model = Metered("m", Scripted(*(Overloaded("busy") for _ in range(50)), "ok"), spending, Price())
    for _ in range(50):
        with pytest.raises(Overloaded):
            await model.reply(Request((user("hello"),), (), Decoding(max_output_tokens=9000)))
    async with asyncio.timeout(1):
        await model.reply(Request((user("hello"),)))
    assert spending.tokens == 15


async def test_spending_counts_what_was_forgotten(tmp_path: Path) -> None:
    """`--from` and a replay that took another way drop calls from the journal, but the money is gone."""
    with Store.open(tmp_path / "run.db") as store:
        model = Metered("server", Server(1), Spending(), PRICE, COUNT)
        await run_units([unit(f"collect/{n}", model, 3) for n in range(4)], InProcess(store), 2)
        await run_units([unit(f"revise/{n}", model, 3) for n in range(4)], InProcess(store), 2)
        spent = store.spent()
        store.forget_units(("revise/",))
        assert store.spent() == spent
        store.forget("collect/0", 1)
        assert store.spent() == spent
        store.forget_units(("collect/", "revise/"))
        assert store.spent() == spent
        assert not store.journaled("collect/0")
