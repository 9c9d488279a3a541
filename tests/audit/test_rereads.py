"""File ranges read again: only of files that the agent itself has not changed in between, and with what was read."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_planting import CWD, Compact, PlantedCall, Script, claude_code, shell
from sentences import numbers_in

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import Reread
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.audit.words import reread

PATH = f"{CWD}/src/a.py"
READ = PlantedCall("read", {"path": PATH}, "some text")
EDITS = {
    "edit": PlantedCall("edit", {"path": PATH, "oldText": "a", "newText": "b"}, "Edited"),
    "sed": shell("sed -i s/a/b/ src/a.py", ""),
    "redirection": shell("./make.sh > src/a.py", ""),
    "failed": PlantedCall("edit", {"path": PATH, "oldText": "a", "newText": "b"}, "no match", failed=True),
    "other": PlantedCall("edit", {"path": f"{CWD}/src/b.py", "oldText": "a", "newText": "b"}, "Edited"),
}


def rereads(tmp_path: Path, script: Script) -> tuple[Reread, ...]:
    quiet = [shell(f"echo {n}", f"plain {n}") for n in range(6)]
    (tmp_path / "s.jsonl").write_text("\n".join(claude_code([*quiet, *script, *quiet])[0]))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    return session.compactions[0].rereads


@pytest.mark.parametrize(("edit", "known"), [("edit", 0), ("sed", 0), ("redirection", 0), ("failed", 1), ("other", 1)])
@pytest.mark.parametrize("before", [True, False])
def test_what_the_agent_changed_is_not_read_again(edit: str, known: int, before: bool, tmp_path: Path) -> None:
    compact = Compact("Summary.", 0)
    between: Script = [EDITS[edit], compact] if before else [compact, EDITS[edit]]
    assert len(rereads(tmp_path, [READ, *between, READ])) == known


def test_both_ranges_are_told(tmp_path: Path) -> None:
    part = PlantedCall("read", {"path": PATH, "offset": 10, "limit": 81}, "some text")
    (again,) = rereads(tmp_path, [part, Compact("Summary.", 0), READ])
    assert reread(again).startswith(f"{PATH}, whole, ")
    assert numbers_in(reread(again)) == ["17", "10", "90", "13"]
