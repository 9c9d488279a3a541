"""OpenHands agent SDK: one JSON file per event in a folder, or the same events as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import (
    Place,
    Reader,
    arguments,
    content_text,
    items,
    mapping,
    number,
    objects_in,
    text,
)
from recompact.values.session import Call, CompactionEvent, Event, KeptBut, Passage, Result, Tally
from recompact.values.texts import word_set

_ASIDE = word_set(
    "PauseEvent ConversationStateUpdateEvent CondensationRequest TokenEvent LLMCompletionLogEvent "
    "StreamingDeltaEvent InterruptEvent HookExecutionEvent ConversationErrorEvent CondensationSummaryEvent"
)


def recognises(sample: list[Any], path: Path) -> bool:
    kinds = {text(mapping(record).get("kind")) for record in sample[:8]}
    return bool(kinds & {"SystemPromptEvent", "ActionEvent", "ObservationEvent", "MessageEvent", "Condensation"})


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    for line, record in objects_in(records, tally):
        key = text(record.get("id"))
        match text(record.get("kind")):
            case "ActionEvent":
                call = mapping(mapping(record.get("tool_call")).get("function"))
                call_arguments = arguments(call.get("arguments")) or mapping(record.get("action"))
                if words := content_text(record.get("thought")):
                    yield Passage("assistant", words, key, line)
                batch = text(record.get("llm_response_id"))
                name = text(record.get("tool_name"))
                yield Call(text(record.get("tool_call_id")), name, call_arguments, "", batch, key, line)
            case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation":
                yield _result(line, key, record)
            case "MessageEvent":
                role = "user" if record.get("source") == "user" else "assistant"
                words = content_text(mapping(record.get("llm_message")).get("content"))
                yield Passage("user" if role == "user" else "assistant", words, key, line)
            case "SystemPromptEvent":
                yield Passage("system", content_text(record.get("system_prompt")), key, line)
            case "Condensation":
                forgotten = [each for each in items(record.get("forgotten_event_ids")) if isinstance(each, str)]
                summary = record.get("summary")
                yield CompactionEvent(
                    KeptBut(frozenset(forgotten)),
                    summary if isinstance(summary, str) else None,
                    kind="summary" if isinstance(summary, str) else "clearing",
                    identity=key,
                    key=key,
                    line=line,
                )
            case kind:
                if kind not in _ASIDE:
                    tally.unknown[kind[:60] or "(no kind)"] += 1
                yield Passage("system", "", key, line)


def _result(line: int, key: str, record: Mapping[str, Any]) -> Result:
    seen = mapping(record.get("observation"))
    words = content_text(seen.get("content")) or content_text(seen.get("output"))
    trouble = text(seen.get("error")) or text(record.get("error"))
    code = number(seen.get("exit_code"))
    if code is None:
        code = number(mapping(seen.get("metadata")).get("exit_code"))
    failed = bool(trouble) or seen.get("is_error") is True or record.get("kind") == "AgentErrorEvent"
    is_known = failed or code is not None
    whole = "\n".join(filter(None, (words, trouble if trouble not in words else "")))
    return Result(text(record.get("tool_call_id")), whole, (failed or bool(code)) if is_known else None, key, line)


READER = Reader("openhands", recognises, read, (Place("conversations", "OPENHANDS_PERSISTENCE_DIR", "~/.openhands"),))
