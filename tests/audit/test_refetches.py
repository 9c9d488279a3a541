"""Text fetched again: lines that are recognised as a whole, and their share of the whole result."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_planting import Compact, Script, claude_code, shell

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import Refetch
from recompact.harnesses.transcripts.registry import read_transcripts

LINE = "the only long line that was known before, here"


def refetches(tmp_path: Path, first: str, second: str) -> tuple[Refetch, ...]:
    quiet = [shell(f"ls {n}", f"plain {n}") for n in range(6)]
    script: Script = [*quiet, shell("cat a", first), Compact("Summary.", 0), shell("cat a", second), *quiet]
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    return session.compactions[0].refetches


def test_a_share_is_of_the_whole_result(tmp_path: Path) -> None:
    second = f"{LINE}\n" + "\n".join(f"new row {n}" for n in range(200))
    (refetch,) = refetches(tmp_path, LINE, second)
    assert (refetch.chars, refetch.share) == (len(LINE), len(LINE) / len(second))


@pytest.mark.parametrize(("end", "known"), [("", True), ("x", False)])
def test_a_long_line_counts_in_full_or_not_at_all(end: str, known: bool, tmp_path: Path) -> None:
    line = " ".join(f"{n} words" for n in range(500))
    assert [refetch.chars for refetch in refetches(tmp_path, line, line + end)] == ([len(line)] if known else [])
