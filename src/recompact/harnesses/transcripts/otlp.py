"""Traces by OpenTelemetry's conventions for generative AI, as a collector's file exporter writes them (OTLP/JSON).

The spans of one conversation are a session. A compaction is a span or a part that says so, or a request whose messages
no longer continue those before; where a trace has no contents, a fall in the tokens of its requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.inspect import sample_events
from recompact.harnesses.transcripts.reader import Reader, arguments, items, mapping, text
from recompact.values.session import Event, Info, NewSession, Tally

_ASKING = ("chat", "generate_content", "text_completion")
# By token counts alone a fall is a compaction if it is this large, from close to the session's largest request, and
# the size does not soon come back: otherwise it is a branch.
FALL, SHARE, SOON = 64_000, 0.75, 3
NO_CONTENT = "trace without the contents of its messages: compactions show only as falls in tokens"


@dataclass
class _Span:
    id: str
    parent: str
    trace: str
    start: int
    values: Mapping[str, Any]
    results: Sequence[Mapping[str, Any]] = ()  # of evaluations

    @property
    def operation(self) -> str:
        return text(self.values.get("gen_ai.operation.name"))

    def messages(self, key: str) -> list[Mapping[str, Any]]:
        value = self.values.get(key)
        try:
            listed = json.loads(value) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            return []
        return [mapping(message) for message in items(listed)]

    def count(self, *keys: str) -> int:
        """The first of these figures that the span has; older conventions have other names."""
        return next((value for key in keys if isinstance(value := self.values.get(key), int)), 0)

    @property
    def input(self) -> int:
        return self.count("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")

    @property
    def output(self) -> int:
        return self.count("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")


def recognises(sample: list[Any], path: Path) -> bool:
    return bool(sample) and isinstance(mapping(sample[0]).get("resourceSpans"), list)


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    spans = {span.id: span for _, value in records for span in _spans(mapping(value))}
    conversations: dict[str, list[_Span]] = {}
    for span in sorted(spans.values(), key=lambda span: span.start):
        if span.operation:
            conversations.setdefault(_conversation(span, spans), []).append(span)
    first = True
    for name, own in conversations.items():
        asked = [span for span in own if span.operation in _ASKING and not _is_compressors(span, spans)]
        if not asked:
            continue
        if not first:
            yield NewSession()
        first = False
        score = next((result for span in own if span.operation == "invoke_agent" for result in span.results), {})
        value = score.get("gen_ai.evaluation.score.value")
        agent = next((text(span.values.get("gen_ai.agent.name")) for span in own), "")
        yield Info(name, project=agent, score=float(value) if isinstance(value, int | float) else None)
        if not any(span.messages("gen_ai.input.messages") for span in asked):
            tally.notes[NO_CONTENT] += 1
        yield from sample_events({"events": list(_events(own, asked))}, tally)


def _spans(document: Mapping[str, Any]) -> Iterator[_Span]:
    for resource in items(document.get("resourceSpans")):
        for scope in items(mapping(resource).get("scopeSpans")):
            for each in items(mapping(scope).get("spans")):
                span = mapping(each)
                start = text(span.get("startTimeUnixNano")) or str(span.get("startTimeUnixNano") or 0)
                results = [
                    _attributes(mapping(event).get("attributes"))
                    for event in items(span.get("events"))
                    if mapping(event).get("name") == "gen_ai.evaluation.result"
                ]
                yield _Span(
                    text(span.get("spanId")),
                    text(span.get("parentSpanId")),
                    text(span.get("traceId")),
                    int(start) if start.isdecimal() and len(start) < 30 else 0,
                    _attributes(span.get("attributes")),
                    results,
                )


def _attributes(listed: Any) -> dict[str, Any]:
    return {text(mapping(each).get("key")): _value(mapping(mapping(each).get("value"))) for each in items(listed)}


def _value(value: Mapping[str, Any]) -> Any:
    """An attribute's value; whole numbers are texts in this form of JSON."""
    if "intValue" in value:
        digits = str(value["intValue"])
        return int(digits) if digits.isdecimal() and len(digits) < 20 else None
    if "arrayValue" in value:
        return [_value(mapping(each)) for each in items(mapping(value["arrayValue"]).get("values"))]
    if "kvlistValue" in value:
        return _attributes(mapping(value["kvlistValue"]).get("values"))
    return next((value[key] for key in ("stringValue", "boolValue", "doubleValue") if key in value), None)


def _conversation(span: _Span, spans: Mapping[str, _Span]) -> str:
    """The id of a span's conversation, its own or that of the nearest span above it; else that of its trace."""
    seen: set[str] = set()
    at: _Span | None = span
    while at is not None and at.id not in seen:
        seen.add(at.id)
        if name := text(at.values.get("gen_ai.conversation.id")):
            return name
        at = spans.get(at.parent)
    return span.trace


def _is_compressors(span: _Span, spans: Mapping[str, _Span]) -> bool:
    return span.parent in spans and spans[span.parent].operation == "compact"


# -- as the events of an Inspect sample, which repeat whole inputs too -----------------------------------------------


