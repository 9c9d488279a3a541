"""`recompact.gateway`: a model for your own loop in this process, whose history is kept under a budget.

Each conversation of the loop is an episode like that of any other agent, played by the same rollout: compaction,
journal and records are those of every run. All of it happens in a thread of its own, so that a plain `while` loop and
an asynchronous one are served alike.
"""

from __future__ import annotations

import asyncio
import atexit
import math
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from recompact.agents.client import InProcessClient
from recompact.agents.conversation import Conversation, beginning_name
from recompact.agents.episode import AgentEpisode
from recompact.agents.settings import AgentSettings
from recompact.agents.wrapping import WorkInPlace
from recompact.compressors.protocol import SCOPES, Compaction, CompactionFailed, Compressor, Scope
from recompact.engine.assembly import open_study
from recompact.engine.config import AgentConfig, CompressorConfig, Config, ModelConfig, RunConfig, SuiteConfig
from recompact.engine.forecast import add_usage
from recompact.engine.rollout import Agent, run_episode, with_differences
from recompact.engine.store.records import write_trajectory
from recompact.environments.own_directory import own_directory
from recompact.environments.protocol import AsyncAsk, NoHooks, Opening, Task
from recompact.errors import InputError, RecompactError
from recompact.models.endpoint import Endpoint
from recompact.models.failures import ContextOverflow, ModelFailure, Refused
from recompact.models.journal import UnitCalls
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request, Usage
from recompact.values.context import Context
from recompact.values.events import tell
from recompact.values.receipt import Receipt, receipt
from recompact.values.template import Template, resolve
from recompact.values.trajectory import Trajectory

NAME = "loop"
RECORDED = "collect"
"""The phase of a loop's trajectories: that of all trajectories that are not made to be compared."""


def gateway(
    model: ChatModel | Endpoint | str,
    *,
    budget: int = 8192,
    template: Template | Path | str = "default",
    compressor: ChatModel | Endpoint | str | None = None,
    scope: Scope = "history",
    kind: str = "prompted",
    options: Mapping[str, Any] | None = None,
    trigger: str = "budget",
    counter: Literal["o200k", "cl100k", "characters"] = "o200k",
    run: Path | str | None = None,
    step_limit: int = 1000,
    on_receipt: Callable[[Receipt], object] | None = None,
) -> GatewayClient:
    """An OpenAI-compatible client for a loop in this process, whose histories stay under a budget.

    `model` is a `ChatModel`, an `Endpoint`, or the id of a model at OPENAI_BASE_URL (or OpenAI itself) with the key in
    OPENAI_API_KEY; `compressor` is the model that writes summaries, by default the same. `template` is a `Template`, a
    directory, or "default". `kind`, `options` and `trigger` are those of [compressor]. With a `run`, a file, everything
    is recorded there, and a loop that is started again gets the same answers as before, at no cost. `step_limit` is for
    one conversation. `on_receipt` is called with the receipt of each compaction, as that of a `Compactor`.
    """
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1:
        raise InputError(f"budget {budget!r} is not a number of tokens: give a whole number from 1 on")
    if scope not in SCOPES:
        raise InputError(f"scope {scope!r} is not for a gateway: use one of {', '.join(SCOPES)}")
    models = {"agent": model, "compressor": model if compressor is None else compressor}
    config = Config(
        suite=SuiteConfig(use=NAME),
        models={name: _settings_of(each) for name, each in models.items()},
        agent=AgentConfig(model="agent"),
        compressor=CompressorConfig(
            model="compressor", budget=budget, scope=scope, kind=kind, options=dict(options or {}), trigger=trigger
        ),
        run=RunConfig(step_limit=step_limit, counter=counter),
    )
    ready = {name: each for name, each in models.items() if not isinstance(each, Endpoint | str)}
    named = template if isinstance(template, Template) else resolve(str(template), Path.cwd())
    return GatewayClient(config, ready, named, None if run is None else Path(run), on_receipt)


def _settings_of(model: ChatModel | Endpoint | str) -> ModelConfig:
    if isinstance(model, ModelConfig):
        return model
    if isinstance(model, Endpoint):
        return ModelConfig(**{each.name: getattr(model, each.name) for each in fields(Endpoint)})
    return ModelConfig(id=model if isinstance(model, str) else model.name)


