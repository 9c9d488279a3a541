"""Claude Code: project files of JSON lines, one record per content block, linked by `uuid` and `parentUuid`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.harnesses.transcripts.reader import (
    Place,
    Reader,
    content_text,
    items,
    mapping,
    number,
    objects_in,
    speaker,
    text,
)
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Info,
    Kept,
    KeptBut,
    KeptKeys,
    KeptNothing,
    Passage,
    Result,
    Rewind,
    Size,
    Tail,
    Tally,
)
from recompact.values.texts import word_set

_ASIDE = word_set(
    "progress file-history-snapshot queue-operation custom-title mode last-prompt summary permission-mode ai- "
    "title agent-name agent-color pr-link agent-setting tag worktree-state content-replacement marble-origami- "
    "commit attribution-snapshot speculation-accept"
)
_SYSTEM = word_set(
    "stop_hook_summary turn_duration local_command informational api_error away_summary bridge_status "
    "hook_progress scheduled_task_fire memory_saved api_metrics permission_retry agents_killed snapshot"
)
_MARKS = (  # of what Claude Code itself says in the user's name
    "<command-name>",
    "<local-command",
    "<command-message>",
    "Caveat:",
    "<bash-",
    "<task-notification>",
    "<system-reminder>",
    "[Request interrupted by user",
)


def recognises(sample: list[Any], path: Path) -> bool:
    for record in sample:
        if (
            isinstance(record, dict)
            and text(record.get("type")) in ("user", "assistant", "system")
            and "uuid" in record
        ):
            return "sessionId" in record and "parts" not in mapping(record.get("message"))
    return False


def read(records: Iterable[Record], tally: Tally) -> Iterator[Event]:
    return _Session(tally).events(records)


class _Session:
    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._version = ""
        self._aside: bool | None = None  # whether the whole file is a subagent's
        self._boundary: tuple[int, Mapping[str, Any]] | None = None
        self._order: dict[str, int] = {}  # records since the last compaction
        self._spoken = -1  # the last of them in which the agent or the user said something
        self._results: dict[str, str] = {}  # call -> the record of its result
        self._response = self._model = ""

    def events(self, records: Iterable[Record]) -> Iterator[Event]:
        for line, record in objects_in(records, self._tally):
            kind = text(record.get("type"))
            if kind in ("user", "assistant", "system", "attachment"):
                yield from self._main(line, kind, record)
            elif kind not in _ASIDE:
                self._tally.unknown[kind or "(no type)"] += 1
            uuid = record.get("uuid")
            if isinstance(uuid, str):
                self._order[uuid] = len(self._order)
        if self._boundary is not None:
            yield self._compaction(None)

    def _main(self, line: int, kind: str, record: Mapping[str, Any]) -> Iterator[Event]:
        sidechain = record.get("isSidechain") is True
        if self._aside is None:
            self._aside = sidechain
            yield Info(
                session=text(record.get("agentId")) if sidechain else text(record.get("sessionId")),
                project=text(record.get("cwd")),
                standing="subagent" if sidechain else "main",
                parent=text(record.get("sessionId")) if sidechain else "",
            )
        if sidechain != self._aside:
            self._tally.subagent += 1
            return
        if record.get("version") != self._version:
            self._version = text(record.get("version"))
            yield Info(version=self._version)
        uuid = text(record.get("uuid"))
        if kind == "system":
            yield from self._system(line, uuid, record)
        elif kind == "attachment":
            yield from self._attachment(line, uuid, record)
        elif record.get("isCompactSummary") is True:
            self._boundary = self._boundary or (line, record)
            yield self._compaction(content_text(mapping(record.get("message")).get("content")))
        else:
            if self._boundary is not None:
                yield self._compaction(None)
            yield from self._speech_events(line, kind, uuid, record)

    def _speech_events(self, line: int, kind: str, uuid: str, record: Mapping[str, Any]) -> Iterator[Event]:
        message = mapping(record.get("message"))
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else items(content)
        answers = any(mapping(block).get("type") == "tool_result" for block in blocks)
        if kind == "user" and not answers:
            parent = self._order.get(text(record.get("parentUuid")))
            if parent is not None and parent < self._spoken:
                yield Rewind(text(record.get("parentUuid")))
        if not answers:
            self._spoken = len(self._order)
        for block in blocks:
            if isinstance(block, dict):
                yield from self._block(line, kind, uuid, block, record, message)
        if kind == "assistant":
            yield from self._size(message)

    def _block(
        self,
        line: int,
        kind: str,
        uuid: str,
        block: Mapping[str, Any],
        record: Mapping[str, Any],
        message: Mapping[str, Any],
    ) -> Iterator[Event]:
        match block.get("type"):
            case "text":
                words = text(block.get("text"))
                role = speaker(words, _MARKS) if record.get("isMeta") is not True else "system"
                yield Passage("assistant" if kind == "assistant" else role, words, uuid, line)
            case "tool_use" | "server_tool_use":
                yield Call(
                    text(block.get("id")),
                    text(block.get("name")),
                    mapping(block.get("input")),
                    text(record.get("cwd")),
                    text(message.get("id")),
                    uuid,
                    line,
                )
            case "tool_result" | "web_search_tool_result":
                call = text(block.get("tool_use_id"))
                self._results[call] = uuid
                failed = block.get("is_error") is True  # a success is usually left unsaid
                yield Result(call, content_text(block.get("content")), failed, uuid, line)
            case "thinking" | "redacted_thinking" | "image" | "document" | "tool_reference" | "fallback":
                yield Passage("system", "", uuid, line)
            case other:
                self._tally.unknown[f"block {other}"[:60]] += 1

    def _size(self, message: Mapping[str, Any]) -> Iterator[Event]:
        response = text(message.get("id"))
        if response == self._response:
            return  # each block of a response repeats its usage
        self._response = response
        usage = mapping(message.get("usage"))
        parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
        new, read, created, put_out = (number(usage.get(part)) or 0 for part in parts)
        tokens = new + read + created + put_out
        if (model := text(message.get("model"))) != self._model:
            self._model = model
            yield Info(model=model)
        if tokens:
            yield Size(tokens, read, new + created) if parts[1] in usage else Size(tokens)

    def _system(self, line: int, uuid: str, record: Mapping[str, Any]) -> Iterator[Event]:
        subtype = text(record.get("subtype"))
        if subtype == "compact_boundary":
            if self._boundary is not None:
                yield self._compaction(None)
            self._boundary = (line, record)
        elif subtype == "microcompact_boundary":
            data = mapping(record.get("microcompactMetadata"))
            cleared = [self._results.get(text(call), "") for call in items(data.get("compactedToolIds"))]
            before = number(data.get("preTokens"))
            saved = number(data.get("tokensSaved"))
            yield CompactionEvent(
                KeptBut(frozenset(filter(None, cleared))),
                None,
                kind="clearing",
                tokens_before=before,
                tokens_after=before - saved if before is not None and saved is not None else None,
                trigger=text(data.get("trigger")),
                identity=uuid,
                key=uuid,
                line=line,
            )
        else:
            if subtype not in _SYSTEM:
                self._tally.unknown[f"system/{subtype}"] += 1
            yield Passage("system", "", uuid, line)

    def _attachment(self, line: int, uuid: str, record: Mapping[str, Any]) -> Iterator[Event]:
        attachment = mapping(record.get("attachment"))
        content = attachment.get("content")
        file = mapping(mapping(content).get("file"))
        words = text(file.get("content")) or content_text(content) or text(attachment.get("snippet"))
        # What it shows, and then what it names: files, tools, skills.
        more = [each for each in _strings(attachment) if each not in words]
        yield Passage("attachment", "\n".join(filter(None, [words, *dict.fromkeys(more)])), uuid, line)

    def _compaction(self, summary: str | None) -> CompactionEvent:
        line, record = self._boundary or (0, {})
        self._boundary = None
        self._order.clear()
        self._results.clear()
        self._spoken = -1
        data = mapping(record.get("compactMetadata"))
        preserved = mapping(data.get("preservedMessages"))
        keys = [key for key in items(preserved.get("allUuids") or preserved.get("uuids")) if isinstance(key, str)]
        kept: Kept = KeptKeys(frozenset(keys)) if keys else KeptNothing()
        return CompactionEvent(
            kept,
            summary,
            tokens_before=number(data.get("preTokens")),
            tokens_after=number(data.get("postTokens")),
            trigger=text(data.get("trigger")),
            identity=text(record.get("uuid")),
            key=text(record.get("uuid")),
            line=line,
        )


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += reversed(each.values())
        elif isinstance(each, list):
            waiting += reversed(each)


READER = Reader(
    "claude-code", recognises, read, (Place("projects", "CLAUDE_CONFIG_DIR", "~/.claude"),), tail=Tail(turns=1)
)
