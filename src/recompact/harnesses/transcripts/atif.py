"""ATIF, the trajectory format of Harbor, versions 1.0 to 1.8: one JSON document, steps with calls and observations.

Since 1.7 a system step says by `context_management` what became of the context; before, terminus-2 referred to the
agents that wrote the summary, which is the next user step.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import Reader, arguments, content_text, items, mapping, number, text
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Info,
    Kept,
    KeptBut,
    KeptKeys,
    KeptNothing,
    NewSession,
    Passage,
    Result,
    Size,
    Standing,
    Tally,
)

NEWEST = (1, 8)


def recognises(sample: list[Any], path: Path) -> bool:
    document = mapping(sample[0]) if sample else {}
    return text(document.get("schema_version")).startswith("ATIF") and isinstance(document.get("steps"), list)


def next_file(sample: list[Any]) -> str:
    """The file in which a trajectory goes on, often after a compaction; only one in the same folder is believed."""
    name = text(mapping(sample[0]).get("continued_trajectory_ref"))
    return name if name == Path(name).name else ""


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    """The documents are parts of one trajectory; where one ends with a compaction, the next begins with its summary."""
    handoff: CompactionEvent | None = None
    for _, document in records:
        document = mapping(document)
        steps = [mapping(step) for step in items(document.get("steps"))]
        if handoff is not None:
            yield replace(handoff, summary="\n\n".join(_copied_texts(steps)) or None)
        version = re.fullmatch(r"ATIF-v(\d+)\.(\d+)", text(document.get("schema_version")))
        if version is None or (int(version[1]), int(version[2])) > NEWEST:
            tally.notes[f"trajectory of an ATIF version newer than {NEWEST[0]}.{NEWEST[1]}: parts may be missed"] += 1
        handoff = yield from _trajectory(document, None, tally)
        for inner in items(document.get("subagent_trajectories")):
            yield NewSession()
            unfinished = yield from _trajectory(mapping(inner), "subagent", tally)
            if unfinished is not None:
                yield unfinished
    if handoff is not None:
        yield handoff


def _copied_texts(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    copied = takewhile(lambda step: step.get("is_copied_context") is True, steps)
    return [words for step in copied if (words := content_text(step.get("message")))]


def _trajectory(
    document: Mapping[str, Any], standing: Standing | None, tally: Tally
) -> Generator[Event, None, CompactionEvent | None]:
    """The events of one document; returns a compaction at its end, whose summary the next document may have."""
    agent = mapping(document.get("agent"))
    session = text(document.get("session_id"))
    name = text(document.get("trajectory_id")) or session
    if standing is None:
        continued = mapping(agent.get("extra")).get("continuation_index")
        standing = "subagent" if "-summarization-" in session else "fork" if continued else "main"
    version = f"{text(agent.get('name'))} {text(agent.get('version'))}".strip()
    yield Info(name, version, "", text(agent.get("model_name")), standing, session if session != name else "")
    steps = [mapping(step) for step in items(document.get("steps"))]
    handoff: int | None = None
    for place, step in enumerate(steps, 1):
        words = content_text(step.get("message"))
        managed = _managed_context(name, place, steps, tally)
        if managed is not None:
            yield managed
        elif _summarizes(step):
            handoff = place
        elif handoff is not None and step.get("source") == "user":
            yield _compaction(name, handoff, KeptNothing(), words)
            handoff = None
        elif step.get("is_copied_context") is True:
            yield from _copied_step(place, step, words)
        else:
            yield from _step(place, step, words, tally)
    return None if handoff is None else _compaction(name, handoff, KeptNothing(), None)


def _compaction(name: str, place: int, kept: Kept, summary: str | None, **more: Any) -> CompactionEvent:
    """A compaction. In a file that names no session nothing tells it from those of others."""
    identity = f"{name}#{place}" if name else ""
    return CompactionEvent(kept, summary, identity=identity, line=place, system_stays=True, **more)


def _managed_context(name: str, place: int, steps: Sequence[Mapping[str, Any]], tally: Tally) -> CompactionEvent | None:
    """The compaction that a step's `context_management` tells of; None where it tells of none."""
    step = steps[place - 1]
    managed = mapping(mapping(step.get("extra")).get("context_management"))
    kind, boundary = text(managed.get("type")), text(managed.get("boundary"))
    if not managed or kind == "injection" or boundary == "append":
        return None
    if kind not in ("compaction", "pruning") and boundary not in ("replace", "truncate"):
        tally.unknown[f"context_management {kind} {boundary}"[:60]] += 1
        return None
    sizes = {key: number(managed.get(key)) for key in ("tokens_before", "tokens_after")}
    trigger = text(managed.get("trigger"))
    copied = list(takewhile(lambda each: each.get("is_copied_context") is True, steps[place:]))
    calls = [mapping(call) for each in copied for call in items(each.get("tool_calls"))]
    kept: Kept = KeptKeys(frozenset(text(call.get("tool_call_id")) for call in calls)) if copied else KeptNothing()
    if boundary == "truncate" or kind == "pruning":
        if not copied:
            kept = KeptBut(frozenset())
            tally.notes["pruning that does not say what it removed"] += 1
        return _compaction(name, place, kept, None, kind="clearing", trigger=trigger, **sizes)
    summary = "\n".join(filter(None, (content_text(each.get("content")) for each in _results(step)))) or None
    if summary is None and _summarizes(step):
        return None  # the next user step has it
    restated = "\n".join(filter(None, (content_text(each.get("message")) for each in copied)))
    return _compaction(name, place, kept, summary, restated=restated, trigger=trigger, **sizes)


