"""Where tau2-bench is installed, and what is missing if it is not.

The benchmark is not on a package index, and pins what recompact does not want, so it has its own interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.environments.installations import HostNeeds, interpreter_of, locate
from recompact.errors import InputError

PYTHON_VARIABLE = "RECOMPACT_TAU2_PYTHON"
DATA_VARIABLE = "TAU2_DATA_DIR"
NAME = "tau2-retail"

WAY_OUT = (
    f"run `recompact setup {NAME}`, or install a checkout of github.com/sierra-research/tau2-bench"
    f" (pip install -e CHECKOUT) and name its interpreter in [suite] python or {PYTHON_VARIABLE}"
)
OTHER_PACKAGE = "the package named tau2 on PyPI is something else, a library for chemistry"


def host_needs(options: Mapping[str, Any], python: str | None, directory: Path) -> HostNeeds:
    """The interpreter with the benchmark in it, and its data; paths are relative to the config's `directory`.

    Links are resolved, since a sandboxed host sees places only under their real names.
    """
    python = python or interpreter()
    package = _package(python)
    data = options.get("data") or os.environ.get(DATA_VARIABLE)
    place = (directory / Path(str(data)).expanduser()).resolve() if data else (package.parents[1] / "data").resolve()
    retail = place / "tau2" / "domains" / "retail"
    if not (retail / "db.json").is_file():
        raise InputError(
            f"suite {NAME!r}: there is no {retail / 'db.json'}: the benchmark's data are not part of the package; name"
            f" the directory `data` of its checkout in [suite.options] data or {DATA_VARIABLE}"
        )
    tasks = options.get("tasks")
    file = {"tasks": str((directory / Path(str(tasks)).expanduser()).resolve())} if tasks else {}
    return HostNeeds(python, {**options, "data": str(place), **file})


def interpreter() -> str:
    """The one that a variable names, or else the one from `recompact setup`."""
    if python := interpreter_of(NAME, PYTHON_VARIABLE):
        return python
    raise InputError(f"suite {NAME!r}: tau2-bench is not installed ({OTHER_PACKAGE}): {WAY_OUT}")


def missing() -> str | None:
    """What has to be done before the suite can be used; None if it can."""
    try:
        host_needs({}, None, Path())
    except InputError as error:
        return str(error)
    return None


def _package(python: str) -> Path:
    package = locate(python, "tau2")
    if package is None:
        raise InputError(f"suite {NAME!r}: {python} has no tau2-bench ({OTHER_PACKAGE}): {WAY_OUT}")
    if not (package / "domains" / "retail").is_dir():
        raise InputError(
            f"suite {NAME!r}: {package} is not tau2-bench: it has no domain retail; {OTHER_PACKAGE}: {WAY_OUT}"
        )
    return package
