"""Harbor: any of its agents with our gateway between it and its model, so that its trials are compacted by a template.

    harbor run -p TASKS --agent-import-path recompact.integrations.harbor:Agent --ak agent=codex --ak config=mine.toml

`Agent` is made when it is asked for, since Harbor may not be installed.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from recompact.agents.process import AgentDirectories
from recompact.agents.server import AgentCallbacks, Gateway
from recompact.agents.settings import MODEL, Places, server_variables
from recompact.agents.wrapping import WrappedAgent, transcript
from recompact.engine.assembly import open_study
from recompact.engine.collection import trajectory_unit
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.store.records import read_trajectory
from recompact.environments.protocol import Task
from recompact.values.chat import Usage
from recompact.values.template import BUILT_IN
from recompact.values.trajectory import Trajectory
from recompact.version import __version__

LOOPBACK = "127.0.0.1"
TRANSCRIPT = "recompact.jsonl"
_FRAME = ("logger", "mcp_servers", "skills_dir", "environment_logs_dir")  # what Harbor gives every agent


@dataclass(eq=False)
class _Run:
    """An agent of Harbor at work in its environment, which asks its model at our gateway."""

    work: asyncio.Task[None]
    gateway: Gateway
    ended: asyncio.Future[int]
    last_line: str = ""

    def excess(self) -> str:
        return ""  # its environment has limits of its own

    def kill(self) -> None:
        self.work.cancel()

    async def end(self) -> None:
        self.kill()
        await asyncio.gather(self.work, return_exceptions=True)
        await self.gateway.close()


@dataclass(frozen=True)
class _Launch:
    """Starts the work of an agent whose model is at a listener; its requests carry the key."""

    listener: socket.socket
    key: str
    work: Callable[[], Awaitable[None]]

    async def __call__(self, directories: AgentDirectories, task: str, callbacks: AgentCallbacks) -> _Run:
        host = self.listener.getsockname()[0]
        gateway = Gateway(callbacks, self.key, hosts=(host,))
        await gateway.listen(self.listener)
        run = _Run(asyncio.ensure_future(self._do()), gateway, asyncio.get_running_loop().create_future())
        run.work.add_done_callback(lambda work: _note_end(run, work))
        return run

    async def _do(self) -> None:
        await self.work()


def _note_end(run: _Run, work: asyncio.Task[None]) -> None:
    error = None if work.cancelled() else work.exception()
    run.last_line = f"{type(error).__name__}: {error}"[:300] if error else ""
    if not run.ended.done():
        run.ended.set_result(1 if error or work.cancelled() else 0)


def _config(file: str, budget: int | None, template: str | None) -> Config:
    """The config, with what is to be different in this job."""
    config = load_config(Path(file).expanduser())
    own = template if template is None or template in BUILT_IN else str(Path(template).expanduser().resolve())
    compressor = replace(
        config.compressor,
        budget=budget or config.compressor.budget,
        template=own or config.compressor.template,
    )
    return replace(config, compressor=compressor, agent=replace(config.agent, command=("harbor",), profile=None))


async def _play(config: Config, name: str, instruction: str, place: Path, launch: _Launch) -> Trajectory:
    """One trial as an episode, recorded in a run of its own beside the config, like a wrapped agent."""
    task = Task(name, instruction)
    settings = replace(config.agent.settings(place), in_place=place)
    async with open_study(config, name, suite=WrappedAgent(settings, task, launch)) as study:
        unit = trajectory_unit(study, f"wrap/{name}", task, phase="wrap", snapshots=False)
        await study.complete("wrap", "trajectory", [unit])
        return read_trajectory(study.store, unit.name)


def _agent_class() -> Any:
    base = import_module("harbor.agents.base").BaseAgent
    factory = import_module("harbor.agents.factory").AgentFactory
    configs = import_module("harbor.models.trial.config")

    class Agent(base):  # type: ignore[misc, valid-type]
        """An agent of Harbor, compacted. `agent` is its name or import path, and `config` our config, whose model
        answers. `address` is one of this machine that the environment reaches: 127.0.0.1 where they share a network,
        otherwise such as Docker's 172.17.0.1. Whatever else is given goes to the agent."""

        @staticmethod
        def name() -> str:
            return "recompact"

        def version(self) -> str:
            return __version__

        def __init__(
            self,
            logs_dir: Path,
            model_name: str | None = None,
            *,
            agent: str,
            config: str,
            budget: int | None = None,
            template: str | None = None,
            address: str = LOOPBACK,
            extra_env: dict[str, str] | None = None,
            **others: Any,
        ) -> None:
            frame = {name: others.pop(name) for name in _FRAME if name in others}
            super().__init__(logs_dir, model_name, extra_env=extra_env, **frame)
            self._config = _config(config, budget, template)
            self._listener, self._key = socket.create_server((address, 0)), secrets.token_urlsafe(24)
            places = Places(f"http://{address}:{self._listener.getsockname()[1]}", "", "", self._key)
            variables = {**(extra_env or {}), **server_variables(places)}
            inner = configs.AgentConfig(
                name=agent, model_name=model_name or f"openai/{MODEL}", kwargs=others, env=variables
            )
            self._inner = factory.create_agent_from_config(inner, logs_dir=logs_dir, **frame)
            self._trajectory: Trajectory | None = None

        async def setup(self, environment: Any) -> None:
            await self._inner.setup(environment)

        async def run(self, instruction: str, environment: Any, context: Any) -> None:
            name = f"harbor-{self.logs_dir.resolve().parent.name}"
            launch = _Launch(self._listener, self._key, lambda: self._inner.run(instruction, environment, context))
            trajectory = await _play(self._config, name, instruction, self.logs_dir, launch)
            self._trajectory = trajectory
            lines = (json.dumps(message, ensure_ascii=False) for message in transcript(trajectory))
            (self.logs_dir / TRANSCRIPT).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            _tell(context, trajectory, name)
            if trajectory.ending != "finished":
                raise RuntimeError(trajectory.error or f"the agent's episode ended: {trajectory.ending}")

        def populate_context_post_run(self, context: Any) -> None:
            """The agent's own counts are of what the gateway told it: ours replace them."""
            self._inner.populate_context_post_run(context)
            if self._trajectory is not None:
                _tell(context, self._trajectory, f"harbor-{self.logs_dir.resolve().parent.name}")

    Agent.__module__ = __name__
    return Agent


def _tell(context: Any, trajectory: Trajectory, name: str) -> None:
    """What a trial's result.json is to hold."""
    usage = trajectory.usage.get("agent", Usage())
    context.n_input_tokens, context.n_output_tokens = usage.input, usage.output
    context.n_cache_tokens = usage.cached
    compactions = [
        {"step": each.step, "before": each.pre.size, "after": each.post.size} for each in trajectory.boundaries
    ]
    summary = {"run": name, "steps": trajectory.steps, "compactions": compactions}
    context.metadata = {**(context.metadata or {}), "recompact": summary}


def __getattr__(name: str) -> Any:
    if name != "Agent":
        raise AttributeError(name)
    return _agent_class()
