"""Inspect: evaluation logs, as archives (`.eval`) or JSON. Each sample is a session.

A model event repeats its whole input, so what a compaction kept and wrote shows in the input after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import Reader, content_text, items, mapping, number, text
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Info,
    KeptKeys,
    NewSession,
    Passage,
    Result,
    Size,
    Tally,
)

_ASIDE = frozenset(
    [
        "sample_init",
        "sample_limit",
        "sandbox",
        "state",
        "store",
        "approval",
        "input",
        "logger",
        "info",
        "score",
        "score_edit",
        "subtask",
        "step",
        "span_begin",
        "span_end",
        "error",
        "checkpoint",
        "anchor",
        "branch",
        "interrupt",
    ]
)
_ATTACHMENT = "attachment://"


def recognises(sample: list[Any], path: Path) -> bool:
    document = mapping(sample[0]) if sample else {}
    if isinstance(document.get("samples"), list):
        return "eval" in document or "plan" in document or "version" in document
    return any("event" in mapping(event) for event in items(document.get("events"))[:5])


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    first = True
    for _, document in records:
        log = mapping(document)
        task = text(mapping(log.get("eval")).get("task"))
        for sample in items(log.get("samples")) or [log]:
            if not first:
                yield NewSession()
            first = False
            yield Info(text(mapping(sample).get("uuid")) or str(mapping(sample).get("id") or ""), project=task)
            yield from _sample(mapping(sample), tally)


def _sample(sample: Mapping[str, Any], tally: Tally) -> Iterator[Event]:
    attachments = mapping(sample.get("attachments"))
    seen: set[str] = set()
    compaction: tuple[int, Mapping[str, Any]] | None = None

    def whole(value: Any) -> str:
        said = content_text(value)
        return text(attachments.get(said[len(_ATTACHMENT) :])) or said if said.startswith(_ATTACHMENT) else said

    for place, event in enumerate(items(sample.get("events")), 1):
        event = mapping(event)
        match text(event.get("event")):
            case "model":
                inputs = [mapping(message) for message in items(event.get("input"))]
                texts = {whole(message.get("content")): message for message in inputs}
                if compaction is not None:
                    new = [
                        said for said, message in texts.items() if said not in seen and message.get("role") != "tool"
                    ]
                    yield _compaction(*compaction, inputs, new)
                    compaction = None
                for said, message in texts.items():
                    if message.get("role") == "user" and said not in seen:
                        yield Passage("user", said, line=place)
                seen |= set(texts)
                yield from _answer(place, event, seen, whole)
            case "tool":
                call = text(event.get("id"))
                given = mapping(event.get("arguments"))
                yield Call(call, text(event.get("function")), given, "", "", call, place)
                failed = event.get("error") is not None
                said = whole(event.get("result")) or text(mapping(event.get("error")).get("message"))
                yield Result(call, said, failed, call, place)
            case "compaction":
                compaction = (place, event)
            case kind:
                if kind not in _ASIDE:
                    tally.unknown[kind[:60] or "(no type)"] += 1
    if compaction is not None:
        yield _compaction(*compaction, [], [])


def _answer(place: int, event: Mapping[str, Any], seen: set[str], whole: Any) -> Iterator[Event]:
    output = mapping(event.get("output"))
    yield Info(model=text(event.get("model")))
    for choice in items(output.get("choices"))[:1]:
        said = whole(mapping(mapping(choice).get("message")).get("content"))
        seen.add(said)
        yield Passage("assistant", said, line=place)
    if tokens := number(mapping(output.get("usage")).get("total_tokens")):
        yield Size(tokens)


def _compaction(
    place: int, event: Mapping[str, Any], inputs: list[Mapping[str, Any]], new: list[str]
) -> CompactionEvent:
    kept = frozenset(text(message.get("tool_call_id")) for message in inputs if message.get("role") == "tool")
    summary = "\n".join(filter(None, new)) or None
    return CompactionEvent(
        KeptKeys(kept - {""}),
        summary,
        kind="summary" if event.get("type") in ("summary", None) or summary else "clearing",
        tokens_before=number(event.get("tokens_before")),
        tokens_after=number(event.get("tokens_after")),
        trigger=text(event.get("source")),
        identity=text(event.get("uuid")),
        line=place,
    )


READER = Reader("inspect", recognises, read)
