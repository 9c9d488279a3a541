"""The compaction prompt that a harness has in force, as a template: from constants of its Python package, from a user's
settings, or from files.

Source files are read, never run. The template holds the exact texts; its provenance has no date and no path of this
machine, so the same import gives the same bytes.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from string import Formatter
from typing import Any

from recompact.errors import InputError
from recompact.values.chat import sha256
from recompact.values.outputs import check_directory, is_ours, replaced_directory
from recompact.values.reading import read_small
from recompact.values.template import PARTS, REQUIRED, Template, placeholders, read, refuse_errors

_TIMEOUT = 20  # seconds for a Python to say where its packages are
_TIDYING: dict[str, Callable[[str], str]] = {  # calls that only tidy a text
    "dedent": textwrap.dedent,
    "cleandoc": inspect.cleandoc,
    "strip": str.strip,
    "lstrip": str.lstrip,
    "rstrip": str.rstrip,
}


@dataclass(frozen=True)
class PromptConstants:
    """Where a Python package keeps its prompts: by part of a template, the file and the name of the constant."""

    package: str  # as pip knows it
    constants: Mapping[str, tuple[str, str]]
    # For texts that go through `str.format`: what its fields are called, and our placeholders. None: plain texts.
    fields: Mapping[str, str] | None = None


def _package_folder(prompts: PromptConstants, package: Path | None, python: str | None) -> Path:
    """The folder with the package's files: below the one that the user names, in the Python that the user names, or in
    this one."""
    if package is not None and python is not None:
        raise InputError("--package and --python both say where the package is: give one of them.")
    folders = [package, package / "src"] if package is not None else [Path(p) for p in _search_path(python) if p]
    first_file = next(iter(prompts.constants.values()))[0]
    for folder in folders:
        if (folder / first_file).is_file():
            return folder
    if package is not None:
        raise InputError(
            f"{package} has no {first_file}: --package must name the site-packages folder or the source folder of"
            f" {prompts.package}."
        )
    raise InputError(
        f"{prompts.package} is not installed in {python or sys.executable}: install it there (`pip install"
        f" {prompts.package}`), or say where it is with --python PYTHON or --package FOLDER."
    )


def constant_text(source: bytes, name: str) -> str | None:
    """The text that the source binds to a name, in the module or in a class; None if that is not a plain text.

    >>> constant_text(b"A = dedent('''\\\\n  x\\\\n  y''').strip() + 'z'", "A")
    'x\\nyz'
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    for statement in (statement for body in bodies for statement in body):
        match statement:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                return _constant(value)
            case ast.AnnAssign(target=ast.Name(id=bound), value=ast.expr() as value) if bound == name:
                return _constant(value)
    return None


