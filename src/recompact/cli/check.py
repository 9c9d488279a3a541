"""`recompact check`: everything that can be known to be wrong before a token is spent."""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from recompact.adaptation.method import method_in
from recompact.agents.suite import AgentSuite, fidelity
from recompact.attribution.records import decoding_note
from recompact.attribution.registry import allocation_in
from recompact.cli.console import print_json, say
from recompact.cli.options import Json, as_command
from recompact.engine.assembly import compressor_in, open_clients, open_study, open_suite
from recompact.engine.collection import collect, unit_of
from recompact.engine.config import Config, ConfigError, ModelConfig
from recompact.engine.config_parser import load_config, unknown_models
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.records import failed_among, read_trajectory
from recompact.engine.store.runs import BROKEN, run_path
from recompact.engine.study import Study, list_tasks
from recompact.environments.conformance import conformance
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.loading import load_suite
from recompact.environments.protection import describe, describe_limit
from recompact.environments.protocol import AsyncAsk, EnvironmentFailed, Episodes, NoSandbox, Task
from recompact.errors import InputError
from recompact.models.failures import ModelFailure
from recompact.models.journal import UnitCalls
from recompact.models.protocol import MODELS
from recompact.models.secrets import names_variable
from recompact.values.chat import Decoding, Request, user
from recompact.values.template import headings, lint, resolve
from recompact.values.texts import quantity
from recompact.values.tokens import counter
from recompact.values.trajectory import Action, Trajectory

_RAISED = re.compile(
    r"Error: (?P<kind>\w+(?:Error|Exception|Exit|Iteration|Warning)): .*?(?:\((?P<place>\S+:\d+)\))?$", re.S
)
"""What an agent reads of an exception in a tool that is a function."""


@as_command("check", example="check rooms.toml --play")
def command(
    config: Path,
    *,
    connect: Annotated[bool, "Also ask each model for one word, and a cluster for its resources."],
    play: Annotated[bool, "Also play one task and check that its environment can be restored."],
    as_json: Json,
) -> None:
    """Check a config, and report every mistake with its line and a fix.

    Checks keys and values, the suite and its tasks, the template, the compressor, the method and the models.
    """
    notes: list[str] = []
    problems: list[str] = []
    loaded: Config | None
    try:
        loaded = load_config(config)
    except ConfigError as error:
        problems, loaded = list(error.problems), error.rest
    if loaded is not None:
        problems += [problem for problem in _problems(loaded, notes, tuple(problems)) if problem not in problems]
        if connect and not problems:
            problems = asyncio.run(_connect(loaded, notes)) + asyncio.run(_survey(loaded, notes))
        if play and not problems:
            problems = asyncio.run(_play(loaded, notes))
    problems.sort(key=_line_of)
    if as_json:
        print_json({"file": str(config), "problems": problems, "notes": notes})
    else:
        for problem in problems:
            say(f"{config}: {problem}", err=True)
        for note in notes:
            say(note)
        if not problems:
            say(f"{config} is fine.")
    if problems:
        sys.exit(2)


def _line_of(problem: str) -> int:
    """The line of the config that a problem names; without one it comes first.

    >>> _line_of("line 12: [agent] model is missing"), _line_of("is not valid TOML")
    (12, 0)
    """
    named = re.match(r"line (\d+):", problem)
    return int(named[1]) if named else 0


def _problems(config: Config, notes: list[str], earlier: Sequence[str]) -> list[str]:
    """Everything that would stop a command before its first unit of work. Where there are `earlier` problems, the
    config lacks the keys that they are about."""
    problems = list(unknown_models(config))
    with _noting(problems, config.problem(": ", "compressor", "template")):
        _check_template(config, notes)
    with _noting(problems, config.problem(": ", "suite", "use")):
        asyncio.run(_check_suite(config, notes))
    if not earlier and config.suite.use != "pocket" and "agent" not in tomllib.loads(config.text):
        problems.append(
            f"[agent] is missing: the simulated agent, which is the default, plays nothing but pocket; name the model"
            f" that plays {config.suite.use}, as in [agent] model = ..."
        )
    for build in (compressor_in, allocation_in, method_in):
        with _noting(problems):
            build(config)
    problems += asyncio.run(_model_problems(config, [*earlier, *problems]))
    if note := decoding_note(config):
        notes.append(f"warning: {note}")
    notes.append(_isolation(config))
    if config.file is not None:
        with _noting(notes, "run: "):
            run_path(config.file.stem, config.directory)
    return problems


@contextmanager
def _noting(problems: list[str], place: str = "") -> Iterator[None]:
    """Add what is wrong to the problems; an error that does not name its place in the config gets this one."""
    try:
        yield
    except ConfigError as error:
        problems.extend(error.problems)
    except InputError as error:
        problems.append(f"{place}{error}")


