"""What a model may be asked for: how many calls at once, how many requests and tokens a minute, how much in all.

Wrappers around any `ChatModel`, to be nested in this order: `Metered` outside (it refuses), then `Retrying` (it
waits without holding a place), then `Limited` (it holds a place), then the client behind its door (`Shaped`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from recompact.models.endpoint import Price, RateLimits, RetryPolicy
from recompact.models.failures import CeilingReached, ModelFailure, Unreachable, WebPage
from recompact.models.protocol import ChatModel, Wrapper
from recompact.models.shape import request_tokens
from recompact.values.chat import Reply, Request, Usage
from recompact.values.progress import Notices
from recompact.values.tokens import TokenCounter, counter

NOTABLE = 10.0  # seconds beyond which a wait is shown


class Bucket:
    """`per_minute`, spread evenly: at most a second's worth at once. It may go into debt, which is waited for."""

    def __init__(self, per_minute: float) -> None:
        self._rate = per_minute / 60
        self._level = self._room = max(1.0, self._rate)
        self._filled = time.monotonic()

    def take(self, amount: float) -> None:
        self._level -= amount

    def wait(self) -> float:
        """Seconds until there is at least one to take."""
        now = time.monotonic()
        self._level = min(self._room, self._level + (now - self._filled) * self._rate)
        self._filled = now
        return max(0.0, (1 - self._level) / self._rate)


class Limited(Wrapper):
    """A model behind its limits. Tokens are debited when they are known, so a call waits for those before it."""

    def __init__(self, model: ChatModel, limits: RateLimits, notices: Notices | None = None) -> None:
        super().__init__(model)
        self._waits = _Waits(notices)
        self._places = asyncio.Semaphore(limits.concurrency)
        self._requests = Bucket(limits.requests_per_minute) if limits.requests_per_minute else None
        self._tokens = Bucket(limits.tokens_per_minute) if limits.tokens_per_minute else None

    async def reply(self, request: Request) -> Reply:
        async with self._places:
            for bucket in (self._tokens, self._requests):
                while bucket and (seconds := bucket.wait()) > 0:
                    self._waits.note(seconds, f"{self.name} waits {seconds:.0f} s: its limit a minute is used up")
                    await asyncio.sleep(seconds)
            if self._requests:
                self._requests.take(1)
            reply = await self._model.reply(request)
            if self._tokens:
                self._tokens.take(reply.usage.total)
            return reply


class _Waits:
    """Shows waits that are notable. Where many calls wait for the same reason, one line stands for all of them."""

    def __init__(self, notices: Notices | None) -> None:
        self._notices = notices
        self._shown_until = 0.0

    def note(self, seconds: float, text: str) -> None:
        until = time.monotonic() + seconds
        if self._notices is None or seconds <= NOTABLE or until <= self._shown_until + 1:
            return
        self._shown_until = until
        self._notices.note(text)


LONGEST_WAIT = 60.0  # seconds between two tries, unless the server asks for more


def seconds_to_wait(policy: RetryPolicy, attempt: int, failure: ModelFailure, chance: random.Random) -> float:
    """Exponential waits with full jitter, or what the server asks for, up to the policy's `max_wait`."""
    backoff = chance.uniform(0, min(LONGEST_WAIT, policy.retry_wait * 2**attempt))
    if failure.retry_after is None:
        return backoff
    # All callers are told the same time: a little jitter keeps them from coming back together.
    jitter = chance.uniform(0, min(1.0, 0.1 + 0.1 * failure.retry_after))
    return min(failure.retry_after + jitter, policy.max_wait)


class Retrying(Wrapper):
    """A model that is asked again where that can help. `lost` gets what attempts cost that brought no reply."""

    def __init__(
        self,
        model: ChatModel,
        policy: RetryPolicy = RetryPolicy(),
        notices: Notices | None = None,
        lost: Callable[[Usage], None] = lambda usage: None,
    ) -> None:
        super().__init__(model)
        self._policy = policy
        self._lost = lost
        self._waits = _Waits(notices)
        self._answered = False
        self.retries = 0

    async def reply(self, request: Request) -> Reply:
        chance = random.Random(request.digest)
        for attempt in range(self._policy.attempts):
            try:
                reply = await self._model.reply(request)
            except ModelFailure as failure:
                if failure.paid:
                    self._lost(failure.usage)
                last = attempt + 1 >= self._policy.attempts
                # A server that never answered is a wrong address more often than an outage: say so soon.
                if isinstance(failure, Unreachable | WebPage) and not self._answered and attempt >= 2:
                    failure.retryable, failure.ends_run = False, True
                if not failure.retryable or last:
                    raise
                self.retries += 1
                seconds = seconds_to_wait(self._policy, attempt, failure, chance)
                tries = f"try {attempt + 2} of {self._policy.attempts} follows"
                self._waits.note(seconds, f"{self.name} waits {seconds:.0f} s ({failure.kind}; {tries}): {failure}")
                await asyncio.sleep(seconds)
            else:
                self._answered = True
                return reply
        raise AssertionError("a retry policy makes at least one attempt")


