"""A vault whose code stands on an early page: a compressor that was told to keep codes keeps it, any other drops it.

Without the code the agent guesses (the task fails) or, in the long vault, reads all pages again (steps are added).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from recompact.compressors.registry import load_compressor
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
from recompact.values.outcome import BoundaryId
from recompact.values.progress import SILENT, Progress
from recompact.values.template import Template, default_template
from recompact.values.tokens import counter
from recompact.values.trajectory import Action

HERE = Path(__file__)
PAGES = 7
CODE = "k7-4921"
KEEP = "Keep codes."
CONFIG = """
[suite]
use = "replay_support.py:vault"
[models.agent]
id = "agent"
base_url = "http://127.0.0.1:9/v1"
[models.noter]
id = "noter"
base_url = "http://127.0.0.1:9/v1"
[agent]
model = "agent"
[compressor]
model = "noter"
budget = 500
[run]
step_limit = 30
concurrency = 4
"""


def look(page: int) -> str:
    """Read one page."""
    told = f' The code is "{CODE}".' if page == 2 else ""
    return f"page {page} of {PAGES}:{told} " + " ".join(f"word{page}x{n}" for n in range(40))


def vault_suite(word: str) -> FunctionSuite:
    tasks: Any = {f"vault-{n}": (f"Find the code of vault {n} and {word} it.", CODE) for n in range(2)}
    return function_suite("vault", [look], tasks)


vault = vault_suite("say")
long_vault = vault_suite("prove")


class BrittleEnvironment(FunctionEnvironment):
    """Has no snapshot, and no page says the same twice."""

    looks = 0

    def step(self, action: Action) -> Observation:
        seen = super().step(action)
        BrittleEnvironment.looks += 1
        return Observation(f"{seen.text} {BrittleEnvironment.looks}", seen.done)

    def snapshot(self) -> bytes:
        raise NotImplementedError


class FaintingEnvironment(FunctionEnvironment):
    """Raises at the last page, as long as it is told to."""

    faint = False

    def step(self, action: Action) -> Observation:
        if FaintingEnvironment.faint and action.arguments.get("page") == PAGES:
            raise RuntimeError("the lamp went out")
        return super().step(action)


class VaultSuite:
    """The vault in an environment that gives trouble."""

    name = "vault"

    def __init__(self, kind: type[FunctionEnvironment]) -> None:
        self._kind = kind

    def splits(self) -> tuple[str, ...]:
        return ("train",)

    def tasks(self, split: str) -> tuple[Task, ...]:
        return tuple(vault.tasks(split))

    def environment(self, task: Task) -> Environment:
        return self._kind(vault, task)


def _nothing(request: Request) -> None: ...


class Opener:
    """Reads page after page. At the end it says the code that it sees, or guesses; to prove it, it reads them again."""

    name = "agent"

    def __init__(self, on_request: Callable[[Request], None] = _nothing) -> None:
        self._on_request = on_request

    async def reply(self, request: Request) -> Reply:
        self._on_request(request)
        text = "\n".join(m.content for m in request.messages)
        pages = [int(n) for n in re.findall(rf"page (\d+) of {PAGES}", text)]
        if pages and pages[-1] == PAGES:
            if CODE in text or "prove" not in text:
                return _call("finish", {"answer": CODE if CODE in text else "no idea"})
            return _call("look", {"page": 1})
        return _call("look", {"page": (pages[-1] if pages else 0) + 1})


def _call(name: str, arguments: dict[str, Any]) -> Reply:
    call = ToolCall(f"call-{name}", name, json.dumps(arguments))
    return Reply(Message("assistant", "", (call,)), Usage(100, 10, 0, 0, 1), model="agent-1")


class Keeper:
    """Notes the last page; the code only if it was told to."""

    name = "noter"

    def __init__(self, on_request: Callable[[Request], None] = _nothing) -> None:
        self._on_request = on_request

    async def reply(self, request: Request) -> Reply:
        self._on_request(request)
        text = "\n".join(m.content for m in request.messages)
        last = max(map(int, re.findall(rf"page (\d+) of {PAGES}", text)), default=0)
        note = f"Read up to page {last} of {PAGES}."
        if KEEP in text and CODE in text:
            note += f" The code is {CODE}."
        return Reply(assistant(note), Usage(100, 20, 0, 0, 1), model="noter-1")


class Mute:
    name = "noter"

    async def reply(self, request: Request) -> Reply:
        return Reply(assistant(""), Usage(100, 0, 0, 0, 1), model="noter-1")


class Forbidden:
    """Nobody may ask."""

    name = "agent"

    async def reply(self, request: Request) -> Reply:
        raise AssertionError("a model was asked")


OWN = default_template()


def told(sentence: str) -> Template:
    """The default template with one sentence more."""
    return replace(OWN, system=f"{OWN.system}\n{sentence}")


def study_of(
    store: Store,
    suite: Suite = vault,
    *,
    models: dict[str, ChatModel] | None = None,
    more: str = "",
    concurrency: int = 4,
    progress: Progress = SILENT,
) -> Study:
    """A study with models of this process."""
    text = CONFIG.replace("concurrency = 4", f"concurrency = {concurrency}")
    config = parse_config(text.replace("budget = 500", f"budget = 500\n{more}"), HERE)
    if not store.metadata.identity:
        store.set_metadata(replace(store.metadata, identity=config.identity(), command="collect"))
    chosen: dict[str, ChatModel] = {"agent": Opener(), "noter": Keeper(), **(models or {})}
    return Study(
        config=config,
        episodes=InProcessSuite(suite),
        models=chosen,
        compressor_kind=load_compressor(config.compressor.kind, {}, HERE.parent),
        template=OWN,
        store=store,
        spending=Spending(),
        count=counter(config.run.counter),
        executor=InProcess(store, config.run.seed),
        progress=progress,
    )


FIRST = BoundaryId("collect/vault-0", 1)
