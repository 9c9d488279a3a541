"""Tasks as folders, written for a test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from recompact.suites.workspace.suite import WorkspaceSuite

ADDITION = """
instruction = "Make add() in calc.py add its two arguments."
groups = { kind = "bug" }
[check]
command = "python3 $CHECK/check.py"
[limits]
seconds = 5
disk = 20_000_000
"""
CHECK = "import sys; sys.path.insert(0, '.'); from calc import add; sys.exit(add(2, 3) != 5)\n"
CALC = "def add(a, b):\n    return a - b\n"


def write_task(
    root: Path, name: str = "addition", toml: str = ADDITION, files: Mapping[str, str] | None = None, check: str = CHECK
) -> Path:
    folder = root / name
    for place, content in (files if files is not None else {"calc.py": CALC}).items():
        path = folder / "files" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.toml").write_text(toml)
    if check:
        (folder / "check").mkdir()
        (folder / "check" / "check.py").write_text(check)
    return folder


def suite_of(root: Path) -> WorkspaceSuite:
    return WorkspaceSuite(root)
