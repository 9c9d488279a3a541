"""`recompact gate`: a change to compaction against what it replaces, with an exit code for CI."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import click

from recompact.cli.console import directory_option, json_option, print_json, print_tables, run_option, say
from recompact.cli.probe import Material, agree_to_probe, material_of
from recompact.cli.progress import watch
from recompact.cli.running import dry_run_option, ending_early, print_forecast, report_unfinished, this_command
from recompact.cli.stopping import announcing_stop
from recompact.cli.verify import locate_run
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.execution.scheduler import UnfinishedUnit
from recompact.engine.store.runs import open_run, run_path
from recompact.engine.study import Study
from recompact.errors import InputError
from recompact.evaluation.arms import Arm
from recompact.evaluation.evaluate import open_evaluation, with_split
from recompact.evaluation.gate import Gate, PairSource, UnfinishedGate, run_gate
from recompact.evaluation.gate_sources import ProbePairs, ReplayPairs, Side, TaskPairs, own_arm, parse_side
from recompact.evaluation.probe_forecast import forecast_pairs
from recompact.presentation.gate import (
    JUNIT_MARK,
    MARKDOWN_MARK,
    as_junit,
    as_markdown,
    question,
    sentences,
    side_table,
)
from recompact.values.outputs import check_file, write_file
from recompact.values.template import resolve

Opened = AbstractAsyncContextManager[PairSource]


@click.command(name="gate")
@click.argument("base")
@click.argument("new")
@click.option(
    "--tasks", "config", type=click.Path(path_type=Path), metavar="CONFIG", help="Play whole tasks of CONFIG."
)
@click.option("--replay", "replayed", metavar="RUN", help="Compact stored compactions of RUN again, and continue them.")
@click.option("--probes", "probed", metavar="RUN|SESSION", help="Only count what compacted contexts still show.")
@click.option(
    "--config", "models", type=click.Path(path_type=Path), help="With --probes SESSION: whose models compact."
)
@click.option(
    "--margin",
    type=click.FloatRange(min=0, max=100, min_open=True, max_open=True),
    default=3.0,
    show_default=True,
    help="How many points of success NEW may lose.",
)
@click.option(
    "--pairs", type=click.IntRange(min=1), default=100, show_default=True, help="The most pairs of runs to play."
)
@click.option("--split", default="test", show_default=True, help="With --tasks: the split of the suite.")
@click.option("--limit", type=click.IntRange(min=1), help="With --tasks: only the first N tasks.")
@run_option("with --tasks, the config's file name and -gate")
@directory_option
@click.option("--markdown", type=click.Path(path_type=Path), help="Also write a summary for a pull request here.")
@click.option("--junit", type=click.Path(path_type=Path), help="Also write JUnit XML here.")
@click.option("--yes", is_flag=True, help="With --probes SESSION: send sessions to the config's models without asking.")
@dry_run_option
@json_option
def command(
    base: str,
    new: str,
    config: Path | None,
    replayed: str | None,
    probed: str | None,
    models: Path | None,
    margin: float,
    pairs: int,
    split: str,
    limit: int | None,
    run: str | None,
    directory: Path,
    markdown: Path | None,
    junit: Path | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Is NEW worse than BASE? Exit code 0: not by as much as the margin; 1: it is worse; 3: cannot tell yet.

    BASE and NEW are templates (a directory, or default), arms as for `recompact evaluate` (none, fifo, masking,
    NAME=TEMPLATE, NAME@BUDGET), or, with --tasks, two configs with other models. It draws tasks or stored compactions
    at random, plays each with both, and stops as soon as the answer is clear; at most 5 in 100 gates pass or fail what
    they should not. What was played is reused: the next change meets the same runs of BASE, and more --pairs continue
    where it stopped.
    """
    if sum(each is not None for each in (config, replayed, probed)) != 1:
        raise click.UsageError("say what to play: --tasks CONFIG, --replay RUN, or --probes RUN|SESSION")
    if not margin > 0:  # click takes nan for a number in any range
        raise click.UsageError("--margin must be a number of points")
    if models is not None and probed is None:
        raise click.UsageError("--config is for --probes: --tasks names its own, and a run has one")
    again = this_command()
    writers: tuple[tuple[Path | None, str, str, Callable[[Gate], str]], ...] = (
        (markdown, "--markdown", MARKDOWN_MARK, lambda gate: as_markdown(gate, again)),
        (junit, "--junit", JUNIT_MARK, as_junit),
    )
    for path, option, mark, _ in writers:
        if path is not None:
            check_file(path, "a gate's result", _begins_with(mark), option)  # before the work
    if config is not None:
        asked = with_split(load_config(config), split, limit)
        run_file = run_path(run or f"{config.stem}-gate", config.parent / asked.run.directory)
        opened = _open_tasks(_side(base, asked), _side(new, asked), asked, run_file, quiet=as_json)
    elif replayed is not None:
        run_file, file = locate_run(replayed, run, directory)
        asked = load_config(file)
        opened = _open_replays(base, new, asked, run_file, quiet=as_json)
    else:
        material = material_of((str(probed),), run, directory, models, None)
        asked, run_file = material.config, material.place(run)
        own = resolve(asked.compressor.template, asked.directory)
        arms = [parse_side(text, asked, own) for text in (base, new)]
        asks = material.check_models(arms)
        if material.run is None and asks and not dry_run:
            agree_to_probe(material, len(material.points), forecast_pairs(asked, material.points, arms, pairs), yes=yes)
        opened = _open_probes(arms, material, run_file, quiet=as_json)
    if dry_run:
        from recompact.evaluation.reproduction.forecast import forecast_gate

        if probed is not None:
            forecast = forecast_pairs(asked, material.points, arms, pairs)
        else:
            forecast = asyncio.run(forecast_gate(asked, pairs, run_file, replay=config is None))
        print_forecast(forecast, asked, run_file, "json" if as_json else "terminal")
        return
    with ending_early(run_file, again):
        gate, unfinished = asyncio.run(announcing_stop(_play(opened, margin, pairs, asked.run.seed)))
    for path, option, mark, write in writers:
        if path is not None:
            write_file(path, write(gate).encode(), "a gate's result", _begins_with(mark), option)
    _report(gate, unfinished, again, as_json)
    sys.exit(gate.exit_code)


