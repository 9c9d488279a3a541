"""OpenCode: what `opencode export` writes, one JSON document per session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import Reader, items, mapping, number, text
from recompact.values.session import Call, CompactionEvent, Event, Info, KeptNothing, Passage, Result, Size, Tail, Tally

_ASIDE = frozenset(["step-start", "reasoning", "patch", "file", "compaction", "snapshot", "agent", "retry", "subtask"])


def recognises(sample: list[Any], path: Path) -> bool:
    document = mapping(sample[0]) if sample else {}
    first = mapping(next(iter(items(document.get("messages"))), None))
    return "info" in document and "parts" in first


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    for _, document in records:
        info = mapping(mapping(document).get("info"))
        project = text(info.get("directory"))
        parent = text(info.get("parentID"))
        standing = "subagent" if parent else "main"
        yield Info(text(info.get("id")), text(info.get("version")), project, "", standing, parent)  # type: ignore[arg-type]
        for place, message in enumerate(items(mapping(document).get("messages")), 1):
            yield from _message(place, mapping(message), project, tally)


def _message(place: int, message: Mapping[str, Any], project: str, tally: Tally) -> Iterator[Event]:
    info = mapping(message.get("info"))
    parts = [mapping(part) for part in items(message.get("parts"))]
    key = text(info.get("id"))
    words = "\n".join(text(part.get("text")) for part in parts if part.get("type") == "text")
    if info.get("role") == "assistant" and (info.get("mode") == "compaction" or info.get("summary") is True):
        yield CompactionEvent(KeptNothing(), words or None, identity=key, key=key, line=place)
        return
    if info.get("role") == "user":
        typed = not any(part.get("synthetic") is True or part.get("type") == "compaction" for part in parts)
        yield Passage("user" if typed else "system", words, key, place)
        return
    for part in parts:
        match text(part.get("type")):
            case "text":
                yield Passage("assistant", text(part.get("text")), key, place)
            case "tool":
                yield from _tool(place, key, part, text(mapping(info.get("path")).get("cwd")) or project, tally)
            case "step-finish":
                used = mapping(part.get("tokens"))
                if tokens := number(used.get("total")):
                    cache = mapping(used.get("cache"))
                    new = (number(used.get("input")) or 0) + (number(cache.get("write")) or 0)
                    yield Size(tokens, number(cache.get("read")), new) if "read" in cache else Size(tokens)
            case kind:
                if kind not in _ASIDE:
                    tally.unknown[f"part {kind}"[:60]] += 1
    if model := text(info.get("modelID")):
        yield Info(model=model)


def _tool(place: int, key: str, part: Mapping[str, Any], cwd: str, tally: Tally) -> Iterator[Event]:
    state = mapping(part.get("state"))
    call = text(part.get("callID"))
    yield Call(call, text(part.get("tool")), mapping(state.get("input")), cwd, key, key, place)
    if mapping(state.get("time")).get("compacted"):
        tally.notes["result cleared at a time that is not recorded"] += 1
    if state.get("status") in ("completed", "error"):
        words = text(state.get("output")) or text(state.get("error"))
        yield Result(call, words, state.get("status") == "error", key, place)


READER = Reader("opencode", recognises, read, tail=Tail(tokens=15_000))  # a quarter of the window, if that is less
