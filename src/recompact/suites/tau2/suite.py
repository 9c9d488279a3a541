"""The suite: the retail tasks of the installed tau2-bench, with its splits.

Options are those of [suite.options] in a config; docs/tau2.md says what they mean.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from recompact.environments.protocol import Behaviour, Task
from recompact.errors import InputError
from recompact.registry import Limit
from recompact.suites.tau2.environment import Database, Official, Tau2Environment, load
from recompact.suites.tau2.installation import NAME
from recompact.values.trajectory import Action

Basis = Literal["task", "communicate", "judge"]
_REWARDS: Mapping[str, tuple[str, ...]] = {"communicate": ("DB", "COMMUNICATE"), "judge": ("DB", "NL_ASSERTION")}

TEXT = "Serve the customer who writes to you, by the policy of the shop and with its tools, until the customer is done."
"""All that is known beforehand: what a customer wants is for the agent to find out, and for nobody else to be told."""


class Tau2RetailSuite:
    """A `Suite`."""

    name = NAME

    def __init__(
        self,
        data: str | Path | None = None,
        *,
        tasks: str | Path | None = None,
        basis: Basis = "task",
        max_errors: Annotated[int, Limit(gt=0)] = 10,
        temperature: Annotated[float, Limit(ge=0)] | Literal["model"] = 0.0,
    ) -> None:
        self._data, self._file = data, tasks
        self._basis: Basis = basis
        self._max_errors = max_errors
        self._temperature = None if isinstance(temperature, str) else float(temperature)

    def splits(self) -> Sequence[str]:
        return tuple(self._splits)

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self._splits:
            raise InputError(f"suite {NAME!r} has no split {split!r}: choose one of {', '.join(self._splits)}")
        chosen = set(self._splits[split])
        leaves_unchanged = self._gold()
        return [
            Task(id, TEXT, {"database": "unchanged" if leaves_unchanged(task) else "changed"})
            for id, task in self._tasks.items()
            if id in chosen
        ]

    def environment(self, task: Task) -> Tau2Environment:
        if task.id not in self._tasks:
            raise InputError(f"suite {NAME!r} has no task {task.id!r}")
        return Tau2Environment(
            self._official, self._tasks[task.id], max_errors=self._max_errors, temperature=self._temperature
        )

    def behaviour(self, action: Action) -> Behaviour | None:
        """By the benchmark's own tool types; talking to the customer and calculating are neither."""
        kinds: Mapping[str, Behaviour] = {"read": "read", "write": "mutation"}
        return kinds.get(self._kinds.get(action.name, ""))

    @cached_property
    def _official(self) -> Official:
        return load(self._data)

    @cached_property
    def _splits(self) -> Mapping[str, Sequence[str]]:
        return {name: [str(id) for id in ids] for name, ids in self._official.retail.get_tasks_split().items()}

    @cached_property
    def _tasks(self) -> Mapping[str, Any]:
        """The official tasks by id, with the reward basis that was asked for."""
        official = self._official
        if self._file is None:
            tasks = official.retail.get_tasks(None)
        else:
            tasks = [official.tasks.Task.model_validate(each) for each in _read(Path(self._file))]
        if self._basis != "task":
            rewards = [official.tasks.RewardType(name) for name in _REWARDS[self._basis]]
            for task in tasks:
                task.evaluation_criteria.reward_basis = rewards
        return {str(task.id): task for task in tasks}

    @cached_property
    def _kinds(self) -> Mapping[str, str]:
        toolkit = self._official.retail.get_environment().tools
        return {name: toolkit.tool_type(name).value for name in toolkit.get_tools()}

    def _gold(self) -> Callable[[Any], bool]:
        """Tells whether a task's reference actions leave the database unchanged, so doing nothing may pass."""
        environment = self._official.retail.get_environment()
        database = Database(environment.tools.db)
        call = self._official.messages.ToolCall

        def leaves_unchanged(task: Any) -> bool:
            database.reset()
            for action in task.evaluation_criteria.actions or ():
                environment.get_response(call(name=action.name, arguments=action.arguments))
            return not database.changes()

        return leaves_unchanged


def _read(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"suite {NAME!r}: tasks = {str(file)!r} cannot be read: {error}") from None
