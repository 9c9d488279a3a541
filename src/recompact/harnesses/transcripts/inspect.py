"""Inspect: evaluation logs, as archives (`.eval`) or JSON. Each sample is a session.

A model event repeats its whole input, so what a compaction kept and wrote shows in the input after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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
from recompact.values.texts import word_set

# Events that say nothing about the conversation.
_ASIDE = word_set(
    "sample_init sample_limit sandbox state store approval input logger info score score_edit subtask step span_begin "
    "span_end error checkpoint anchor branch interrupt"
)
_ATTACHMENT = "attachment://"
_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
NEWEST = 2  # version of the log format
Resolve = Callable[[Any], Any]
Message = tuple[Mapping[str, Any], str]  # as it is recorded, and its text


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
        if (number(log.get("version")) or 0) > NEWEST:
            tally.notes[f"log of a version of Inspect's format newer than {NEWEST}: parts may be missed"] += 1
        for sample in items(log.get("samples")) or [log]:
            if not first:
                yield NewSession()
            first = False
            sample = mapping(sample)
            own = str(sample.get("id") or "")
            yield Info(text(sample.get("uuid")) or own, project=task, score=_score(sample), task=own)
            yield from sample_events(sample, tally)


def _score(sample: Mapping[str, Any]) -> float | None:
    """What the first scorer gave: a number, or Inspect's letters for correct, partial, incorrect and no answer."""
    for score in mapping(sample.get("scores")).values():
        value = mapping(score).get("value")
        if isinstance(value, int | float):
            return float(value)
        return _GRADES.get(text(value))
    return None


def sample_events(sample: Mapping[str, Any], tally: Tally) -> Iterator[Event]:
    """The events of one sample."""
    resolve = _resolver(sample.get("attachments"))
    pool = items(mapping(sample.get("events_data")).get("messages"))
    events = [mapping(event) for event in items(sample.get("events"))]
    seen: set[str] = set()
    shown: dict[str, str] = {}  # tool results by call, as the last request showed them
    compaction: tuple[int, Mapping[str, Any]] | None = None
    for place, event in enumerate(events, 1):
        match text(event.get("event")):
            case "model":
                if _writes_summary(events, place, pool, resolve):
                    continue
                inputs = [
                    (mapping(each), content_text(resolve(mapping(each).get("content"))))
                    for each in _inputs(event, pool)
                ]
                if compaction is not None:
                    yield _compaction(*compaction, inputs, seen, shown)
                    compaction = None
                for message, words in inputs:
                    if message.get("role") == "user" and words not in seen and not _is_summary(message):
                        yield Passage("user", words, line=place)
                    seen.add(words)
                shown = _results(inputs)
                yield from _answer(place, event, seen, resolve)
            case "tool":
                call = text(event.get("id"))
                yield Call(
                    call, text(event.get("function")), mapping(resolve(event.get("arguments"))), "", "", call, place
                )
                failed = event.get("error") is not None
                words = content_text(resolve(event.get("result"))) or text(mapping(event.get("error")).get("message"))
                yield Result(call, words, failed, call, place)
            case "compaction":
                compaction = (place, event)
            case kind:
                if kind not in _ASIDE:
                    tally.unknown[kind[:60] or "(no type)"] += 1
    if compaction is not None:
        yield _compaction(*compaction, [], seen, shown)


def _resolver(attachments: Any) -> Resolve:
    """Puts long texts back where events refer to them: by hash, or by index in a sample that is stored in chunks."""

    def resolve(value: Any) -> Any:
        if isinstance(value, str) and value.startswith(_ATTACHMENT):
            name = value[len(_ATTACHMENT) :]
            if isinstance(attachments, dict):
                return attachments.get(name, value)
            numbered = isinstance(attachments, list) and name.isdecimal() and len(name) < 10
            return attachments[int(name)] if numbered and int(name) < len(attachments) else value
        if isinstance(value, list):
            return [resolve(each) for each in value]
        if isinstance(value, dict):
            return {key: resolve(each) for key, each in value.items()}
        return value

    return resolve


def _inputs(event: Mapping[str, Any], pool: list[Any]) -> list[Any]:
    """The messages of a request: in the event itself or, in newer logs, in ranges of the sample's messages."""
    if inputs := items(event.get("input")):
        return inputs
    ranges = [pair for pair in items(event.get("input_refs")) if isinstance(pair, list) and len(pair) == 2]
    return [message for start, end in ranges if number(start) is not None for message in pool[start:end]]


def _writes_summary(events: list[Mapping[str, Any]], place: int, pool: list[Any], resolve: Resolve) -> bool:
    """Whether the request at this place is the compaction's own: a compaction comes next, and the request after that
    shows what was answered here."""
    choices = [mapping(mapping(choice).get("message")) for choice in items(_output(events[place - 1]).get("choices"))]
    if not choices or choices[0].get("tool_calls"):
        return False
    following = [event for event in events[place : place + 20] if event.get("event") not in _ASIDE]
    if not following or (following[0].get("event"), following[0].get("type")) != ("compaction", "summary"):
        return False
    answer = content_text(resolve(choices[0].get("content"))).strip()
    after = next((event for event in following if event.get("event") == "model"), {})
    messages = [mapping(message) for message in _inputs(after, pool)]
    shown = (content_text(resolve(message.get("content"))) for message in messages if message.get("role") == "user")
    return any(_is_summary(message) for message in messages) or bool(answer and any(answer in words for words in shown))


def _output(event: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(event.get("output"))


def _results(inputs: list[Message]) -> dict[str, str]:
    return {text(message.get("tool_call_id")): words for message, words in inputs if message.get("role") == "tool"}


def _is_summary(message: Mapping[str, Any]) -> bool:
    return mapping(message.get("metadata")).get("summary") is True


def _answer(place: int, event: Mapping[str, Any], seen: set[str], resolve: Resolve) -> Iterator[Event]:
    output = _output(event)
    yield Info(model=text(event.get("model")))
    for choice in items(output.get("choices"))[:1]:
        words = content_text(resolve(mapping(mapping(choice).get("message")).get("content")))
        seen.add(words)
        yield Passage("assistant", words, line=place)
    if tokens := number(mapping(output.get("usage")).get("total_tokens")):
        yield Size(tokens)


def _compaction(
    place: int,
    event: Mapping[str, Any],
    inputs: list[Message],
    seen: set[str],
    shown: Mapping[str, str],
) -> CompactionEvent:
    """A compaction, from the first request after it: results that it shows unchanged are kept, and its summary is
    marked, or in older logs the only text that is new."""
    kept = frozenset(call for call, words in _results(inputs).items() if shown.get(call, words) == words)
    marked = [words for message, words in inputs if _is_summary(message)]
    new = [words for message, words in inputs if words not in seen and message.get("role") != "tool"]
    summary = "\n".join(filter(None, marked or new)) or None
    return CompactionEvent(
        KeptKeys(kept - {""}),
        summary,
        kind="summary" if event.get("type") in ("summary", None) or summary else "clearing",
        tokens_before=number(event.get("tokens_before")),
        tokens_after=number(event.get("tokens_after")),
        trigger=text(mapping(event.get("metadata")).get("trigger")) or text(event.get("source")),
        identity=text(event.get("uuid")),
        line=place,
    )


READER = Reader("inspect", recognises, read)
