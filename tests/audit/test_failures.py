"""Known failures: charged to the compaction that dropped them, and to no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_planting import Compact, PlantedCall, Script, claude_code, shell

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import AuditedCompaction
from recompact.harnesses.transcripts.registry import read_transcripts

ERROR = "AssertionError: expected the sum of the columns to be 12"
EDIT = PlantedCall("edit", {"path": "/home/dev/app/a.py", "oldText": "a", "newText": "b"}, "Edited a.py")


def fails(command: str = "./check.sh all") -> PlantedCall:
    return shell(command, ERROR, failed=True)


def quiet(count: int = 6) -> list[PlantedCall]:
    return [shell(f"echo {n}", f"plain {n}") for n in range(count)]


def compactions(tmp_path: Path, script: Script) -> tuple[AuditedCompaction, ...]:
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    return session.compactions


def hits(tmp_path: Path, script: Script) -> list[int]:
    return [len(found.failures) for found in compactions(tmp_path, script)]


def test_a_failure_belongs_to_the_compaction_that_dropped_it(tmp_path: Path) -> None:
    assert hits(tmp_path, [*quiet(), fails(), Compact("Going on.", 0), fails(), *quiet()]) == [1]


@pytest.mark.parametrize(("first", "charged"), [("Going on.", 0), (f"It fails: `{ERROR}`.", 1)])
def test_a_later_compaction_is_charged_only_if_the_summary_that_it_dropped_told_of_it(
    first: str, charged: int, tmp_path: Path
) -> None:
    script: Script = [*quiet(), fails(), Compact(first, 0), *quiet(), Compact("Going on.", 0), fails(), *quiet()]
    assert hits(tmp_path, script) == [0, charged]


@pytest.mark.parametrize("command", ["./check.sh all", "pytest -q", "python check.py"])
@pytest.mark.parametrize("before", [True, False])
def test_a_command_that_fails_again_after_an_edit_is_work_in_progress(
    command: str, before: bool, tmp_path: Path
) -> None:
    compact = Compact("Going on.", 0)
    between: Script = [EDIT, compact] if before else [compact, EDIT]
    assert hits(tmp_path, [*quiet(), fails(command), *between, fails(command), *quiet()]) == [0]


def test_a_failure_that_the_summary_quotes_was_not_forgotten(tmp_path: Path) -> None:
    summary = "We run ./check.sh, which says “AssertionError: expected the sum of\nthe columns to be 7”."
    assert hits(tmp_path, [*quiet(), fails(), Compact(summary, 0), fails(), *quiet()]) == [0]
