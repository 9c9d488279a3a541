"""What the agent is told before it starts: the system prompt, its two tools, and the task with who is asking.

The system prompt is the same for every task. The owner's line stands with the task, as the worked example has another
owner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files

from recompact.environments.protocol import tool
from recompact.suites.pocket.world import TODAY, Person

_TEXT = files("recompact.suites.pocket") / "prompt.txt"
SYSTEM = _TEXT.read_text(encoding="utf-8").rstrip("\n").format(today=TODAY)

_TEXT_ARGUMENT = {"type": "string"}
TOOLS = (
    tool(
        "call_api",
        "Call one API of an app.",
        ["app", "api"],
        app=_TEXT_ARGUMENT,
        api=_TEXT_ARGUMENT,
        arguments={"type": "object"},
    ),
    tool("finish", "End the task.", ["answer"], answer=_TEXT_ARGUMENT),
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
