"""A run as OTLP/JSON, the form in which a collector's file exporter writes traces: one line for each episode."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.engine.store.runs import last_change
from recompact.engine.store.store import Store
from recompact.presentation.exchange.episodes import NOTE, Clock, Episode
from recompact.presentation.exchange.spans import Span, boundary_key, episode_span
from recompact.version import __version__

_KINDS = {"internal": 1, "client": 3}
_OK, _ERROR = 0, 2


def write(store: Store, episodes: Iterable[Episode], directory: Path) -> None:
    clock = Clock(last_change(store.path))
    resource = {"service.name": "recompact", "recompact.run": store.path.stem, "recompact.times": NOTE}
    with (directory / "traces.jsonl").open("w", encoding="utf-8", errors="replace") as file:
        for episode in episodes:
            span = episode_span(episode, store.metadata.suite or "agent", clock, content=True)
            file.write(json.dumps(trace_document(span, store.path.stem, resource), ensure_ascii=False) + "\n")


def trace_document(span: Span, run: str, resource: Mapping[str, Any]) -> dict[str, Any]:
    scope = {"name": "recompact", "version": __version__}
    spans = list(_spans(span, run, _id(run, span.key, 16), ""))
    return {
        "resourceSpans": [
            {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [{"scope": scope, "spans": spans}]}
        ]
    }


def _spans(span: Span, run: str, trace: str, parent: str) -> Iterator[dict[str, Any]]:
    id = _id(run, f"span {span.key}", 8)
    link = span.link and {
        "traceId": _id(run, span.link.unit, 16),
        "spanId": _id(run, f"span {boundary_key(span.link)}", 8),
    }
    yield {
        "traceId": trace,
        "spanId": id,
        **({"parentSpanId": parent} if parent else {}),
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": _nanoseconds(span.begin),
        "endTimeUnixNano": _nanoseconds(span.end),
        "attributes": _attributes(span.attributes),
        "events": [
            {"name": event.name, "timeUnixNano": _nanoseconds(event.at), "attributes": _attributes(event.attributes)}
            for event in span.events
        ],
        **({"links": [link]} if link else {}),
        "status": {"code": _ERROR, "message": span.error} if span.error else {"code": _OK},
    }
    for child in span.children:
        yield from _spans(child, run, trace, id)


def _id(run: str, key: str, size: int) -> str:
    """An id that is the same in every export of the run."""
    return hashlib.sha256(f"{run}\0{key}".encode("utf-8", "replace")).digest()[:size].hex()


def _nanoseconds(seconds: float) -> str:
    return str(int(seconds * 1_000_000) * 1_000)


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    return {"stringValue": str(value)}
