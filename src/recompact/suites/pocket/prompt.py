"""What the agent is told before it starts: the system prompt, its two tools, and the task with who is asking.

The system prompt is the same for every task. The owner's line stands with the task, as the worked example has another
owner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from recompact.suites.pocket.world import TODAY, Person
from recompact.values.chat import ToolSpec

SYSTEM = f"""\
You do tasks in a person's apps, on their behalf. You act only through two tools, one call at a time:
- call_api(app, api, arguments): calls one API of an app and returns JSON. arguments is a JSON object.
- finish(answer): ends the task.

How things work here:
- The apps are contacts, payments, calendar, mail and files. Find out what they can do in the app documentation: \
show_apis (app) lists the APIs of an app, show_api (app, api) shows how one is called.
- Begin with account.show_passwords, which needs no arguments and gives the passwords of all apps. Each app has a \
login that returns a token; its other APIs take that token.
- Lists come in pages. Look at page and pages in the result before you rely on a list.
- Use only what the apps tell you; do not guess ids, amounts or people.
- What cannot be undone, such as a payment or a message, must be done exactly once and only where it was asked for.
- When everything is done, call finish. If the task asks a question, answer is just the value (a name, a number, a \
time), with no sentence around it; otherwise answer is "done".

Today is {TODAY}."""

TOOLS = (
    ToolSpec(
        "call_api",
        "Call one API of an app.",
        {
            "type": "object",
            "properties": {
                "app": {"type": "string"},
                "api": {"type": "string"},
                "arguments": {"type": "object"},
            },
            "required": ["app", "api"],
        },
    ),
    ToolSpec(
        "finish",
        "End the task.",
        {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
    ),
)

TOKEN = re.compile(r"\b(?:con|pay|cal|mai|fil)-[0-9a-f]{8}\b")
"""A token anywhere in a text."""
RECORD_ID = re.compile(r"\b[ctremf][1-9]\d{3}\b")
"""The id of a record anywhere in a text; its letter tells the kind (contact, transaction, request, event, message,
file)."""
_OWNER = re.compile(r"I am (?P<name>.+?) \(email (?P<email>\S+), phone (?P<phone>[\d-]+)\)\.")


@dataclass(frozen=True)
class Owner:
    """Who is asking, as the task's message says."""

    name: str
    email: str
    phone: str


def task_message(owner: Person | Owner, instruction: str) -> str:
    """The message with the task."""
    return f"I am {owner.name} (email {owner.email}, phone {owner.phone}).\n\n{instruction}"


def read_task_message(text: str) -> tuple[Owner, str] | None:
    """The owner and the request in such a message."""
    match = _OWNER.match(text)
    if match is None:
        return None
    return Owner(**match.groupdict()), text[match.end() :].strip()
