"""Gemini CLI: the exported history (an array of contents), and the recordings of chats as a document or as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import Place, Reader, content_text, items, mapping, number, speaker, text
from recompact.values.session import Call, CompactionEvent, Event, Info, KeptNothing, Passage, Result, Size, Tally

SNAPSHOT = "<state_snapshot>"
_MARKS = ("<session_context>", "This is the Gemini CLI. We are setting up the context")


def recognises(sample: list[Any], path: Path) -> bool:
    if not sample:
        return False
    first = sample[0]
    if isinstance(first, list):
        return any("parts" in mapping(content) for content in first[:3])
    return "projectHash" in mapping(first) and "sessionId" in mapping(first)


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    for line, value in records:
        if isinstance(value, list):
            for place, content in enumerate(value, 1):
                yield from _content(place, mapping(content), tally)
            continue
        record = mapping(value)
        if "projectHash" in record:
            standing = "subagent" if record.get("kind") == "subagent" else "main"
            yield Info(text(record.get("sessionId")), "", text(record.get("projectHash")), "", standing)  # type: ignore[arg-type]
            for place, message in enumerate(items(record.get("messages")), 1):
                yield from _record_events(place, mapping(message), tally)
        elif "type" in record:
            yield from _record_events(line, record, tally)
        elif "$set" not in record:
            tally.unknown["record without a type"] += 1


def _content(place: int, content: Mapping[str, Any], tally: Tally) -> Iterator[Event]:
    role = "user" if content.get("role") == "user" else "assistant"
    for part in items(content.get("parts")):
        part = mapping(part)
        if "functionCall" in part:
            call = mapping(part["functionCall"])
            name = text(call.get("name"))
            yield Call(text(call.get("id")) or name, name, mapping(call.get("args")), "", f"m{place}", line=place)
        elif "functionResponse" in part:
            answer = mapping(part["functionResponse"])
            yield Result(text(answer.get("id")) or text(answer.get("name")), *_response(answer), line=place)
        elif part.get("thought") is True or "thoughtSignature" in part:
            continue
        elif "text" in part:
            yield from _speech_events(role, text(part.get("text")), "", place)
        else:
            tally.unknown[f"part {', '.join(sorted(map(str, part)))}"[:60]] += 1


def _speech_events(role: str, words: str, key: str, place: int) -> Iterator[Event]:
    if role == "user" and words.lstrip().startswith(SNAPSHOT):
        yield CompactionEvent(KeptNothing(), words, identity=key, key=key, line=place)
    else:
        yield Passage(speaker(words, _MARKS) if role == "user" else "assistant", words, key, place)


def _response(answer: Mapping[str, Any]) -> tuple[str, bool | None]:
    response = mapping(answer.get("response"))
    return content_text(response.get("output") or response.get("error") or response.get("content")), (
        True if "error" in response else None
    )


def _record_events(place: int, message: Mapping[str, Any], tally: Tally) -> Iterator[Event]:
    key = text(message.get("id"))
    words = content_text(message.get("content"))
    match message.get("type"):
        case "user":
            yield from _speech_events("user", words, key, place)
        case "gemini":
            yield Info(model=text(message.get("model")))
            yield Passage("assistant", words, key, place)
            for call in items(message.get("toolCalls")):
                call = mapping(call)
                id = text(call.get("id"))
                yield Call(id, text(call.get("name")), mapping(call.get("args")), "", key, key, place)
                answer = mapping(mapping(next(iter(items(call.get("result"))), None)).get("functionResponse"))
                shown, failed = _response(answer)
                if call.get("status") in ("success", "error"):
                    yield Result(id, shown, failed or call.get("status") == "error", key, place)
            if tokens := number(mapping(message.get("tokens")).get("total")):
                yield Size(tokens)
        case "info" | "error" | "warning":
            yield Passage("system", words, key, place)
        case kind:
            tally.unknown[str(kind)[:60]] += 1


READER = Reader("gemini", recognises, read, (Place("tmp", "GEMINI_DIR", "~/.gemini"),))