def _constant(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            a, b = _constant(left), _constant(right)
            return None if a is None or b is None else a + b
        case ast.Call(args=[value], keywords=[], func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _tidy(name, value)
        case ast.Call(args=[], keywords=[], func=ast.Attribute(value=value, attr=name)):
            return _tidy(name, value)
    return None


def _tidy(name: str, value: ast.expr) -> str | None:
    text = _constant(value) if name in _TIDYING else None
    return None if text is None else _TIDYING[name](text)


def undo_format(text: str, fields: Mapping[str, str]) -> str:
    """A text for `str.format` as one of ours: single braces, and our placeholders in place of its fields.

    >>> undo_format("Sum {messages} up as {{}}.", {"messages": "history"})
    'Sum {{ history }} up as {}.'
    """
    pieces: list[str] = []
    try:
        for literal, name, _, _ in Formatter().parse(text):
            pieces += (literal, "" if name is None else f"{{{{ {fields.get(name, name)} }}}}")
    except ValueError:  # not such a text after all
        return text
    return "".join(pieces)


def _search_path(python: str | None) -> list[str]:
    if python is None:
        return sys.path
    command = [python, "-I", "-c", "import json, sys; print(json.dumps(sys.path))"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=True)
        return [str(folder) for folder in json.loads(answer.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError):
        raise InputError(f"{python} could not be run: --python must name a Python interpreter.") from None


def _version(package: str, folder: Path) -> str:
    for distribution in distributions(name=package, path=[str(folder)]):
        return distribution.version
    for project in (folder / "pyproject.toml", folder.parent / "pyproject.toml"):
        try:
            return str(tomllib.loads(project.read_text("utf-8"))["project"]["version"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return "unknown"


@dataclass(frozen=True)
class PromptFile:
    """A file in which a harness looks for its prompt. `read` returns the prompt, or None if there is none."""

    key: str  # what the prompt is called in it; empty where the whole file is the prompt
    folder: str
    names: tuple[str, ...]
    read: Callable[[str, Path], str | None]  # takes the file's text and its path
    variable: str = ""  # the environment variable that names another folder


def _prompt_in(source: PromptFile, path: Path | None) -> tuple[Path, str]:
    """The file and the prompt in it. `path` is the file, or the folder to look in instead."""
    usual = (os.environ.get(source.variable) if source.variable else None) or source.folder
    folder = path if path is not None else Path(usual).expanduser()
    files = [folder / name for name in source.names] if path is None or path.is_dir() else [folder]
    file = next((file for file in files if file.is_file()), None)
    if file is None:
        raise InputError(f"{' or '.join(map(str, files))} does not exist: give its path, as in --from HARNESS PATH")
    try:
        prompt = source.read(read_small(file), file)
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not prompt or not prompt.strip():
        what = f"no {source.key}" if source.key else "no prompt"
        raise InputError(f"{file} has {what}: the harness uses its built-in prompt, which is not in its files")
    return file, prompt


IMPORT = "imported template"
"""What the manifest of such a directory calls it."""

# Goes around a prompt that has no place for the conversation. The tags are those that update prompts of harnesses refer
# to; there are no words beside them, so that the compressor reads only what the harness wrote.
FRAME = """\
<conversation>
{{ history }}
</conversation>

<previous-summary>
{{ previous_summary }}
</previous-summary>

{{ instructions }}"""
# A single prompt that serves as first and as update does not mention the previous summary, so the frame has to.
MERGING_FRAME = FRAME.replace(
    "</previous-summary>",
    "</previous-summary>\n"
    "The previous summary stands for all that came before the conversation. What you write replaces both: carry over"
    " what still holds.",
)


def from_package(harness: str, source: PromptConstants, *, package: Path | None, python: str | None) -> Template:
    """The prompts of an installed Python package, each of which has one for first and later summaries."""
    folder = _package_folder(source, package, python)
    version = _version(source.package, folder)
    texts, origins = {"system": ""}, {}
    for part, (file, name) in source.constants.items():
        try:
            text = constant_text((folder / file).read_bytes(), name)
        except OSError as error:
            raise InputError(f"{folder / file} cannot be read: {error.strerror}.") from None
        if text is None:
            raise InputError(
                f"{file} of {source.package} {version} has no plain text called {name}. Save the prompt as a file and"
                " import that: recompact prompts import FILE --to DIR"
            )
        texts[part] = text if source.fields is None else undo_format(text, source.fields)
        origins[part] = {"file": file, "constant": name, "sha256": sha256(texts[part])}
    provenance = {"harness": harness, "package": source.package, "version": version, "parts": origins}
    return _frame_template({**texts, "update": texts["first"]}, MERGING_FRAME, provenance)


def from_settings(harness: str, source: PromptFile, path: Path | None) -> Template:
    """The prompt that a user's own file puts in force; it serves for the first summary and for every later one."""
    file, text = _prompt_in(source, path)
    origin = {"file": file.name, "constant": source.key, "sha256": sha256(text)}
    provenance = {"harness": harness, "parts": {"first": origin, "update": origin}}
    return _frame_template({"system": "", "first": text, "update": text}, MERGING_FRAME, provenance)


def from_files(first: Path, update: Path | None, system: Path | None) -> Template:
    """The prompts in files; one file alone serves for the first summary and for every later one."""
    texts = {"system": _prompt_text(system) if system else "", "first": _prompt_text(first)}
    if update is None and "previous_summary" in placeholders(texts["first"]):
        raise InputError(
            f"{first} has a place for a previous summary, so it cannot be the prompt for the first one:"
            " give both, as --first FILE --update FILE."
        )
    texts["update"] = _prompt_text(update) if update else texts["first"]
    files = {"system": system, "first": first, "update": update or first}
    origins = {part: {"file": path.name, "sha256": sha256(texts[part])} for part, path in files.items() if path}
    frame = FRAME if update else MERGING_FRAME
    return _frame_template(texts, frame, {"parts": origins})


def check_target(directory: Path, *, force: bool) -> None:
    """Refuse a target that is not free; with force, an unmodified earlier import may be replaced."""
    check_directory(directory, IMPORT, "--to")
    if not force and is_ours(directory, IMPORT):
        raise InputError(f"{directory} is not empty: name another directory with --to, or replace it with --force.")


def write(template: Template, directory: Path, *, force: bool) -> None:
    """Write the template directory whole or not at all."""
    refuse_errors(template, directory)
    check_target(directory, force=force)
    with replaced_directory(directory, IMPORT, "--to") as fresh:
        template.write_parts(fresh)
        if read(fresh) != template:
            raise InputError(f"{directory} was not written: the texts do not survive being written and read again.")


def _frame_template(texts: Mapping[str, str], frame: str, provenance: dict[str, Any]) -> Template:
    """A template of these texts, with a frame only if one of them lacks a place for what it needs."""
    complete = all(set(placeholders(texts[part])).issuperset(REQUIRED[part]) for part in PARTS)
    if not complete:
        provenance = {**provenance, "frame": {"written_by": "recompact", "sha256": sha256(frame)}}
    return Template(texts["system"], texts["first"], texts["update"], "" if complete else frame, provenance)


def _prompt_text(path: Path) -> str:
    try:
        text = read_small(path)
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not text.strip():
        raise InputError(f"{path} is empty: it must hold a prompt.")
    return text
