"""`recompact wrap`: run any agent once behind the gateway, under a budget and with a template of your own."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import click

from recompact.agents.settings import PROGRAMS, find_program, known_agent
from recompact.agents.wrapping import SILENCE, Hearing, WrappedAgent, transcript, transcript_of_calls
from recompact.cli.console import print_json, say
from recompact.cli.options import POSITIVE, Json, as_command
from recompact.cli.stopping import end_stopped
from recompact.engine.assembly import open_study
from recompact.engine.collection import trajectory_unit
from recompact.engine.config import AgentConfig, Config
from recompact.engine.config_parser import load_config
from recompact.engine.store.calls import call_rows, compressor_usage, kept_request
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import run_path
from recompact.engine.store.store import Store
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.models.failures import CeilingReached
from recompact.values.masking import safe_line
from recompact.values.receipt import Receipt, receipt
from recompact.values.template import BUILT_IN
from recompact.values.texts import quantity
from recompact.values.trajectory import Trajectory


@as_command(
    "wrap",
    example="wrap --budget 8192 mine.toml -- codex exec 'Fix the tests'",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def command(
    config: Path,
    agent: Annotated[tuple[str, ...], {"required": True}],
    *,
    budget: Annotated[int | None, POSITIVE, "Tokens of history before a compaction."],
    template: Annotated[str | None, "A template directory, such as an adapted one, or a built-in template."],
    out: Annotated[Path | None, "File for the transcript (default: NAME.jsonl)."],
    as_json: Json,
) -> None:
    """Run an agent here, with your rights and with the model and the compaction of CONFIG.

    Write the agent's command after --, as in: recompact wrap --budget 8192 mine.toml -- codex exec "Fix the tests".
    Recompact points claude, codex, gemini, goose, mini, opencode and pi at its gateway by their profiles. Any other
    must ask its model at OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL; {url} in its arguments is the
    gateway's address. Exit code 2: no request reached the gateway. Shows the agent's output as it comes; with
    --json, on standard error.
    """
    agent = agent[1:] if agent[0] == "--" else agent
    if not agent:
        raise click.UsageError("write the agent's command after --.")
    name = f"wrap-{datetime.now():%Y%m%d-%H%M%S-%f}"
    target = out or Path(f"{name}.jsonl")
    _try_to_write(target)
    loaded = load_config(config)
    compressor = replace(
        loaded.compressor,
        budget=budget or loaded.compressor.budget,
        template=_template(template) if template else loaded.compressor.template,
    )
    dummies = {
        model.key_env: "{key}" for model in loaded.models.values()
    }  # the gateway has the keys, the agent has none
    known = known_agent(agent)
    settings = replace(loaded.agent, command=agent, profile=known, variables={**dummies, **loaded.agent.variables})
    if known:
        say(f"recompact: {agent[0]} talks to the gateway, as its profile {known} sets it up.", err=True)
    if (missing := find_program(agent[0]))[0] is None and not agent[0].startswith("{"):
        raise InputError(missing[1])
    try:
        trajectory, receipts = asyncio.run(_run(replace(loaded, compressor=compressor, agent=settings), name, as_json))
    except KeyboardInterrupt:
        end_stopped(_keep(run_path(name, config.parent / loaded.run.directory), f"wrap/{name}", target))
    except CeilingReached as reached:
        say(_keep(run_path(name, config.parent / loaded.run.directory), f"wrap/{name}", target), err=True)
        say(f"recompact: it stopped at its ceiling: {reached}", err=True)
        raise SystemExit(3) from None
    if not trajectory.steps:
        raise InputError(f"{trajectory.error or trajectory.ending}. No transcript was written")
    _write(target, transcript(trajectory, receipts))
    if as_json:
        print_json(_describe_trajectory(trajectory, receipts, target, name))
    else:
        _print(trajectory, receipts, target)
    if trajectory.ending != "finished":
        raise SystemExit(1)


def _try_to_write(target: Path) -> None:
    """Before anything is asked and paid for."""
    try:
        target.open("x").close()
        target.unlink()
    except FileExistsError:
        raise InputError(f"{target} already exists: name another file with --out") from None
    except OSError as error:
        raise InputError(f"{target} cannot be written ({error.strerror}): name another file with --out") from None


def _write(target: Path, messages: Iterable[dict[str, Any]]) -> None:
    with target.open("x", encoding="utf-8") as file:
        for message in messages:
            file.write(json.dumps(message, ensure_ascii=False) + "\n")


def _keep(path: Path, unit: str, target: Path) -> str:
    """Write the transcript of a stopped agent from its journal, and return where it is."""
    if not path.exists():
        return "\nrecompact: stopped. The agent had no answer yet, so there is no transcript."
    with Store.read(path) as store:
        replies, calls = store.journaled(unit), []
        for row in call_rows(store, unit):
            request = kept_request(store, unit, row.ordinal) if row.role == "agent" else None
            if request is not None:
                messages = tuple(request.message(store, number) for number in range(len(request.messages)))
                calls.append((messages, replies[row.ordinal][1].message))
    _write(target, transcript_of_calls(calls))
    return f"\nrecompact: stopped. Transcript so far: {target}"


def _template(name: str) -> str:
    """A built-in template by its name, a directory by its path: it was named here, not in the config."""
    return name if name in BUILT_IN else str(Path(name).resolve())


async def _run(config: Config, name: str, as_json: bool) -> tuple[Trajectory, list[Receipt]]:
    here, agent = Path.cwd(), config.agent
    task = Task(name, shlex.join(agent.command))
    shown_on = 2 if as_json else 1  # nothing stands beside the JSON
    settings = replace(agent.settings(here), in_place=here, shown_on=shown_on)  # the command was typed here
    hearing = Hearing(settings, lambda url: say(f"recompact: {_silence(agent, url)}", err=True))
    async with open_study(config, name, suite=WrappedAgent(settings, task, hearing)) as study:
        unit = trajectory_unit(study, f"wrap/{name}", task, phase="wrap", snapshots=False)
        await study.complete("wrap", "trajectory", [unit])
        trajectory = read_trajectory(study.store, unit.name)
        receipts = [
            receipt(each.pre, each.post, compressor_usage(study.store, unit.name, each.step))
            for each in trajectory.boundaries
        ]
    if not hearing.requests:
        reason = trajectory.error.removeprefix(f"task {name}: the agent: ")
        raise InputError(f"no request of {agent.command[0]} came to the gateway: {reason}. {_way_in(agent)}")
    return trajectory, receipts


def _silence(agent: AgentConfig, url: str) -> str:
    return (
        f"{SILENCE:g} s have passed, and no request of {agent.command[0]} has come to the gateway at {url}. It may be"
        f" asking its provider directly, at your expense and without compaction. {_way_in(agent)}"
    )


def _way_in(agent: AgentConfig) -> str:
    """How an agent that asks its model elsewhere is led to the gateway."""
    if agent.profile:
        return (
            f"The profile {agent.profile} leads it to the gateway, unless its arguments or its own settings name"
            " another provider or model: leave those out"
        )
    return (
        "It has to ask its model at OPENAI_BASE_URL, OPENAI_API_BASE or ANTHROPIC_BASE_URL, which wrap sets. If it"
        " takes its address from elsewhere, write {url}/v1 there (with Anthropic's format: {url}), and {key} for its"
        " key, in its arguments or in [agent.variables] or [agent.files] of the config. These need no such setting:"
        f" {', '.join(sorted(PROGRAMS))}"
    )


def _describe_trajectory(trajectory: Trajectory, receipts: list[Receipt], target: Path, name: str) -> dict[str, object]:
    pairs = zip(trajectory.boundaries, receipts, strict=True)
    compactions = [{"step": boundary.step, **slip.to_json()} for boundary, slip in pairs]
    return {
        "run": name,
        "transcript": str(target),
        "ending": trajectory.ending,
        "error": trajectory.error,
        "steps": trajectory.steps,
        "compactions": compactions,
        "usage": {role: usage.to_json() for role, usage in trajectory.usage.items()},
    }


def _print(trajectory: Trajectory, receipts: list[Receipt], target: Path) -> None:
    say("")
    for boundary, slip in zip(trajectory.boundaries, receipts, strict=True):
        say(f"before step {boundary.step + 1}: {safe_line(' '.join(slip.sentences), 1000)}")
    compactions = quantity(len(trajectory.boundaries), "compaction")
    say(f"{quantity(trajectory.steps, 'step')}, {compactions}; {trajectory.ending}. Transcript: {target}")
    if trajectory.error:
        say(trajectory.error)
