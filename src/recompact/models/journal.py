"""Every call to a model is written down before its reply is used, so that a run can be killed anywhere.

A unit of work (one rollout, one diagnosis) makes its calls in a fixed order. `UnitCalls` numbers them: a call that the
journal has already answered is read from it, any other is sent and written down. Replay costs no tokens.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from recompact.models.protocol import ChatModel, Wrapper
from recompact.models.shape import shape_reply
from recompact.values.chat import Message, Reply, Request


@dataclass(frozen=True)
class JournalAnswer:
    """A call of a unit that was answered. Its request is as it was given: the seed comes from the unit's name."""

    ordinal: int
    request: Request
    reply: Message


@dataclass(frozen=True)
class JournalRequest:
    """A request for a journal to keep. It mostly continues where the `before` of the same role ended, or repeats what
    was in the `latest` of any role, and need not be written down twice."""

    request: Request
    before: JournalAnswer | None = None
    latest: JournalAnswer | None = None


@dataclass(frozen=True)
class JournaledReply:
    """A call of a unit with its reply, as it is written down."""

    unit: str
    ordinal: int
    role: str
    configured: str  # the model, by its name in the config
    request: str  # digest
    reply: Reply
    seconds: float


class Journal(Protocol):
    """Where calls are written down; the store is one."""

    def journaled(self, unit: str) -> Mapping[int, tuple[str, Reply]]:
        """What was answered. Raises `SetAside` where the unit was set aside, or a reply cannot be read."""
        ...

    def journal(self, call: JournaledReply, asked: JournalRequest | None = None) -> None:
        """Write down a reply and, where it is given, its request."""
        ...

    def forget(self, unit: str, ordinal: int) -> None: ...

    def set_aside(self, unit: str, reason: str) -> None: ...


def seed_of(unit: str, ordinal: int = 0, seed: int = 0) -> int:
    """A 31-bit seed from a unit's name: the only source of randomness, whatever the concurrency.

    >>> seed_of("collect/demo/1", 3) == seed_of("collect/demo/1", 3) != seed_of("collect/demo/1", 4)
    True
    """
    return int.from_bytes(hashlib.sha256(f"{seed}\0{unit}\0{ordinal}".encode()).digest()[:4]) >> 1


class UnitCalls:
    """The calls of one unit, in order. `differed` tells whether a replay left the journaled path."""

    def __init__(self, journal: Journal, unit: str, seed: int = 0) -> None:
        self.unit = unit
        self.seed = seed
        self._differed = False
        self._journal = journal
        self._answered = dict(journal.journaled(unit))
        self._next = 0
        self._threads: dict[str, UnitCalls] = {}
        self._written: dict[str, JournalAnswer] = {}  # by role, the last call that was written down
        self._latest: JournalAnswer | None = None

    def thread(self, name: str) -> UnitCalls:
        """The calls of one of several conversations that a unit has at the same time: each has its own order."""
        if name not in self._threads:
            self._threads[name] = UnitCalls(self._journal, f"{self.unit}#{name}", self.seed)
        return self._threads[name]

    @property
    def differed(self) -> bool:
        return self._differed or any(thread.differed for thread in self._threads.values())

    def bound(self, model: ChatModel, role: str) -> ChatModel:
        """The model as this unit sees it, in one role."""
        return _Journaled(self, model, role)

    async def reply(self, model: ChatModel, role: str, request: Request) -> Reply:
        ordinal = self._next
        self._next += 1
        original_request, request = request, request.seeded(seed_of(self.unit, ordinal, self.seed))
        if (known := self._answered.get(ordinal)) is not None:
            if known[0] == request.digest:
                return known[1]
            # The environment or the code answered differently than before the kill: what was
            # journaled from here on belongs to a path that is no longer taken.
            self._differed = True
            self._answered = {}
            self._journal.forget(self.unit, ordinal)
        started = time.perf_counter()
        reply = shape_reply(await model.reply(request), request)
        seconds = time.perf_counter() - started
        asked = JournalRequest(original_request, self._written.get(role), self._latest)
        call = JournaledReply(self.unit, ordinal, role, model.name, request.digest, reply, seconds)
        self._journal.journal(call, asked)
        self._latest = self._written[role] = JournalAnswer(ordinal, original_request, reply.message)
        return reply


class _Journaled(Wrapper):
    def __init__(self, calls: UnitCalls, model: ChatModel, role: str) -> None:
        super().__init__(model)
        self._calls, self._role = calls, role

    async def reply(self, request: Request) -> Reply:
        return await self._calls.reply(self._model, self._role, request)
