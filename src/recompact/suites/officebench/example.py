"""Worked episodes as chat turns, without which a small model invents what its actions return.

They are played in the apps themselves, in their own testbeds, so they cannot disagree with what the apps do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from recompact.environments.shell import Shell
from recompact.suites.officebench.environment import OfficeBenchEnvironment
from recompact.suites.officebench.prompt import FINISH, SWITCH, SYSTEM_APP, TOOLS, ActionForm, shown_action
from recompact.suites.officebench.tree import Subtask, TaskTree
from recompact.values.chat import Message, ToolCall, assistant, user
from recompact.values.trajectory import Action

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
