"""Traces in OTLP/JSON as sessions: with contents, without them, and from other instrumentations than our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from shared_runs import verified_run

from recompact.audit.auditing import audit_run, audit_transcripts
from recompact.audit.findings import Session
from recompact.engine.store.store import Store
from recompact.harnesses.transcripts import otlp
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.exchange.registry import export_run
from recompact.values.session import Call, CompactionEvent, Event, KeptKeys, Result, Tally


def value(plain: Any) -> dict[str, Any]:
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue"}
    kind = kinds.get(type(plain), "stringValue")
    return {kind: str(plain) if kind == "intValue" else plain}


def span(id: int, operation: str, parent: int = 0, **attributes: Any) -> dict[str, Any]:
    named = {"gen_ai.operation.name": operation, **{key.replace("__", "."): each for key, each in attributes.items()}}
    return {
        "traceId": "aa",
        "spanId": f"{id:x}",
        "parentSpanId": f"{parent:x}" if parent else "",
        "startTimeUnixNano": str(id * 1000),
        "attributes": [{"key": key, "value": value(each)} for key, each in named.items()],
    }


def document(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def events_of(*documents: dict[str, Any]) -> tuple[list[Event], Tally]:
    tally = Tally()
    return list(otlp.read(list(enumerate(documents, 1)), tally)), tally


def said(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "content": words}


def look(page: int) -> list[dict[str, Any]]:
    """A call and its result, as later requests repeat them."""
    call = {"type": "tool_call", "id": f"c{page}", "name": "look", "arguments": {"page": page}}
    return [
        said("assistant", call),
        said("tool", {"type": "tool_call_response", "id": f"c{page}", "response": f"p{page}"}),
    ]


def chats(compact_at: int, pages: int, *, flag: bool) -> list[dict[str, Any]]:
    """Requests of an instrumented client alone: no span says that a tool ran or that the context was compacted."""
    start = [said("system", text("You look.")), said("user", text("The task."))]
    history: list[dict[str, Any]] = []
    spans = []
    for page in range(pages):
        if page == compact_at:
            history = [said("user", text("Summary: it is amber.")), *history[-2:]]
        marked = {"gen_ai__conversation__compacted": True} if flag and page >= compact_at else {}
        spans.append(
            span(
                page + 1,
                "chat",
                gen_ai__input__messages=json.dumps([*start, *history]),
                gen_ai__output__messages=json.dumps(look(page)[:1]),
                gen_ai__usage__input_tokens=100 + 10 * len(history),
                gen_ai__usage__output_tokens=5,
                **marked,
            )
        )
        history += look(page)
    return spans


@given(st.integers(3, 6), st.integers(2, 4), st.booleans(), st.booleans())
def test_a_compaction_shows_in_requests_alone(compact_at: int, after: int, flag: bool, batched: bool) -> None:
    spans = chats(compact_at, compact_at + after, flag=flag)
    documents = [document(*spans)] if not batched else [document(each) for each in reversed(spans)]
    events, tally = events_of(*documents)
    assert not tally.notes
    (compaction,) = [event for event in events if isinstance(event, CompactionEvent)]
    assert compaction.summary == "Summary: it is amber."
    assert compaction.kept == KeptKeys(frozenset([f"c{compact_at - 1}"]))
    calls = [event.arguments for event in events if isinstance(event, Call)]
    assert calls == [{"page": page} for page in range(compact_at + after - 1)]  # of the last one nothing came back
    assert [event.text for event in events if isinstance(event, Result)] == [f"p{page['page']}" for page in calls]


def requests_of(*sizes: int) -> list[dict[str, Any]]:
    return [span(n, "chat", gen_ai__usage__input_tokens=size) for n, size in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("sizes", "compactions"),
    [
        ((50_000, 120_000, 20_000, 30_000, 40_000), [(120_000, 20_000)]),
        ((50_000, 120_000, 20_000, 121_000, 122_000), []),  # it came back: another branch
        ((50_000, 60_000, 20_000, 30_000), []),  # too small a fall
        ((90_000, 20_000, 200_000, 210_000), []),  # far from the largest
    ],
)
def test_without_contents_falls_in_tokens_are_compactions(sizes: tuple[int, ...], compactions: list[Any]) -> None:
    events, tally = events_of(document(*requests_of(*sizes)))
    seen = [event for event in events if isinstance(event, CompactionEvent)]
    assert [(event.tokens_before, event.tokens_after) for event in seen] == compactions
    assert tally.notes[otlp.NO_CONTENT] == 1


def test_a_span_that_says_so_is_a_compaction_and_its_own_call_is_none_of_the_agents() -> None:
    spans = [
        span(1, "invoke_agent", gen_ai__conversation__id="mine", gen_ai__agent__name="a"),
        span(2, "chat", 1, gen_ai__usage__input_tokens=9),
        span(3, "compact", 1, compaction__tokens_before=9, compaction__tokens_after=4),
        span(4, "chat", 3, gen_ai__usage__input_tokens=9),
        span(5, "chat", 1, gen_ai__usage__input_tokens=4),
    ]
    events, _ = events_of(document(*spans))
    (compaction,) = [event for event in events if isinstance(event, CompactionEvent)]
    assert (compaction.tokens_before, compaction.tokens_after) == (9, 4)
    assert sum(type(event).__name__ == "Size" for event in events) == 2


def test_an_export_of_ours_is_the_same_sessions(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    def figures(session: Session) -> Any:
        return session.calls, [
            (each.kind, each.dropped_in_all, each.kept_in_all, each.before, each.after, each.scene.summary)
            for each in session.compactions
        ]

    with Store.read(verified_run(tmp_path_factory)) as store:
        export_run(store, "otlp", tmp_path / "out")
        recorded = [figures(session) for session in audit_run(store).sessions]
    audit = audit_transcripts(read_transcripts([tmp_path / "out" / "traces.jsonl"]))
    told = [figures(session) for session in audit.sessions]
    assert all(each in told for each in recorded)
    assert all(session.info.score is not None for session in audit.sessions)
    assert not any(session.tally.unknown or session.tally.notes for session in audit.sessions)


ODD: list[Any] = [None, 3, "x", [], {}, [None], {"spans": [3]}, {"scopeSpans": [{"spans": [{"attributes": [3, {}]}]}]}]


@pytest.mark.parametrize("odd", ODD)
def test_odd_documents_are_no_error(odd: Any) -> None:
    events_of({"resourceSpans": [odd]}, {"resourceSpans": odd})
    broken = span(1, "chat", gen_ai__input__messages="{not json", gen_ai__usage__input_tokens=True)
    events_of(document(broken, {**broken, "parentSpanId": broken["spanId"], "startTimeUnixNano": odd}))
