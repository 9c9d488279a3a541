"""The data without the ground truth: all that a process in which an agent's code runs may see.

The view is next to the data and shares its files. It is made once, and again when there are other tasks or
difficulties; where only the contents of files were replaced, remove it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

from recompact.errors import InputError

VIEW = "recompact-view"
DIFFICULTIES = "difficulties.json"
TRUTH = "ground_truth"
_SHARED = ("datasets", "base_dbs", "api_docs")
_OF_A_TASK = ("specs.json", "dbs")


def agents_view(root: Path) -> Path:
    """A root like `root`, whose tasks have no ground truth; their difficulties are in a separate file."""
    view = root / VIEW
    tasks = sorted(place for place in (root / "data" / "tasks").iterdir() if (place / "specs.json").is_file())
    difficulties = {place.name: _difficulty(place) for place in tasks}
    if _is_current(view, difficulties):
        return view
    try:
        fresh = Path(tempfile.mkdtemp(prefix=f".{VIEW}-", dir=root))
        fresh.chmod(0o755)
        for name in _SHARED:
            shutil.copytree(root / "data" / name, fresh / "data" / name, copy_function=_share)
        for place in tasks:
            _share_task(place, fresh / "data" / "tasks" / place.name)
        (fresh / DIFFICULTIES).write_text(json.dumps(difficulties))
        if view.exists():
            os.rename(view, Path(tempfile.mkdtemp(prefix=f".{VIEW}-old-", dir=root)) / VIEW)
        os.rename(fresh, view)
    except OSError as error:
        raise InputError(f"the data without the ground truth cannot be laid out in {view}: {error}") from None
    return view


def _is_current(view: Path, difficulties: dict[str, int | None]) -> bool:
    try:
        return bool(json.loads((view / DIFFICULTIES).read_text()) == difficulties)
    except (OSError, ValueError):
        return False


def _difficulty(task: Path) -> int | None:
    try:
        difficulty = json.loads((task / TRUTH / "metadata.json").read_text())["difficulty"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return difficulty if isinstance(difficulty, int) else None


def _share_task(task: Path, place: Path) -> None:
    place.mkdir(parents=True)
    for name in _OF_A_TASK:
        source = task / name
        if source.is_dir():
            shutil.copytree(source, place / name, copy_function=_share)
        elif source.exists():
            _share(str(source), str(place / name))


def _share(source: str, target: str) -> str:
    """Link the file under another name, or copy it where the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
