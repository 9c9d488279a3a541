"""What the harness or a language put there is neither a lost fact nor fetched text."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_planting import Compact, PlantedCall, Script, claude_code, shell
from hypothesis import given, strategies as st

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import AuditedCompaction
from recompact.audit.noise import without_reminders
from recompact.harnesses.transcripts.registry import read_transcripts

QUIET = [shell(f"echo {n}", f"plain {n}") for n in range(6)]
REMINDER = "<system-reminder>\nThe harness reminds the agent of something at length.\n</system-reminder>"
WRAPPER = "[The command completed with exit code 0.]\n[Current working directory: /home/dev/app/source]"
FACT = "the only line of this result that the agent needs"


def compaction(tmp_path: Path, before: PlantedCall, after: PlantedCall) -> AuditedCompaction:
    script: Script = [*QUIET, before, Compact("A summary.", 0), after, *QUIET]
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code(script)[0]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    return session.compactions[0]


@pytest.mark.parametrize("noise", [REMINDER, WRAPPER])
def test_text_of_the_harness_is_not_fetched_again(noise: str, tmp_path: Path) -> None:
    one, two = shell("./one.sh", f"first result\n{noise}"), shell("./two.sh", f"other result\n{noise}")
    assert compaction(tmp_path, one, two).refetches == ()
    one, two = shell("./one.sh", f"{FACT}\n{noise}"), shell("./two.sh", f"{FACT}\n{noise}")
    assert sum(refetch.chars for refetch in compaction(tmp_path, one, two).refetches) == len(FACT)


def test_options_of_tools_and_names_of_languages_are_no_lost_facts(tmp_path: Path) -> None:
    before = shell("./list.sh", "files_with_matches FullName read_text lost_name_of_ours")
    after = PlantedCall(
        "search", {"pattern": "FullName|read_text|lost_name_of_ours", "output_mode": "files_with_matches"}, "x"
    )
    names = [need.literal.text for need in compaction(tmp_path, before, after).needs if need.literal.kind == "name"]
    assert names == ["lost_name_of_ours"]


@given(st.lists(st.sampled_from(["<system-reminder>", "</system-reminder>", "a", "\n"]), max_size=20).map("".join))
def test_only_whole_reminders_are_taken_out(text: str) -> None:
    rest = without_reminders(text)
    assert len(rest) <= len(text)
    assert rest == text or "</system-reminder>" in text
    assert without_reminders(f"x{REMINDER}y") == "xy"
