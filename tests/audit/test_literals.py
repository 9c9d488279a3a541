"""Literals that the agent used: only those that it could not see, and each once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from audit_planting import CWD, Compact, Script, claude_code, shell

from recompact.audit.auditing import audit_transcripts
from recompact.audit.findings import Need
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.values.literals import literals

PATH = ".claude/skills/review/references/analyze.md"
QUIET = [shell(f"ls {n}", f"plain {n}") for n in range(6)]


def needs(tmp_path: Path, lines: list[str]) -> dict[str, Need]:
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    return {need.literal.text: need for need in session.compactions[-1].needs}


def used(tmp_path: Path, shown: str, command: str, summary: str = "Summary.") -> dict[str, Need]:
    script: Script = [*QUIET, shell("./show.sh", shown), Compact(summary, 0), shell(command, "x"), *QUIET]
    return needs(tmp_path, claude_code(script)[0])


def attachment(**content: Any) -> str:
    record = {"type": "attachment", "uuid": "x", "sessionId": "s", "isSidechain": False}
    return json.dumps({**record, "attachment": content})


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (attachment(type="skill", content="Base directory: /home/dev/.claude/skills/review. See analyze.md."), True),
        (attachment(type="file", filename=f"/home/dev/{PATH}", content={"type": "file_unchanged"}), True),
        (attachment(type="deferred_tools_delta", addedNames=["Other", f"/home/dev/{PATH}"]), True),
        (attachment(type="deferred_tools_delta", addedNames=["Other"]), False),
    ],
)
def test_what_the_harness_named_has_a_visible_source(given: str, known: bool, tmp_path: Path) -> None:
    script: Script = [*QUIET, shell("./show.sh", PATH), Compact("Summary.", 0), shell(f"cat {PATH}", "x"), *QUIET]
    lines, _ = claude_code(script)
    after = next(n for n, line in enumerate(lines) if "isCompactSummary" in line) + 1
    assert (PATH in needs(tmp_path, [*lines[:after], given, *lines[after:]])) is not known


@pytest.mark.parametrize(("role", "known"), [("system", True), ("developer", True), ("user", False)])
def test_a_system_message_never_leaves_the_context(role: str, known: bool, tmp_path: Path) -> None:
    def call(n: int, command: str) -> list[dict[str, Any]]:
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        return [
            {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}", "function": function}]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "x"},
        ]

    messages: list[dict[str, Any]] = [{"role": role, "content": "Config is in /etc/app/base_config.yaml."}]
    messages += [*call(1, "ls"), {"role": "user", "content": "<summary>Going on.</summary>"}]
    messages += call(2, "cat /etc/app/base_config.yaml")
    assert ("/etc/app/base_config.yaml" in needs(tmp_path, list(map(json.dumps, messages)))) is not known


@pytest.mark.parametrize(("path", "known"), [(CWD, True), ("/home/dev", True), (f"{CWD}/src/deep", False)])
def test_the_folder_of_the_session_is_known(path: str, known: bool, tmp_path: Path) -> None:
    assert (path in used(tmp_path, f"in {path} there is", f"ls {path}")) is not known


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("console.log(Object.keys(map)); rows.map(f)", []),
        ("editorContainer.clear()", [("name", "editorContainer")]),
        ("self.db process.env event.key", []),
        ("app.py notes.test.ts server.log Cargo.lock", ["app.py", "notes.test.ts", "server.log", "Cargo.lock"]),
        (r"type C:\app\src\new.py", [r"C:\app\src\new.py"]),
        ("scp host:/srv/data/x.bin .", ["/srv/data/x.bin"]),
    ],
)
def test_which_words_are_literals(text: str, found: list[Any]) -> None:
    assert [
        (each.kind, each.text) if found and isinstance(found[0], tuple) else each.text for each in literals(text)
    ] == found


def test_the_drive_of_a_path_is_shown_and_not_compared() -> None:
    (literal,) = literals(r"type C:\app\new.py")
    assert literal.form == "app/new.py"


def test_a_part_of_a_longer_literal_counts_with_it(tmp_path: Path) -> None:
    command = "tox -e py311 tests/parser/test_numbers.py"
    assert set(used(tmp_path, f"We ran: {command}", command)) == {command}
    shown = "tests/parser/test_numbers.py was added"  # the command is new, so only the path is from there
    assert set(used(tmp_path, shown, command)) == {"tests/parser/test_numbers.py"}


def test_a_short_hash_is_carried_by_the_full_one(tmp_path: Path) -> None:
    full = "3f2a9c1d7e8b9a0c1d2e3f4a5b6c7d8e9f0a1b2c"
    shown = f"commit {full}"
    assert used(tmp_path, shown, "git show 3f2a9c1", f"The fix is {full}.")["3f2a9c1"].covered
    assert not used(tmp_path, shown, "git show 3f2a9c1")["3f2a9c1"].covered