@dataclass(frozen=True)
class LoopCompaction:
    """One compaction of a loop's history: of which conversation, and its context before and after."""

    conversation: str
    pre: Context
    post: Context
    usage: Usage = Usage()  # of the compressor
    repaired: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return self.post.summary.text if self.post.summary else ""

    @property
    def receipt(self) -> Receipt:
        """What it dropped, kept, pinned and lost, and its cost."""
        return receipt(self.pre, self.post, self.usage, self.repaired)

    def __str__(self) -> str:
        return f"{self.conversation}: {self.pre.size:,} tokens of history became {self.post.size:,}"


def _scratch() -> tempfile.TemporaryDirectory[str]:
    """Where a run is that nobody asked for. If this process is killed, the next one removes it."""
    return tempfile.TemporaryDirectory(dir=own_directory())


class GatewayClient(InProcessClient):
    """The client of a loop. It is closed by `close` or at the end of a `with` block; what it recorded stays.

    Behind it, a thread sorts requests into conversations and plays each of them, in an event loop of its own.
    """

    def __init__(
        self,
        config: Config,
        models: Mapping[str, ChatModel],
        template: Template,
        run: Path | None,
        on_receipt: Callable[[Receipt], object] | None = None,
    ) -> None:
        super().__init__(self._ask)
        self._config, self._models, self._template, self._run = config, models, template, run
        self._on_receipt = on_receipt
        self._compactions: list[LoopCompaction] = []
        self._spent: dict[str, dict[str, Usage]] = {}  # by conversation and role
        self._trajectories: dict[str, Trajectory] = {}
        self._conversations: list[Conversation] = []
        self._ready: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="recompact", daemon=True)
        self._thread.start()
        self._ready.result()
        atexit.register(self.close)  # in case nobody closes it

    @property
    def compactions(self) -> tuple[LoopCompaction, ...]:
        """The compactions so far."""
        return tuple(self._compactions)

    @property
    def usage(self) -> Mapping[str, Usage]:
        """What has been used so far, by role; what came from the record was used earlier, and counts too."""
        return add_usage([dict(spent) for spent in list(self._spent.values())])

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """The conversations that have ended: all of them once the client is closed."""
        return tuple(self._trajectories.values())

    def close(self) -> None:
        """End every conversation and record it."""
        loop, self._loop = self._loop, None
        if loop is not None:
            atexit.unregister(self.close)
            loop.call_soon_threadsafe(self._closing.set)
            self._thread.join()

    def __enter__(self) -> GatewayClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    async def __aenter__(self) -> GatewayClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await asyncio.to_thread(self.close)

    # -- in the thread

    def _ask(self, request: Request, headers: Mapping[str, str]) -> Future[Reply]:
        if self._loop is None:
            raise InputError("this client of recompact.gateway is closed: make another one")
        return asyncio.run_coroutine_threadsafe(self._reply(request), self._loop)

    async def _serve(self) -> None:
        self._closing = asyncio.Event()
        try:
            with ExitStack() as stack:
                scratch = self._run or Path(stack.enter_context(_scratch()), "loop.db")
                suite = _Loops()
                async with open_study(
                    self._config, scratch, models=self._models, suite=suite, template=self._template
                ) as study:
                    self._study = study
                    self._loop = asyncio.get_running_loop()
                    self._ready.set_result(None)
                    await self._closing.wait()
                    await asyncio.gather(*(conversation.end() for conversation in self._conversations))
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)

    async def _reply(self, request: Request) -> Reply:
        conversation = next((each for each in reversed(self._conversations) if each.goes_on_with(request)), None)
        if conversation is None:
            names = [each.name for each in self._conversations]
            conversation = Conversation(beginning_name(NAME, request.messages, names), self._play)
            self._conversations.append(conversation)
        return await conversation.ask(request)

    async def _play(self, conversation: Conversation) -> None:
        """One conversation as a trajectory, recorded when it ends."""
        name, study = conversation.name, self._study
        # What it used and compacted is counted anew when it is played again: the journal has all of it.
        self._spent[name] = {}
        self._compactions = [each for each in self._compactions if each.conversation != name]
        task, unit = Task(name, _task_text(conversation.requests[0])), f"{RECORDED}/{name}"
        if unit in study.store.finished("trajectory"):
            study.store.reopen(unit)
        calls = UnitCalls(study.store, unit, study.config.run.seed)
        started = time.perf_counter()
        own = frozenset(tool.name for tool in study.schedule.tools)
        spend = partial(self._spend, name)
        model = _AsAsked(conversation, calls.bound(study.models["agent"], "agent"), partial(spend, "agent"), own)

        def compressor(opening: Opening) -> Compressor | None:
            if (inner := study.compressor(calls, task, opening)) is None:
                return None
            return _Noted(inner, partial(self._note, name), partial(spend, "compressor"))

        trajectory = await run_episode(
            task,
            AgentEpisode(_SETTINGS, task, WorkInPlace(), None, conversation.launch, single=True),
            Agent(model),
            count=study.count,
            step_limit=study.config.run.step_limit,
            compressor=compressor,
            budget=study.config.compressor.budget,
            schedule=study.schedule,
            snapshots=False,
            observation_tokens=study.config.run.observation_tokens,
        )
        trajectory = with_differences(trajectory, calls)
        write_trajectory(
            study.store, unit, trajectory, phase=RECORDED, run=0, groups={}, seconds=time.perf_counter() - started
        )
        self._trajectories[name] = trajectory
        if not conversation.ended:
            failure = _failure_of(trajectory)
            if trajectory.ending == "step limit":
                conversation.over = failure
            raise failure

    def _note(self, conversation: str, pre: Context, made: Compaction) -> None:
        compaction = LoopCompaction(conversation, pre, made.context, made.usage, made.repaired)
        self._compactions.append(compaction)
        if self._on_receipt is not None:
            tell(self._on_receipt, compaction.receipt)

    def _spend(self, conversation: str, role: str, usage: Usage) -> None:
        spent = self._spent.setdefault(conversation, {})
        spent[role] = spent.get(role, Usage()) + usage


