"""What a compaction cost with a prompt cache, from the usage that harnesses write beside their replies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recompact.audit.auditing import audit_transcripts
from recompact.audit.ledger import Ledger
from recompact.audit.scoring import assess
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.audit.plain import plain
from recompact.values.receipt import OUTPUT, READ, WRITE
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    KeptNothing,
    Passage,
    Result,
    Size,
    SkippedFile,
    Tally,
)


def session(first: Size, replies: int) -> Iterator[Event]:
    yield Passage("user", "Go.")
    yield from (Call("1", "Bash", {"command": "ls"}), Result("1", "a"), Size(100_000, 99_000, 500))
    yield CompactionEvent(KeptNothing(), "s" * 4_000, tokens_before=100_000)
    yield first
    yield from [Size(21_000, 20_000, 500)] * (replies - 1)


@pytest.mark.parametrize("replies", [2, 4, 5, 9])
def test_the_bill_is_that_of_the_next_reply(replies: int) -> None:
    ledger = Ledger(Tally())
    for event in session(Size(20_000, 5_000, 15_000), replies):
        ledger.take(event)
    (compaction,) = ledger.close(Path("s"), "", "pi").compactions
    assert compaction.bill is not None
    assert (compaction.bill.read, compaction.bill.written, compaction.bill.saved) == (5_000, 15_000, 80_000)
    summary = OUTPUT * 1_000 + READ * 100_000
    assert compaction.bill.cost == pytest.approx((WRITE - READ) * 15_000 + summary)
    assert compaction.bill.payback == 5
    assert compaction.replies == replies
    assert compaction.paid is (replies >= 5)


def test_a_report_of_sizes_alone_gives_no_bill() -> None:
    ledger = Ledger(Tally())
    for event in session(Size(20_000), 1):
        ledger.take(event)
    (compaction,) = ledger.close(Path("s"), "", "pi").compactions
    assert (compaction.bill, compaction.paid, compaction.after) == (None, None, 20_000)


def claude_code() -> list[dict[str, Any]]:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 20, "output_tokens": 7}
    message = {"id": "m", "role": "assistant", "content": [{"type": "text", "text": "hi"}], "usage": usage}
    return [{"type": "assistant", "uuid": "u", "sessionId": "s", "version": "2", "cwd": "/", "message": message}]


def codex() -> list[dict[str, Any]]:
    usage = {"input_tokens": 93, "cached_input_tokens": 70, "output_tokens": 7, "total_tokens": 100}
    payload = {"type": "token_count", "info": {"last_token_usage": usage}}
    return [{"type": "session_meta", "payload": {"id": "s"}}, {"type": "event_msg", "payload": payload}]


def pi() -> list[dict[str, Any]]:
    usage = {"input": 3, "output": 7, "cacheRead": 70, "cacheWrite": 20, "totalTokens": 100}
    message = {"role": "assistant", "content": "hi", "usage": usage}
    return [{"type": "session", "id": "s", "cwd": "/"}, {"type": "message", "id": "1", "message": message}]


def opencode() -> list[dict[str, Any]]:
    tokens = {"total": 100, "input": 3, "output": 7, "cache": {"read": 70, "write": 20}}
    info = {"id": "m", "role": "assistant"}
    return [{"info": {"id": "s"}, "messages": [{"info": info, "parts": [{"type": "step-finish", "tokens": tokens}]}]}]


@pytest.mark.parametrize("records", [claude_code, codex, pi, opencode])
def test_each_harness_says_what_came_from_the_cache(records: Any, tmp_path: Path) -> None:
    path = tmp_path / ("s.json" if records is opencode else "s.jsonl")
    path.write_text("\n".join(map(json.dumps, records())))
    (transcript,) = read_transcripts([path])
    assert not isinstance(transcript, SkippedFile)
    assert [event for event in transcript.events(Tally()) if isinstance(event, Size)] == [Size(100, 70, 23)]


def test_an_audit_without_usage_says_nothing_of_costs(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"role": "user", "content": "hi"}\n{"role": "assistant", "content": "ho"}\n')
    assert plain(assess(audit_transcripts(read_transcripts([path]))))["costs"] == []
