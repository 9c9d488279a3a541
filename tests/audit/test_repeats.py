"""Exact repeats: calls of any kind that a compaction made the agent ask for twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from audit_planting import CWD, Compact, PlantedCall, Script, claude_code, shell

from recompact.audit.auditing import audit_transcripts
from recompact.harnesses.transcripts.registry import read_transcripts

TASK = {"description": "explore", "prompt": "Find every caller of parse_ledger", "subagent_type": "Explore"}
EDIT = PlantedCall("edit", {"path": f"{CWD}/a.py", "oldText": "a", "newText": "b"}, "Edited a.py")
CALLS = {
    "reading": ("Bash", {"command": "cat a.py"}),
    "build": ("Bash", {"command": "make build"}),
    "request": ("Bash", {"command": "curl -s https://api.example.com/v1/items"}),
    "subagent": ("Task", TASK),
    "plan": ("TodoWrite", {"todos": []}),
    "poll": ("TaskOutput", {"task_id": "7"}),
}


def repeats(tmp_path: Path, call: str, *between: PlantedCall) -> float:
    quiet = [shell(f"ls {n}", f"plain {n}") for n in range(12)]
    marked = shell("THE CALL", "some result")
    script: Script = [*quiet[:6], marked, Compact("Summary.", 0), *between, marked, *quiet[6:]]
    lines = []
    for line in claude_code(script)[0]:
        record = json.loads(line)
        for block in record["message"].get("content") or ():
            if isinstance(block, dict) and "THE CALL" in str(block.get("input")):
                block["name"], block["input"] = CALLS[call]
        lines.append(json.dumps(record))
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    return session.compactions[0].points["wide"].values["repeats"]


@pytest.mark.parametrize(
    ("call", "counts"),
    [("reading", 1), ("build", 1), ("request", 1), ("subagent", 1), ("plan", 0), ("poll", 0)],
)
def test_which_calls_repeat(call: str, counts: int, tmp_path: Path) -> None:
    assert (repeats(tmp_path, call) > 0) == bool(counts)


@pytest.mark.parametrize("call", ["reading", "build", "subagent"])
def test_a_call_after_an_edit_is_no_repeat(call: str, tmp_path: Path) -> None:
    assert repeats(tmp_path, call, EDIT) == 0
