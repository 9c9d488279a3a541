"""Reads a prompt that a Python package keeps as a plain constant, from its source files; runs none of them."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import distributions
from pathlib import Path
from string import Formatter

from recompact.errors import InputError

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


@dataclass(frozen=True)
class Installation:
    """The folder that holds a package's files, and the package's version."""

    folder: Path
    version: str


def find_installation(prompts: PromptConstants, package: Path | None, python: str | None) -> Installation:
    """The package in the folder that the user names, in the Python that the user names, or in this one."""
    if package is not None and python is not None:
        raise InputError("--package and --python both say where the package is: give one of them.")
    folders = [package, package / "src"] if package is not None else [Path(p) for p in _search_path(python) if p]
    first_file = next(iter(prompts.constants.values()))[0]
    for folder in folders:
        if (folder / first_file).is_file():
            return Installation(folder, _version(prompts.package, folder))
    if package is not None:
        raise InputError(
            f"{package} has no {first_file}: --package must name the site-packages folder or the source folder of"
            f" {prompts.package}."
        )
    raise InputError(
        f"{prompts.package} is not installed in {python or sys.executable}: install it there (`pip install"
        f" {prompts.package}`), or say where it is with --python PYTHON or --package FOLDER."
    )


def read_prompts(prompts: PromptConstants, installation: Installation) -> dict[str, str]:
    """The prompts by part, as our templates write them."""
    texts = {}
    for part, (file, name) in prompts.constants.items():
        try:
            text = constant_text((installation.folder / file).read_bytes(), name)
        except OSError as error:
            raise InputError(f"{installation.folder / file} cannot be read: {error.strerror}.") from None
        if text is None:
            raise InputError(
                f"{file} of {prompts.package} {installation.version} has no plain text called {name}. Save the prompt"
                " as a file and import that: recompact prompts import FILE --to DIR"
            )
        texts[part] = text if prompts.fields is None else undo_format(text, prompts.fields)
    return texts


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
                return _text(value)
            case ast.AnnAssign(target=ast.Name(id=bound), value=ast.expr() as value) if bound == name:
                return _text(value)
    return None


def _text(node: ast.expr) -> str | None:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            a, b = _text(left), _text(right)
            return None if a is None or b is None else a + b
        case ast.Call(args=[value], keywords=[], func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return _tidy(name, value)
        case ast.Call(args=[], keywords=[], func=ast.Attribute(value=value, attr=name)):
            return _tidy(name, value)
    return None


def _tidy(name: str, value: ast.expr) -> str | None:
    text = _text(value) if name in _TIDYING else None
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
