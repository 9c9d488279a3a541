"""Where AppWorld and its data are, and what is missing if they are not there.

Used in the harness, which never imports the package: it pins old versions of libraries that recompact uses itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.environments.installations import HostNeeds, installations, interpreter_of, locate
from recompact.errors import InputError
from recompact.suites.appworld.view import agents_view

NAME = "appworld"
PYTHON_VARIABLE = "RECOMPACT_APPWORLD_PYTHON"
ROOT_VARIABLE = "APPWORLD_ROOT"
PARTS = ("tasks", "datasets", "base_dbs", "api_docs")

WAY_OUT = (
    f"run `recompact setup {NAME}`, or install the package appworld in a virtual environment, run `appworld"
    f" install` in it and name its interpreter in [suite] python or {PYTHON_VARIABLE}"
)


def host_needs(options: Mapping[str, Any], python: str | None, directory: Path) -> HostNeeds:
    """The interpreter, the data as an agent's host may see them, and the data as the grader sees them."""
    python = python or interpreter()
    check_package(python)
    root = data_root(options.get("root"), directory)
    rest = {key: value for key, value in options.items() if key != "root"}
    view = agents_view(root)
    return HostNeeds(
        python,
        {**rest, "root": str(view)},
        grader={**rest, "root": str(root), "grading": True},
        sandbox="require",
    )


def interpreter() -> str:
    """The one that a variable names, or else the one from `recompact setup`."""
    if python := interpreter_of(NAME, PYTHON_VARIABLE):
        return python
    raise InputError(f"suite {NAME!r}: AppWorld is not installed: {WAY_OUT}")


def check_package(python: str) -> None:
    """Refuse an interpreter without the package, or with one whose apps are still packed."""
    package = locate(python, "appworld")
    if package is None or not (package / "environment.py").is_file():
        raise InputError(f"suite {NAME!r}: {python} has no package appworld: {WAY_OUT}")
    if not (package / "apps" / "supervisor").is_dir():
        raise InputError(
            f"suite {NAME!r}: the apps of {package} are still packed: run `{Path(python).parent / 'appworld'} install`"
        )


def data_root(chosen: object = None, directory: Path = Path()) -> Path:
    """The directory that holds `data`: from the config, a variable, or `recompact setup`."""
    named = chosen or os.environ.get(ROOT_VARIABLE)
    root = directory / Path(str(named)).expanduser() if named else installations() / NAME / "root"
    root = root.resolve()  # a sandboxed host sees places only under their real names
    lacking = [part for part in PARTS if not (root / "data" / part).is_dir()]
    if lacking:
        raise InputError(
            f"suite {NAME!r}: the task data are missing: {root / 'data'} has no {', '.join(lacking)};"
            f" run `recompact setup {NAME}` where there is a network, or name a data root in [suite.options] root or"
            f" {ROOT_VARIABLE}"
        )
    return root


def missing() -> str | None:
    """What has to be done before the suite can be used; None if it can."""
    try:
        check_package(interpreter())
        data_root()
    except InputError as error:
        return str(error)
    return None
