"""What the simulated agent knows: nothing but what its messages show."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from recompact.chat import Message
from recompact.embedded.pocket import Owner, read_task_message
from recompact.embedded.simulation.notes import Event, Notes, events_of, read_notes


@dataclass
class Knowledge:
    """What the messages show: calls and results, what the summary says, and what the agent itself has thought since."""

    reads: dict[tuple[str, str], Any] = field(default_factory=dict)
    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    tokens: dict[str, str] = field(default_factory=dict)
    passwords: dict[str, str] = field(default_factory=dict)
    signatures: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    notes: Notes | None = None
    summary: str = ""
    thoughts: list[str] = field(default_factory=list)
    turns: int = 0
    last: Event | None = None

    def learn(self, event: Event) -> None:
        self.last = event
        key = (event.name, event.arguments)
        if event.error:
            self.errors[key] += 1
            if "token" in event.error:
                self.tokens.pop(event.app, None)
            return
        if event.changes:
            self.done[key] += 1
        else:
            self.reads[key] = event.result
        if event.name == "documentation.show_api":
            self.signatures.add(f"{event.given.get('app')}.{event.given.get('api')}")
        elif event.name == "documentation.show_apis":
            self.listed.add(str(event.given.get("app")))
        elif event.name == "account.show_passwords" and isinstance(event.result, dict):
            self.passwords |= event.result
        elif event.api == "login" and isinstance(event.result, dict):
            self.tokens[event.app] = str(event.result.get("token"))


_SUMMARY = re.compile(r"<summary>\n(.*)\n</summary>", re.DOTALL)


def knowledge_of(messages: tuple[Message, ...]) -> tuple[Knowledge, Owner | None, str]:
    """What can be known from the messages, and the task that stands in them (the last one: examples come before)."""
    knowledge = Knowledge()
    owner: Owner | None = None
    task = ""
    begin = 0
    for number, message in enumerate(messages):
        if message.role != "user":
            continue
        if (read := read_task_message(message.content)) is not None:
            owner, task, begin = read[0], read[1], number + 1
        elif (match := _SUMMARY.search(message.content)) is not None:
            knowledge.summary, begin = match[1], number + 1
    if knowledge.summary:
        notes = read_notes(knowledge.summary)
        knowledge.notes = notes
        knowledge.tokens |= notes.tokens
        knowledge.passwords |= notes.passwords
        knowledge.signatures |= notes.signatures
        knowledge.names |= notes.names
        knowledge.reads |= notes.results
    since = messages[begin:]
    knowledge.thoughts = [m.content for m in since if m.role == "assistant" and m.content]
    knowledge.turns = sum(1 for m in since if m.role == "assistant")
    for event in events_of(since):
        knowledge.learn(event)
    return knowledge, owner, task