def _begins_with(mark: str) -> Callable[[Path], bool]:
    """Whether a file is an earlier one of ours, or empty."""

    def ours(path: Path) -> bool:
        with path.open("rb") as file:
            start = file.read(4096)
        return not start or mark.encode() in start

    return ours


def _side(text: str, asked: Config) -> tuple[Config, Arm]:
    """BASE or NEW with the config that plays it: its own, or that of --tasks."""
    if not text.endswith(".toml"):
        return asked, parse_side(text, asked, resolve(asked.compressor.template, asked.directory))
    own = load_config(Path(text))
    own = with_split(own, asked.suite.split, asked.suite.limit)
    return own, own_arm(own)


@asynccontextmanager
async def _open_tasks(
    base: tuple[Config, Arm], new: tuple[Config, Arm], asked: Config, run_file: Path, *, quiet: bool
) -> AsyncIterator[PairSource]:
    """Pairs of trajectories. A side with a config of its own has a run of its own, beside the other."""
    async with AsyncExitStack() as stack:
        studies: dict[Path | None, Study] = {}
        for config, _ in (base, new):
            if config.file not in studies:
                beside = run_file if config is asked else run_path(f"{_stem(config)}-gate", run_file.parent)
                store = stack.enter_context(open_run(beside))
                study = await stack.enter_async_context(open_evaluation(config, store))
                watched = study if studies else stack.enter_context(watch(study, "gate", quiet=quiet))  # one bar
                studies[config.file] = watched
        yield await TaskPairs.of(*(Side(studies[config.file], arm) for config, arm in (base, new)))


def _stem(config: Config) -> str:
    return config.file.stem if config.file else "config"


@asynccontextmanager
async def _open_replays(
    base: str, new: str, config: Config, run_file: Path, *, quiet: bool
) -> AsyncIterator[PairSource]:
    for text in (base, new):
        if text.endswith(".toml"):
            raise InputError(f"{text}: stored compactions belong to one config; compare two with --tasks")
    with open_run(run_file) as store:
        async with open_study(config, store) as study:
            arms = [parse_side(text, config, study.template) for text in (base, new)]
            with watch(study, "gate", quiet=quiet) as shown:
                yield ReplayPairs.of(shown, *arms)


@asynccontextmanager
async def _open_probes(
    arms: Sequence[Arm], material: Material, run_file: Path, *, quiet: bool
) -> AsyncIterator[PairSource]:
    with open_run(run_file) as store:
        async with open_study(material.config, store, **material.suite) as study:
            with watch(study, "gate", quiet=quiet) as shown:
                yield ProbePairs.of(shown, material.points, *arms)


async def _play(opened: Opened, margin: float, pairs: int, seed: int) -> tuple[Gate, Sequence[UnfinishedUnit]]:
    async with opened as source:
        try:
            return await run_gate(source, margin, pairs, seed), ()
        except UnfinishedGate as unfinished:
            return unfinished.gate, unfinished.units


def _report(gate: Gate, unfinished: Sequence[UnfinishedUnit], again: str, as_json: bool) -> None:
    if as_json:
        print_json({**gate.to_json(), "unfinished": [unit.to_json() for unit in unfinished]})
    else:
        if not gate.identical:
            say(question(gate))  # as a title it would be as narrow as the table
            print_tables([replace(side_table(gate), title="")])
            click.echo("")
        for sentence in sentences(gate):
            say(sentence)
    report_unfinished(unfinished, "run", again, retry=False)
