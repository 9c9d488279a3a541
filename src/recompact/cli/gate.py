"""`recompact gate`: a change to compaction against what it replaces, with an exit code for CI."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click

from recompact.cli.console import print_json, print_tables, say
from recompact.cli.options import POSITIVE, RUN, Directory, DryRun, Json, as_command
from recompact.cli.probe import agree_to_probe, material_of
from recompact.cli.progress import watch
from recompact.cli.running import Job, print_forecast, this_command
from recompact.cli.verify import locate_run
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.runs import open_run, run_path
from recompact.engine.study import Study
from recompact.errors import InputError
from recompact.evaluation.arms import Arm
from recompact.evaluation.evaluate import open_evaluation, with_split
from recompact.evaluation.gate import Gate, PairSource, run_gate
from recompact.evaluation.gate_sources import Side, own_arm, parse_side, probe_pairs, replay_pairs, task_pairs
from recompact.evaluation.reproduction.forecast import forecast_pairs
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


@as_command("gate", example="gate default runs/rooms-causes --tasks rooms.toml")
def command(
    base: str,
    new: str,
    *,
    config: Annotated[Path | None, "--tasks", "Play whole tasks of CONFIG.", {"metavar": "CONFIG"}],
    replayed: Annotated[
        str | None, "--replay", "Compact stored compactions of RUN again, and continue them.", {"metavar": "RUN"}
    ],
    probed: Annotated[
        str | None, "--probes", "Only count what compacted contexts still show.", {"metavar": "RUN|SESSION"}
    ],
    models: Annotated[Path | None, "--config", "With --probes SESSION: the config whose models compact."],
    margin: Annotated[
        float,
        click.FloatRange(min=0, max=100, min_open=True, max_open=True),
        "How many points of success NEW may lose.",
    ] = 3.0,
    pairs: Annotated[int, POSITIVE, "Most pairs of runs to play."] = 100,
    split: Annotated[str, "With --tasks: the split of the suite."] = "test",
    limit: Annotated[int | None, POSITIVE, "With --tasks: only the first N tasks."],
    run: Annotated[str | None, RUN, "Name of the run (default: with --tasks, the config's file name and -gate)."],
    directory: Directory,
    markdown: Annotated[Path | None, "Also write a summary for a pull request here."],
    junit: Annotated[Path | None, "Also write JUnit XML here."],
    yes: Annotated[bool, "With --probes SESSION: send sessions to the config's models without asking."],
    dry_run: DryRun,
    as_json: Json,
) -> None:
    """Is NEW worse than BASE? Exit code 0: not by the margin; 1: worse; 3: cannot tell yet.

    BASE and NEW are templates (a directory, or default), arms as for `recompact evaluate` (none, fifo, masking,
    NAME=TEMPLATE, NAME@BUDGET), or, with --tasks, two configs with other models. It draws tasks or stored compactions
    at random, plays each with both, and stops as soon as the answer is clear; at most 5 in 100 gates pass or fail what
    they should not. It reuses earlier runs: the next change meets the same runs of BASE, and more --pairs continue
    where it stopped.
    """
    if sum(each is not None for each in (config, replayed, probed)) != 1:
        raise click.UsageError("say what to play: --tasks CONFIG, --replay RUN, or --probes RUN|SESSION")
    if not margin > 0:  # click takes nan for a number in any range
        raise click.UsageError("--margin must be a number of points")
    if models is not None and probed is None:
        raise click.UsageError("--config is for --probes: --tasks names its own, and a run has one")
    writers: tuple[tuple[Path | None, str, str, Callable[[Gate], str]], ...] = (
        (markdown, "--markdown", MARKDOWN_MARK, lambda gate: as_markdown(gate, this_command())),
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
        for text in (base, new):
            if text.endswith(".toml"):
                raise InputError(f"{text}: stored compactions belong to one config; compare two with --tasks")
        run_file, file = locate_run(replayed, run, directory)
        asked = load_config(file)

        def replays(study: Study) -> PairSource:
            return replay_pairs(study, *(parse_side(text, study.config, study.template) for text in (base, new)))

        opened = _open_pairs(asked, run_file, replays, quiet=as_json)
    else:
        material = material_of((str(probed),), run, directory, models, None)
        asked, run_file = material.config, material.place(run)
        own = resolve(asked.compressor.template, asked.directory)
        arms = [parse_side(text, asked, own) for text in (base, new)]
        asks = material.check_models(arms)
        if material.run is None and asks and not dry_run:
            agree_to_probe(material, len(material.points), forecast_pairs(asked, material.points, arms, pairs), yes=yes)
        probes = partial(probe_pairs, points=material.points, base=arms[0], new=arms[1])
        opened = _open_pairs(asked, run_file, probes, quiet=as_json, **material.suite)
    if dry_run:
        from recompact.evaluation.reproduction.forecast import forecast_gate

        if probed is not None:
            forecast = forecast_pairs(asked, material.points, arms, pairs)
        else:
            forecast = asyncio.run(forecast_gate(asked, pairs, run_file, replay=config is None))
        print_forecast(forecast, asked, run_file, "json" if as_json else "terminal")
        return
    job = Job(run_file, as_json)
    gate = job.finish(_play(job, opened, margin, pairs, asked.run.seed))
    assert gate is not None
    for path, option, mark, write in writers:
        if path is not None:
            write_file(path, write(gate).encode(), "a gate's result", _begins_with(mark), option)
    _report(gate, job)
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
        yield await task_pairs(*(Side(studies[config.file], arm) for config, arm in (base, new)))


def _stem(config: Config) -> str:
    return config.file.stem if config.file else "config"


@asynccontextmanager
async def _open_pairs(
    config: Config, run_file: Path, source: Callable[[Study], PairSource], *, quiet: bool, **opened: Any
) -> AsyncIterator[PairSource]:
    """Pairs of compactions, in one run."""
    with open_run(run_file) as store:
        async with open_study(config, store, **opened) as study:
            with watch(study, "gate", quiet=quiet) as shown:
                yield source(shown)


async def _play(job: Job, opened: Opened, margin: float, pairs: int, seed: int) -> Gate:
    async with opened as source:
        try:
            return await run_gate(source, margin, pairs, seed)
        except Unfinished as unfinished:
            job.unfinished, gate = unfinished.units, unfinished.so_far
            assert isinstance(gate, Gate)
            return gate


def _report(gate: Gate, job: Job) -> None:
    if job.as_json:
        print_json({**gate.to_json(), "unfinished": job.unfinished_json()})
    else:
        if not gate.identical:
            say(question(gate))  # as a title it would be as narrow as the table
            print_tables([replace(side_table(gate), title="")])
            click.echo("")
        for sentence in sentences(gate):
            say(sentence)
    job.report_unfinished("run", retry=False)
