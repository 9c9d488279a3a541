"""From the name of a suite in a config to the suite: built in, installed, or in a file of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
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
        "workspace": "recompact.environments.workspace.suite:WorkspaceSuite",
    },
)


def load_suite(name: str, options: Mapping[str, Any], directory: Path) -> Suite:
    """A suite by name. The plug-in may be a suite, or anything that is called with the options (and with
    `config_directory`, if it has such a parameter) and returns one."""
    plugin = SUITES.find(name, directory)
    if isinstance(plugin, Suite) and not isinstance(plugin, type):
        if options:
            raise OptionError(f"suite {name!r} takes no options", next(iter(options)))
        return plugin
    suite = build(plugin, options, config_directory=directory) if callable(plugin) else plugin
    if not isinstance(suite, Suite):
        raise InputError(f"suite {name!r} is no suite: it needs name, splits(), tasks(split) and environment(task)")
    return suite