@dataclass
class Spending:
    """What a run has spent so far, and what it may spend. The one mutable tally of a run.

    A call reserves what it may cost before it is sent. Where what is spent and reserved reaches the ceiling, a call
    waits for those under way; where what is spent alone does, it is refused. So the ceiling is overshot by at most
    one call, however many run at once, as long as none uses more than it reserved.
    """

    tokens_ceiling: int | None = None
    money_ceiling: float | None = None
    tokens: int = 0
    money: float = 0.0
    _reserved_tokens: int = 0
    _reserved_money: float = 0.0
    _under_way: int = 0
    _settled: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def limited(self) -> bool:
        return self.tokens_ceiling is not None or self.money_ceiling is not None

    def add(self, usage: Usage, price: Price) -> None:
        self.tokens += usage.total
        self.money += price.of(usage)

    def check(self) -> None:
        if self.tokens_ceiling is not None and self.tokens >= self.tokens_ceiling:
            raise CeilingReached(
                f"the run has used {self.tokens:,} tokens and may use {self.tokens_ceiling:,}:"
                " raise [ceiling] tokens in the config to go on"
            )
        if self.money_ceiling is not None and self.money >= self.money_ceiling:
            raise CeilingReached(
                f"the run has cost {self.money:.2f} and may cost {self.money_ceiling:.2f}:"
                " raise [ceiling] money in the config to go on"
            )

    @asynccontextmanager
    async def reserved(self, expect: Callable[[], Usage], price: Price) -> AsyncIterator[None]:
        """Room for a call while it is under way. What it may use is asked for once there is room; if nobody knows how
        long its answer may be, no other call begins meanwhile."""
        self.check()
        while self._under_way and self._full:
            self._settled.clear()
            await self._settled.wait()
            self.check()
        usage = expect()
        tokens, money = usage.total, price.of(usage)
        if not usage.output:
            tokens, money = max(tokens, self.tokens_ceiling or 0), max(money, self.money_ceiling or 0.0)
        self._reserve(1, tokens, money)
        try:
            yield
        finally:
            self._reserve(-1, -tokens, -money)
            self._settled.set()

    @property
    def _full(self) -> bool:
        tokens, money = self.tokens + self._reserved_tokens, self.money + self._reserved_money
        return (self.tokens_ceiling is not None and tokens >= self.tokens_ceiling) or (
            self.money_ceiling is not None and money >= self.money_ceiling
        )

    def _reserve(self, calls: int, tokens: int, money: float) -> None:
        self._under_way += calls
        self._reserved_tokens += tokens
        self._reserved_money = self._reserved_money + money if self._under_way else 0.0  # no rounding residue


class Metered:
    """A model whose calls count against the run's spending, under the name that the config gives it."""

    def __init__(
        self, name: str, model: ChatModel, spending: Spending, price: Price, count: TokenCounter | None = None
    ) -> None:
        self.name = name
        self._model, self._spending, self._price, self._count = model, spending, price, count
        self._beyond = 0  # the most by which the server's count of input exceeded ours
        self._longest = 0  # output of a call so far

    async def reply(self, request: Request) -> Reply:
        if not self._spending.limited:
            reply = await self._model.reply(request)
            self._spending.add(reply.usage, self._price)
            return reply
        own = request_tokens(request, self._count or counter())
        limit = request.decoding.max_output_tokens or 0
        async with self._spending.reserved(
            lambda: Usage(own + self._beyond, max(limit, self._longest)),
            self._price,
        ):
            reply = await self._model.reply(request)
            self._beyond = max(self._beyond, reply.usage.input - own)
            self._longest = max(self._longest, reply.usage.output)
            self._spending.add(reply.usage, self._price)
        return reply