_SETTINGS = AgentSettings((NAME,), timeout=math.inf, in_place=Path())


def _task_text(request: Request) -> str:
    """What the user said before the first answer: the task, as a compressor is told it."""
    texts = []
    for message in request.messages:
        if message.role == "assistant":
            break
        if message.role == "user":
            texts.append(message.content)
    return "\n\n".join(texts)


def _failure_of(trajectory: Trajectory) -> RecompactError:
    """Why a conversation cannot continue although nobody ended it."""
    if trajectory.ending == "context overflow":
        return ContextOverflow(trajectory.error)
    if trajectory.ending == "refused":
        return Refused(trajectory.error)
    if trajectory.ending == "step limit":
        return ModelFailure(f"the conversation has had its {trajectory.steps:,} steps (step_limit)")
    return ModelFailure(trajectory.error or f"the conversation is over: {trajectory.ending}")


@dataclass(frozen=True)
class _Loops(NoHooks):
    """Loops as a suite: their tasks become known when they ask."""

    name: str = NAME

    async def tasks(self, split: str) -> Sequence[Task]:
        return []

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> AgentEpisode:
        raise InputError("a loop of one's own in this process cannot be played again: see recompact.agent_suite")


@dataclass(frozen=True)
class _AsAsked:
    """The model with the decoding that the loop asks for. What it replied is kept until it is delivered."""

    conversation: Conversation
    model: ChatModel
    spend: Callable[[Usage], None]
    own: frozenset[str] = frozenset()  # tools that the rollout itself offers

    @property
    def name(self) -> str:
        return self.model.name

    async def reply(self, request: Request) -> Reply:
        self.conversation.check_tries()
        reply = await self.model.reply(replace(request, decoding=self.conversation.decoding))
        self.spend(reply.usage)
        if reply.message.calls and all(call.name in self.own for call in reply.message.calls):
            self.conversation.forgive_try()  # the rollout itself answers it
        self.conversation.reply = reply
        return reply


@dataclass(frozen=True)
class _Noted:
    """A compressor whose compactions are noted."""

    compressor: Compressor
    note: Callable[[Context, Compaction], None]
    spend: Callable[[Usage], None]

    async def compress(self, context: Context, budget: int) -> Compaction:
        try:
            compaction = await self.compressor.compress(context, budget)
        except CompactionFailed as failure:  # what was paid for is counted all the same
            self.spend(failure.usage)
            raise
        self.note(context, compaction)
        self.spend(compaction.usage)
        return compaction
