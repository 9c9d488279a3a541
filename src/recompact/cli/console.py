"""How commands speak: people get text and tables on standard output, programs get one JSON document.

Everything printed here is made visible first, so that no text can steer the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

import click

from recompact.errors import InputError
from recompact.values.tables import Format, Table, fit_table, render_all
from recompact.values.texts import visible, visible_json, visible_line

if TYPE_CHECKING:
    from rich.console import Console

_reserved: list[TextIO] = []  # standard output, while it is kept for one JSON document


@contextmanager
def reserve_output() -> Iterator[None]:
    """Keep standard output for the document: what an environment in this process prints goes to standard error."""
    _reserved.append(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        _reserved.pop()


def agree_to_send(what: str, *, yes: bool) -> bool:
    """Whether the user wants to send what these words describe; where there is no terminal, only --yes says so."""
    say(what, err=True)
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InputError("nothing was sent: there is no terminal to confirm on; --yes sends it without asking")
    return click.confirm("Send it?", err=True)


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def say(text: str, *, err: bool = False) -> None:
    """A line or a paragraph of plain text."""
    click.echo(visible(text), err=err)


def print_claims(claims: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Sentences, each with the numbers behind it."""
    for sentence, numbers in claims:
        say(sentence)
        for line in numbers:
            say(f"    {line}")


def print_json(value: Any) -> None:
    text = visible_json(json.dumps(value, indent=2, ensure_ascii=False))
    click.echo(text, file=_reserved[-1] if _reserved else None)


def print_tables(tables: Sequence[Table], form: Format = "terminal") -> None:
    """Print tables: to a terminal with colours and no wider than it is, anywhere else as plain text of any width."""
    out = console()
    if form != "terminal" or not out.is_terminal:
        click.echo(render_all(tables, form), nl=False)
        return
    pieces = 0
    for table in tables:
        for piece in fit_table(table, out.width):
            out.print(*[""] * bool(pieces), piece, sep="\n")
            pieces += 1
        for note in table.notes:
            out.print(visible_line(note), markup=False)