def _events(own: Sequence[_Span], asked: Sequence[_Span]) -> Iterator[dict[str, Any]]:
    compacted = _infer_compactions(asked)
    explicit = any(span.operation == "compact" for span in own)
    tools = any(span.operation == "execute_tool" for span in own)
    responses = _responses(asked)
    calls: dict[str, Mapping[str, Any]] = {}
    done: set[str] = set()
    for span in own:
        if span.operation == "compact":
            yield _compaction(span.id, span.count("compaction.tokens_before"), span.count("compaction.tokens_after"))
        elif span.operation == "execute_tool":
            yield _tool(span, responses)
        elif span in asked:
            if not tools:  # then only the requests tell what was called
                for part in _parts(span, "gen_ai.input.messages", "tool_call_response"):
                    if (id := text(part.get("id"))) in calls and id not in done:
                        done.add(id)
                        yield {"event": "tool", **calls[id], "result": responses[id]}
            if not explicit and span.id in compacted:
                yield _compaction(span.id, *compacted[span.id])
            yield _model(span)
            for part in _parts(span, "gen_ai.output.messages", "tool_call"):
                call_arguments = arguments(part.get("arguments"))
                calls[text(part.get("id"))] = {
                    "id": part.get("id"),
                    "function": part.get("name"),
                    "arguments": call_arguments,
                }


def _compaction(id: str, before: int, after: int) -> dict[str, Any]:
    sizes = {"tokens_before": before or None, "tokens_after": after or None}
    return {"event": "compaction", "type": "summary", "uuid": id, **sizes}


def _infer_compactions(asked: Sequence[_Span]) -> dict[str, tuple[int, int]]:
    """The requests before which the context was compacted, with its tokens before and after."""
    inferred: dict[str, tuple[int, int]] = {}
    sizes = [span.input for span in asked]
    for place, (earlier, later) in enumerate(pairwise(asked), 1):
        before, now = (span.messages("gen_ai.input.messages") for span in (earlier, later))
        flag = "gen_ai.conversation.compacted"
        marked = later.values.get(flag) is True and earlier.values.get(flag) is not True
        parts = [_compaction_parts(span) for span in (earlier, later)]
        if before and now:
            replaced = now[: len(before)] != before and (len(now) < len(before) or later.input < earlier.input)
        else:
            back = any(size >= SHARE * sizes[place - 1] for size in sizes[place : place + SOON])
            large = sizes[place - 1] >= SHARE * max(sizes)
            replaced = sizes[place - 1] - sizes[place] >= FALL and large and not back
        if marked or parts[1] != parts[0] or replaced:
            inferred[later.id] = (earlier.input + earlier.output, later.input)
    return inferred


def _compaction_parts(span: _Span) -> list[Any]:
    return [part.get("content") for part in _parts(span, "gen_ai.input.messages", "compaction")]


def _parts(span: _Span, key: str, kind: str) -> Iterator[Mapping[str, Any]]:
    for message in span.messages(key):
        yield from (mapping(part) for part in items(message.get("parts")) if mapping(part).get("type") == kind)


def _responses(asked: Sequence[_Span]) -> dict[str, Any]:
    """What calls returned, as the first request after them shows it."""
    shown: dict[str, Any] = {}
    for span in asked:
        for part in _parts(span, "gen_ai.input.messages", "tool_call_response"):
            shown.setdefault(text(part.get("id")), part.get("response"))
    return shown


def _tool(span: _Span, responses: Mapping[str, Any]) -> dict[str, Any]:
    id = text(span.values.get("gen_ai.tool.call.id"))
    result = span.values.get("gen_ai.tool.call.result")
    return {
        "event": "tool",
        "id": id or span.id,
        "function": text(span.values.get("gen_ai.tool.name")),
        "arguments": arguments(span.values.get("gen_ai.tool.call.arguments")),
        "result": responses.get(id) if result is None else result,
    }


def _model(span: _Span) -> dict[str, Any]:
    answers = [_message(message) for message in span.messages("gen_ai.output.messages")]
    total = span.input + span.output
    return {
        "event": "model",
        "model": text(span.values.get("gen_ai.request.model")),
        "input": [each for message in span.messages("gen_ai.input.messages") for each in _message_list(message)],
        "output": {"choices": [{"message": answer} for answer in answers], "usage": {"total_tokens": total or None}},
    }


def _message_list(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message, and each result in it as one of its own."""
    for part in map(mapping, items(message.get("parts"))):
        if part.get("type") == "tool_call_response":
            response = part.get("response")
            words = response if isinstance(response, str) else json.dumps(response)
            yield {"role": "tool", "content": words, "tool_call_id": text(part.get("id"))}
    whole = _message(message)
    if whole["content"] or whole["role"] == "system":
        yield whole


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    parts = [mapping(part) for part in items(message.get("parts"))]
    compactions = [part for part in parts if part.get("type") == "compaction"]
    words = [text(part.get("content")) for part in parts if part.get("type") in ("text", "compaction")]
    return {
        "role": text(message.get("role")) or "assistant",
        "content": "\n".join(filter(None, words)),
        **({"tool_calls": True} if any(part.get("type") == "tool_call" for part in parts) else {}),
        **({"metadata": {"summary": True}} if compactions else {}),
    }


READER = Reader("otlp", recognises, read)
