"""Finds the installed package of a harness and lists its source files; runs none of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from recompact.errors import InputError

SUFFIXES = {"javascript": (".js", ".mjs", ".cjs"), "python": (".py",)}
_ASK_TIMEOUT = 20  # seconds for `npm root -g`, or for a Python to say where its packages are
_SKIPPED = {"node_modules", "__pycache__", "site-packages"}


@dataclass(frozen=True)
class Constant:
    """A prompt known to be bound to `name` in a file whose path ends with `file`."""

    part: str
    file: str
    name: str


@dataclass(frozen=True)
class PromptPackage:
    """What must be known about a harness's package to find its prompts; the prompts themselves are in its files."""

    name: str  # of the harness
    packages: tuple[str, ...]  # today's name in its registry, then earlier ones, under which npm may have it
    language: Literal["javascript", "python"]
    install: str
    parts: tuple[str, ...] = ("system", "first", "update")
    constants: tuple[Constant, ...] = ()  # if empty, prompts are recognised by their structure
    # Texts for `str.format`: what the fields are called, and our placeholders for them. None: plain texts.
    fields: tuple[tuple[str, str], ...] | None = None
    # What its code calls the values that our placeholders stand for, where it builds the prompt around them.
    names: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def package(self) -> str:
        """The name that the package has today."""
        return self.packages[0]


@dataclass(frozen=True)
class Package:
    """An installed package: its root, its version, and the files that may hold prompts, sorted by name."""

    name: str
    version: str
    root: Path
    files: tuple[Path, ...]


def find(harness: PromptPackage, *, package: Path | None, python: str | None, cwd: Path) -> Package:
    """The package where the user says it is, or in the usual places."""
    if harness.language == "javascript":
        if python is not None:
            raise InputError(f"--python has no meaning for {harness.name}, which is a Node package: use --package.")
        return _find_node(harness, package, cwd)
    return _find_python(harness, package, python)


def _find_node(harness: PromptPackage, package: Path | None, cwd: Path) -> Package:
    if package is not None:
        for folder in (package / "node_modules", package):
            for root in (package, *(folder / name for name in harness.packages)):
                if candidate := _node_package(harness, root):
                    return candidate
        raise InputError(
            f"{package} is not the installed package {harness.package} and does not contain it:"
            f" --package must name the directory whose package.json says {harness.package!r}."
        )
    folders = [directory / "node_modules" for directory in (cwd, *cwd.parents)]
    folders += _npm_global()
    for name in harness.packages:  # today's name before earlier ones, wherever they are
        for folder in folders:
            if candidate := _node_package(harness, folder / name):
                return candidate
    raise InputError(_not_found(harness, folders))


def _node_package(harness: PromptPackage, root: Path) -> Package | None:
    try:
        manifest = json.loads((root / "package.json").read_bytes())
        name, version = manifest["name"], str(manifest["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Package(name, version, root, _walk(root, harness.language)) if name in harness.packages else None


def _npm_global() -> list[Path]:
    npm = shutil.which("npm")
    answer = _ask([npm, "root", "-g"]) if npm else None
    return [Path(answer)] if answer else []


def _find_python(harness: PromptPackage, package: Path | None, python: str | None) -> Package:
    if package is not None and python is not None:
        raise InputError("--package and --python both say where the package is: give one of them.")
    if package is not None:
        candidate = _distribution(harness, [package]) or _checkout(harness, package)
        if candidate is None:
            raise InputError(
                f"{package} holds no {harness.package}: --package must name the site-packages directory where it is"
                " installed, or its source directory with pyproject.toml."
            )
        return candidate
    path = _python_path(harness, python) if python else sys.path
    folders = [Path(entry) for entry in path if entry]
    candidate = _distribution(harness, folders)
    if candidate is None:
        raise InputError(_not_found(harness, folders))
    return candidate


def _python_path(harness: PromptPackage, python: str) -> list[str]:
    answer = _ask([python, "-I", "-c", "import json, sys; print(json.dumps(sys.path))"])
    if answer is None:
        raise InputError(
            f"--python {python} could not be run: it must be the Python that {harness.name} is installed in."
        )
    return [str(entry) for entry in json.loads(answer)]


def _distribution(harness: PromptPackage, folders: Iterable[Path]) -> Package | None:
    for distribution in distributions(name=harness.package, path=[str(folder) for folder in folders]):
        if editable := _editable(distribution):
            return _checkout(harness, editable)
        root = Path(str(distribution.locate_file("")))
        candidates = (root / str(file) for file in distribution.files or () if file.suffix in SUFFIXES["python"])
        files = tuple(sorted(file for file in candidates if file.is_file()))
        return Package(harness.package, distribution.version, root, files or _walk(root, harness.language))
    return None


def _editable(distribution: Distribution) -> Path | None:
    """The source directory of a package that was installed with `pip install -e`."""
    try:
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
        if origin["dir_info"]["editable"]:
            return Path(unquote(urlsplit(origin["url"]).path))
    except (ValueError, KeyError, TypeError):
        pass
    return None


def _checkout(harness: PromptPackage, root: Path) -> Package | None:
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
        if project["name"] != harness.package:
            return None
        version = str(project.get("version", "unknown"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Package(harness.package, version, root, _walk(root, harness.language))


def _walk(root: Path, language: str) -> tuple[Path, ...]:
    """The package's own files: not those of packages inside it or of hidden folders."""
    paths: list[Path] = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith(".")]
        paths += (Path(folder) / name for name in files if name.endswith(SUFFIXES[language]))
    return tuple(sorted(paths))


def _ask(command: list[str]) -> str | None:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_TIMEOUT, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def _not_found(harness: PromptPackage, folders: list[Path]) -> str:
    looked = ", ".join(str(folder) for folder in folders) or "no directory"
    option = "--package DIR" if harness.language == "javascript" else "--package DIR or --python PYTHON"
    return (
        f"The package {harness.package} is not installed in {looked}."
        f" Install it (`{harness.install}`), or say where it is with {option}."
    )
