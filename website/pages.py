"""Pages of the site that are made from the code, and where a link in the repository leads on the site.

Nothing here needs mkdocs, so the tests run it without the extra `docs`.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import click

import recompact
from recompact.cli.main import COMMANDS, cli
from recompact.engine.config_parser import config_schema

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FRONT = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "AGENTS.md")
LINK = re.compile(r"(?<=\]\()(?!\w+:|/|#)([^)\s#]+)")
FENCE = re.compile(r"^```.*?^```|^    .*?$", re.MULTILINE | re.DOTALL)

# page -> (title, what the reader gets, packages): every public name belongs to exactly one of them
API = {
    "steps": (
        "Steps of the method",
        "Collect, verify, adapt, evaluate and export, each as one call, and the study they work on.",
        ("adaptation", "attribution", "engine", "evaluation"),
    ),
    "environments": (
        "Environments and suites",
        "What you implement so that your own tasks can be played, and the suites that are built in.",
        ("environments", "suites"),
    ),
    "compressors": (
        "Compressors",
        "What turns a context into a smaller one, and the protocol for one of your own.",
        ("compressors",),
    ),
    "models": (
        "Models and agents",
        "Clients for model servers, simulated models, and what an agent of your own meets.",
        ("models", "simulation", "agents", "harnesses"),
    ),
    "values": (
        "Values and errors",
        "The frozen values that every step takes and returns, and the errors it may raise.",
        ("values", "errors"),
    ),
}


def public_names(packages: tuple[str, ...]) -> dict[str, str]:
    """The public names whose modules are in these packages, each with the module it is defined in."""
    return {name: module for name, module in sorted(recompact._MODULES.items()) if module.partition(".")[0] in packages}


def undocumented_names() -> list[str]:
    """Public names without a docstring of their own, and methods of public protocols, which others implement."""
    return [path for name in recompact._MODULES for path in _undocumented(name, getattr(recompact, name))]


def _undocumented(name: str, value: Any) -> Iterator[str]:
    text = getattr(value, "__doc__", None) or ""
    if not text or text.startswith(f"{name}("):  # what a dataclass writes by itself
        yield name
    if getattr(value, "_is_protocol", False):
        for attribute, member in vars(value).items():
            described = isinstance(member, property) or callable(member)
            if described and not attribute.startswith("_") and not member.__doc__:
                yield f"{name}.{attribute}"


def api_page(page: str) -> str:
    title, gain, packages = API[page]
    names = public_names(packages)
    listed = ", ".join(f"[`{name}`][recompact.{module}.{name}]" for name, module in names.items())
    parts = [f"# {title}\n\n{gain} All are imported from `recompact`.\n\n{listed}\n"]
    for name, module in names.items():
        options = {"heading": name, "toc_label": name}
        lines = "".join(f'      {key}: "{value}"\n' for key, value in options.items())
        parts.append(f"::: recompact.{module}.{name}\n    options:\n{lines}")
    return "\n".join(parts)


def command_page() -> str:
    """Every command with its usage, help text, arguments and options, in the order in which a person meets them."""
    opening = (
        "# Commands\n\nEvery command with its options, as `recompact COMMAND --help` prints them. All commands take "
        "`--json`. How they end is in [exit codes](exit-codes.md); what they read and write in [files](files.md).\n"
    )
    root = click.Context(cli, info_name="recompact")
    index = "\n".join(f"| [`{name}`](#{name}) | {text} |" for name, text in COMMANDS.items())
    parts = [opening, f"| command | what it does |\n|---|---|\n{index}\n"]
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        parts += _command(command, name, root, "##")
    return "\n".join(parts)


def _command(command: click.Command, name: str, parent: click.Context, level: str) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    title = context.command_path.partition(" ")[2]
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    about = (command.help or "").replace("\b\n", "").replace("\f", "").strip()
    yield f"{level} {title} {{ #{title.replace(' ', '-')} }}\n\n{about}\n\n    {usage}\n"
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    if records:
        rows = "\n".join(f"| `{_cell(names)}` | {_cell(escape(text, quote=False))} |" for names, text in records)
        yield f"| option | meaning |\n|---|---|\n{rows}\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            inner = command.get_command(context, each)
            assert inner is not None
            yield from _command(inner, each, context, f"{level}#")


def config_page() -> str:
    """Every table of a config with its keys, from the schema that checks configs."""
    schema = config_schema()
    parts = [
        "# Config keys\n\nEvery key that a config may have, with its type, its default and what it means: made from "
        "the schema that `recompact check` checks configs with, which `recompact config schema` prints for editors. "
        "[What can a config say?](../configuration.md) explains the keys that need more than a line.\n"
    ]
    for name, entry in schema["properties"].items():
        parts.append(_table(schema, f"[{name}]", entry))
    return "\n".join(parts)


def _table(schema: dict[str, Any], name: str, entry: dict[str, Any]) -> str:
    of_names = entry.get("additionalProperties")
    if isinstance(of_names, dict) and "$ref" in of_names:
        name, entry = f"{name[:-1]}.NAME]", of_names
    body = _resolve(schema, entry)
    about = body.get("description", "").strip()
    lines = [f"## `{name}`\n", f"{about}\n" if about else "", "| key | type | default | meaning |", "|---|---|---|---|"]
    nested = []
    for key, value in body.get("properties", {}).items():
        inner = _resolve(schema, value)
        if "properties" in inner and inner is not value:
            nested.append((key, value))
        meaning = value.get("description") or inner.get("description", "")
        default = "" if "default" not in value else f"`{_toml(value['default'])}`"
        lines.append(f"| `{key}` | {_kind(schema, value)} | {default} | {_cell(meaning)} |")
    tables = [_table(schema, f"{name[:-1]}.{key}]", value) for key, value in nested]
    return "\n".join([*lines, "", *tables])


def _resolve(schema: dict[str, Any], entry: dict[str, Any]) -> dict[str, Any]:
    reference = entry.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else entry


def _kind(schema: dict[str, Any], entry: dict[str, Any]) -> str:
    if "$ref" in entry:
        return "table" if "properties" in (inner := _resolve(schema, entry)) else _kind(schema, inner)
    if "anyOf" in entry:
        kinds = [_kind(schema, each) for each in entry["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in entry:
        return " or ".join(f"`{_toml(value)}`" for value in entry["enum"])
    if "const" in entry:
        return f"`{_toml(entry['const'])}`"
    kind = entry.get("type", "any")
    return (
        f"list of {_kind(schema, entry.get('items', {}))}" if kind == "array" else {"object": "table"}.get(kind, kind)
    )


def _toml(value: Any) -> str:
    """A default as a config would say it; `unset` where there is none, `{…}` where it is a table of its own."""
    if value is None:
        return "unset"
    return "{…}" if isinstance(value, dict) and value else json.dumps(value, ensure_ascii=False)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def links(text: str) -> list[str]:
    """The relative links of a Markdown text, without those in its code blocks."""
    return LINK.findall(FENCE.sub("", text))


def site_path(path: str) -> str:
    """Where a file of the repository is on the site: `docs/` is its root, and other folders keep their places.

    Pages at the top of the repository go into a folder, since `SECURITY.md` and `security.md` are one file on macOS.
    """
    return f"project/{path}" if "/" not in path else path.removeprefix("docs/")


def repository_path(site: str) -> str:
    """The inverse of `site_path`."""
    return f"docs/{site}" if (DOCS / site).exists() else site.removeprefix("project/")


def rewrite_links(text: str, page: str) -> str:
    """The links of a page (a path in the repository), as they lead on the site."""
    base = posixpath.dirname(page)
    here = posixpath.dirname(site_path(page)) or "."

    def lead(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(base, match[1]))
        return posixpath.relpath(site_path(target), here) if (ROOT / target).exists() else match[1]

    blocks = [match.span() for match in FENCE.finditer(text)]
    ends = [0, *(edge for block in blocks for edge in block), len(text)]
    parts = [text[start:end] for start, end in pairwise(ends)]  # prose and code by turns
    return "".join(part if n % 2 else LINK.sub(lead, part) for n, part in enumerate(parts))


def linked_files() -> list[str]:
    """What pages link to outside of `docs/`, directly or through each other: it becomes part of the site."""
    waiting = [*FRONT, *(path.relative_to(ROOT).as_posix() for path in sorted(DOCS.rglob("*.md")))]
    seen = set(waiting)
    while waiting:
        page = waiting.pop()
        if not page.endswith(".md"):
            continue
        for link in links((ROOT / page).read_text(encoding="utf-8")):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
            if target not in seen and not target.startswith("..") and (ROOT / target).is_file():
                seen.add(target)
                waiting.append(target)
    return sorted(path for path in seen if not path.startswith("docs/"))


def opening(text: str) -> tuple[str, str]:
    """The title of a page and its first sentence of prose.

    >>> opening("# Title\\n\\n    code\\n\\nIt does `this`. And that.")
    ('Title', 'It does `this`.')
    """
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    prose = FENCE.sub("", text[title.end() :] if title else text)
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", prose)]
    first = next((part for part in paragraphs if part and part[0] not in "#|<!:-"), "")
    first = re.sub(r"!?\[([^\]]*)\][(\[][^)\]]*[)\]]", r"\1", first)
    return (title[1].strip() if title else "", re.split(r"(?<=[.?!:]) (?=[A-Z`\[])", first)[0])
