"""`recompact setup tau2-retail`: a checkout of the official repository, installed in a virtual environment."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from recompact.environments.installations import (
    Say,
    SetupFailed,
    SetupRequest,
    ask_interpreter,
    first_usable,
    make_venv,
    pip_install,
    python_in,
    run_step,
)

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
