"""ATIF, the trajectory format of Harbor: one JSON document, steps with calls and their observations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import Reader, arguments, content_text, items, mapping, number, text
from recompact.values.session import Call, CompactionEvent, Event, Info, KeptNothing, Passage, Result, Size, Tally


def recognises(sample: list[Any], path: Path) -> bool:
    document = mapping(sample[0]) if sample else {}
    return text(document.get("schema_version")).startswith("ATIF") and isinstance(document.get("steps"), list)


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    for _, document in records:
        agent = mapping(mapping(document).get("agent"))
        session = text(mapping(document).get("session_id"))
        inner = mapping(agent.get("extra")).get("continuation_index")
        standing = "subagent" if "-summarization-" in session else "fork" if inner else "main"
        version = f"{text(agent.get('name'))} {text(agent.get('version'))}".strip()
        yield Info(session, version, "", text(agent.get("model_name")), standing)  # type: ignore[arg-type]
        handoff: int | None = None
        for place, step in enumerate(items(mapping(document).get("steps")), 1):
            step = mapping(step)
            said = content_text(step.get("message"))
            if _summarizes(step):
                handoff = place
            elif handoff is not None and step.get("source") == "user":
                yield _compaction(session, handoff, said)
                handoff = None
            else:
                yield from _step(place, step, said, tally)
        if handoff is not None:
            yield _compaction(session, handoff, None)


def _compaction(session: str, place: int, summary: str | None) -> CompactionEvent:
    """A compaction. In a file that names no session nothing tells it from those of others."""
    identity = f"{session}#{place}" if session else ""
    return CompactionEvent(KeptNothing(), summary, identity=identity, line=place, system_stays=True)


def _summarizes(step: Mapping[str, Any]) -> bool:
    """Whether a step is a context summarization: it refers to the trajectories of the agents that wrote the summary."""
    if step.get("source") != "system":
        return False
    results = items(mapping(step.get("observation")).get("results"))
    refs = [ref for result in results for ref in items(mapping(result).get("subagent_trajectory_ref"))]
    return any("summarization" in text(mapping(ref).get("session_id")) for ref in refs)


def _step(place: int, step: Mapping[str, Any], said: str, tally: Tally) -> Iterator[Event]:
    source = step.get("source")
    if source not in ("user", "agent", "system"):
        tally.unknown[f"source {source}"[:60]] += 1
        return
    if source != "agent":
        yield Passage("user" if source == "user" else "system", said, line=place)
        return
    yield Passage("assistant", said, line=place)
    calls = [mapping(call) for call in items(step.get("tool_calls"))]
    for call in calls:
        given = arguments(call.get("arguments"))
        yield Call(text(call.get("tool_call_id")), text(call.get("function_name")), given, "", f"s{place}", line=place)
    for result in items(mapping(step.get("observation")).get("results")):
        result = mapping(result)
        answered = text(result.get("source_call_id"))
        if not answered and len(calls) == 1:
            answered = text(calls[0].get("tool_call_id"))
        if answered:
            yield Result(answered, content_text(result.get("content")), line=place)
    metrics = mapping(step.get("metrics"))
    if tokens := number(metrics.get("prompt_tokens")):
        yield Size(tokens + (number(metrics.get("completion_tokens")) or 0))


READER = Reader("atif", recognises, read)
