"""An episode as a tree of spans by OpenTelemetry's conventions for generative AI, with their compaction fields.

The export to a file and the live export send the same tree. What messages say is left out unless it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from recompact.presentation.exchange.episodes import Clock, Compaction, Episode, ModelCall
from recompact.values.chat import Message, ToolCall, Usage
from recompact.values.context import Context, Turn, summary_message
from recompact.values.outcome import BoundaryId, Effect

Attributes = dict[str, Any]
RESULT = "gen_ai.evaluation.result"


@dataclass(frozen=True)
class SpanEvent:
    name: str
    at: float
    attributes: Attributes


@dataclass(frozen=True)
class Span:
    """`key` names it within a run; `link` is the boundary that a continuation starts from."""

    key: str
    name: str
    kind: Literal["internal", "client"]
    begin: float
    end: float
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    children: tuple[Span, ...] = ()
    link: BoundaryId | None = None
    error: str = ""


def boundary_key(id: BoundaryId) -> str:
    """The key of a boundary's span."""
    return f"{id.unit}#{id.index}"


def episode_span(episode: Episode, agent: str, clock: Clock, *, content: bool) -> Span:
    begin = clock.now
    children = tuple(_children(episode, clock, content))
    trajectory, end = episode.trajectory, clock.now
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": episode.unit,
        **({"gen_ai.request.model": episode.model} if episode.model else {}),
        **_tokens(trajectory.usage.get("agent", Usage())),
        **{f"recompact.{key}": value for key, value in episode.facts.items() if isinstance(value, str | int | float)},
        **({"gen_ai.input.messages": messages_text(episode.start.messages)} if content else {}),
    }
    graded = SpanEvent(RESULT, end, _result("recompact.score", trajectory.score.value, trajectory.ending))
    error = trajectory.error if trajectory.ending == "environment error" else ""
    return Span(
        key=episode.unit,
        name=f"invoke_agent {agent}",
        kind="internal",
        begin=begin,
        end=end,
        attributes=attributes,
        events=(graded,),
        children=children,
        link=episode.boundary,
        error=error,
    )


def _children(episode: Episode, clock: Clock, content: bool) -> Iterator[Span]:
    compacted = episode.start.summary is not None
    for number, part in enumerate(episode.parts):
        key = f"{episode.unit}/{number}"
        if isinstance(part, ModelCall):
            yield call_span(part, key, clock, content, asked=part.asked)
        elif isinstance(part, Compaction):
            compacted = True
            yield _compaction_span(part, BoundaryId(episode.unit, part.boundary.index), clock, content)
        else:
            call = part.answer(episode.model)
            yield call_span(call, key, clock, content, asked=part.context.messages, compacted=compacted)
            yield from _tool_spans(part.turn, key, clock, content)


def call_span(
    call: ModelCall,
    key: str,
    clock: Clock,
    content: bool,
    *,
    asked: Iterable[Message] | None = None,
    compacted: bool = False,
) -> Span:
    begin, end = clock.spend(call.seconds)
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": call.provider,
        "gen_ai.request.model": call.model,
        "gen_ai.response.model": call.model,
        "gen_ai.response.finish_reasons": ["tool_calls" if call.reply.calls else call.finish],
        "recompact.role": call.role,
        **_tokens(call.usage),
        **({"gen_ai.conversation.compacted": True} if compacted else {}),
    }
    if content:
        attributes |= {"gen_ai.input.messages": messages_text(asked)} if asked is not None else {}
        attributes |= {"gen_ai.output.messages": messages_text([call.reply])}
    return Span(key, f"chat {call.model}", "client", begin, end, attributes)


def _tokens(usage: Usage) -> Attributes:
    if not usage.calls:
        return {}
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        **({"gen_ai.usage.cache_read.input_tokens": usage.cached} if usage.cache_reported else {}),
        **({"gen_ai.usage.reasoning.output_tokens": usage.reasoning} if usage.reasoning else {}),
    }


def _tool_spans(turn: Turn, key: str, clock: Clock, content: bool) -> Iterator[Span]:
    for place, call in enumerate(turn.message.calls):
        begin, end = clock.spend(0.0)
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.type": "function",
            **(_exchange(call, turn) if content else {}),
        }
        yield Span(f"{key}/tool{place}", f"execute_tool {call.name}", "internal", begin, end, attributes)


def _exchange(call: ToolCall, turn: Turn) -> Attributes:
    result = next((each.content for each in turn.results if each.call_id == call.id), "")
    return {"gen_ai.tool.call.arguments": call.arguments, "gen_ai.tool.call.result": result}


def _compaction_span(compaction: Compaction, id: BoundaryId, clock: Clock, content: bool) -> Span:
    boundary, begin, key = compaction.boundary, clock.now, boundary_key(id)
    calls = [
        call_span(call, f"{key}/{number}", clock, content, asked=call.asked)
        for number, call in enumerate(compaction.calls)
    ]
    clock.spend(0.0)
    events: list[SpanEvent] = []
    if (verdict := compaction.verdict) is not None and (effect := verdict.reported_effect) is not None:
        events = [SpanEvent(RESULT, clock.now, each) for each in effect_results(effect, verdict.kind)]
    attributes = {
        **compaction_attributes(boundary.pre, boundary.post, content),
        "recompact.boundary": str(id),
        "gen_ai.conversation.id": id.unit,
    }
    return Span(key, "compact_messages", "internal", begin, clock.now, attributes, tuple(events), children=tuple(calls))


def compaction_attributes(pre: Context, post: Context, content: bool) -> Attributes:
    """What a compaction did, by the names in use where the conventions have none yet."""
    summary = post.summary.text if post.summary else None
    part = [{"role": "user", "parts": [{"type": "compaction", "id": None, "content": summary}]}]
    return {
        "gen_ai.operation.name": "compact",
        "gen_ai.conversation.compacted": True,
        "compaction.strategy": "summary" if post.summary else "clearing",
        "compaction.messages_before": len(pre.messages),
        "compaction.messages_after": len(post.messages),
        "compaction.tokens_before": pre.size,
        "compaction.tokens_after": post.size,
        **({"gen_ai.output.messages": json.dumps(part, ensure_ascii=False)} if content and summary else {}),
    }


def effect_results(effect: Effect, label: str) -> Iterator[Attributes]:
    """H and B as evaluation results."""
    yield _result("recompact.hazard", effect.hazard, label)
    yield _result("recompact.burden", effect.burden, label)


def _result(name: str, value: float, label: str) -> Attributes:
    scored = {"gen_ai.evaluation.score.value": float(value), "gen_ai.evaluation.score.label": label}
    return {"gen_ai.evaluation.name": name, **scored}


# -- messages --------------------------------------------------------------------------------------------------------

_INTRODUCTION, _, _END = summary_message("\0").content.partition("\0")


def messages_text(messages: Iterable[Message]) -> str:
    """Messages in the form of the conventions, as one JSON text."""
    return json.dumps([_message(message) for message in messages], ensure_ascii=False)


def _message(message: Message) -> dict[str, Any]:
    return {"role": message.role, "parts": list(_message_parts(message))}


def _message_parts(message: Message) -> Iterator[Mapping[str, Any]]:
    if message.role == "tool":
        yield {"type": "tool_call_response", "id": message.call_id, "response": message.content}
        return
    if message.content.startswith(_INTRODUCTION):
        summary = message.content.removeprefix(_INTRODUCTION).removesuffix(_END)
        yield {"type": "compaction", "id": None, "content": summary}
    elif message.content:
        yield {"type": "text", "content": message.content}
    for call in message.calls:
        yield {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.readable}
