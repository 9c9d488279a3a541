"""Copilot CLI: an events file of JSON lines, in which subagents' events are mixed with the main agent's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import (
    Place,
    Reader,
    arguments,
    content_text,
    mapping,
    number,
    objects_in,
    text,
)
from recompact.values.session import Call, CompactionEvent, Event, Info, KeptFrom, KeptNothing, Passage, Result, Tally

_PREFIXES = (
    "hook.",
    "session.",
    "assistant.",
    "subagent.",
    "permission.",
    "system.",
    "tool.",
    "user.",
    "skill.",
    "abort",
)


def recognises(sample: list[Any], path: Path) -> bool:
    first = mapping(sample[0]) if sample else {}
    return isinstance(first.get("data"), dict) and text(first.get("type")).startswith(_PREFIXES)


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    started = cwd = ""
    for line, record in objects_in(records, tally):
        data = mapping(record.get("data"))
        # The user's own messages name a parent task as well, so that tells nothing.
        if record.get("agentId") or data.get("parentToolCallId") or text(data.get("source")).startswith("agent-"):
            tally.subagent += 1
            continue
        key = text(record.get("id"))
        match record.get("type"):
            case "session.start" | "session.resume":
                context = mapping(data.get("context"))
                cwd = text(context.get("cwd")) or cwd
                yield Info(text(data.get("sessionId")), text(data.get("copilotVersion")), cwd, standing="main")
            case "user.message":
                words = text(data.get("content"))
                yield Passage("system" if data.get("source") == "system" else "user", words, key, line)
            case "assistant.message":
                yield Info(model=text(data.get("model")))
                yield Passage("assistant", text(data.get("content")), key, line)
            case "system.message":
                yield Passage("system", text(data.get("content")), key, line)
            case "tool.execution_start":
                name, batch = text(data.get("toolName")), text(data.get("turnId"))
                yield Call(text(data.get("toolCallId")), name, arguments(data.get("arguments")), cwd, batch, key, line)
            case "tool.execution_complete":
                result = data.get("result") or data.get("error")
                words = content_text(mapping(result).get("content") or mapping(result).get("message") or result)
                failed = None if data.get("success") is None else data.get("success") is not True
                yield Result(text(data.get("toolCallId")), words, failed, key, line)
            case "session.compaction_start":
                started = key
                yield Passage("system", "", key, line)
            case "session.compaction_complete" if data.get("success") is False:
                tally.notes["compaction that failed"] += 1
            case "session.compaction_complete":
                # It runs beside the agent. What stays is not recorded; what came after its start is assumed to.
                yield CompactionEvent(
                    KeptFrom(started) if started else KeptNothing(),
                    text(data.get("summaryContent")) or None,
                    tokens_before=number(data.get("preCompactionTokens")),
                    identity=key,
                    key=key,
                    line=line,
                    system_stays=True,
                )
                started = ""
            case kind:
                if not text(kind).startswith(_PREFIXES):
                    tally.unknown[str(kind)[:60]] += 1


READER = Reader("copilot", recognises, read, (Place("session-state", "COPILOT_HOME", "~/.copilot"),))