def _check_template(config: Config, notes: list[str]) -> None:
    """What is wrong with the template, and whether a summary by it can fit into the budget."""
    template = resolve(config.compressor.template, config.directory)
    notes.extend(f"template: {finding}" for finding in lint(template))
    if config.compressor.kind != "prompted":
        return
    count, budget = counter(config.run.counter), config.compressor.budget
    least = count("\n".join(headings(template.first)))
    if budget <= least:
        text = f" = {budget} is too small to be real: the headings of a summary alone take {least:,} tokens"
        raise ConfigError(config.file or Path("config"), (config.problem(text, "compressor", "budget"),))
    if budget < (instructions := count(template.first)):
        notes.append(
            f"budget: {budget:,} tokens are fewer than the instructions for a summary ({instructions:,}), so most of it"
            " will be cut"
        )


async def _check_suite(config: Config, notes: list[str]) -> None:
    """Whether the suite can be played here, and has the split and the tasks that are asked for."""
    chosen, problems = config.suite, []
    try:
        episodes = open_suite(config)
    except ConfigError as error:
        problems = list(error.problems)
        if (listable := _listable_suite(config)) is None:
            raise
        episodes = listable
    if isinstance(episodes, InProcessSuite) and chosen.split not in (splits := episodes.splits()):
        text = f" = {chosen.split!r} is not among the splits of {chosen.use}: {', '.join(splits)}"
        raise ConfigError(config.file or Path("config"), (*problems, config.problem(text, "suite", "split")))
    try:
        tasks = [task.id for task in await list_tasks(config, episodes)]
    except EnvironmentFailed as failure:
        raise InputError(str(failure)) from None
    notes.append(f"suite {episodes.name}, split {chosen.split}: {quantity(len(tasks), 'task')}")
    if not tasks:
        problems.append(config.problem(f" = {chosen.split!r} has no tasks", "suite", "split"))
    if twice := [id for id, count in Counter(tasks).items() if count > 1]:
        text = f": several tasks have the same id ({', '.join(twice[:5])}): give each its own"
        problems.append(config.problem(text, "suite", "use"))
    for id in chosen.tasks if tasks else ():
        if id not in tasks:
            near = difflib.get_close_matches(id, tasks, 3, 0.5) or tasks[:3]
            more = ", …" if len(tasks) > len(near) else ""
            text = f": there is no task {id!r}; there are {', '.join(near)}{more}"
            problems.append(config.problem(text, "suite", "tasks"))
    if problems:
        raise ConfigError(config.file or Path("config"), tuple(problems))


def _listable_suite(config: Config) -> Episodes | None:
    """A suite that cannot be played on this machine, if it lists its tasks all the same."""
    if config.suite.host and not config.agent.external:
        return None
    try:
        return InProcessSuite(load_suite(config.suite.use, config.suite.options, config.directory))
    except NoSandbox as error:
        return InProcessSuite(error.suite)
    except InputError:
        return None


def _isolation(config: Config) -> str:
    """Which protection is in force against what an environment does."""
    if config.agent.external:
        sandboxed = config.agent.sandbox != "off"
        policy = "are sandboxed by bubblewrap, without network" if sandboxed else "run with your rights"
        workspace = "what they write to their workspace"
        return f"isolation: agents {policy}; {describe_limit(sandboxed, config.agent.limits, workspace)}"
    if not config.suite.host:
        return "isolation: none, environments run inside this process ([suite] host = true gives each its own)"
    elsewhere = "on this machine " if isinstance(config.suite.host, str) else ""
    more = "; --connect says what holds on each node" if elsewhere else ""
    return f"isolation: {elsewhere}{describe(config.suite.sandbox, config.suite.network, config.suite.limits)}{more}"


async def _play(config: Config, notes: list[str]) -> list[str]:
    """Play the first task in a temporary run, then check that its environment can be restored."""
    one = replace(config, suite=replace(config.suite, tasks=config.suite.tasks[:1], limit=1))
    with tempfile.TemporaryDirectory() as scratch:
        async with open_study(one, Path(scratch) / "play.db") as study:
            (task,) = await study.tasks()
            try:
                await collect(study)
            except Unfinished as unfinished:
                return [f"task {task.id} could not be played: {unfinished.units[0].failure}"]
            trajectory = read_trajectory(study.store, unit_of(task))
            failed = failed_among(trajectory.incidents)
            compactions = quantity(len(trajectory.boundaries), "compaction")
            compactions += f" and {failed.number:,} that failed" * bool(failed.number)
            notes.append(
                f"played {task.id}: {quantity(trajectory.steps, 'step')}, {compactions},"
                f" {'success' if trajectory.score.success else 'failure'} ({trajectory.ending})"
            )
            notes.extend(_failing_tools(trajectory))
            if trajectory.ending == BROKEN:
                return [f"[suite] use: {trajectory.error}"]
            if failed.number and not trajectory.boundaries:
                return [f"[compressor] {failed.nothing_compacted}"]
            notes.extend(filter(None, [failed.words]))
            actions = await _actions(study, task, trajectory)
            if isinstance(study.episodes, AgentSuite):
                replayed = await fidelity(study.episodes, task, actions, _side_ask(study, task))
                notes.append(str(replayed))
                return [f"[agent] command: {replayed.difference}"] if replayed.difference else []
            if len(actions) < 4:
                notes.append(f"snapshots were not checked: that takes four actions, not {len(actions)}")
                return []
            report = await conformance(study.episodes, task, actions, branches=8)
            notes.append(str(report))
            return [f"[suite] use: {check.name}: {check.text}" for check in report.failures]


