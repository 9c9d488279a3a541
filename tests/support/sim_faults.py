"""The faults of the simulated server: what can go wrong between a client and a model, on demand.

The choice is a seeded function of the request and of how often it arrived, so that two runs meet the same faults and a
retry can succeed.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recompact.errors import InputError
from recompact.values.chat import Message, Reply, Request, ToolCall, sha256

if TYPE_CHECKING:
    from aiohttp import web

TRANSIENT = {
    "429": "too many requests, with Retry-After in seconds",
    "429-ms": "too many requests, with retry-after-ms",
    "500": "internal error",
    "503": "overloaded",
    "hang": "no answer until the client gives up",
    "cut": "connection cut before the answer",
    "cut-midway": "connection cut in the middle of the answer",
    "broken-json": "an answer that is half a JSON document",
    "empty": "an answer without a reply in it",
    "trickle": "the answer in small pieces, slowly",
}
"""Faults of one arrival: the next time the same request may get through."""

LASTING = {
    "bad-arguments": "a reply whose tool call has arguments that do not parse",
    "overflow": "the request is longer than the window",
}
"""Faults of the request itself: it meets them every time, or a resumed run would differ from an uninterrupted one."""

KINDS = {**TRANSIENT, **LASTING}
GROUPS = {"transient": tuple(TRANSIENT), "all": tuple(KINDS)}


@dataclass(frozen=True)
class Faults:
    """Which faults happen, and how often: `rate` is the share of arrivals that meet one of `kinds`."""

    kinds: tuple[str, ...]
    rate: float = 1.0
    seed: int = 0
    retry_after: float = 0.05  # what a 429 tells the client to wait, in seconds
    trickle_seconds: float = 0.5  # how long a trickled answer takes

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                near = difflib.get_close_matches(kind, [*KINDS, *GROUPS], 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join([*KINDS, *GROUPS])}."
                raise InputError(f"faults: no kind {kind!r}: {hint}")
        if not self.kinds or not 0 <= self.rate <= 1:
            raise InputError("faults: give at least one kind and a rate from 0 to 1, like 429,500,cut@0.33")

    @staticmethod
    def parse(text: str) -> Faults:
        """From a text like `429,500,cut@0.33`; `transient` and `all` stand for groups of kinds."""
        names, _, rate = text.partition("@")
        kinds = [
            kind for name in names.split(",") if name.strip() for kind in GROUPS.get(name.strip(), (name.strip(),))
        ]
        try:
            return Faults(tuple(dict.fromkeys(kinds)), float(rate) if rate else 1.0)
        except ValueError:
            raise InputError(f"faults: the rate {rate!r} is no number; write it like 429,500,cut@0.33") from None

    def of(self, digest: str, arrival: int) -> str | None:
        """The fault that this arrival (1, 2, …) of a request meets."""
        lasting = [kind for kind in self.kinds if kind in LASTING]
        transient = [kind for kind in self.kinds if kind not in LASTING]
        share = self.rate * len(lasting) / len(self.kinds)
        chance = self._draw(digest)
        if chance < share:
            return _pick(lasting, chance / share)
        share = (self.rate - share) / (1 - share) if share < 1 else 0.0
        chance = self._draw(f"{digest}:{arrival}")
        return _pick(transient, chance / share) if chance < share else None

    def _draw(self, what: str) -> float:
        return int(sha256(f"{self.seed}:{what}")[:13], 16) / 16**13


def _pick(kinds: Sequence[str], where: float) -> str:
    return kinds[min(int(where * len(kinds)), len(kinds) - 1)]


def refusal(faults: Faults, kind: str | None) -> tuple[int, str, str, dict[str, str]] | None:
    """Status, code, text and headers of a fault that is an error status; None for any other."""
    wait = faults.retry_after
    if kind == "429":
        return 429, "rate_limit_exceeded", "Rate limit reached (simulated).", {"Retry-After": f"{wait:g}"}
    if kind == "429-ms":
        return 429, "rate_limit_exceeded", "Rate limit reached (simulated).", {"retry-after-ms": f"{wait * 1000:g}"}
    if kind == "500":
        return 500, "server_error", "The server had an error while processing your request (simulated).", {}
    if kind == "503":
        return 503, "overloaded", "The engine is currently overloaded (simulated).", {}
    if kind == "overflow":
        text = "This model's maximum context length is 1 tokens (simulated). Please reduce the length of the messages."
        return 400, "context_length_exceeded", text, {}
    return None


def with_bad_arguments(reply: Reply, request: Request) -> Reply:
    """The same reply with a call that does not parse; a reply to a request without tools stays as it is."""
    calls = list(reply.message.calls)
    if not calls and request.tools:
        calls = [ToolCall(f"call_{request.digest[:16]}_0", request.tools[0].name, "{}")]
    if not calls:
        return reply
    calls[0] = replace(calls[0], arguments=calls[0].arguments.rstrip().removesuffix("}") + ', "')
    return replace(reply, message=Message("assistant", reply.message.content, tuple(calls)))


def is_gone(http: web.Request) -> bool:
    return http.transport is None or http.transport.is_closing()


def cut(http: web.Request) -> None:
    if http.transport is not None:
        http.transport.abort()


async def hang(http: web.Request, stopping: asyncio.Event) -> None:
    """Wait until the client gives up or the server stops."""
    while not is_gone(http) and not stopping.is_set():
        try:
            await asyncio.wait_for(stopping.wait(), 0.02)
        except TimeoutError:
            continue


async def send(
    http: web.Request, response: web.StreamResponse, pieces: Sequence[bytes], kind: str | None, faults: Faults | None
) -> bool:
    """Send a body with the fault that it is to meet; returns whether all of it went out."""
    body = b"".join(pieces)
    if kind in ("broken-json", "cut-midway"):
        pieces = [body[: len(body) // 2]]
    elif kind == "trickle":
        size = max(1, len(body) // 10)
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
    if response.content_type == "application/json":
        response.content_length = len(body) if kind == "cut-midway" else sum(map(len, pieces))
    try:
        await response.prepare(http)
        for piece in pieces:
            await response.write(piece)
            if kind == "trickle" and faults is not None:
                await asyncio.sleep(faults.trickle_seconds / len(pieces))
        if kind == "cut-midway":
            cut(http)
            return False
        await response.write_eof()
    except ConnectionError:
        return False
    return not is_gone(http)
