"""Hermes: exported sessions, messages in OpenAI's form with a header of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.openai_messages import list_messages, message_events
from recompact.harnesses.transcripts.reader import Place, Reader, content_text, mapping, text
from recompact.values.session import Event, Info, NewSession, Tally

_HEADER = frozenset(["platform", "model_config", "session_start", "message_count"])
_MARK = "[CONTEXT COMPACTION"


def recognises(sample: list[Any], path: Path) -> bool:
    if not sample:
        return False
    first = sample[0]
    if isinstance(first, dict) and isinstance(first.get("messages"), list):
        return "session_id" in first and bool(_HEADER & set(first))
    messages = [mapping(message) for value in sample[:8] for message in list_messages(value)[:8]]
    return any(content_text(message.get("content")).startswith(_MARK) for message in messages)


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    first = True
    for line, value in records:
        header = mapping(value)
        together = isinstance(value, list) or "messages" in header
        if together:
            if not first:
                yield NewSession()
            project = text(mapping(header.get("model_config")).get("cwd"))
            yield Info(text(header.get("session_id")), "", project, text(header.get("model")))
        first = False
        for place, message in enumerate(list_messages(value), 1):
            if "role" in mapping(message):
                yield from message_events(message, place if together else line, tally)
            else:
                tally.unknown["record that is no message"] += 1


READER = Reader("hermes", recognises, read, (Place("sessions", "HERMES_HOME", "~/.hermes"),))
