"""Limits, retries and ceilings around a model."""

from __future__ import annotations

import asyncio
import random
import time

import pytest
from fakes import Scripted
from hypothesis import given, strategies as st
from progress_support import Heard
from sentences import numbers_in

from recompact.models.endpoint import Price, RateLimits, RetryPolicy
from recompact.models.failures import (
    AuthenticationFailed,
    CeilingReached,
    ContextOverflow,
    Overloaded,
    RateLimited,
    Unreachable,
)
from recompact.models.limits import Limited, Metered, Retrying, Spending, seconds_to_wait
from recompact.values.chat import Reply, Request, Usage, assistant, user
from recompact.values.progress import Notices

ASK = Request((user("hello"),))
FAST = RetryPolicy(attempts=4, retry_wait=0.001)


class Slow:
    name = "slow"

    def __init__(self, seconds: float, tokens: int = 0, output: int = 0) -> None:
        self.seconds, self.tokens, self.output = seconds, tokens, output
        self.now = self.most = 0

    async def reply(self, request: Request) -> Reply:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(self.seconds)
        self.now -= 1
        return Reply(assistant("ok"), Usage(self.tokens, self.output, 0, 0, 1))


async def test_concurrency() -> None:
    slow = Slow(0.005)
    model = Limited(slow, RateLimits(concurrency=3))
    await asyncio.gather(*(model.reply(ASK) for _ in range(20)))
    assert slow.most == 3


async def test_requests_a_minute_are_spread() -> None:
    model = Limited(Slow(0), RateLimits(concurrency=50, requests_per_minute=60 * 50))  # 50 a second
    started = time.monotonic()
    await asyncio.gather(*(model.reply(ASK) for _ in range(75)))
    assert time.monotonic() - started > 0.4  # a second's worth at once, the rest spread


async def test_tokens_a_minute_are_waited_for_after_they_were_used() -> None:
    model = Limited(Slow(0, tokens=150), RateLimits(concurrency=1, tokens_per_minute=60 * 1000))
    started = time.monotonic()
    for _ in range(10):
        await model.reply(ASK)
    assert time.monotonic() - started > 0.3


async def test_output_tokens_are_debited_too() -> None:
    model = Limited(Slow(0, tokens=0, output=150), RateLimits(concurrency=1, tokens_per_minute=60 * 1000))
    started = time.monotonic()
    for _ in range(10):
        await model.reply(ASK)
    assert time.monotonic() - started > 0.3


async def test_what_can_be_retried_is() -> None:
    inner = Scripted(RateLimited("1"), Overloaded("2"), "ok")
    model = Retrying(inner, FAST)
    assert (await model.reply(ASK)).message.content == "ok"
    assert (len(inner.requests), model.retries) == (3, 2)


@pytest.mark.parametrize("failure", [AuthenticationFailed("key"), ContextOverflow("long")])
async def test_what_cannot_help_is_not_retried(failure: Exception) -> None:
    inner = Scripted(failure, "never")
    with pytest.raises(type(failure)):
        await Retrying(inner, FAST).reply(ASK)
    assert len(inner.requests) == 1


async def test_attempts_end() -> None:
    inner = Scripted(*(Overloaded(str(n)) for n in range(9)))
    with pytest.raises(Overloaded):
        await Retrying(inner, FAST).reply(ASK)
    assert len(inner.requests) == FAST.attempts


async def test_a_server_that_never_answered_is_given_up_soon_and_one_that_did_is_not() -> None:
    never = Scripted(*(Unreachable("no") for _ in range(9)))
    with pytest.raises(Unreachable):
        await Retrying(never, RetryPolicy(8, 0.001)).reply(ASK)
    assert len(never.requests) == 3
    once = Retrying(Scripted("hi", *(Unreachable("no") for _ in range(6)), "back"), RetryPolicy(8, 0.001))
    await once.reply(ASK)
    assert (await once.reply(ASK)).message.content == "back"


def test_waits_grow_with_full_jitter_and_honour_retry_after() -> None:
    policy = RetryPolicy(retry_wait=1)
    chance = random.Random(1)
    for attempt in range(10):
        waits = [seconds_to_wait(policy, attempt, Overloaded(""), chance) for _ in range(200)]
        top = min(60, 2**attempt)
        assert 0 <= min(waits) < 0.2 * top
        assert 0.8 * top < max(waits) <= top
    asked = [seconds_to_wait(policy, 0, RateLimited("", retry_after=7), chance) for _ in range(200)]
    assert min(asked) >= 7
    assert max(asked) <= 8
    assert len(set(asked)) > 100


@given(st.floats(0, 1e9), st.floats(0.5, 600), st.integers(0, 20))
def test_a_server_decides_on_no_wait_beyond_the_longest(asked: float, longest: float, attempt: int) -> None:
    policy = RetryPolicy(max_wait=longest)
    assert seconds_to_wait(policy, attempt, RateLimited("", retry_after=asked), random.Random(1)) <= longest
    assert seconds_to_wait(policy, attempt, RateLimited("", retry_after=asked), random.Random(1)) >= min(asked, longest)


async def test_a_day_of_retry_after_is_two_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("recompact.models.limits.asyncio.sleep", sleep)
    heard = Heard()
    inner = Scripted(RateLimited("slow down", retry_after=86_400), RateLimited("slow", retry_after=9), "ok")
    await Retrying(inner, RetryPolicy(), Notices(heard)).reply(ASK)
    assert slept[0] == 120
    assert slept[1] < 10.5
    (note,) = [event[1] for event in heard.events if event[0] == "note"]  # ten seconds are nothing to speak of
    assert numbers_in(note) == ["120", "2", "8"]
    assert "slow down" in note


async def test_many_calls_that_wait_together_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None: ...

    monkeypatch.setattr("recompact.models.limits.asyncio.sleep", sleep)
    heard = Heard()
    inner = Scripted(*(RateLimited("slow down", retry_after=60) for _ in range(50)), *["ok"] * 50)
    model = Retrying(inner, RetryPolicy(60), Notices(heard))
    await asyncio.gather(*(model.reply(ASK) for _ in range(50)))
    assert heard.count("note") <= 3


async def test_a_wait_for_our_own_limit_is_shown_too(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    async def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr("recompact.models.limits.asyncio.sleep", sleep)
    monkeypatch.setattr("recompact.models.limits.time.monotonic", lambda: clock[0])
    heard = Heard()
    model = Limited(Slow(0, tokens=1000), RateLimits(tokens_per_minute=600), Notices(heard))
    await model.reply(ASK)
    await model.reply(ASK)
    (note,) = [event[1] for event in heard.events if event[0] == "note"]
    assert note.startswith("slow waits 99 s")


def test_prices_count_cached_input_apart() -> None:
    usage = Usage(input=1_000_000, output=100_000, cached=400_000)
    assert Price(2, 8, 0.5).of(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 8)
    assert Price(2, 8).of(usage) == pytest.approx(2 + 0.8)


@pytest.mark.parametrize(
    ("spending", "said"),
    [(Spending(tokens_ceiling=25), "may use 25"), (Spending(money_ceiling=0.00004), "may cost")],
)
async def test_a_ceiling_stops_before_the_next_call(spending: Spending, said: str) -> None:
    model = Metered("m", Scripted(*["ok"] * 5), spending, Price(1, 2))
    await model.reply(ASK)
    await model.reply(ASK)
    with pytest.raises(CeilingReached, match=said):
        await model.reply(ASK)
    assert spending.tokens == 30
    assert spending.money == pytest.approx(2 * 20 / 1e6)
