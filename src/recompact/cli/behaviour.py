"""`recompact behaviour`: what the agent did after compactions, and what the summaries kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from recompact.cli.console import FORMATS, json_option, print_json, print_tables, run_option, say
from recompact.cli.progress import open_bar
from recompact.cli.verify import locate_run
from recompact.engine.assembly import open_suite
from recompact.engine.config_parser import load_config
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.behaviour import behaviours
from recompact.evaluation.behaviour_tables import behaviour_table, sentence, summary_table, to_json
from recompact.models.limits import Spending
from recompact.values.tables import Format


@click.command(name="behaviour")
@click.argument("run", metavar="RUN|CONFIG")
@run_option("the config's file name, where a CONFIG is given", "name")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="terminal", show_default=True)
@json_option
def command(run: str, name: str | None, directory: Path, form: Format, as_json: bool) -> None:
    """Say what agents do after a compaction: how often they look something up first, how many steps they take to the
    next change, and how many of the consumed literals the summaries keep.

    For each arm of an evaluation, or for the trajectories of a collected run. Nothing is run: it is counted from the
    records, with two hooks of the suite that say what its actions are for (docs/environments.md).
    """
    path, file = locate_run(run, name, directory)
    config = load_config(file)
    with Store.read(path) as store:
        suite = store.metadata.identity.get("suite", {}).get("use")
        if config.suite.use not in (suite, store.metadata.suite):
            raise InputError(
                f"{path} was made with the suite {suite!r}, and {file} now has {config.suite.use!r}: undo the change"
            )
        episodes = open_suite(config)
        with open_bar("behaviour", Spending(), quiet=as_json or form != "terminal") as progress:
            every = asyncio.run(behaviours(store, episodes, progress=progress))
    if as_json or form == "json":
        print_json({"run": str(path), **to_json(every)})
        return
    summaries = summary_table(every) if form != "csv" else None  # one table per file
    print_tables([behaviour_table(every), *([summaries] if summaries else [])], form)
    if form == "terminal":
        say("")
        for arm in every.arms:
            say(sentence(arm))