def _results(step: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [mapping(result) for result in items(mapping(step.get("observation")).get("results"))]


def _summarizes(step: Mapping[str, Any]) -> bool:
    """Whether a step is a context summarization: it refers to the trajectories of the agents that wrote the summary."""
    if step.get("source") != "system":
        return False
    refs = [mapping(ref) for result in _results(step) for ref in items(result.get("subagent_trajectory_ref"))]
    keys = ("session_id", "trajectory_id", "trajectory_path")
    return any("summarization" in text(ref.get(key)) for ref in refs for key in keys)


def _copied_step(place: int, step: Mapping[str, Any], words: str) -> Iterator[Event]:
    """A step that another trajectory, or an earlier part of this one, has done: visible, and no new action."""
    roles = {"user": "user", "agent": "assistant"}
    yield Passage(roles.get(text(step.get("source")), "system"), words, line=place)  # type: ignore[arg-type]
    for result in _results(step):
        yield Passage("attachment", content_text(result.get("content")), line=place)


def _step(place: int, step: Mapping[str, Any], words: str, tally: Tally) -> Iterator[Event]:
    source = step.get("source")
    if source not in ("user", "agent", "system"):
        tally.unknown[f"source {source}"[:60]] += 1
        return
    if source != "agent":
        observed = [content_text(result.get("content")) for result in _results(step)] if source == "system" else []
        yield Passage("user" if source == "user" else "system", "\n".join(filter(None, [words, *observed])), line=place)
        return
    yield Passage("assistant", words, line=place)
    calls = [mapping(call) for call in items(step.get("tool_calls"))]
    for call in calls:
        id = text(call.get("tool_call_id"))
        call_arguments = arguments(call.get("arguments"))
        yield Call(id, text(call.get("function_name")), call_arguments, "", f"s{place}", id, place)
    for result in _results(step):
        answered = text(result.get("source_call_id"))
        if not answered and len(calls) == 1:
            answered = text(calls[0].get("tool_call_id"))
        if answered:
            yield Result(answered, content_text(result.get("content")), key=answered, line=place)
    metrics = mapping(step.get("metrics"))
    if tokens := number(metrics.get("prompt_tokens")):
        yield Size(tokens + (number(metrics.get("completion_tokens")) or 0))


READER = Reader("atif", recognises, read, next_file=next_file)
