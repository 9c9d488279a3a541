"""What the simulated agent knows: nothing but what its messages show."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from recompact.simulation.notes import (
    SPECS,
    Event,
    Notes,
    events_of,
    lists_of,
    read_notes,
    write_call,
    write_list,
    write_result,
    write_signature,
)
from recompact.suites.pocket import Owner, read_task_message
from recompact.suites.pocket.owner import decision, decisions_in, limit_in, rule
from recompact.values.chat import Message


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
    notes: list[Notes] = field(default_factory=list)  # of the summary, and of the agent's own
    summary: str = ""
    thoughts: list[str] = field(default_factory=list)
    turns: int = 0
    last: Event | None = None
    limit: int | None = None  # of the owner's rule, in cents
    decisions: dict[str, bool] = field(default_factory=dict)  # of the owner, by request

    @property
    def cut_off(self) -> bool:
        """Whether the history begins in the middle, with no summary in its place."""
        return not self.summary and self.turns > 0 and not any(OPENING in thought for thought in self.thoughts)

    @property
    def reported(self) -> list[tuple[str, str]]:
        """Changes that notes report as made: (full name, arguments)."""
        return [change for notes in self.notes for change in notes.done]

    def says_done(self, name: str, arguments: Mapping[str, Any]) -> bool:
        return any(notes.says_done(name, arguments) for notes in self.notes)

    def read(self, text: str) -> None:
        """Take over what a summary or a note tells."""
        notes = read_notes(text)
        self.notes.append(notes)
        self.tokens |= notes.tokens
        self.passwords |= notes.passwords
        self.signatures |= notes.signatures
        self.names |= notes.names
        self.reads |= notes.results
        self.hear(notes.limit, notes.decisions)

    def hear(self, limit: int | None, decisions: Mapping[str, bool]) -> None:
        """Take over what the owner said."""
        self.limit = self.limit if limit is None else limit
        self.decisions |= decisions

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


OPENING = "I begin by planning what to do."
"""The agent's first words. Where they are gone and there is no summary, its history has been cut off."""
NOTES = "What I know so far:"
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
        knowledge.read(knowledge.summary)
    since = messages[begin:]
    knowledge.thoughts = [m.content for m in since if m.role == "assistant" and m.content]
    knowledge.turns = sum(1 for m in since if m.role == "assistant")
    for thought in knowledge.thoughts:
        if NOTES in thought:
            knowledge.read(thought)
    for message in since:
        if message.role == "user":
            knowledge.hear(limit_in(message.content), decisions_in(message.content))
    for event in events_of(since):
        knowledge.learn(event)
    return knowledge, owner, task


def write_notes(knowledge: Knowledge) -> str:
    """Notes of all that is known, in a form that can be read back."""
    lines = [NOTES, *(f"- {app} token: {token}" for app, token in knowledge.tokens.items())]
    lines += [f"- {write_signature(SPECS[name])}" for name in sorted(knowledge.signatures) if name in SPECS]
    done = dict.fromkeys([*knowledge.reported, *(key for key, times in knowledge.done.items() if times)])
    lines += [f"- [x] {write_call(name, json.loads(arguments))}" for name, arguments in done]
    lines += [f"- {rule(knowledge.limit)}"] if knowledge.limit is not None else []
    lines += [f"- The owner said: {decision(id, agreed)}" for id, agreed in knowledge.decisions.items()]
    results = []
    for (name, arguments), result in knowledge.reads.items():
        app, api = name.split(".")
        if app not in ("documentation", "account") and api != "login":
            results.append(Event(app, api, arguments, result))
    lists, others = lists_of(results)
    lines += [write_result(event) for event in others]
    for (name, arguments), pages in lists.items():
        run = [pages[page].result for page in range(1, len(pages) + 1) if page in pages]
        if len(run) == len(pages):
            lines.append(write_list(name, json.loads(arguments), run))
    return "\n".join(lines)
