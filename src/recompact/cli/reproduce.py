"""`recompact reproduce`: the runs behind a table of the paper, and the table beside the paper's figures."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import click

from recompact.cli.console import print_json, print_tables, say
from recompact.cli.evaluate import parse_scopes
from recompact.cli.options import POSITIVE, Form, Json, as_command
from recompact.cli.progress import watch
from recompact.cli.running import Job, print_forecast, table_of
from recompact.compressors.protocol import SCOPES, Scope
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.forecast import Forecast
from recompact.errors import InputError
from recompact.evaluation.evaluate import with_split
from recompact.evaluation.reproduction.experiments import Experiment, Setting, join_experiments
from recompact.evaluation.reproduction.forecast import forecast_reproduction, number_of_tasks
from recompact.evaluation.reproduction.tables import TABLES, PaperTable, chosen_tables
from recompact.values.tables import Format, as_json, render
from recompact.values.template import load


@as_command("reproduce", example="reproduce main --config officebench.toml --dry-run")
def command(
    table: str | None,
    *,
    file: Annotated[Path | None, "--config", "The benchmark's config: recompact init NAME."],
    out: Annotated[Path | None, "Directory for the runs (default: CONFIG-reproduce beside it)."],
    scopes: Annotated[str | None, "--scope", "history, prefix or both, as in history,prefix (default: both)."],
    runs: Annotated[int, POSITIVE, "Runs of each task and arm."] = 3,
    train: Annotated[int | None, POSITIVE, "Adapt on the first N tasks (default: all)."],
    test: Annotated[int | None, POSITIVE, "Evaluate on the first N tasks (default: all)."],
    others: Annotated[tuple[Path, ...], "--other", "Other models, for transfer."],
    templates: Annotated[tuple[str, ...], "--template", "SCOPE=DIRECTORY of a template, for released. Repeatable."],
    dry_run: Annotated[bool, "Only print the runs that it needs, with calls, tokens and money."],
    yes: Annotated[bool, "Start even if the forecast exceeds [ceiling] warn."],
    form: Form,
    as_json: Json,
) -> None:
    """Make the runs that a TABLE of the paper needs, and print it beside the paper's figures.

    Without a TABLE, lists the tables; `all` makes every one. Prints the expected cost first. Stop it whenever you like:
    the same command resumes where it left off, and tables share their runs. Try it with a smaller --train or --test.
    """
    form = "json" if as_json else form
    if table is None:
        for each in TABLES.values():
            say(f"{each.name:<12}{each.title}")
        say(f"{'all':<12}every one of them")
        return
    if file is None:
        raise click.UsageError("--config FILE is needed: `recompact init NAME` writes one for a benchmark")
    config = load_config(file)
    place = out or file.with_name(f"{file.stem}-reproduce")
    chosen_scopes: tuple[Scope, ...] = tuple(parse_scopes(scopes, SCOPES)) or SCOPES
    released = _released_templates(templates)
    setting = Setting(config, place, chosen_scopes, runs, train, test, tuple(map(load_config, others)), released)
    tables = chosen_tables(table, setting)
    experiments = join_experiments([experiment for each in tables for experiment in each.experiments(setting)])
    expected = asyncio.run(_forecast(setting, experiments))
    _print_forecast(expected, config, place, form, only=dry_run)
    if dry_run:
        return
    _refuse_dear(expected, config, yes)
    place.mkdir(parents=True, exist_ok=True)
    for experiment in experiments:
        _play(setting, experiment, quiet=form != "terminal")
    _print(setting, tables, form)


def _released_templates(texts: Sequence[str]) -> dict[Scope, Path]:
    """Where the templates are, by scope; they are read at once, before anything is paid for."""
    released: dict[Scope, Path] = {}
    for text in texts:
        scope, _, directory = text.partition("=")
        if scope not in SCOPES or not directory:
            raise InputError(f"--template {text!r}: write SCOPE=DIRECTORY, as in --template history=released/history")
        load(Path(directory))
        released[scope] = Path(directory)
    return released


async def _forecast(setting: Setting, experiments: Sequence[Experiment]) -> Forecast:
    """Counts the tasks of the suite; no model is built, so no key is needed."""
    config = setting.config
    splits = (("train", setting.train), (setting.test_split, setting.test))
    train, test = [await number_of_tasks(with_split(config, split, limit), split) for split, limit in splits]
    return await forecast_reproduction(setting, experiments, train, test)


def _print_forecast(expected: Forecast, config: Config, place: Path, form: Format, only: bool) -> None:
    """Before the work: on standard error, unless it is all that was asked for."""
    if only:
        print_forecast(expected, config, place, form)
    else:
        click.echo(render(table_of(expected, config, place), "terminal"), err=True)


def _refuse_dear(expected: Forecast, config: Config, yes: bool) -> None:
    """A lot of money is spent only by someone who has seen how much."""
    warn, money = config.ceiling.warn, expected.money
    if money is not None and warn is not None and money > warn and not yes:
        raise InputError(
            f"this would spend about {money:,.2f}, more than {warn:g} ([ceiling] warn): add --yes to start it, or a"
            " smaller --train and --test to try it out; [ceiling] money bounds each run"
        )


def _play(setting: Setting, experiment: Experiment, quiet: bool) -> None:
    job = Job(setting.path(experiment.name))
    job.finish(experiment.play(setting, partial(watch, quiet=quiet)))
    if job.unfinished:
        job.report_unfinished("unit", retry=False)
        sys.exit(1)


def _print(setting: Setting, tables: Sequence[PaperTable], form: Format) -> None:
    filled = {table.name: table.tables(setting) for table in tables}
    if form == "json":
        print_json({name: [as_json(each) for each in several] for name, several in filled.items()})
        return
    print_tables([each for several in filled.values() for each in several], form)
