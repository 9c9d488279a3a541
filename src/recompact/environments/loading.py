"""From the name of a suite in a config to the suite: built in, installed, or in a file of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from recompact.environments.installations import HostNeeds
from recompact.environments.protocol import Suite
from recompact.errors import InputError
from recompact.registry import Registry

SUITES = Registry("suite", "recompact.suites")

INSTALLATIONS = Registry("installation of a suite", "recompact.installations")
"""By the name of a suite: a module that can be imported without what the suite needs, and may have these functions.

- `missing()`: what has to be installed before the suite can be used, with the command that does it; None if nothing.
- `host_needs(options, python, directory)`: the `HostNeeds` of a suite with an interpreter of its own.
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
