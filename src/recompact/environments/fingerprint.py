"""What a suite was made of when a run began, so that a run does not mix tasks from before and after a change."""

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
    """Hashes of the suite's own source files and the version of its package, keyed by what they belong to.

    For a suite in a file, that is this file and those beside it that it imports; for one in a package, its module and
    the version; for one whose tasks are folders, the folders of the split. What cannot be found from here, as in a
    host's Python, is left out.
    """
    place = SUITES.target(name).rpartition(":")[0]
    if place.endswith(".py"):
        return {str(path.relative_to(root)): _hash(path) for root, path in _sources(directory / place)}
    top = place.partition(".")[0]
    if top == PACKAGE:
        return {PACKAGE: __version__, **contents_of(name, options or {}, split, directory)}
    marks = {}
    try:
        if (spec := importlib.util.find_spec(place) if place else None) and spec.origin and Path(spec.origin).is_file():
            marks[place] = _hash(Path(spec.origin))
        version = importlib.metadata.version(top)
        marks[f"{top} (version)" if top in marks else top] = version  # beside the hash of a package that is one module
    except (ImportError, ValueError):  # not installed here, or not a package of its own
        pass
    return marks


def _sources(path: Path) -> Iterator[tuple[Path, Path]]:
    """A file and the files below its directory that it imports, directly or not, each with that directory."""
    root, waiting, done = path.parent, [path], set[Path]()
    while waiting:
        source = waiting.pop()
        if source in done or not source.is_relative_to(root) or not source.is_file():
            continue
        done.add(source)
        yield root, source
        for module in _imports(source, root):
            waiting += [module.with_suffix(".py"), module / "__init__.py"]


def _imports(source: Path, root: Path) -> Iterator[Path]:
    """Where the modules lie that a file imports, packages above them included, if they are below `root`."""
    try:
        tree = ast.parse(source.read_bytes())
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (place for alias in node.names for place in _places(root, alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = (source, *source.parents)[node.level] if 0 < node.level <= len(source.parents) else root
            yield from _places(base, node.module or "")
            # What is imported from a package may be a module of it.
            yield from (base.joinpath(*(node.module or "").split("."), alias.name) for alias in node.names)


def _places(base: Path, module: str) -> Iterator[Path]:
    """Those of a module and of the packages that it is in."""
    names = module.split(".")
    yield from (base.joinpath(*names[: number + 1]) for number in range(len(names)) if names[0])


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
