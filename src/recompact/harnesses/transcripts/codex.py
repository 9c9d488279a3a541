"""Codex: rollout files of JSON lines, `{timestamp, type, payload}`. Only what goes to the model is read from them."""

from __future__ import annotations

import hashlib
import json
import re
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
    speaker,
    text,
)
from recompact.values.session import Call, CompactionEvent, Event, Info, KeptNothing, Passage, Result, Size, Tail, Tally
from recompact.values.texts import word_set

_TYPES = word_set(
    "session_meta response_item event_msg turn_context compacted world_state inter_agent_communication_metadata"
)
_ITEMS = word_set("reasoning web_search_call agent_message compaction ghost_snapshot image_generation_call")
_MARKS = (  # of what Codex itself says in the user's name
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md",
    "<subagent_notification>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<skill>",
)
_HEADER = re.compile(
    r"\A(?:[A-Z][\w ]{2,30}: [^\n]*\n|Process exited with code -?\d+\n|Process running[^\n]*\n){1,8}Output:\n"
)
_EXIT = re.compile(r"(?:Process exited with code|Exit code:|exit_code\"?:) ?(-?\d+)")


def recognises(sample: list[Any], path: Path) -> bool:
    for record in sample:
        if isinstance(record, dict) and text(record.get("type")) in _TYPES:
            return isinstance(record.get("payload"), dict)
    return False


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    session = cwd = ""
    batch = 0
    for line, record in records:
        payload = mapping(record).get("payload")
        if not isinstance(payload, dict):
            tally.broken += 1
            continue
        match record.get("type"):
            case "response_item":
                kind = text(payload.get("type"))
                if kind.endswith("_output") or kind == "message":
                    batch += 1  # calls in a row belong to one response
                yield from _item(line, kind, payload, cwd, f"b{batch}", tally)
            case "event_msg":
                if payload.get("type") == "token_count":
                    usage = mapping(mapping(payload.get("info")).get("last_token_usage"))
                    if tokens := number(usage.get("total_tokens")):
                        taken, read = number(usage.get("input_tokens")), number(usage.get("cached_input_tokens"))
                        known = taken is not None and read is not None and read <= taken
                        yield Size(tokens, read, (taken or 0) - (read or 0)) if known else Size(tokens)
            case "turn_context":
                cwd = text(payload.get("cwd")) or cwd
                yield Info(model=text(payload.get("model")))
            case "session_meta":
                # A fork repeats its parent's records, which are of another session.
                if not session:
                    session = text(payload.get("id"))
                    cwd = text(payload.get("cwd"))
                    yield _info(payload, session, cwd)
            case "compacted":
                batch += 1
                yield _compaction(line, payload)
            case "world_state" | "inter_agent_communication_metadata":
                pass
            case other:
                tally.unknown[str(other)[:60]] += 1


def _info(payload: Mapping[str, Any], session: str, cwd: str) -> Info:
    spawned = mapping(mapping(mapping(payload.get("source")).get("subagent")).get("thread_spawn"))
    fork = text(payload.get("forked_from_id"))
    return Info(
        session,
        text(payload.get("cli_version")),
        cwd,
        standing="subagent" if spawned else "fork" if fork else "main",
        parent=text(spawned.get("parent_thread_id")) or fork,
    )


def _item(line: int, kind: str, payload: Mapping[str, Any], cwd: str, batch: str, tally: Tally) -> Iterator[Event]:
    call = text(payload.get("call_id"))
    match kind:
        case "message":
            role = payload.get("role")
            words = content_text(payload.get("content"))
            spoken = speaker(words, _MARKS) if role == "user" else "assistant" if role == "assistant" else "system"
            yield Passage(spoken, words, line=line)
        case "function_call":
            yield Call(call, text(payload.get("name")), arguments(payload.get("arguments")), cwd, batch, line=line)
        case "custom_tool_call":
            yield Call(call, text(payload.get("name")), arguments(payload.get("input")), cwd, batch, line=line)
        case "local_shell_call":
            yield Call(call, "shell", mapping(payload.get("action")), cwd, batch, line=line)
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            yield Result(call, *_output(payload.get("output")), line=line)
        case _ if kind not in _ITEMS:
            tally.unknown[f"response_item/{kind}"[:60]] += 1


def _output(output: Any) -> tuple[str, bool | None]:
    """The text of an output without the lines that the harness puts before it, and whether the command failed."""
    words = content_text(output)
    if not isinstance(output, str) and isinstance(output, dict):
        words = words or text(output.get("output"))
    if words[:1] == "{" and words[:60].find('"output"') == 1:
        words = text(arguments(words).get("output")) or words
    match = _EXIT.search(words[:400])
    header = _HEADER.match(words)
    return words[header.end() :] if header else words, bool(int(match[1])) if match else None


def _compaction(line: int, payload: Mapping[str, Any]) -> CompactionEvent:
    history = items(payload.get("replacement_history"))
    restated = "\n".join(content_text(mapping(item).get("content")) for item in history)
    summary = text(payload.get("message")) or None
    identity = text(payload.get("window_id")) or _mark([summary, history] if summary or history else None)
    # Instructions and the environment are put before every history anew.
    return CompactionEvent(KeptNothing(), summary, restated, identity=identity, line=line, system_stays=True)


def _mark(value: Any) -> str:
    """A digest of all that a compaction left behind: its readable part alone is the same in every session that began
    with the same request. Without a value, or with one that is too deep to write, there is none."""
    try:
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest() if value else ""
    except RecursionError:
        return ""


READER = Reader(
    "codex",
    recognises,
    read,
    (Place("sessions", "CODEX_HOME", "~/.codex"), Place("archived_sessions", "CODEX_HOME", "~/.codex")),
    tail=Tail(turns=0, said=20_000),
)
