"""pi and OpenClaw: JSON lines, a tree by `id` and `parentId` (version 3) or in the order of the file (version 1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import (
    Place,
    Reader,
    content_text,
    items,
    mapping,
    number,
    objects_in,
    speaker,
    text,
)
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Info,
    Kept,
    KeptFrom,
    KeptNothing,
    Passage,
    Result,
    Rewind,
    Size,
    Tail,
    Tally,
)

_MARKS = ("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "[OpenClaw heartbeat poll]")  # OpenClaw's, in the user's name
_ASIDE = frozenset(["model_change", "thinking_level_change", "custom", "label", "session_info", "leaf"])


def is_session(sample: list[Any]) -> bool:
    """Whether these are records of pi's session format, which OpenClaw shares."""
    first = mapping(sample[0]) if sample else {}
    return first.get("type") == "session" and "id" in first and ("cwd" in first or "version" in first)


def is_openclaw(sample: list[Any], path: Path) -> bool:
    if ".openclaw" in path.parts or ".clawdbot" in path.parts:
        return True
    return any(
        "openclaw" in text(mapping(record).get("customType"))
        or mapping(record).get("customType") == "model-snapshot"
        or "idempotencyKey" in mapping(mapping(record).get("message"))
        for record in sample
    )


def recognises(sample: list[Any], path: Path) -> bool:
    return is_session(sample) and not is_openclaw(sample, path)


def recognises_openclaw(sample: list[Any], path: Path) -> bool:
    return is_session(sample) and is_openclaw(sample, path)


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    cwd = last = ""
    for line, record in objects_in(records, tally):
        kind = text(record.get("type"))
        if kind == "session":
            cwd = text(record.get("cwd"))
            parent = text(record.get("branchedFrom")) or text(record.get("parentSession"))
            version = f"format {record.get('version', 1)}"
            yield Info(text(record.get("id")), version, cwd, standing="fork" if parent else "main", parent=parent)
            continue
        key = text(record.get("id")) or str(line - 1)
        before = text(record.get("parentId"))
        if before and last and before != last:
            yield Rewind(before)
        last = text(record.get("id"))
        match kind:
            case "message":
                yield from _message(line, key, mapping(record.get("message")), cwd, tally)
            case "compaction":
                yield _compaction(line, key, record)
            case "custom_message" | "branch_summary":
                yield Passage("system", content_text(record.get("content") or record.get("summary")), key, line)
            case _:
                if kind not in _ASIDE:
                    tally.unknown[kind[:60] or "(no type)"] += 1
                yield Passage("system", "", key, line)


def _message(line: int, key: str, message: Mapping[str, Any], cwd: str, tally: Tally) -> Iterator[Event]:
    content = message.get("content")
    match message.get("role"):
        case "user":
            words = content_text(content)
            yield Passage(speaker(words, _MARKS), words, key, line)
        case "assistant":
            yield Passage("assistant", "", key, line)
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else items(content):
                block = mapping(block)
                if block.get("type") == "text":
                    yield Passage("assistant", text(block.get("text")), key, line)
                elif block.get("type") == "toolCall":
                    call_arguments = mapping(block.get("arguments"))
                    yield Call(text(block.get("id")), text(block.get("name")), call_arguments, cwd, key, key, line)
                elif block.get("type") not in ("thinking", "image"):
                    tally.unknown[f"block {block.get('type')}"[:60]] += 1
            usage = mapping(message.get("usage"))
            names = ("input", "output", "cacheRead", "cacheWrite")
            new, put_out, read, created = (number(usage.get(name)) or 0 for name in names)
            if tokens := number(usage.get("totalTokens")) or new + put_out + read + created:
                yield Info(model=text(message.get("model")))
                yield Size(tokens, read, new + created) if "cacheRead" in usage else Size(tokens)
        case "toolResult":
            failed = message.get("isError")
            words = content_text(content)
            yield Result(
                text(message.get("toolCallId")), words, failed if isinstance(failed, bool) else None, key, line
            )
        case "bashExecution" | "custom" | "branchSummary" | "compactionSummary":
            yield Passage("system", content_text(content) or text(message.get("output")), key, line)
        case role:
            tally.unknown[f"role {role}"[:60]] += 1
            yield Passage("system", "", key, line)


def _compaction(line: int, key: str, record: Mapping[str, Any]) -> CompactionEvent:
    first = text(record.get("firstKeptEntryId"))
    index = number(record.get("firstKeptEntryIndex"))
    if not first and index is not None:
        first = str(index)
    kept: Kept = KeptFrom(first) if first and first != key else KeptNothing()
    return CompactionEvent(
        kept,
        text(record.get("summary")),
        tokens_before=number(record.get("tokensBefore")),
        trigger="extension" if record.get("fromHook") is True else "",
        identity=f"{key}@{record['timestamp']}" if record.get("timestamp") else "",
        key=key,
        line=line,
    )


_TAIL = Tail(tokens=20_000)  # keepRecentTokens
READER = Reader("pi", recognises, read, (Place("sessions", "PI_CODING_AGENT_DIR", "~/.pi/agent"),), tail=_TAIL)
OPENCLAW = Reader(
    "openclaw", recognises_openclaw, read, (Place("agents", "OPENCLAW_STATE_DIR", "~/.openclaw"),), tail=_TAIL
)
