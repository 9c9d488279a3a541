"""`recompact transfer`: evaluations with different models side by side. Does a template help those too?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recompact.cli.console import FORMATS, json_option, print_json, print_tables, say
from recompact.values.texts import command_line

if TYPE_CHECKING:
    from recompact.values.tables import Format


@click.command(name="transfer")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...")
@click.option(
    "--arm", "arms", multiple=True, help="The arm in question (default: every template arm of all). Repeatable."
)
@click.option("--against", default="prompting", show_default=True, help="The arm that it is measured against.")
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="terminal", show_default=True)
@json_option
def command(
    runs: tuple[str, ...], arms: tuple[str, ...], against: str, directory: Path, form: Format, as_json: bool
) -> None:
    """Does a template help models that it was not adapted with? One evaluation for each choice of models.

    Each RUN is an evaluation of the same suite with other models, or released records. For every one and every scope:
    the arm beside no compaction and beside --against, with the paired difference.
    """
    from recompact.evaluation.transfer import read_setting, transfer, transfer_table

    found = transfer([read_setting(run, directory) for run in runs], arms, against)
    if as_json or form == "json":
        print_json(found.to_json())
        return
    print_tables([transfer_table(found)], form)
    if form == "terminal":
        say(f"Draw it: {command_line('figures', *runs)} --out figures")
