"""From the name of a suite in a config to the suite: built in, installed, or in a file of the user's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recompact.environments.protocol import Suite
from recompact.errors import InputError, OptionError
from recompact.registry import Registry, build

SUITES = Registry(
    "suite",
    "recompact.suites",
    {
        "pocket": "recompact.embedded.pocket.suite:PocketSuite",
        "officebench": "recompact.environments.officebench.suite:OfficeBenchSuite",
        "qa": "recompact.environments.qa.suite:QaSuite",
    },
)

_MISSING = {  # suites that need more than recompact: a function that says what is missing, None if nothing is
    "officebench": "recompact.environments.officebench.suite:missing",
    "qa": "recompact.environments.qa.suite:missing",
}


def load_suite(name: str, options: Mapping[str, Any], directory: Path) -> Suite:
    """A suite by name. The plug-in may be a suite, or anything that is called with the options and returns one."""
    plugin = SUITES.find(name, directory)
    if isinstance(plugin, Suite) and not isinstance(plugin, type):
        if options:
            raise OptionError(f"suite {name!r} takes no options", next(iter(options)))
        return plugin
    suite = build(plugin, options) if callable(plugin) else plugin
    if not isinstance(suite, Suite):
        raise InputError(f"suite {name!r} is no suite: it needs name, splits(), tasks(split) and environment(task)")
    return suite


def missing_for(name: str) -> str | None:
    """What has to be installed before a built-in or installed suite can be used, with the command that does it."""
    try:
        if name not in _MISSING:
            SUITES.find(name)
            return None
        module, _, attribute = _MISSING[name].partition(":")
        missing: Callable[[], str | None] = getattr(importlib.import_module(module), attribute)
        return missing()
    except InputError as error:
        return str(error)
