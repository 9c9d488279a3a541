"""What a model may be asked for: how many calls at once, how many requests and tokens a minute, how much in all.

Wrappers around any `ChatModel`, to be put together in this order: `Metered` outside (it refuses), then `Retrying` (it
waits without holding a place), then `Limited` (it holds a place), then the client.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

from recompact.chat import Reply, Request, Usage
from recompact.models.failures import CeilingReached, ModelFailure, Unreachable
from recompact.models.protocol import ChatModel


@dataclass(frozen=True)
class Limits:
    """None means no limit."""

    concurrency: int = 16
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None


class Bucket:
    """So much a minute, spread evenly: at most a second's worth at once. It may go into debt, which is waited for."""

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


class Limited:
    """A model behind its limits. Tokens are debited when they are known, so a call waits for those before it."""

    def __init__(self, model: ChatModel, limits: Limits) -> None:
        self._model = model
        self._places = asyncio.Semaphore(limits.concurrency)
        self._requests = Bucket(limits.requests_per_minute) if limits.requests_per_minute else None
        self._tokens = Bucket(limits.tokens_per_minute) if limits.tokens_per_minute else None

    @property
    def name(self) -> str:
        return self._model.name

    async def reply(self, request: Request) -> Reply:
        async with self._places:
            for bucket in (self._tokens, self._requests):
                while bucket and (seconds := bucket.wait()) > 0:  # noqa: ASYNC110 - time passes, nobody signals
                    await asyncio.sleep(seconds)
            if self._requests:
                self._requests.take(1)
            reply = await self._model.reply(request)
            if self._tokens:
                self._tokens.take(reply.usage.total)
            return reply


@dataclass(frozen=True)
class RetryPolicy:
    """How long to go on trying: exponential waits with full jitter, or what the server asks for if that is longer."""

    attempts: int = 8
    first_wait: float = 1.0
    longest_wait: float = 60.0

    def wait(self, attempt: int, failure: ModelFailure, chance: random.Random) -> float:
        backoff = chance.uniform(0, min(self.longest_wait, self.first_wait * 2**attempt))
        if failure.retry_after is None:
            return backoff
        # All callers are told the same time: a little jitter keeps them from coming back together.
        return failure.retry_after + chance.uniform(0, min(1.0, 0.1 + 0.1 * failure.retry_after))


class Retrying:
    """A model that is asked again where that can help."""

    def __init__(self, model: ChatModel, policy: RetryPolicy = RetryPolicy()) -> None:
        self._model = model
        self._policy = policy
        self._answered = False
        self.retries = 0

    @property
    def name(self) -> str:
        return self._model.name

    async def reply(self, request: Request) -> Reply:
        chance = random.Random(request.digest)
        for attempt in range(self._policy.attempts):
            try:
                reply = await self._model.reply(request)
            except ModelFailure as failure:
                last = attempt + 1 >= self._policy.attempts
                # A server that never answered is a wrong address more often than an outage: say so soon.
                if isinstance(failure, Unreachable) and not self._answered and attempt >= 2:
                    failure.retryable = False
                if not failure.retryable or last:
                    raise
                self.retries += 1
                await asyncio.sleep(self._policy.wait(attempt, failure, chance))
            else:
                self._answered = True
                return reply
        raise AssertionError("a retry policy makes at least one attempt")


@dataclass(frozen=True)
class Price:
    """In money per million tokens; cached input costs `cached`, or as much as other input."""

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input - usage.cached
        return (fresh * self.input + usage.cached * cached + usage.output * self.output) / 1e6


@dataclass
class Spending:
    """What a run has spent so far, and what it may spend. The one mutable tally of a run."""

    tokens_ceiling: int | None = None
    money_ceiling: float | None = None
    tokens: int = 0
    money: float = 0.0

    def add(self, usage: Usage, price: Price) -> None:
        self.tokens += usage.total
        self.money += price.of(usage)

    def check(self) -> None:
        if self.tokens_ceiling is not None and self.tokens >= self.tokens_ceiling:
            raise CeilingReached(
                f"the run has used {self.tokens:,} tokens and may use {self.tokens_ceiling:,}:"
                " raise [ceiling] tokens in the config and run the same command again to go on"
            )
        if self.money_ceiling is not None and self.money >= self.money_ceiling:
            raise CeilingReached(
                f"the run has cost {self.money:.2f} and may cost {self.money_ceiling:.2f}:"
                " raise [ceiling] money in the config and run the same command again to go on"
            )


class Metered:
    """A model whose calls count against the run's spending, under the name that the config gives it."""

    def __init__(self, name: str, model: ChatModel, spending: Spending, price: Price) -> None:
        self.name = name
        self._model, self._spending, self._price = model, spending, price

    async def reply(self, request: Request) -> Reply:
        self._spending.check()
        reply = await self._model.reply(request)
        self._spending.add(reply.usage, self._price)
        return reply
