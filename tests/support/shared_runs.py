"""Runs that several test files begin from: each is made once in a session, by whichever worker comes first."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from acon_support import study_run

from recompact.adaptation.adapt import adapt
from recompact.engine.study import Study


def shared_file(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A copy of a file that `make` writes the first time. Workers of a session have one directory above their own."""
    base = factory.getbasetemp()
    place = (base.parent if base.name.startswith("popen-") else base) / "shared-runs"
    place.mkdir(exist_ok=True)
    original = place / name
    with (place / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not original.exists():
            begun = original.with_name(f"begun-{name}")
            make(begun)
            begun.rename(original)
    return Path(shutil.copy(original, factory.mktemp("run") / "run.db"))


def verified_run(factory: pytest.TempPathFactory) -> Path:
    """The run of `acon_support`, collected and verified."""

    async def work(study: Study) -> None:
        await adapt(study, until="verify")

    return shared_file(factory, "verified.db", lambda path: study_run(path, work, "pair"))
