"""The suite: the task tree's splits, and an episode for each of its subtasks, with worked examples before it if wanted.

Options are those of [suite.options] in a config; docs/officebench.md says what they mean. Without worked episodes a
small model invents what its actions return; they are played in the apps themselves, so they cannot disagree with them.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from recompact.environments.protocol import Behaviour, Literals, Task
from recompact.environments.shell import CommandLimits, Shell
from recompact.errors import InputError
from recompact.registry import Limit
from recompact.suites.officebench.actions import behaviour_of, literals_in
from recompact.suites.officebench.conversion import office_of
from recompact.suites.officebench.environment import OfficeBenchEnvironment
from recompact.suites.officebench.prompt import FINISH, SWITCH, SYSTEM_APP, TOOLS, ActionForm, shown_action
from recompact.suites.officebench.tree import MOUNT, SPLITS, Subtask, TaskTree
from recompact.values.chat import Message, ToolCall, assistant, user
from recompact.values.trajectory import Action
from recompact.version import install_command

_TEMPLATE = "worked-example"  # which no tree has, so its testbed is empty
_NEXT = "That task is finished. The next one has other files and other people: look at them first."

ExampleCall = tuple[str, str, Mapping[str, Any]]
"""App, action and arguments."""


@dataclass(frozen=True)
class Worked:
    """A task, with what is there beforehand and what solves it."""

    text: str
    before: Sequence[ExampleCall]
    calls: Sequence[ExampleCall]


_RENTS = {"file_path": "data/rents.xlsx"}
_VISIT = {"user": "Kim", "summary": "Dentist", "time_start": "2024-03-04 09:00:00", "time_end": "2024-03-04 10:00:00"}
EXAMPLES = (
    Worked(
        "change Kim's rent to 740 in rents excel file",
        before=(
            ("excel", "create_new_file", _RENTS),
            *(
                ("excel", "set_cell", _RENTS | {"row_idx": row, "column_idx": column, "text": text})
                for row, cells in enumerate((("Name", "Rent"), ("Lou", "655"), ("Kim", "710")), start=1)
                for column, text in enumerate(cells, start=1)
            ),
        ),
        calls=(
            (SYSTEM_APP, SWITCH, {"target_app": "excel"}),
            ("excel", "read_file", _RENTS),
            ("excel", "set_cell", _RENTS | {"row_idx": 3, "column_idx": 2, "text": "740"}),
            (SYSTEM_APP, FINISH, {"answer": "None"}),
        ),
    ),
    Worked(
        "what is in Kim's calendar on 3/4/2024?",
        before=(("calendar", "create_event", _VISIT),),
        calls=(
            (SYSTEM_APP, SWITCH, {"target_app": "calendar"}),
            ("calendar", "list_events", {"username": "Kim"}),
            (SYSTEM_APP, FINISH, {"answer": "Dentist"}),
        ),
    ),
)


def worked_examples(
    tree: TaskTree, subtask: Subtask, shell: Shell, *, form: ActionForm, reminders: bool
) -> tuple[Message, ...]:
    """All examples, as the user of this subtask would have met them on the same day."""
    messages: list[Message] = []
    for number, worked in enumerate(EXAMPLES, start=1):
        example = replace(subtask, template=_TEMPLATE, text=worked.text, items=())
        environment = OfficeBenchEnvironment(tree, example, shell, form=form, reminders=reminders)
        try:
            messages += [
                environment.start().prefix[-1],
                *_turns(environment, worked, form, f"example-{number}"),
                user(_NEXT),
            ]
        finally:
            environment.close()
    return tuple(messages)


def _turns(environment: OfficeBenchEnvironment, worked: Worked, form: ActionForm, name: str) -> list[Message]:
    for app, action_name, arguments in worked.before:
        environment.step(_action(f"{app}.{action_name}", arguments))  # dotted, so that no app has to be opened for it
    turns: list[Message] = []
    for number, (app, action_name, arguments) in enumerate(worked.calls, start=1):
        action = _action(action_name, arguments, app=app)
        observation = environment.step(action).text
        if form == "text":
            turns += [assistant(shown_action(form, app, action_name, arguments)), user(observation)]
        else:
            call = ToolCall(f"{name}-{number}", action.name, json.dumps(dict(action.arguments)))
            turns += [assistant("", call), Message("tool", observation, call_id=call.id)]
    return turns


def _action(name: str, arguments: Mapping[str, Any], **app: str) -> Action:
    return Action(TOOLS[0].name, {**app, "action": name, "arguments": dict(arguments)})


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
