"""What the agent is told: the system prompt, its one tool, and the actions of the app that is open.

All of it is made from the specs of the apps. As in ACON's harness, each observation repeats the actions of the open
app: this is much of what fills the history.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from recompact.suites.officebench.apps.spec import App
from recompact.suites.officebench.tree import Subtask
from recompact.values.chat import ToolSpec

ActionForm = Literal["tool", "text"]
SYSTEM_APP = "system"
SWITCH, FINISH = "switch_app", "finish_task"
_TOOL = "act"

_SYSTEM, _EXAMPLE = (
    Path(__file__).with_name(name).read_text(encoding="utf-8").rstrip("\n") for name in ("prompt.txt", "example.txt")
)

_FORMS: dict[ActionForm, str] = {
    "tool": "Every action is a call of the tool act.",
    "text": "Write your reasoning between <think> and </think>, then one action as a JSON object between <action> and"
    " </action>.",
}

TOOLS = (
    ToolSpec(
        _TOOL,
        "Do one action in an app.",
        {
            "type": "object",
            "properties": {
                "app": {"type": "string", "description": "the app: system, or the one that is open"},
                "action": {"type": "string", "description": "the name of the action"},
                "arguments": {"type": "object", "description": "the arguments of the action, by name"},
            },
            "required": ["app", "action"],
        },
    ),
)


def system_prompt(subtask: Subtask, form: ActionForm, *, example: bool = True) -> str:
    """With an example in words, unless worked ones follow as turns."""

    def shown(app: str, action: str, **arguments: object) -> str:
        return shown_action(form, app, action, arguments)

    return (f"{_SYSTEM}\n\n{_EXAMPLE}" if example else _SYSTEM).format(
        username=subtask.username,
        weekday=subtask.weekday,
        date=subtask.date,
        time=subtask.time,
        form=_FORMS[form],
        switch=f"{SYSTEM_APP}.{SWITCH}(target_app)",
        finish=f"{SYSTEM_APP}.{FINISH}(answer)",
        example_switch=shown(SYSTEM_APP, SWITCH, target_app="excel"),
        example_read=shown("excel", "read_file", file_path="data/costs.xlsx"),
        example_set=shown("excel", "set_cell", file_path="data/costs.xlsx", row_idx=4, column_idx=2, text="50"),
        example_finish=shown(SYSTEM_APP, FINISH, answer="None"),
    )


def task_message(subtask: Subtask, apps: Sequence[App]) -> str:
    lines = "\n".join(f"- {app.name}: {app.purpose}" for app in apps)
    return f"Task: {subtask.text}\n\nApps:\n{lines}\n- {SYSTEM_APP}: {SWITCH}(target_app), {FINISH}(answer)"


def app_instructions(app: App | None, apps: Sequence[App]) -> str:
    """What can be done next."""
    if app is None:
        return f"No app is open. Open one with {SYSTEM_APP}.{SWITCH}(target_app): {', '.join(a.name for a in apps)}."
    lines = "\n".join(f"- {app.name}.{action.signature}: {action.purpose}" for action in app.actions)
    others = ", ".join(other.name for other in apps if other != app)
    return (
        f"The app {app.name} is open. Its actions:\n{lines}\n"
        f"At any time:\n- {SYSTEM_APP}.{SWITCH}(target_app): open another app ({others})\n"
        f"- {SYSTEM_APP}.{FINISH}(answer): end the task"
    )


def shown_action(form: ActionForm, app: str, action: str, arguments: Mapping[str, object]) -> str:
    """An action as the agent is to write it."""
    if form == "text":
        return f"<action>{json.dumps({'app': app, 'action': action, **arguments})}</action>"
    return f"{_TOOL}{json.dumps({'app': app, 'action': action, 'arguments': dict(arguments)})}"
