"""From the name of a suite in a config to the suite: built in, installed, or in a file of the user's own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recompact.environments.installations import HostNeeds
from recompact.environments.protocol import Suite
from recompact.errors import InputError, OptionError
from recompact.registry import Registry, build

SUITES = Registry(
    "suite",
    "recompact.suites",
    {
        "pocket": "recompact.suites.pocket.suite:PocketSuite",
        "officebench": "recompact.suites.officebench.suite:OfficeBenchSuite",
        "qa": "recompact.suites.qa.suite:QaSuite",
        "tau2-retail": "recompact.suites.tau2.suite:Tau2RetailSuite",
        "appworld": "recompact.suites.appworld.suite:AppWorldSuite",
        "workspace": "recompact.environments.workspace.suite:WorkspaceSuite",
    },
)

HOSTS = Registry(  # where hosts live if not on this machine; each is called with a hosted suite and the settings
    "kind of host",
    "recompact.hosts",
    {"ray": "recompact.environments.cluster.suite:open_cluster"},
)

_MISSING = {  # suites that need more than recompact: a function that says what is missing, None if nothing is
    "officebench": "recompact.suites.officebench.suite:missing",
    "qa": "recompact.suites.qa.suite:missing",
    "tau2-retail": "recompact.suites.tau2.installation:missing",
    "appworld": "recompact.suites.appworld.installation:missing",
}

_HOST_NEEDS = {  # suites with an interpreter of their own; what is named here imports nothing of the benchmark
    "tau2-retail": "recompact.suites.tau2.installation:host_needs",
    "appworld": "recompact.suites.appworld.installation:host_needs",
}

_CONTENTS = {  # suites whose tasks are the user's files: a function that hashes the tasks of a split
    "workspace": "recompact.environments.workspace.folder:contents",
}


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


def host_needs(
    name: str, options: Mapping[str, Any], python: str | None = None, directory: Path = Path()
) -> HostNeeds | None:
    """What a suite asks of its hosts; None where it asks for nothing, as with the user's own suites."""
    if name not in _HOST_NEEDS:
        return None
    module, _, attribute = _HOST_NEEDS[name].partition(":")
    needs: HostNeeds = getattr(importlib.import_module(module), attribute)(options, python, directory)
    return needs


def contents_of(name: str, options: Mapping[str, Any], split: str, directory: Path) -> Mapping[str, str]:
    """Hashes of the tasks in the user's files, keyed by what they belong to; empty where a suite has none."""
    if name not in _CONTENTS:
        return {}
    module, _, attribute = _CONTENTS[name].partition(":")
    contents: Mapping[str, str] = getattr(importlib.import_module(module), attribute)(options, split, directory)
    return contents
