"""What tests of verification need: books to read, an agent that now and then reads a page twice, and a compressor that
notes the truth, or too much, or raises doubts; each of its choices follows from the request's seed."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from recompact.compressors.registry import load_compressor
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.execution.scheduler import InProcess
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.environments.functions import FunctionEnvironment, FunctionSuite, function_suite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.protocol import Environment, Observation, Suite, Task
from recompact.models.limits import Spending
from recompact.models.protocol import ChatModel
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage, assistant
from recompact.values.template import resolve
from recompact.values.tokens import counter
from recompact.values.trajectory import Action

HERE = Path(__file__)
PAGES = 8
PAGE = re.compile(rf"page (\d+) of {PAGES}")


def look(page: int, state: dict[str, list[int]]) -> str:
    """Read one page."""
    state["seen"].append(page)
    return f"page {page} of {PAGES}: " + " ".join(f"word{page}x{n}" for n in range(40))


def read_all(answer: str, state: dict[str, list[int]]) -> bool:
    return answer == "read" and state["seen"] == list(range(1, PAGES + 1))


def books(count: int) -> FunctionSuite:
    tasks = {f"book-{n:03d}": (f"Read all pages of book {n} [bold]now[/bold].", read_all) for n in range(count)}
    return function_suite("books", [look], tasks, state={"seen": []})


books_3 = books(3)
books_6 = books(6)
books_10 = books(10)


class DriftingEnvironment(FunctionEnvironment):
    """Has no snapshots, so that it is replayed; in book 1 no page says the same twice."""

    def __init__(self, suite: FunctionSuite, task: Task) -> None:
        super().__init__(suite, task)
        self._drifts = task.id == "book-001"

    def step(self, action: Action) -> Observation:
        seen = super().step(action)
        drift = f" (look {secrets.token_hex(4)})" if self._drifts and action.name == "look" else ""
        return Observation(seen.text + drift, seen.done)

    def snapshot(self) -> bytes:
        raise NotImplementedError


class DriftingSuite:
    """Books of which one cannot be replayed."""

    name = "drifting"

    def __init__(self, count: int = 4) -> None:
        self._books = books(count)

    def splits(self) -> tuple[str, ...]:
        return ("train",)

    def tasks(self, split: str) -> tuple[Task, ...]:
        return tuple(self._books.tasks(split))

    def environment(self, task: Task) -> Environment:
        return DriftingEnvironment(self._books, task)


drifting_4 = DriftingSuite()


def _noted(request: Request) -> None: ...


class ShakyReader:
    """Reads the next page after the last one it sees; one time in eight, or in two if it is in doubt, one twice."""

    name = "reader"

    def __init__(self, on_request: Callable[[Request], None] = _noted) -> None:
        self._on_request = on_request

    async def reply(self, request: Request) -> Reply:
        self._on_request(request)
        text = "\n".join(m.content for m in request.messages)
        page = max(map(int, PAGE.findall(text)), default=0) + 1
        chance = Random(request.decoding.seed).random()
        if 1 < page <= PAGES and chance < (0.5 if "in doubt" in text else 0.12):
            page -= 1
        name, arguments = ("look", {"page": page}) if page <= PAGES else ("finish", {"answer": "read"})
        call = ToolCall(f"call_{len(request.messages)}", name, json.dumps(arguments))
        return Reply(Message("assistant", "", (call,)), Usage(len(text) // 4, 10, 0, 0, 1), model="reader-1")


class FickleNoter:
    """Notes the last page, or that all are read, or that it is in doubt."""

    name = "noter"

    def __init__(self, on_request: Callable[[Request], None] = _noted) -> None:
        self._on_request = on_request

    async def reply(self, request: Request) -> Reply:
        self._on_request(request)
        last = max(map(int, PAGE.findall("".join(m.content for m in request.messages))), default=0)
        chance = Random(request.decoding.seed).random()
        said = PAGES if chance < 0.2 else last
        doubt = "\nI am in doubt about it." if chance > 0.7 else ""
        text = f"## Progress\nThe last page read was page {said} of {PAGES}.{doubt}"
        return Reply(assistant(text), Usage(100, 20, 0, 0, 1), model="noter-1")


class Forbidden:
    """Nobody may ask."""

    name = "reader"

    async def reply(self, request: Request) -> Reply:
        raise AssertionError("a model was asked")


def config_text(suite: str, base_url: str, *, concurrency: int = 4, more: str = "") -> str:
    from commands import reading_config  # late: commands load this file as a suite, where tests have no modules

    model = "retry_wait = 0.01\nattempts = 20\n"
    return reading_config(f"{HERE}:{suite}", base_url, concurrency=concurrency, model=model, more=more)


def config_of(concurrency: int = 4, more: str = "") -> Config:
    return parse_config(config_text("books_6", "http://127.0.0.1:9/v1", concurrency=concurrency, more=more), HERE)


def study_of(
    store: Store, suite: Suite, *, concurrency: int = 4, models: dict[str, Any] | None = None, more: str = ""
) -> Study:
    """A study with models of this process."""
    config = config_of(concurrency, more)
    if not store.metadata.identity:
        store.set_metadata(replace(store.metadata, identity=config.identity()))
    chosen: dict[str, ChatModel] = {"reader": ShakyReader(), "noter": FickleNoter(), **(models or {})}
    return Study(
        config=config,
        episodes=InProcessSuite(suite),
        models=chosen,
        compressor_kind=load_compressor(config.compressor.kind, {}, HERE.parent),
        template=resolve("default", HERE.parent),
        store=store,
        spending=Spending(),
        count=counter(config.run.counter),
        executor=InProcess(store, config.run.seed),
    )
