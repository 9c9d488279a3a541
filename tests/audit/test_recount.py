"""The audit's largest claims, counted again by other means: straight from the files, without any code of the audit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from recompact.audit.auditing import audit_transcripts
from recompact.harnesses.transcripts.registry import read_transcripts

REAL = Path(__file__).parents[3] / "shared" / "data" / "transcripts" / "claude-code"
FILES = (
    "cc-2.0.76-entire-cli-a.jsonl",
    "cc-2.1.45-context-evaluator.jsonl",
    "cc-2.1.7-entire-cli-b-3compactions.jsonl",
)
LARGEST = 5
NEAR = 0.05  # the audit leaves out results of subagents and counts what the harness attached as seen; this does not
ALWAYS = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the shared transcripts are not here")


def blocks(record: dict[str, Any]) -> list[dict[str, Any]]:
    content = record.get("message", {}).get("content") if isinstance(record.get("message"), dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def said(block: dict[str, Any]) -> str:
    content = block.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def long_lines(result: str) -> set[str]:
    """Without the numbers before the lines of a file, and the places before those that a search found."""
    text = re.sub(r"(?m)^[ \t]*\d+(?:→|\t)|^[^\s:]+:\d+[:-]", "", ALWAYS.sub("", result))
    bare = map(str.strip, text.split("\n"))
    return {line for line in bare if len(line) >= 25}


def recount(path: Path, compaction: int, call: int) -> int:
    """Characters of lines in the results of the calls in line `call` that were in a result before the compaction in
    line `compaction` and in none since. These versions keep nothing."""
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    wanted = {block["id"] for block in blocks(records[call - 1]) if block.get("type") == "tool_use"}
    starts = [
        n for n, record in enumerate(records, 1) if record.get("subtype") == "compact_boundary" and n < compaction
    ]
    before: set[str] = set()
    since: set[str] = set()
    chars = 0
    for number, record in enumerate(records, 1):
        if record.get("isSidechain") or number < max(starts, default=0):
            continue
        for block in blocks(record):
            if block.get("type") != "tool_result":
                continue
            found = long_lines(said(block))
            if block.get("tool_use_id") in wanted:
                chars += sum(map(len, (found & before) - since))
            (before if number < compaction else since).update(found)
    return chars


@pytest.mark.parametrize("name", FILES)
def test_the_largest_claims_are_counted_again(name: str) -> None:
    (session,) = audit_transcripts(read_transcripts([REAL / name])).sessions
    claims = [(refetch.chars, found.line, refetch.line) for found in session.compactions for refetch in found.refetches]
    for chars, compaction, call in sorted(claims, reverse=True)[:LARGEST]:
        assert recount(REAL / name, compaction, call) == pytest.approx(chars, rel=NEAR)
