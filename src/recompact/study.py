"""A config brought to life: the suite, the models behind their limits, the template, and the run they are written to.

This is the place where everything is put together; from here on, methods are plain functions of a `Study`.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from recompact.chat import Decoding, Reply, Request
from recompact.compressors.fifo import Fifo
from recompact.compressors.prompted import Prompted
from recompact.compressors.protocol import Compressor
from recompact.config import SIMULATED, Config, ModelConfig, config_hash, differences
from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.loading import load_suite
from recompact.environments.protocol import AsyncAsk, Episodes, Opening, Task
from recompact.errors import InputError
from recompact.models.journal import UnitCalls
from recompact.models.limits import Limited, Limits, Metered, Price, Retrying, RetryPolicy, Spending
from recompact.models.protocol import ChatModel
from recompact.rollout import Agent
from recompact.store.runs import note_config
from recompact.store.store import Store, StoreError
from recompact.template import Template, resolve
from recompact.tokens import TokenCounter, counter

if TYPE_CHECKING:
    from recompact.adaptation.optimizer import Optimizer
    from recompact.models.openai import OpenAIModel


@dataclass(frozen=True)
class Study:
    """Everything that a step of the method needs."""

    config: Config
    episodes: Episodes
    models: Mapping[str, ChatModel]
    template: Template
    store: Store
    spending: Spending
    count: TokenCounter

    async def tasks(self) -> tuple[Task, ...]:
        """The tasks that the config chooses, in the suite's order."""
        chosen = self.config.suite
        tasks = tuple(await self.episodes.tasks(chosen.split))
        if not tasks:
            raise InputError(f"suite {chosen.use!r} has no tasks in split {chosen.split!r}: check [suite] split")
        if chosen.tasks:
            by_id = {task.id: task for task in tasks}
            if missing := [id for id in chosen.tasks if id not in by_id]:
                raise InputError(f"suite {chosen.use!r}, split {chosen.split!r} has no task {missing[0]!r}")
            tasks = tuple(by_id[id] for id in chosen.tasks)
        return tasks[: chosen.limit]

    def calls(self, unit: str) -> UnitCalls:
        return UnitCalls(self.store, unit, self.config.run.seed)

    def agent(self, calls: UnitCalls) -> Agent:
        c = self.config.agent
        decoding = Decoding(c.max_output_tokens, c.temperature, c.top_p, c.reasoning_effort, stop=c.stop)
        return Agent(calls.bound(self.models[c.model], "agent"), decoding)

    def compressor(self, calls: UnitCalls, task: Task, opening: Opening) -> Compressor | None:
        c = self.config.compressor
        if c.kind == "none":
            return None
        if c.kind == "fifo":
            return Fifo()
        return Prompted(
            model=calls.bound(self.models[self.config.compressor_model], "compressor"),
            template=self.template,
            count=self.count,
            task=task.text,
            tools=opening.tools,
            scope=c.scope,
            rendering=c.rendering,
            decoding=Decoding(c.max_output_tokens, c.temperature, c.top_p, c.reasoning_effort),
        )

    def optimizer(self, calls: UnitCalls) -> Optimizer:
        from recompact.adaptation.optimizer import Optimizer

        c = self.config.optimizer
        decoding = Decoding(c.max_output_tokens, c.temperature, c.top_p, c.reasoning_effort)
        model = calls.bound(self.models[self.config.optimizer_model], "optimizer")
        return Optimizer(model, decoding, self.config.adapt.redraws)

    def ask(self, calls: UnitCalls) -> AsyncAsk | None:
        """How an environment of this unit gets its models."""
        roles = self.config.suite.models
        if not roles:
            return None
        bound = {role: calls.bound(self.models[name], role) for role, name in roles.items()}

        async def ask(role: str, request: Request) -> Reply:
            if role not in bound:
                raise InputError(f"the environment asks for a model in the role {role!r}: set it in [suite.models]")
            return await bound[role].reply(request)

        return ask


@asynccontextmanager
async def open_study(
    config: Config, directory: Path, store: Store, command: str, file: Path | None = None
) -> AsyncIterator[Study]:
    """Build a study for a run. `directory` is where the config lies: paths in it are relative to that.

    `file` is the config itself: the run notes where it is, so that later commands find it.
    """
    template = resolve(config.compressor.template, directory)
    episodes = episodes_of(config, directory)
    async with open_clients(config) as clients:
        _claim(store, config, template, command)
        if file is not None:
            note_config(store, file)
        spending = Spending(config.ceiling.tokens, config.ceiling.money)
        prices = {name: _price(config.models.get(name)) for name in clients}
        for (name, _), usage in store.spent().items():
            spending.add(usage, prices.get(name, Price()))
        models = {name: Metered(name, client, spending, prices[name]) for name, client in clients.items()}
        yield Study(config, episodes, models, template, store, spending, counter(config.run.counter))


@asynccontextmanager
async def open_clients(config: Config, *, attempts: int | None = None) -> AsyncIterator[dict[str, ChatModel]]:
    """The models that a config uses, each behind its limits and retries (`attempts` instead of the config's)."""
    async with AsyncExitStack() as stack:
        clients: dict[str, ChatModel] = {}
        for name in sorted(config.used_models):
            if name in SIMULATED:
                from recompact.embedded.simulation import simulated_models

                clients[name] = simulated_models()[name]
                continue
            settings = config.models[name]
            client = _openai(settings)
            stack.push_async_callback(client.aclose)
            limits = Limits(settings.concurrency, settings.requests_per_minute, settings.tokens_per_minute)
            clients[name] = Retrying(
                Limited(client, limits), RetryPolicy(attempts or settings.attempts, settings.retry_wait)
            )
        yield clients


def _openai(settings: ModelConfig) -> OpenAIModel:
    from recompact.models.endpoint import Endpoint
    from recompact.models.openai import OpenAIModel

    return OpenAIModel(
        Endpoint(
            model=settings.id,
            base_url=settings.base_url,
            api=settings.api,
            key_env=settings.key_env,
            calls=settings.calls,
            timeout=settings.timeout,
            send_seed=settings.send_seed,
            merge_roles=settings.merge_roles,
            max_tokens_field=settings.max_tokens_field,
            extra_body=settings.extra_body,
        )
    )


def episodes_of(config: Config, directory: Path) -> Episodes:
    """The suite that a config names, hosted or in process."""
    suite = config.suite
    if suite.host:
        python = suite.python or sys.executable
        return HostedSuite(suite.use, suite.options, directory, python, suite.timeout)
    return InProcessSuite(load_suite(suite.use, suite.options, directory))


def _price(settings: ModelConfig | None) -> Price:
    if settings is None:
        return Price()
    return Price(settings.price.input, settings.price.output, settings.price.cached)


def _claim(store: Store, config: Config, template: Template, command: str) -> None:
    """Write down what the run is, or check that it is the run that this config makes."""
    identity = {**config.identity(), "template": template.hash}
    metadata = store.metadata
    if not metadata.identity:
        from recompact.version import __version__

        store.set_metadata(
            replace(
                metadata,
                identity=identity,
                config_hash=config_hash(config),
                command=command,
                suite=config.suite.use,
                version=__version__,
            )
        )
        return
    if changed := differences(metadata.identity, identity):
        raise StoreError(
            f"{store.path} was begun with another config ({'; '.join(changed[:3])}):"
            " give the new one its own --run NAME, or undo the change"
        )
