"""Clauses drafted from transcripts alone, and what to do next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import recompact

from recompact.adaptation.facts import CLAUSES


def write_session(path: Path, summary: str, later: str) -> None:
    def call(id: str, command: str) -> dict[str, object]:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        return {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": id, "function": function, "type": "function"}],
        }

    messages = [
        {"role": "user", "content": "Fix it."},
        call("a", "cat src/deep/engine_room.py"),
        {"role": "tool", "tool_call_id": "a", "content": "def start_engine_room():\n    return 42\n"},
        {"role": "user", "content": summary, "compaction": True},
        call("b", later),
        {"role": "tool", "tool_call_id": "b", "content": "done"},
    ]
    path.write_text("".join(json.dumps(message) + "\n" for message in messages))


@pytest.mark.parametrize(
    ("summary", "later", "kinds"),
    [
        ("## Goal\nFix it.", "sed -n 1p src/deep/engine_room.py", ["path"]),
        ("## Goal\nFix src/deep/engine_room.py.", "sed -n 1p src/deep/engine_room.py", []),
        ("## Goal\nFix it.", "true", []),
    ],
)
def test_a_clause_answers_what_a_summary_lacked_and_the_agent_used(
    summary: str, later: str, kinds: list[str], tmp_path: Path
) -> None:
    write_session(tmp_path / "one.jsonl", summary, later)
    ended = recompact("audit", tmp_path / "one.jsonl", "--draft", "--json", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    clauses = json.loads(ended.stdout)["draft"]["clauses"]
    assert [each["kind"] for each in clauses] == kinds
    assert not any(each["verified"] for each in clauses)
    template = tmp_path / "audit-template"
    assert template.exists() == bool(kinds)
    if kinds:
        text = (template / "first.md").read_text()
        assert CLAUSES["path"] in text
        assert "engine_room" not in text
        assert json.loads((template / "manifest.json").read_text())["evidence"] == "observational"


def test_the_next_commands_fit_the_harness_that_was_seen(tmp_path: Path) -> None:
    write_session(tmp_path / "one.jsonl", "## Goal\nFix it.", "sed -n 1p src/deep/engine_room.py")
    said = recompact("audit", tmp_path / "one.jsonl", "--no-page", cwd=tmp_path).stdout
    assert "recompact init --agent AGENT --repo DIR" in said  # plain messages are of no known agent
    assert "collect CONFIG" not in said
    assert recompact("audit", tmp_path, "--draft", "--diagnose", "x.toml", cwd=tmp_path).returncode == 2
