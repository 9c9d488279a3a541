"""A config brought to life: the suite, the models behind their limits, the compressor, the template, and the run.

Everything is put together here; from here on, the steps of the method are plain functions of a `Study`.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from recompact.agents.process import sandbox_for
from recompact.agents.settings import defects_of
from recompact.agents.suite import AgentSuite, WorkspaceTasks
from recompact.compressors.protocol import Compressor, CompressorKind
from recompact.compressors.registry import compressor_kind, load_compressor
from recompact.engine.config import Config, ConfigError, ModelConfig, config_hash, differences
from recompact.engine.config_parser import load_config, unknown_models
from recompact.engine.execution.scheduler import InProcess
from recompact.engine.forecast import price_of
from recompact.engine.store.connection import LOCK
from recompact.engine.store.plan import RecordedProgress
from recompact.engine.store.runs import note_config, open_run, run_path
from recompact.engine.store.store import Store, StoreError
from recompact.engine.study import AnyMethod, Study
from recompact.environments.hosted import HostedSuite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.loading import HOSTS, fingerprint, host_needs, load_suite
from recompact.environments.protocol import Episodes, Suite
from recompact.errors import InputError
from recompact.models.endpoint import Price
from recompact.models.limits import Limited, Metered, Retrying, Spending
from recompact.models.protocol import ChatModel, is_simulated, load_model
from recompact.models.shape import Shaped
from recompact.triggers.registry import load_trigger
from recompact.values.chat import Usage
from recompact.values.progress import SILENT, Notices, Progress
from recompact.values.template import Template, resolve
from recompact.values.texts import command_line
from recompact.values.tokens import TokenCounter, counter
from recompact.version import __version__

COLLECTION, EVALUATION = "collect", "evaluate"
"""The two kinds of run: trajectories to learn from, and arms to compare."""


@asynccontextmanager
async def open_study(
    config: Config | Path | str,
    run: Store | Path | str | None = None,
    *,
    models: Mapping[str, ChatModel] | None = None,
    suite: Suite | Episodes | None = None,
    compressor: Compressor | CompressorKind | None = None,
    method: AnyMethod | None = None,
    template: Template | None = None,
    progress: Progress = SILENT,
    evaluation: bool = False,
    skip: Sequence[str] = (),
    accept_changes: bool = False,
) -> AsyncIterator[Study]:
    """Build a study from a config or its file.

    `run` is where its records go: a store, a file, or a name; by default the config's own name. Ready objects take the
    place of what the config names: `models` by the names that its roles use, a `suite`, a `compressor`, a `method`, a
    `template`.
    A run whose suite has changed is refused, or continues with `accept_changes` and notes what changed.
    The run of an `evaluation` is another kind of run: see `recompact.evaluation.evaluate.open_evaluation`.
    `skip` are tasks to leave out from now on: the run remembers them, and stays the same run.
    """
    config = config if isinstance(config, Config) else load_config(Path(config))
    if problems := unknown_models(config, tuple(models or ())):
        raise ConfigError(config.file or Path("config"), problems)
    template = template or resolve(config.compressor.template, config.directory)
    built = compressor_in(config) if compressor is None else compressor_kind(compressor, {}, "", config.directory)
    own = {
        role: _describe(thing) for role, thing in (("suite", suite), ("compressor", compressor)) if thing is not None
    }
    async with AsyncExitStack() as stack:
        store = run if isinstance(run, Store) else stack.enter_context(open_run(_run_file(config, run)))
        # What a run consists of; its directory is named too: it holds other runs, unless it is the suite's.
        places = (store.path.parent, *(Path(f"{store.path}{suffix}") for suffix in ("", "-wal", "-shm", LOCK)))
        if suite is None:
            episodes = open_suite(config, places)
        else:
            episodes = InProcessSuite(suite) if isinstance(suite, Suite) else suite
        if (close := getattr(episodes, "aclose", None)) is not None:
            stack.push_async_callback(close)
        notices = Notices(progress)
        needed = config.used_models if method is None or method.asks_optimizer else config.deciding_models
        spending = Spending(config.ceiling.tokens, config.ceiling.money)

        def lose(name: str, usage: Usage) -> None:
            spending.add(usage, price_of(config.models.get(name)))
            store.note_unanswered(name, usage)

        opened = open_clients(config, models or {}, needed, notices=notices, lost=lose)
        clients = await stack.enter_async_context(opened)
        _claim(store, config, template, EVALUATION if evaluation else COLLECTION, own, episodes.name)
        _note_simulated(store, clients)
        if suite is None:
            _check_suite(store, config, accept_changes)
        if config.file is not None and config.file.is_file():
            note_config(store, config.file)
        prices = {name: price_of(config.models.get(name)) for name in config.used_models | clients.keys()}
        for (name, _), usage in store.spent().items():
            spending.add(usage, prices.get(name, Price()))
        count = counter(config.run.counter)
        metered = {name: Metered(name, client, spending, prices[name], count) for name, client in clients.items()}
        study = Study(
            config=config,
            episodes=episodes,
            models=metered,
            compressor_kind=built,
            template=template,
            store=store,
            spending=spending,
            count=count,
            executor=InProcess(store, config.run.seed),
            progress=RecordedProgress(progress, store),
            method=method,
            notices=notices,
        )
        if skip:
            await skip_tasks(study, skip)
        yield study


async def skip_tasks(study: Study, tasks: Sequence[str]) -> None:
    """Leave these tasks out from now on. The run remembers them and stays the same run."""
    ids = [task.id for task in await study.chosen_tasks()]
    for task in tasks:
        if task not in ids:
            near = difflib.get_close_matches(task, ids, 3, 0.3) or ids[:3]
            raise InputError(f"--skip {task}: there is no such task among those of the config; near: {', '.join(near)}")
    metadata = study.store.metadata
    skipped = {*metadata.skipped, *tasks}
    if not set(ids) - skipped:
        raise InputError("--skip: no task would be left")
    if skipped != set(metadata.skipped):
        study.store.set_metadata(replace(metadata, skipped=tuple(sorted(skipped))))


@asynccontextmanager
async def open_clients(
    config: Config,
    own: Mapping[str, ChatModel] | None = None,
    needed: Collection[str] | None = None,
    *,
    attempts: int | None = None,
    notices: Notices | None = None,
    lost: Callable[[str, Usage], None] = lambda name, usage: None,
) -> AsyncIterator[dict[str, ChatModel]]:
    """The models that a config uses, or only the `needed` ones, each behind its door; those of the config with
    limits and retries (`attempts` instead of the config's).

    Long waits are reported to `notices`, and what calls without a reply cost to `lost`.
    """
    ready = own or {}
    count = counter(config.run.counter)
    async with AsyncExitStack() as stack:
        clients: dict[str, ChatModel] = {}
        for name in sorted(config.used_models if needed is None else needed):
            if name in ready:
                clients[name] = Shaped(ready[name], count)
                continue
            settings = config.models.get(name)
            if settings is None:
                clients[name] = Shaped(load_model(name, {}, ModelConfig(), config.directory), count)
                continue
            with config.blame("models", name):
                client = load_model(settings.use, settings.options, settings, config.directory)
            if (close := getattr(client, "aclose", None)) is not None:
                stack.push_async_callback(close)
            limited = Limited(Shaped(client, count), settings, notices)
            policy = replace(settings, attempts=attempts) if attempts else settings
            clients[name] = Retrying(limited, policy, notices, partial(lost, name))
        yield clients


@asynccontextmanager
async def open_model(config: Config, name: str, count: TokenCounter) -> AsyncIterator[tuple[ChatModel, Spending]]:
    """One model of a config alone, within the config's ceiling, and what it spends."""
    spending = Spending(config.ceiling.tokens, config.ceiling.money)
    async with open_clients(config, needed=[name]) as clients:
        yield Metered(name, clients[name], spending, price_of(config.models.get(name)), count), spending


def open_suite(config: Config, hidden: Sequence[Path] = ()) -> Episodes:
    """The suite that a config names, hosted or in process. `hidden` are places that no host or agent may see."""
    suite = config.suite
    unseen = (config.directory / config.run.directory, *hidden)
    if config.agent.external:
        return _agent_suite(config, unseen)
    defects: list[tuple[str, tuple[str, ...]]] = []
    needs = None
    try:
        needs = host_needs(suite.use, suite.options, suite.python, config.directory)
    except InputError as error:
        defects.append((str(error), ("suite", "use")))
    if needs is not None and not suite.host:
        defects.append((f"{suite.use} lives in an interpreter of its own: set host = true", ("suite", "use")))
    places = [config.directory / place for place in suite.readable] if suite.host is True else []
    if missing := [place for place in places if not place.exists()]:
        defects.append((f"it names {missing[0]}, which is not there", ("suite", "readable")))
    if suite.host:
        python = needs.python if needs else suite.python or sys.executable
        try:
            hosted = HostedSuite(
                suite.use,
                needs.options if needs else suite.options,
                config.directory,
                python,
                suite.timeout,
                sandbox=needs.sandbox if needs and suite.sandbox == "auto" else suite.sandbox,
                network=suite.network,
                env=suite.env,
                readable=suite.readable,
                hidden=unseen,
                limits=suite.limits,
            )
            hosted = hosted.graded_by(needs.grader) if needs and needs.grader else hosted
        except InputError as error:
            defects.append((str(error), ("suite", "sandbox")))
        if defects:
            raise config.errors(defects)
        return hosted if suite.host is True else _elsewhere(config, hosted, own_python=bool(needs or suite.python))
    if defects:
        raise config.errors(defects)
    loaded = _load_suite(config)
    with config.blame("suite", key="use"):
        return InProcessSuite(loaded, config.suite.timeout)


def _elsewhere(config: Config, hosted: HostedSuite, own_python: bool) -> Episodes:
    """The same suite with its hosts where the config wants them."""
    with config.blame("suite", key="host"):
        opener = HOSTS.find(str(config.suite.host), config.directory)
        if not callable(opener):
            raise InputError(f"{config.suite.host} is a {type(opener).__name__}, which opens no hosts: name a class")
        episodes: Episodes = opener(
            hosted, config.cluster, own_python=own_python, runs=config.run.directory, most=config.run.concurrency
        )
        return episodes


def _agent_suite(config: Config, hidden: tuple[Path, ...]) -> Episodes:
    """The tasks of a suite, played by the command that the config names. What is wrong with the tasks does not hide
    what is wrong with the command."""
    settings = replace(config.agent.settings(config.directory), hidden=hidden)
    program = "command" if config.agent.command else "profile"
    defects = [(text, ("agent", program if key == "command" else key)) for key, text in defects_of(settings)]
    try:
        sandbox_for(settings)
    except InputError as error:
        defects.append((str(error), ("agent", program)))
    problems = config.errors(defects).problems if defects else ()
    try:
        suite = _load_suite(config)
        if not isinstance(suite, WorkspaceTasks):
            text = f"the tasks of {config.suite.use} are no workspaces, and an agent of your own plays no others"
            raise config.error(f"{text}: docs/workspace.md says how they are made", "suite", "use")
        if not problems:
            return AgentSuite(suite, settings)
    except ConfigError as error:
        problems += error.problems
    raise ConfigError(config.file or Path("config"), problems)


def _load_suite(config: Config) -> Suite:
    with config.blame("suite", key="use"):
        return load_suite(config.suite.use, config.suite.options, config.directory)


def compressor_in(config: Config) -> CompressorKind:
    """The compressor that a config names; what is wrong with its trigger shows here as well."""
    settings = config.compressor
    with config.blame("compressor", key="trigger"):
        load_trigger(settings.trigger, config.directory)
    if conflict := settings.scope_conflict(config.agent.external):
        raise config.error(conflict, "compressor", "scope")
    with config.blame("compressor", key="kind"):
        return load_compressor(config.compressor.kind, config.compressor.options, config.directory)


def _run_file(config: Config, run: Path | str | None) -> Path:
    if run is None and config.file is None:
        raise InputError(
            "a config that was made in Python has no name: say where the run goes, as in run='runs/mine.db'"
        )
    if isinstance(run, Path):
        return run
    name = run if run is not None or config.file is None else config.file.stem
    return run_path(str(name), config.directory / config.run.directory)


def _describe(thing: Any) -> str:
    kind = thing if isinstance(thing, type) else type(thing)
    return f"{kind.__module__}:{kind.__qualname__}"


def _claim(store: Store, config: Config, template: Template, kind: str, own: Mapping[str, str], suite: str) -> None:
    """Write down what the run is, or check that it is the run that this config makes."""
    check_identity(store, config, template, own)
    metadata = store.metadata
    if not metadata.identity:
        store.set_metadata(
            replace(
                metadata,
                identity=_identity(config, template, own),
                config_hash=config_hash(config),
                command=kind,
                suite=suite,
                version=__version__,
                templates={template.hash: template.parts()},
            )
        )


def _note_simulated(store: Store, clients: Mapping[str, ChatModel]) -> None:
    """Record which of these models are simulated: their names may say anything."""
    simulated = {*store.metadata.simulated, *(name for name, client in clients.items() if is_simulated(client))}
    if simulated != set(store.metadata.simulated):
        store.set_metadata(replace(store.metadata, simulated=tuple(sorted(simulated))))


def _identity(config: Config, template: Template, own: Mapping[str, str]) -> dict[str, Any]:
    return {**config.identity(), "template": template.hash, **({"objects": dict(own)} if own else {})}


def check_identity(store: Store, config: Config, template: Template, own: Mapping[str, str] | None = None) -> None:
    """Refuse a run that was begun with another config, before anything in it is touched."""
    identity = store.metadata.identity
    if identity and (changed := differences(identity, _identity(config, template, own or {}))):
        raise StoreError(
            f"{store.path} was begun with another config ({'; '.join(changed[:3])}):"
            " give the new one its own --run NAME, or undo the change"
        )


def _check_suite(store: Store, config: Config, accept_changes: bool) -> None:
    """Note what the suite is made of; refuse one that is no longer what the run began with, unless that is accepted."""
    suite = config.suite
    now, metadata = fingerprint(suite.use, config.directory, suite.options, suite.split), store.metadata
    before = metadata.fingerprint
    if now == before:
        return
    if before and store.finished():
        changed = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        if not accept_changes:
            command = command_line(
                metadata.command or COLLECTION, config.file or "CONFIG", options=["--accept-changes"]
            )
            raise StoreError(
                f"the suite {config.suite.use!r} has changed since {store.path} was begun ({', '.join(changed)}): undo"
                f" the change, begin a new run with --run NAME, or continue with what is there: {command}"
            )
        change = {"changed": changed, "before": dict(before), "after": now, "finished": len(store.finished())}
        metadata = replace(metadata, suite_changes=(*metadata.suite_changes, change))
    store.set_metadata(replace(metadata, fingerprint=now))