def _failing_tools(trajectory: Trajectory) -> Iterator[str]:
    """Tools that raised, each with the exception, how often, and where it last did."""
    calls: Counter[str] = Counter()
    raised: dict[tuple[str, str], list[str]] = {}
    for turn in trajectory.turns:
        results = {result.call_id: result.content for result in turn.results}
        for call in turn.message.calls:
            calls[call.name] += 1
            if error := _RAISED.match(results.get(call.id, "")):
                raised.setdefault((call.name, error["kind"]), []).append(error["place"] or "")
    for (tool, kind), places in raised.items():
        at = f", {places[-1]}" if places[-1] else ""
        yield f"warning: {tool} raised {kind} in {len(places):,} of {quantity(calls[tool], 'call')}{at}"


def _side_ask(study: Study, task: Task) -> AsyncAsk | None:
    """What an agent asked besides its main conversation is answered from the journal of the run."""
    return study.ask(UnitCalls(study.store, unit_of(task), study.config.run.seed))


async def _actions(study: Study, task: Task, trajectory: Trajectory) -> tuple[Action, ...]:
    """What the agent did in the environment, without the calls that no tool could execute."""
    episode = study.episodes.episode(task, _side_ask(study, task))
    try:
        opening = await episode.start()
    finally:
        await episode.close()
    tools = {tool.name for tool in opening.tools}
    actions = []
    for turn in trajectory.turns:
        if not turn.message.calls and opening.text_actions and turn.message.content.strip():
            actions.append(Action("", text=turn.message.content))
        for call in turn.message.calls:
            with suppress(ValueError):
                actions += [Action.of(call)] if call.name in tools else []
    return tuple(actions)


async def _model_problems(config: Config, reported: Sequence[str]) -> list[str]:
    """What shows when the models are built, each by itself. Of those with problems that were reported, only the key is
    looked at: they lack what the problems are about."""
    problems: list[str] = []
    for name in sorted(config.used_models & {*config.models, *MODELS.names()}):
        model = config.models.get(name)
        lacks_key = model is not None and _lacks_key(model)
        if model is not None and lacks_key:
            at = config.line("models", name, "key_env")
            problems.append(f"{at}[models.{name}] needs its key in the environment variable {model.key_env}: set it")
        if any(f"[models.{name}{end}" in problem for problem in reported for end in "]."):
            continue
        with _noting(problems, config.problem(": ", "models", name)):
            if model is not None and lacks_key:  # it cannot be built, but its address can be looked at
                model.check()
                continue
            async with open_clients(config, needed={name}):
                pass
    return problems


def _lacks_key(model: ModelConfig) -> bool:
    """Whether the client of a model will ask for a key that is not there; only those that are built in need one."""
    if model.use not in ("openai", "anthropic") or not names_variable(model.key_env):  # the latter was reported
        return False
    return not os.environ.get(model.key_env, "").strip() and not model.loopback


async def _connect(config: Config, notes: list[str]) -> list[str]:
    problems = []
    async with open_clients(config, attempts=1) as clients:
        for name, client in clients.items():
            try:
                reply = await client.reply(Request((user("Say ok."),), decoding=Decoding(max_output_tokens=16)))
                notes.append(f"model {name} answered ({reply.model or name})")
            except ModelFailure as failure:
                problems.append(f"[models.{name}] {failure}")
    return problems


async def _survey(config: Config, notes: list[str]) -> list[str]:
    """What the cluster has and whether the suite loads there, where hosts live on one."""
    episodes = open_suite(config)
    survey = getattr(episodes, "survey", None)
    if survey is None:
        return []
    try:
        node_notes, problems = await survey(config.suite.split)
        notes.extend(node_notes)
        return list(problems)
    except InputError as error:
        return [f"[cluster] address: {error}"]
    finally:
        await episodes.aclose()  # type: ignore[attr-defined]
