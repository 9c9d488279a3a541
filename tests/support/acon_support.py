"""What the tests of ACON and of robustness share: a small run, and models that can be made to fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from recompact.adaptation.adapt import Adaptation, adapt
from recompact.engine.assembly import open_study
from recompact.engine.config_parser import parse_config
from recompact.engine.store.calls import journaled_calls
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request, Usage, assistant

T = TypeVar("T")
Models = Mapping[str, ChatModel]

# Two of them fail only with compaction, one fails anyway, one is done in spite of it, two are too short for it.
TASKS = [f"pocket-train-{n:03d}" for n in (1, 3, 9, 25, 46, 61)]
CONFIG = f"""
[suite]
tasks = {json.dumps(TASKS)}
[compressor]
budget = 2048
[adapt]
method = "pair"
candidates = 3
fit_tasks = 2
redraws = 2
"""


def study_run(
    path: Path,
    work: Callable[[Study], Awaitable[T]],
    method: str = "acon-ut",
    text: str = CONFIG,
    models: Callable[[Models], Models] = lambda models: models,
) -> T:
    """Do something with a study of that run, its models changed first."""

    async def run(store: Store) -> T:
        config = parse_config(text, Path("c.toml"))
        config = replace(config, adapt=replace(config.adapt, method=method))
        async with open_study(config, store) as study:
            return await work(replace(study, models=models(study.models)))

    with Store.open(path) as store:
        return asyncio.run(run(store))


def adapted(path: Path, method: str, models: Callable[[Models], Models] = lambda models: models) -> Adaptation:
    return study_run(path, adapt, method, models=models)


class Killed(BaseException):
    """The process was killed."""


class Killing:
    """Models that die, one kill after the other: each at so many calls of a role, or of prompts with some text."""

    def __init__(self, kills: Sequence[tuple[str, int]]) -> None:
        self.kills = list(kills)
        self.replies = 0
        self._seen = 0
        self._dead = ""

    def models(self, models: Models) -> Models:
        self._dead = ""  # a new process
        return {name: _Dying(self, model) for name, model in models.items()}

    def check(self, name: str, request: Request) -> None:
        if self._dead:
            raise Killed(self._dead)
        if not self.kills:
            return
        wanted, at = self.kills[0]
        if name == f"sim-{wanted}" or any(wanted in message.content for message in request.messages):
            self._seen += 1
            if self._seen == at:
                self._seen, self._dead = 0, wanted
                self.kills.pop(0)
                raise Killed(wanted)


class _Dying:
    def __init__(self, killing: Killing, model: ChatModel) -> None:
        self._killing, self._model, self.name = killing, model, model.name

    async def reply(self, request: Request) -> Reply:
        self._killing.check(self.name, request)
        reply = await self._model.reply(request)
        self._killing.replies += 1
        return reply


class Changed:
    """An optimizer whose answers pass through a function: (request, text) -> text, or a whole reply."""

    name = "sim-optimizer"

    def __init__(self, change: Callable[[Request, str], str | Reply]) -> None:
        self.change = change
        self.requests: list[Request] = []

    def models(self, models: Models) -> Models:
        self._model = models[self.name]
        return {**models, self.name: self}

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = await self._model.reply(request)
        made = self.change(request, reply.message.content)
        return Reply(assistant(made), reply.usage) if isinstance(made, str) else made


def edited(text: str, **changes: Any) -> str:
    """A JSON answer with some of its keys changed."""
    return json.dumps({**json.loads(text), **changes})


def refusal() -> Reply:
    return Reply(assistant("I cannot help with that."), Usage(10, 5, 0, 0, 1), "refusal")


def calls(path: Path) -> list[tuple[str, int]]:
    """All journaled calls of a run."""
    with Store.read(path) as store:
        return journaled_calls(store)
