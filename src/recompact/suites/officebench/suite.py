"""The suite: the task tree's splits, and an episode for each of its subtasks.

Options are those of [suite.options] in a config; docs/officebench.md says what they mean.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, get_args

from recompact.environments.protocol import Behaviour, Literals, Task
from recompact.environments.shell import CommandLimits, Shell
from recompact.errors import InputError
from recompact.registry import Limit
from recompact.suites.officebench.behaviour import behaviour_of, literals_in
from recompact.suites.officebench.conversion import office_of
from recompact.suites.officebench.environment import OfficeBenchEnvironment
from recompact.suites.officebench.example import worked_examples
from recompact.suites.officebench.prompt import ActionForm
from recompact.suites.officebench.testbed import MOUNT
from recompact.suites.officebench.tree import SPLITS, TaskTree
from recompact.values.chat import Message
from recompact.values.trajectory import Action
from recompact.version import install_command

_LIBRARIES = ("openpyxl", "docx", "icalendar", "pypdf", "PIL")
_log = logging.getLogger(__name__)


def missing() -> str | None:
    """What has to be installed before the suite can be used; None if nothing."""
    absent = [name for name in _LIBRARIES if find_spec(name) is None]
    return f"{', '.join(absent)} cannot be imported here: {install_command('officebench')}" if absent else None


class OfficeBenchSuite:
    """A `Suite`."""

    def __init__(
        self,
        tasks: str | Path | None = None,
        *,
        unsafe_shell: bool = False,
        shell_timeout: Annotated[float, Limit(gt=0, lt=math.inf)] = 30.0,
        actions: ActionForm = "tool",
        reminders: bool = True,
        example: bool = False,
        libreoffice: bool = True,
    ) -> None:
        if problem := missing():
            raise InputError(f"suite 'officebench': {problem}")
        if actions not in get_args(ActionForm):
            raise InputError(
                f"suite 'officebench': actions = {actions!r} is not one of {', '.join(get_args(ActionForm))}"
            )
        self._tree = TaskTree.at(tasks)
        limits = replace(CommandLimits(), seconds=float(shell_timeout))
        hidden = (self._tree.root, Path(__file__).resolve().parents[2])
        self._shell = Shell.of_this_machine(
            unsafe_shell, MOUNT, limits, readable=(Path("/etc/libreoffice"),), hidden=hidden
        )
        self._office = office_of(self._shell) if libreoffice else None
        self._form: ActionForm = actions
        self._reminders = reminders
        self._example = example
        if self._shell.refused:
            _log.warning("officebench: the shell app is left out, since %s", self._shell.refused)

    @property
    def name(self) -> str:
        return "officebench"

    def splits(self) -> Sequence[str]:
        return SPLITS

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in SPLITS:
            raise InputError(f"suite 'officebench' has no split {split!r}: choose one of {', '.join(SPLITS)}")
        return [self._task(template, number) for template, number in self._tree.split(split)]

    def environment(self, task: Task) -> OfficeBenchEnvironment:
        subtask = self._tree.subtask(task.data["template"], task.data["subtask"])
        form, reminders = self._form, self._reminders
        worked: tuple[Message, ...] = ()
        if self._example:
            worked = worked_examples(self._tree, subtask, self._shell, form=form, reminders=reminders)
        return OfficeBenchEnvironment(
            self._tree, subtask, self._shell, self._office, form=form, reminders=reminders, example=worked
        )

    def behaviour(self, action: Action) -> Behaviour | None:
        return behaviour_of(action)

    def literals(self, text: str) -> Literals:
        return literals_in(text)

    def _task(self, template: str, number: str) -> Task:
        subtask = self._tree.subtask(template, number)
        # What is evaluated stays in the tree: a task is recorded, and shown to models.
        data = {"template": template, "subtask": number}
        return Task(f"{template}/{number}", subtask.text, {"apps": subtask.apps}, data)
