"""From the name of a suite in a config to the suite: a built-in one, a module's, or a file's of the user's own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.environments.protocol import Suite
from recompact.errors import InputError

BUILT_IN = {
    "pocket": "recompact.environments.pocket.suite:PocketSuite",
    "officebench": "recompact.environments.officebench.suite:OfficeBenchSuite",
}


def load_suite(spec: str, options: Mapping[str, Any], directory: Path) -> Suite:
    """`pocket`, `package.module:name` or `path/to/file.py:name` (relative to `directory`).

    The name may be a suite, or anything that is called with the options and returns one.
    """
    target = BUILT_IN.get(spec, spec)
    place, _, name = target.rpartition(":")
    if not place:
        known = ", ".join(BUILT_IN)
        raise InputError(f"suite {spec!r} is neither built in ({known}) nor of the form file.py:name or module:name")
    module = _from_file(directory / place) if place.endswith(".py") else _from_module(place, spec)
    try:
        found = getattr(module, name)
    except AttributeError:
        raise InputError(f"suite {spec!r}: {place} has no {name!r}") from None
    if isinstance(found, type) or not isinstance(found, Suite):
        try:
            found = found(**options)
        except TypeError as error:
            raise InputError(f"suite {spec!r} does not take these options: {error}") from None
    elif options:
        raise InputError(f"suite {spec!r} takes no options, but [suite.options] has {', '.join(options)}")
    if not isinstance(found, Suite):
        raise InputError(f"suite {spec!r} is no suite: it needs name, splits(), tasks(split) and environment(task)")
    return found


def _from_module(name: str, spec: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(f"suite {spec!r}: no module {error.name!r} can be imported") from None


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"suite file {path} does not exist")
    module_name = f"recompact_suite_{path.stem}"
    found = importlib.util.spec_from_file_location(module_name, path)
    if found is None or found.loader is None:
        raise InputError(f"suite file {path} is no Python file")
    module = importlib.util.module_from_spec(found)
    sys.modules[module_name] = module  # so that its dataclasses and pickles find it
    try:
        found.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"suite file {path} could not be loaded: {type(error).__name__}: {error}") from error
    return module
