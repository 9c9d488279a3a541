"""Steps of `recompact setup` that benchmarks share: a virtual environment, what pip puts into it, and other programs.

A step that fails says which one it was, what it last said and what to do.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recompact.environments.installations import python_in
from recompact.errors import RecompactError

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
