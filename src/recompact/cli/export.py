"""`recompact export`: what makes a harness use a template, where it goes, and how to see that it is in force."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import click

from recompact.agents.settings import PROFILES
from recompact.cli.console import print_json, say
from recompact.cli.options import POSITIVE, Json, as_command
from recompact.errors import InputError
from recompact.harnesses.exporting import BUDGET, Export, install as put_in_place, write_export
from recompact.harnesses.registry import HARNESSES, load_harness
from recompact.values.template import resolve
from recompact.values.texts import command_line


@as_command("export", example="export runs/rooms-causes --to claude-code")
def command(
    template: str | None,
    *,
    name: Annotated[str, "--to", "The harness; --to list names all of them.", {"metavar": "HARNESS"}],
    out: Annotated[Path | None, "The directory to write (default: compaction-HARNESS)."],
    budget: Annotated[int, POSITIVE, "For {{ budget }}."] = BUDGET,
    pins: Annotated[tuple[str, ...], "--pin", "A rule that must survive. Repeatable.", {"metavar": "TEXT"}],
    install: Annotated[bool, "Put the files where the harness looks for them, where possible."],
    force: Annotated[bool, "With --install: move an existing file aside."],
    as_json: Json,
) -> None:
    """Write the files that make a harness use TEMPLATE (`default` or a directory), with instructions.

    Replaces none of your files, and lists the parts of the template that the harness cannot use.
    """
    if name == "list":
        names = sorted(HARNESSES.names())
        print_json({"harnesses": names}) if as_json else say("\n".join(names))
        return
    if template is None:
        raise click.UsageError("Name a template: `default`, or a directory.")
    if force and not install:
        raise click.UsageError("--force is for --install: an export to a directory never replaces a file of yours.")
    if out is not None and install:
        raise click.UsageError("--out and --install both say where the files go: give one of them.")
    if name in PROFILES and name not in HARNESSES.names():
        program = PROFILES[name].command[0]
        raise InputError(
            f"{name} has no compaction of its own, so there is no prompt to replace. recompact wrap compacts in its"
            f" place: {command_line('wrap', 'CONFIG', '--', program, options=['--template', template])} …"
        )
    harness = load_harness(name, Path.cwd())
    if blank := [pin for pin in pins if not pin.strip()]:
        raise click.UsageError(f"--pin {blank[0]!r} pins nothing: give it a text.")
    export = harness.export_with(resolve(template, Path.cwd()), budget, pins)
    earlier: list[tuple[Path, Path | None]] = []
    if install:
        earlier = put_in_place(export, force=force)
        files = [path for path, _ in earlier]
    else:
        files = write_export(export, out or Path(f"compaction-{harness.name}"))
    moved = {str(path): str(aside) for path, aside in earlier if aside}
    if as_json:
        print_json({"harness": harness.name, "files": [str(file) for file in files], "moved": moved, **_plain(export)})
        return
    for file in files:
        say(f"Written: {file}")
    for path, aside in moved.items():
        say(f"Moved aside: {path} is now {aside}")
    rest = [file.name for file in export.files if not file.place] if install else []
    if rest:
        say(f"Not installed, because it belongs in your own files: {', '.join(rest)} (written without --install)")
    for title, lines in _sections(export, harness.title):
        say(f"\n{title}")
        for number, line in enumerate(lines, 1):
            say(f"  {f'{number}.' if title.startswith('What to do') else '-'} {line}")


def _plain(export: Export) -> dict[str, list[str]]:
    return {key: list(getattr(export, key)) for key in ("steps", "checks", "traps", "losses")}


def _sections(export: Export, title: str) -> list[tuple[str, Sequence[str]]]:
    sections = [
        ("What to do", export.steps),
        ("How to check that it is in effect", export.checks),
        (f"What to know about {title}", export.traps),
        ("What the export changed or lost of the template", export.losses),
    ]
    return [(heading, lines) for heading, lines in sections if lines]
