"""Between GEPA's package, which is synchronous and optional, and a run, which belongs to one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from recompact.errors import InputError
from recompact.version import install_command

T = TypeVar("T")


@dataclass(frozen=True)
class Package:
    """The parts of the package that are used."""

    optimize: Callable[..., Any]
    EvaluationBatch: Callable[..., Any]
    render: Callable[[str, Sequence[Mapping[str, str]]], str]  # a reflection prompt
    extract: Callable[[str], str]  # the new text of an answer


@cache
def load_gepa() -> Package:
    """The package, or an error that says where to get it."""
    try:
        from gepa.api import optimize
        from gepa.core.adapter import EvaluationBatch
        from gepa.strategies.instruction_proposal import InstructionProposalSignature as Signature
    except ImportError:
        raise InputError(f"method 'gepa' needs the package gepa: {install_command('gepa')}") from None

    def render(current: str, examples: Sequence[Mapping[str, str]]) -> str:
        return str(Signature.prompt_renderer({"current_instruction_doc": current, "dataset_with_feedback": examples}))

    def extract(answer: str) -> str:
        return Signature.output_extractor(answer.strip())["new_instruction"]

    return Package(optimize, EvaluationBatch, render, extract)


class Stopped(Exception):
    """Something failed earlier, so nothing more is started."""


@dataclass
class Bridge:
    """Runs a synchronous function in a thread, from which coroutines are awaited on the loop.

    GEPA carries on after most errors. The first one is kept here, nothing more is started after it, and it is raised
    once the function has returned.
    """

    _failure: BaseException | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _pending: list[Future[Any]] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        return self._failure is not None

    async def run(self, function: Callable[[], T]) -> T:
        """The value of the function, or the first failure of what it called."""
        self._loop = asyncio.get_running_loop()
        try:
            value = await asyncio.to_thread(function)
        except asyncio.CancelledError as cancelled:
            self._failure = self._failure or cancelled
            for future in self._pending:
                future.cancel()  # the thread waits for it
            raise
        except BaseException as error:
            raise self._failure or error from None
        if self._failure is not None:
            raise self._failure
        return value

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """From the thread: run this on the loop and wait for it."""
        assert self._loop is not None
        if self._failure is not None:
            raise Stopped

        async def awaited() -> T:
            return await work()

        future = asyncio.run_coroutine_threadsafe(awaited(), self._loop)
        self._pending[:] = [future]
        try:
            return future.result()
        except BaseException as error:
            self._failure = self._failure or error
            raise Stopped from error
