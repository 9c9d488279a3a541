"""Everything that a step of the method needs, as one value: the suite, the models, the compressor, the template and
the run. `recompact.engine.assembly` builds it from a config.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any, Protocol

from recompact.agents.suite import AgentSuite
from recompact.compressors.protocol import Compressor, CompressorInputs, CompressorKind, CompressorSettings
from recompact.compressors.registry import load_compressor
from recompact.engine.config import CompressorConfig, Config
from recompact.engine.execution.scheduler import InProcess, Unit, run_units
from recompact.engine.rollout import Agent
from recompact.engine.store.plan import RecordedProgress
from recompact.engine.store.store import Store
from recompact.environments.protocol import AsyncAsk, Episodes, Opening, SuiteFailed, Task
from recompact.errors import InputError
from recompact.models.journal import UnitCalls
from recompact.models.limits import Spending
from recompact.models.protocol import ChatModel
from recompact.triggers.protocol import Schedule
from recompact.triggers.registry import LongObservation, load_trigger
from recompact.values.chat import Decoding, Reply, Request
from recompact.values.progress import SILENT, Notices, Progress
from recompact.values.template import Template
from recompact.values.tokens import TokenCounter


class AnyMethod(Protocol):
    """What a study needs to know of a method; `recompact.adaptation.method` has the rest."""

    @property
    def asks_optimizer(self) -> bool: ...


@dataclass(frozen=True)
class Study:
    """Everything that a step of the method needs."""

    config: Config
    episodes: Episodes
    models: Mapping[str, ChatModel]
    compressor_kind: CompressorKind
    template: Template
    store: Store
    spending: Spending
    count: TokenCounter
    executor: InProcess
    progress: Progress = SILENT
    method: AnyMethod | None = None  # the caller's own; otherwise the config names it
    notices: Notices = field(default_factory=Notices)  # where its models say that they are waiting

    @contextmanager
    def watched_by(self, progress: Progress) -> Iterator[Study]:
        """The study, reporting to this progress, its models included."""
        before, self.notices.listener = self.notices.listener, progress
        try:
            yield replace(self, progress=RecordedProgress(progress, self.store))
        finally:
            self.notices.listener = before

    async def tasks(self) -> tuple[Task, ...]:
        """The tasks that the config chooses and those that a method added, without those that are skipped."""
        metadata = self.store.metadata
        tasks = await self.chosen_tasks()
        if metadata.added:
            by_id = {task.id: task for task in await list_tasks(self.config, self.episodes)}
            tasks += tuple(by_id[id] for id in metadata.added if id in by_id)
        return tuple(task for task in tasks if task.id not in metadata.skipped)

    async def add_tasks(self, number: int) -> tuple[Task, ...]:
        """Take further tasks of the same split into the run, drawn by its seed, and return them."""
        metadata = self.store.metadata
        known = {task.id for task in await self.tasks()} | set(metadata.skipped)
        spare = [task for task in await list_tasks(self.config, self.episodes) if task.id not in known]
        more = Random(f"more tasks/{self.config.run.seed}/{len(known)}").sample(spare, min(number, len(spare)))
        added = (*metadata.added, *(task.id for task in more))
        self.store.set_metadata(replace(metadata, added=added))
        return tuple(more)

    async def chosen_tasks(self) -> tuple[Task, ...]:
        """The tasks that the config chooses."""
        chosen = self.config.suite
        tasks = await list_tasks(self.config, self.episodes)
        if not tasks:
            raise InputError(f"suite {chosen.use!r} has no tasks in split {chosen.split!r}: check [suite] split")
        if twice := [id for id, count in Counter(task.id for task in tasks).items() if count > 1]:
            raise InputError(
                f"suite {chosen.use!r}, split {chosen.split!r} has several tasks with the same id"
                f" ({', '.join(map(repr, twice[:5]))}{', …' if len(twice) > 5 else ''}): give each its own"
            )
        if chosen.tasks:
            by_id = {task.id: task for task in tasks}
            if missing := [id for id in chosen.tasks if id not in by_id]:
                near = difflib.get_close_matches(missing[0], by_id, 3, 0.5) or list(by_id)[:3]
                raise InputError(
                    f"suite {chosen.use!r}, split {chosen.split!r} has no task {missing[0]!r}; there are"
                    f" {', '.join(near)}{', …' if len(by_id) > len(near) else ''}"
                )
            tasks = tuple(by_id[id] for id in chosen.tasks)
        return tasks[: chosen.limit]

    async def complete(self, stage: str, kind: str, units: Iterable[Unit[Any]]) -> None:
        """Play and record the units that the run does not have yet."""
        finished = self.store.finished(kind)
        every = tuple(units)
        missing = [unit for unit in every if unit.name not in finished]
        self.progress.stage(stage, len(every), len(every) - len(missing))
        await run_units(missing, self.executor, self.config.run.concurrency, self.progress)

    def agent(self, calls: UnitCalls) -> Agent:
        return Agent(calls.bound(self.models[self.config.agent.model], "agent"), self._agent_decoding)

    @property
    def agent_slots(self) -> int | None:
        """How many prompts the agent's server keeps: as many as it takes calls at once if it is on this machine, and
        many (None) if it is elsewhere."""
        settings = self.config.models.get(self.config.agent.model)
        return settings.concurrency if settings and settings.loopback else None

    @property
    def _agent_decoding(self) -> Decoding:
        c = self.config.agent
        return Decoding(c.max_output_tokens, c.temperature, c.top_p, c.reasoning_effort, stop=c.stop)

    def _ask_aside(self, calls: UnitCalls) -> AsyncAsk:
        """How an agent that is a command gets its model for calls outside its main conversation."""
        model = self.models[self.config.agent.model]

        async def ask(role: str, request: Request) -> Reply:
            kind, _, thread = role.partition("/")
            return await calls.thread(thread).bound(model, kind).reply(replace(request, decoding=self._agent_decoding))

        return ask

    def compressor(self, calls: UnitCalls, task: Task, opening: Opening) -> Compressor | None:
        c = self.config.compressor
        inputs = CompressorInputs(
            model=calls.bound(self.models[self.config.compressor_model], "compressor"),
            template=self.template,
            count=self.count,
            task=task.text,
            tools=opening.tools,
            **{each.name: getattr(c, each.name) for each in fields(CompressorSettings)},
            decoding=Decoding(c.max_output_tokens, c.temperature, c.top_p, c.reasoning_effort),
        )
        return self.compressor_kind.build(inputs)

    @property
    def schedule(self) -> Schedule:
        """When to compact, and what the loop offers the agent for it."""
        c = self.config.compressor
        long = c.scope == "observation"
        trigger = LongObservation(self.count) if long else load_trigger(c.trigger, self.config.directory)
        return Schedule(trigger, c.soft, c.min_calls, c.min_gain, self.compressor_kind.recall)

    def compressing(self, settings: CompressorConfig) -> Study:
        """The study with another [compressor]."""
        own = self.config.compressor
        same = (settings.kind, settings.options) == (own.kind, own.options)
        kind = self.compressor_kind if same else load_compressor(settings.kind, settings.options, self.config.directory)
        return replace(self, config=replace(self.config, compressor=settings), compressor_kind=kind)

    def ask(self, calls: UnitCalls) -> AsyncAsk | None:
        """How an environment of this unit gets its models."""
        if self.config.agent.external or isinstance(self.episodes, AgentSuite):
            return self._ask_aside(calls)
        roles = self.config.suite.models
        if not roles:
            return None
        bound = {role: calls.bound(self.models[name], role) for role, name in roles.items()}

        async def ask(role: str, request: Request) -> Reply:
            if role not in bound:
                raise InputError(f"the environment asks for a model in the role {role!r}: set it in [suite.models]")
            return await bound[role].reply(request)

        return ask


Watch = Callable[[Study, str], AbstractContextManager[Study]]
"""How progress is shown: takes a study and what it does, and gives the study that reports meanwhile."""


async def list_tasks(config: Config, episodes: Episodes) -> tuple[Task, ...]:
    """All tasks of the config's split. An option that only a host could refuse is a mistake in the config."""
    try:
        return tuple(await episodes.tasks(config.suite.split))
    except SuiteFailed as failure:
        if failure.option is None:
            raise
        raise config.error(str(failure), "suite", "options", failure.option) from None
