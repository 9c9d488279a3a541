"""The suite: the tasks of AppWorld's data, with its splits, and an episode or a grader for them.

Options are those of [suite.options] in a config; docs/appworld.md says what they mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from recompact.environments.protocol import Behaviour, Environment, Literals, Task
from recompact.errors import InputError
from recompact.registry import Limit
from recompact.suites.appworld.environment import TOOL, AppWorldEnvironment
from recompact.suites.appworld.grader import Grader
from recompact.suites.appworld.installation import DIFFICULTIES, NAME
from recompact.values.trajectory import Action

SPLITS = ("train", "dev", "test_normal", "test_challenge")
_CALL = re.compile(r"\bapis\.(\w+)\.(\w+)\s*\(")
_TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}")  # of a login: a JSON web token
_NAMED_CALL = re.compile(r"\bapis\.(\w+\.\w+)\s*\([^()]*?\b\w+\s*=")  # with at least one argument by name
_LOOKS = ("show_", "search_", "login", "logout")


class AppWorldSuite:
    """A `Suite`. With `grading` its environments are graders; `root` then has the ground truth in it."""

    name = NAME

    def __init__(
        self, root: str | Path | None = None, *, seconds: Annotated[int, Limit(gt=0)] = 60, grading: bool = False
    ) -> None:
        if root is None:
            raise InputError(f"suite {NAME!r} lives in a process of its own: set [suite] host = true")
        self._root, self._seconds, self._grading = Path(root), int(seconds), grading

    def splits(self) -> Sequence[str]:
        return SPLITS

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise InputError(f"suite {NAME!r} has no split {split!r}: choose one of {', '.join(SPLITS)}")
        file = self._root / "data" / "datasets" / f"{split}.txt"
        lines = file.read_text(encoding="utf-8").splitlines()
        return [self._task(line.partition(":")[0].strip()) for line in lines if line.strip()]

    def environment(self, task: Task) -> Environment:
        data = self._root / "data"
        return Grader(data) if self._grading else AppWorldEnvironment(data, task.id, seconds=self._seconds)

    def behaviour(self, action: Action) -> Behaviour | None:
        """By the APIs that the code calls: a look at the documentation, else a change, else a look at the apps."""
        code = action.arguments.get("code")
        if action.name != TOOL or not isinstance(code, str):
            return None
        calls = [(app, api) for app, api in _CALL.findall(code) if api != "complete_task"]
        if any(app == "api_docs" for app, _ in calls):
            return "documentation"
        if any(not api.startswith(_LOOKS) for _, api in calls):
            return "mutation"
        return "read" if calls else None

    def literals(self, text: str) -> Literals:
        """What the paper counts in summaries: tokens of logins, and APIs whose call can be made as it stands there."""
        return {"tokens": tuple(_TOKEN.findall(text)), "signatures": tuple(_NAMED_CALL.findall(text))}

    def _task(self, id: str) -> Task:
        specification = json.loads((self._root / "data" / "tasks" / id / "specs.json").read_text(encoding="utf-8"))
        difficulty = self._difficulties.get(id)
        groups = {"difficulty": str(difficulty)} if difficulty is not None else {}
        return Task(id, str(specification["instruction"]), {**groups, "scenario": id.partition("_")[0]})

    @cached_property
    def _difficulties(self) -> Mapping[str, Any]:
        file = self._root / DIFFICULTIES
        difficulties: Mapping[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
        return difficulties
