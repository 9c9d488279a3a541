"""Where tau2-bench is installed, what is missing if it is not, and `recompact setup tau2-retail`.

The benchmark is not on a package index, and pins what recompact does not want, so it has its own interpreter.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recompact.environments.installations import (
    HostNeeds,
    Say,
    SetupFailed,
    SetupRequest,
    ask_interpreter,
    first_usable,
    interpreter_of,
    locate,
    make_venv,
    pip_install,
    python_in,
    run_step,
)
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
    return interpreter_of(NAME, PYTHON_VARIABLE, f"tau2-bench is not installed ({OTHER_PACKAGE}): {WAY_OUT}")


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


REPOSITORY = "https://github.com/sierra-research/tau2-bench"
COMMITS = {  # by the oldest Python that it runs on, newest first
    (3, 12): "a2c024725189473d2d7cea3a5cfdbcc67478e41f",
    (3, 11): "a969a0c0a29bc47ba8580107932f5298ee636045",
}
_PYTHONS = ("python3.13", "python3.12")
_CAPPED = "litellm<1.82.7"  # 1.82.7 and 1.82.8 were published with malware; older commits have no cap


def setup(request: SetupRequest, say: Say) -> None:
    """Do what has not been done yet. Raises SetupFailed at the first step that cannot be done."""
    python = request.python or first_usable([*filter(None, map(shutil.which, _PYTHONS)), sys.executable], say)
    checkout = request.source or _fetch_checkout(request.place / "checkout", _commit(python), say)
    if not (checkout / "src" / "tau2" / "domains" / "retail").is_dir():
        raise SetupFailed(f"{checkout} is not a checkout of tau2-bench: it has no src/tau2/domains/retail")
    make_venv(request.place / "venv", python, say)
    pip_install(python_in(request.place / "venv"), ["-e", str(checkout.resolve()), _CAPPED], say)


def _commit(python: str) -> str:
    version: Sequence[int] = ask_interpreter(python, "import json, sys; print(json.dumps(sys.version_info[:2]))")
    for oldest, commit in COMMITS.items():
        if tuple(version) >= oldest:
            return commit
    raise SetupFailed(f"{python} is too old: tau2-bench needs Python 3.12, or 3.11 for an older version of it")


def _fetch_checkout(place: Path, commit: str, say: Say) -> Path:
    if (place / "src").is_dir():
        say(f"{place} already exists")
        return place
    say(f"fetching {REPOSITORY} at {commit[:7]}")
    place.mkdir(parents=True, exist_ok=True)
    git = ["git", "-C", str(place)]
    hint = "without a network, name a checkout with --from DIRECTORY"
    run_step("git init", [*git, "init", "--quiet"])
    run_step("git fetch", [*git, "fetch", "--quiet", "--depth", "1", REPOSITORY, commit], hint)
    run_step("git checkout", [*git, "checkout", "--quiet", "FETCH_HEAD"])
    return place
