"""What a suite was made of when a run began, so that a run does not mix tasks of before and after a change."""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.environments.loading import SUITES, contents_of
from recompact.version import __version__

PACKAGE = __name__.partition(".")[0]


def fingerprint(
    name: str, directory: Path, options: Mapping[str, Any] | None = None, split: str = "train"
) -> dict[str, str]:
    """Hashes of the suite's own source files and the version of its package, by what they are of.

    Of a suite in a file that is this file and those beside it that it imports; of one in a package its module and the
    version; of one whose tasks are folders the folders of the split. What cannot be found from here, as in the Python
    of a host, is left out.
    """
    place = SUITES.built_in.get(name, name).rpartition(":")[0]
    if place.endswith(".py"):
        return {str(path.relative_to(root)): _hash(path) for root, path in _sources(directory / place)}
    top = place.partition(".")[0]
    if top == PACKAGE:
        return {PACKAGE: __version__, **contents_of(name, options or {}, split, directory)}
    marks = {}
    try:
        if (spec := importlib.util.find_spec(place) if place else None) and spec.origin and Path(spec.origin).is_file():
            marks[place] = _hash(Path(spec.origin))
        marks[top] = importlib.metadata.version(top)
    except (ImportError, ValueError):  # not installed here, or not a package of its own
        pass
    return marks


def _sources(path: Path) -> Iterator[tuple[Path, Path]]:
    """A file and its neighbours that it imports, however far that goes, each with the directory of the first."""
    root, waiting, done = path.parent, [path], set[Path]()
    while waiting:
        source = waiting.pop()
        if source in done or not source.is_file():
            continue
        done.add(source)
        yield root, source
        for module in _imports(source):
            inner = root.joinpath(*module.split("."))
            waiting += [inner.with_suffix(".py"), inner / "__init__.py"]


def _imports(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
