"""Plain messages in OpenAI's form: one per line, or a list of them in a document or on each line.

Such a file marks no compaction. One is recognised by a message that begins like the summaries of known harnesses, or
that says so itself: `"compaction": true` beside its role. Beside that mark may stand what stayed visible, as numbers of
messages from 1 (`"kept": [1, 2, 14]`), and sizes (`"tokens_before"`, `"tokens_after"`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import Place, Reader, arguments, content_text, items, mapping, number, text
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Info,
    KeptKeys,
    KeptNothing,
    NewSession,
    Passage,
    Result,
    Tally,
)

_ROLES = frozenset(["system", "developer", "user", "assistant", "tool", "function"])
_HERMES = frozenset(["platform", "model_config", "session_start", "message_count"])  # keys of its header
SUMMARIES = (
    "[CONTEXT COMPACTION",
    "[CONTEXT SUMMARY",
    "<state_snapshot>",
    "<compacted-summary>",
    "<summary>",
    "<conversation_summary>",
    "This session is being continued from a previous conversation",
    "Another language model started to solve this problem",
)


def recognises(sample: list[Any], path: Path) -> bool:
    return any(_is_message(message) for value in sample[:4] for message in list_messages(value)[:4])


def list_messages(value: Any) -> list[Any]:
    """The messages of a record: itself, or those that it lists."""
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    return value if isinstance(value, list) else [value]


def _is_message(value: Any) -> bool:
    return text(mapping(value).get("role")) in _ROLES and bool({"content", "tool_calls"} & set(value))


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    first = True
    for line, value in records:
        header = mapping(value)
        together = isinstance(value, list) or "messages" in header
        if together:
            if not first:
                yield NewSession()
            project = text(mapping(header.get("model_config")).get("cwd"))  # Hermes has one
            name = text(header.get("session_id")) or text(header.get("id"))
            yield Info(name, project=project, model=text(header.get("model")))
        first = False
        for place, message in enumerate(list_messages(value), 1):
            if _is_message(message):
                yield from message_events(message, place if together else line, tally)
            else:
                tally.unknown[str(mapping(message).get("type") or "record that is not a message")[:60]] += 1


def message_events(message: Mapping[str, Any], place: int, tally: Tally) -> Iterator[Event]:
    """The events of one message."""
    words = content_text(message.get("content"))
    role = message["role"]
    key = f"m{place}"
    if message.get("compaction") is True or (role != "tool" and words.lstrip().startswith(SUMMARIES)):
        yield _compaction(message, words, key, place)
    elif role in ("tool", "function"):
        yield Result(text(message.get("tool_call_id")) or text(message.get("name")), words, key=key, line=place)
    elif role == "assistant":
        if words:
            yield Passage("assistant", words, key, place)
        for call in items(message.get("tool_calls")):
            function = mapping(mapping(call).get("function"))
            call_arguments = arguments(function.get("arguments"))
            yield Call(text(mapping(call).get("id")), text(function.get("name")), call_arguments, "", key, key, place)
    else:
        yield Passage("user" if role == "user" else "system", words, key, place)


def _compaction(message: Mapping[str, Any], words: str, key: str, place: int) -> CompactionEvent:
    kept = message.get("kept")
    return CompactionEvent(
        KeptKeys(frozenset(f"m{each}" for each in kept)) if isinstance(kept, list) else KeptNothing(),
        words,
        tokens_before=number(message.get("tokens_before")),
        tokens_after=number(message.get("tokens_after")),
        key=key,
        line=place,
        system_stays=not isinstance(kept, list),
    )


def recognises_hermes(sample: list[Any], path: Path) -> bool:
    """Hermes exports its sessions in this form, with a header or summaries of its own."""
    first = mapping(sample[0]) if sample else {}
    if isinstance(first.get("messages"), list):
        return "session_id" in first and bool(_HERMES & set(first))
    messages = [mapping(message) for value in sample[:8] for message in list_messages(value)[:8]]
    return any(content_text(message.get("content")).startswith(SUMMARIES[0]) for message in messages)


READER = Reader("openai-messages", recognises, read)
HERMES = Reader("hermes", recognises_hermes, read, (Place("sessions", "HERMES_HOME", "~/.hermes"),))
