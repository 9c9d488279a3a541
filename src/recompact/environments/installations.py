"""Benchmarks that live in an interpreter of their own: where it is, what a suite asks of its hosts, and the steps of
`recompact setup` that benchmarks share.

Used in the harness. Nothing of a benchmark is imported here: its interpreter is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from recompact.environments.sandbox import SandboxMode
from recompact.errors import InputError, RecompactError

HOME_VARIABLE = "RECOMPACT_HOME"
_PATIENCE = 60  # seconds for an interpreter to say what it has


@dataclass(frozen=True)
class HostNeeds:
    """How the hosts of a suite are started: with which interpreter, and with which options.

    `options` are those of the config, completed from this machine's variables. A suite that is graded in another
    process has `grader`: the options of that process, which may name places that no host with an agent in it sees.
    """

    python: str
    options: Mapping[str, Any] = field(default_factory=dict)
    grader: Mapping[str, Any] | None = None
    sandbox: SandboxMode = "auto"  # "require" where an agent's code runs in the host; a config may still say "off"


def installations() -> Path:
    """Where `recompact setup` puts benchmarks: RECOMPACT_HOME, or else the user's data directory."""
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser().absolute() / "recompact"


def python_in(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def interpreter_of(benchmark: str, variable: str, missing: str) -> str:
    """The interpreter that a variable names, or else the one that `recompact setup` made. Raises InputError with what
    is `missing` where there is none."""
    if chosen := os.environ.get(variable):
        return os.path.abspath(Path(chosen).expanduser())
    installed = python_in(installations() / benchmark / "venv")
    if not installed.exists():
        raise InputError(f"suite {benchmark!r}: {missing}")
    return str(installed)


@cache
def ask_interpreter(python: str, code: str, *arguments: str) -> Any:
    """What a few lines print as JSON under another interpreter, which has few of our variables and no key."""
    variables = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    try:
        answer = subprocess.run(
            [python, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            env=variables,
            check=False,
        )
        if answer.returncode:
            raise InputError(f"{python} failed: {_last_line(answer.stderr)}")
        return json.loads(answer.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        raise InputError(f"{python} cannot be used as an interpreter: {error}") from None


_LOCATE = """
import importlib.util, json, sys
spec = importlib.util.find_spec(sys.argv[1])
places = [] if spec is None else [spec.origin] if spec.origin else list(spec.submodule_search_locations or [])
print(json.dumps([sys.version_info[:2], places]))
"""


def locate(python: str, package: str) -> Path | None:
    """The directory of a package as another interpreter would import it, without importing it."""
    version, places = ask_interpreter(python, _LOCATE, package)
    if tuple(version) < (3, 11):
        raise InputError(f"{python} is Python {version[0]}.{version[1]}; an environment's host needs 3.11 or later")
    if not places:
        return None
    place = Path(places[0])
    return place.parent if place.suffix else place


def _last_line(text: str) -> str:
    lines: Sequence[str] = text.strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"


Say = Callable[[str], None]
_LAST = 400  # characters of what a program last said


class SetupFailed(RecompactError):
    """A step of a setup did not succeed; what was done before it stays and is reused."""


@dataclass(frozen=True)
class SetupRequest:
    """What is to be set up where. `source` stands in for a download: a file or a directory that the user has."""

    place: Path
    python: str | None = None
    source: Path | None = None


def first_usable(candidates: Sequence[str], say: Say) -> str:
    """The first of these interpreters that runs and can make virtual environments. A name on PATH may not: pyenv has
    one for each version that it holds, and all but the chosen ones refuse to start."""
    for python in candidates:
        try:
            run_step(python, [python, "-c", "import ensurepip, venv"], patience=60)
            return python
        except SetupFailed as failed:
            say(f"{failed}; the next one is tried")
    raise SetupFailed(f"no interpreter can be used, of {', '.join(candidates)}: name one with --python")


def make_venv(place: Path, python: str, say: Say) -> Path:
    """The interpreter of the virtual environment at this place, which is made if it is missing."""
    interpreter = python_in(place)
    if interpreter.exists():
        say(f"{place} already exists")
        return interpreter
    say(f"making a virtual environment in {place} with {python}")
    place.parent.mkdir(parents=True, exist_ok=True)
    run_step("making the virtual environment", [python, "-m", "venv", str(place)])
    return interpreter


def pip_install(interpreter: Path, requirements: Sequence[str], say: Say) -> None:
    say(f"installing {' '.join(requirements)} (some minutes and some hundred megabytes)")
    command = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
    run_step("pip install", command, "is there a network, or an index that pip knows?")


def run_step(what: str, command: Sequence[str], hint: str = "", patience: float = 3600) -> str:
    """What a program printed. Raises SetupFailed with the end of its output where it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=patience, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupFailed(f"{what} failed: {error}") from None
    if done.returncode:
        lines = [line for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
        last = " / ".join(lines[-3:])[-_LAST:] or f"exit code {done.returncode}"
        raise SetupFailed(f"{what} failed: {last}{f' ({hint})' if hint else ''}")
    return done.stdout
