"""`recompact prompts`: look at compaction prompts, check them, compare two, and import those of a harness.

Bad input is exit code 2; a template in which lint finds an error is exit code 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import click
from rich.console import Console

from recompact.cli.console import console, print_json, say
from recompact.cli.options import Json, as_command
from recompact.errors import InputError
from recompact.harnesses.importing import PromptConstants, check_target, from_files, from_package, from_settings, write
from recompact.harnesses.registry import HARNESSES, importable, load_harness
from recompact.presentation.report.document import ChangedPart, prompt_change
from recompact.presentation.report.terminal import heading, print_change, text
from recompact.values.chat import sha256
from recompact.values.template import (
    BUILT_IN,
    Defect,
    Template,
    directory_of,
    headings,
    lint as findings_of,
    parse_sections,
    placeholders,
    read,
)
from recompact.values.texts import command_line, quantity

ALL_PARTS = ("system", "first", "update", "frame")


@as_command(
    cls=click.Group,
    example="prompts show default",
    invoke_without_command=True,
    help="Show, lint, compare and import compaction prompts. TEMPLATE is a built-in template or a directory. Without a"
    " command: list the built-in templates.",
)
def command(*, as_json: Json) -> None:
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        _list(as_json)
    elif as_json:
        raise click.UsageError(f"--json goes after the command: recompact prompts {context.invoked_subcommand} --json")


def _list(as_json: bool) -> None:
    templates = {name: read(directory_of(name)) for name in BUILT_IN}
    if as_json:
        rows = [
            {"template": name, "hash": template.hash, "headings": list(headings(template.first)), "about": about}
            for (name, template), about in zip(templates.items(), BUILT_IN.values(), strict=True)
        ]
        print_json({"templates": rows})
        return
    for name, template in templates.items():
        sections = quantity(len(headings(template.first)), "heading")
        say(f"{name:<12} {BUILT_IN[name]} ({sections}, {template.hash[:12]})")
    say("Show one: recompact prompts show NAME. In a config: [compressor] template = NAME, or a directory.")


@as_command(group=command)
def show(
    template: str = "default",
    *,
    part: Annotated[str | None, click.Choice(ALL_PARTS), "Only this part."],
    raw: Annotated[bool, "The exact bytes of the part, and nothing else."],
    as_json: Json,
) -> None:
    """Print a template: where it comes from, its hash, its parts and their sections."""
    if raw and not part:
        raise click.UsageError("--raw needs --part: it prints the bytes of one part.")
    value, directory = _open(template)
    if part and not value.part(part):
        raise InputError(f"{directory} has no {part}.md, or it is empty.")
    parts = [part] if part else [name for name in ALL_PARTS if value.part(name)]
    if raw and part:
        click.echo(value.part(part).encode("utf-8"), nl=False)
    elif as_json:
        described = {name: _describe_part(value, name) for name in parts}
        print_json({"template": template, "hash": value.hash, "provenance": dict(value.provenance), "parts": described})
    else:
        out = console()
        if not part:
            _print_origin(out, value, template)
        for name in parts:
            _print_part(out, value, name)


@as_command(group=command)
def lint(template: str, *, as_json: Json) -> None:
    """Report what is wrong with a template, in which file, and how to fix it. Exit code 1 if it cannot be used."""
    value, directory = _open(template)
    findings = findings_of(value)
    errors = sum(finding.level == "error" for finding in findings)
    if as_json:
        print_json(
            {
                "template": template,
                "hash": value.hash,
                "errors": errors,
                "warnings": len(findings) - errors,
                "findings": [_finding(finding) for finding in findings],
            }
        )
    else:
        _print_findings(console(), findings, directory)
        verdict = "cannot be used" if errors else "can be used"
        say(f"{quantity(errors, 'error')}, {quantity(len(findings) - errors, 'warning')}: the template {verdict}.")
    if errors:
        raise SystemExit(1)


@as_command(group=command)
def diff(a: str, b: str, *, as_json: Json) -> None:
    """Compare two templates section by section."""
    before, after = _open(a)[0], _open(b)[0]
    change = prompt_change((a, before), (b, after))
    if as_json:
        print_json(
            {
                "a": {"template": a, "hash": before.hash},
                "b": {"template": b, "hash": after.hash},
                "same": not change.parts,
                "structure_changed": change.structure_changed,
                "parts": {part.part: _part_diff(part) for part in change.parts},
            }
        )
    elif change.parts:
        print_change(console(), change)
    else:
        say(f"Nothing differs: both have the hash {before.hash}.")


@as_command("import", group=command)
def import_(
    source: str | None,
    *,
    harness: Annotated[str | None, "--from", "The harness whose current prompt to import.", {"metavar": "HARNESS"}],
    target: Annotated[Path, "--to", "The template directory to write."],
    first: Annotated[Path | None, "A file with the prompt for the first summary."],
    update: Annotated[Path | None, "A file with the prompt for later summaries."],
    system: Annotated[Path | None, "A file with the system prompt."],
    package: Annotated[Path | None, "Where the harness's package is installed."],
    python: Annotated[str | None, "The Python that the harness is installed in."],
    force: Annotated[bool, "Replace an earlier import that has not been changed."],
    as_json: Json,
) -> None:
    """Make a template from SOURCE, a file, or from the prompt that a harness currently uses.

    With --from, SOURCE is where the harness's package or settings are, if not in the usual place; without, SOURCE may
    also be the name of a harness. One file serves for the first summary and for later ones, unless --first, --update
    and --system name one each.
    """
    check_target(target, force=force)  # before a search that may take seconds
    template = _import(source, harness, first, update, system, package, python)
    write(template, target, force=force)
    findings = findings_of(template)
    if as_json:
        print_json(
            {
                "to": str(target),
                "hash": template.hash,
                "provenance": dict(template.provenance),
                "findings": [_finding(finding) for finding in findings],
            }
        )
        return
    out = console()
    _print_origin(out, template, str(target))
    _print_findings(out, findings, target)
    say(f"Written to {target}. Show it with `{command_line('prompts show', target)}`.")


def _import(
    source: str | None,
    harness: str | None,
    first: Path | None,
    update: Path | None,
    system: Path | None,
    package: Path | None,
    python: str | None,
) -> Template:
    path = Path(source) if harness and source else None
    if harness is None and source in HARNESSES.names():
        harness = source
    if harness is not None:
        if first or update or system:
            raise click.UsageError(f"Give either the harness {harness} or files, not both.")
        if path and package:
            raise click.UsageError("PATH and --package are the same thing: give one of them.")
        return _import_harness(harness, path or package, python)
    if package or python:
        raise click.UsageError(f"--package and --python need a harness: {', '.join(importable())}.")
    if source and first:
        raise click.UsageError("SOURCE and --first are the same thing: give one of them.")
    chosen = first or (Path(source) if source else None)
    if chosen is None:
        raise click.UsageError("Name what to import: a file, --first FILE, or a harness.")
    if source and not chosen.exists():
        known = ", ".join(importable())
        raise InputError(f"{source} is neither a file nor a harness whose prompts can be found ({known}).")
    return from_files(chosen, update, system)


def _import_harness(name: str, path: Path | None, python: str | None) -> Template:
    prompts = load_harness(name, Path.cwd()).prompts
    if prompts is None:
        raise InputError(
            f"{name} keeps its prompt in code, which Recompact does not read (it can import from"
            f" {', '.join(importable())}). Save it as a file and import that: recompact prompts import FILE --to DIR"
        )
    if isinstance(prompts, PromptConstants):
        return from_package(name, prompts, package=path, python=python)
    if python is not None:
        raise click.UsageError(f"--python does not apply to {name}: its prompt is in one of your files.")
    return from_settings(name, prompts, path)


def _open(name: str) -> tuple[Template, Path]:
    directory = directory_of(name)
    return read(directory), directory


def _describe_part(template: Template, part: str) -> dict[str, Any]:
    text = template.part(part)
    return {
        "file": f"{part}.md",
        "sha256": sha256(text),
        "placeholders": list(dict.fromkeys(placeholders(text))),
        "sections": [{"heading": section.name, "guidance": section.guidance} for section in parse_sections(text)],
        "text": text,
    }


def _finding(finding: Defect) -> dict[str, str]:
    return {name: getattr(finding, name) for name in ("level", "file", "message", "fix")}


def _part_diff(part: ChangedPart) -> dict[str, Any]:
    described: dict[str, Any] = {"structure_changed": bool(part.structure)}
    for name, (a, b) in (("headings", part.headings), ("placeholders", part.placeholders)):
        described[name] = {"same": a == b, "a": list(a), "b": list(b)}
    described["sections"] = [{"heading": c.heading, "a": c.before, "b": c.after} for c in part.changes]
    return described


def _print_origin(out: Console, template: Template, name: str) -> None:
    shipped = [("from", "ships with recompact")] if name in BUILT_IN else None
    lines = [("template", name), ("hash", template.hash), *(shipped or _origin_lines(template.provenance))]
    for key, value in lines:
        out.print(text(f"{key:<12}", "bold") + text(value), soft_wrap=True)


def _origin_lines(provenance: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Provenance in plain words. It is a user's file: it may have any shape, and none is an error."""
    if not provenance:
        yield "from", "no provenance recorded"
        return
    if harness := provenance.get("harness"):
        package = provenance.get("package")
        yield "from", f"{harness} ({package} {provenance.get('version')})" if package else str(harness)
    parts = provenance.get("parts")
    for part, origin in parts.items() if isinstance(parts, dict) else ():
        yield part, _origin_line(origin) if isinstance(origin, dict) else str(origin)
    if provenance.get("frame"):
        yield "frame", "written by Recompact: the prompts have no place for the conversation"


def _origin_line(origin: Mapping[str, Any]) -> str:
    constant = origin.get("constant")
    return f"{origin.get('file', '?')}{f', {constant}' if constant else ''}"


def _print_part(out: Console, template: Template, part: str) -> None:
    content = template.part(part)
    used = ", ".join(dict.fromkeys(placeholders(content))) or "no placeholders"
    out.print()
    out.print(heading(f"{part} ({len(content):,} characters; {used})", "bold"))
    for section in parse_sections(content):
        if section.level:
            out.print(text(section.heading.rstrip("\r\n"), "bold cyan"), soft_wrap=True)
        if section.guidance:
            out.print(text(section.guidance.removesuffix("\n")), soft_wrap=True)


def _print_findings(out: Console, findings: tuple[Defect, ...], directory: Path) -> None:
    for finding in findings:
        level = text(f"{finding.level:<8}", "bold red" if finding.level == "error" else "yellow")
        out.print(level, text(f"{directory / finding.file} {finding.message}: {finding.fix}."), soft_wrap=True)
