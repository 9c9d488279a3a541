"""From the name of a suite in a config to the suite: built in, installed, or in a file of the user's own.

A fingerprint says what a suite was made of when a run began, so that a run does not mix tasks from before and after a
change.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.environments.installations import HostNeeds
from recompact.environments.protocol import Suite
from recompact.errors import InputError
from recompact.registry import Registry
from recompact.version import __version__

SUITES = Registry("suite", "recompact.suites")

INSTALLATIONS = Registry("installation of a suite", "recompact.installations")
"""By the name of a suite: a module that can be imported without what the suite needs, and may have these functions.

- `missing()`: what has to be installed before the suite can be used, with the command that does it; None if nothing.
- `host_needs(options, python, directory)`: the `HostNeeds` of a suite with an interpreter of its own.
- `setup(request, say)`: installs what is missing, a `SetupRequest`; `recompact setup` lists the suites that have it.
- `contents(options, split, directory)`: hashes of the tasks in the user's files, by what they belong to.
"""

HOSTS = Registry(  # where hosts live if not on this machine; each is called with a hosted suite and the settings
    "kind of host",
    "recompact.hosts",
    {"ray": "recompact.environments.cluster.suite:open_cluster"},
)


def load_suite(name: str, options: Mapping[str, Any], directory: Path) -> Suite:
    """A suite by name. The plug-in may be a suite, or anything that is called with the options (and with
    `config_directory`, if it has such a parameter) and returns one."""
    needs = "it needs name, splits(), tasks(split) and environment(task)"
    suite: Suite = SUITES.make(name, options, Suite, needs, directory, config_directory=directory)
    return suite


def missing_for(name: str) -> str | None:
    """What has to be installed before a declared suite can be used, with the command that does it."""
    try:
        if missing := _function(name, "missing"):
            text: str | None = missing()
            return text
        SUITES.find(name)
    except InputError as error:
        return str(error)
    return None


def host_needs(
    name: str, options: Mapping[str, Any], python: str | None = None, directory: Path = Path()
) -> HostNeeds | None:
    """What a suite asks of its hosts; None where it asks for nothing."""
    function = _function(name, "host_needs")
    needs: HostNeeds | None = function(options, python, directory) if function else None
    return needs


def contents_of(name: str, options: Mapping[str, Any], split: str, directory: Path) -> Mapping[str, str]:
    """Hashes of the tasks in the user's files, keyed by what they belong to; empty where a suite has none."""
    function = _function(name, "contents")
    contents: Mapping[str, str] = function(options, split, directory) if function else {}
    return contents


def _function(suite: str, name: str) -> Callable[..., Any] | None:
    return getattr(INSTALLATIONS.find(suite), name, None) if suite in INSTALLATIONS.names() else None


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
        return {str(path.relative_to(root)): _hash(path) for root, path in _source_files(directory / place)}
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


def _source_files(path: Path) -> Iterator[tuple[Path, Path]]:
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
