"""What a call does, whichever harness's tool it is: kind, files, what it asks for, and which calls ask for the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from recompact.values.call_effects import (
    LINE,
    PHASE,
    QUERY,
    CallEffect,
    effect_of,
    in_reading_phase,
    phase_of,
    reports_error,
)
from recompact.values.chat import Message, ToolCall, assistant, user
from recompact.values.context import Turn
from recompact.values.session import Call
from recompact.values.shell import END, Range

CWD = "/home/me"


def effect(tool: str, cwd: str = CWD, **arguments: Any) -> CallEffect:
    return effect_of(Call("1", tool, arguments, cwd=cwd))


@pytest.mark.parametrize(
    ("tool", "arguments", "kind"),
    [
        ("Read", {"file_path": "a.py"}, "read"),
        ("mcp__files__read_file", {"path": "a.py"}, "read"),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, "read"),
        ("str_replace_editor", {"command": "insert", "path": "a.py"}, "edit"),
        ("str_replace_editor", {"command": "dance", "path": "a.py"}, "other"),
        ("Grep", {"pattern": "x"}, "search"),
        ("TodoWrite", {"todos": []}, "plan"),
        ("BashOutput", {"id": "7"}, "poll"),
        ("Task", {"prompt": "look"}, "agent"),
        ("container.exec", {"command": ["bash", "-lc", "git commit -m x"]}, "vcs-change"),
        ("listContacts", {}, "list"),
        ("send_message", {"to": "x"}, "edit"),
        ("42", {}, "other"),
        ("frobnicate", {}, "other"),
    ],
)
def test_a_tool_is_known_by_its_name(tool: str, arguments: dict[str, Any], kind: str) -> None:
    assert effect(tool, **arguments).kind == kind


def test_a_command_has_the_kind_of_its_strongest_part() -> None:
    assert effect("bash", command="ls && cat a.py").kind == "read"
    assert effect("bash", command="cat a.py; pytest; ls").kind == "test"
    assert effect("bash", command="git commit -m x; rm a.py").kind == "edit"
    assert effect("bash", command="").kind == "other"


@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [
        ({}, 1, END),
        ({"view_range": [5, 9]}, 5, 9),
        ({"view_range": [0, -1]}, 1, END),
        ({"view_range": [5, 0]}, 5, END),
        ({"view_range": [5, 9, 11]}, 1, END),
        ({"view_range": ["5", "9"]}, 1, END),
        ({"start_line": 5}, 5, END),
        ({"end_line": 9}, 1, 9),
        ({"start_line": 5, "end_line": 9}, 5, 9),
        ({"offset": 11, "limit": 5}, 11, 15),
        ({"limit": 1}, 1, 1),
        ({"limit": 5}, 1, 5),
        ({"offset": 0, "limit": 5}, 1, 5),
        ({"offset": 11, "limit": 0}, 11, END),
    ],
)
def test_the_lines_that_a_tool_is_asked_for(arguments: dict[str, Any], first: int, last: int) -> None:
    read = effect("Read", file_path="a.py", **arguments)
    assert read.reads == (Range("/home/me/a.py", first, last),)
    shown = "" if (first, last) == (1, END) else f":{first}-{last if last < END else ''}"
    assert read.line == f"Read a.py{shown}"


def test_several_files_are_read_at_once() -> None:
    many = effect("read_many_files", paths=["a.py", 7, "/b.py"])
    assert many.reads == (Range("/home/me/a.py"), Range("/b.py"))
    assert (many.query, many.changes) == ("a.py /b.py", ())


PATCH = """*** Begin Patch
*** Update File: a.py
+x
*** Add File: sub/b.py
*** End Patch"""


def test_an_edit_changes_the_files_that_it_names() -> None:
    edit = effect("Edit", file_path="a.py", new_string="see /secret/place.py")
    assert (edit.changes, edit.reads, edit.query, edit.line) == (("/home/me/a.py",), (), "a.py", "Edit a.py")
    for arguments in ({"input": PATCH}, {"patch": PATCH}):
        patch = effect("apply_patch", **arguments)
        assert (patch.kind, patch.changes) == ("edit", ("/home/me/a.py", "/home/me/sub/b.py"))
        assert (patch.query, patch.line) == ("a.py sub/b.py", "apply_patch a.py, sub/b.py")
    assert effect("patch", patch="--- a/x.py\n+++ b/x.py\n").changes == ("/home/me/x.py",)
    assert effect("Write", content="x").changes == ()


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ({"command": "cat a.py"}, "cat a.py"),
        ({"cmd": "cat a.py"}, "cat a.py"),
        ({"command": ["cat", "a.py"]}, "cat a.py"),
        ({"command": ["bash", "-c", "cat a.py"]}, "cat a.py"),
        ({"command": ["cat", "-n", "a.py"]}, "cat -n a.py"),
        ({"command": ["bash", "-c", "cat a.py", "more"]}, "bash -c cat a.py more"),
        ({"input": 'run({cmd: "cat a.py"}); run({cmd: `ls`})'}, "cat a.py ls"),
        ({"input": "cat a.py"}, "cat a.py"),
        ({"input": PATCH}, "apply_patch a.py sub/b.py"),
        ({}, ""),
    ],
)
def test_a_command_is_found_wherever_a_tool_has_it(arguments: dict[str, Any], command: str) -> None:
    assert effect("shell", **arguments).line == f"$ {command}"


def test_a_command_runs_where_the_call_says() -> None:
    assert effect("bash", command="cat a.py").reads == (Range("/home/me/a.py"),)
    for key in ("workdir", "cwd", "dir_path"):
        elsewhere = effect("bash", command="cat a.py > b.py", **{key: "/srv"})
        assert elsewhere.changes == ("/srv/b.py",)


def test_bodies_of_heredocs_are_neither_shown_nor_asked_for() -> None:
    made = effect("bash", command="cd /srv && cat > a.py <<'E'\nid-7f3a\nE")
    assert (made.kind, made.changes) == ("edit", ("/srv/a.py",))
    assert made.query == "cat > a.py <<'E'"
    assert "7f3a" not in made.line


def test_a_query_is_what_names_things() -> None:
    asked = effect("Grep", pattern="old_name", path="src", output_mode="content", timeout=5, paths=["a", 1, "b"])
    assert asked.query == "old_name src a b"
    assert effect("Task", prompt="long text", description="x", name="deep").query == "deep"
    assert effect("Grep", pattern=None, text="body").query == ""
    assert effect("frobnicate", x="y" * 2 * QUERY).query == "y" * QUERY
    assert effect("frobnicate", x=["y"] * 99).query == " ".join(["y"] * 50)
    assert len(effect("frobnicate", x="y" * 2 * LINE).line) == LINE


def test_a_tool_for_calling_others_is_what_it_calls() -> None:
    inner = {"path": "a.py"}
    ways: list[dict[str, Any]] = [
        {"app": "files", "api": "read", "arguments": inner},
        {"server_name": "files", "tool_name": "read", "params": inner},
        {"function_name": "read", "args": inner},
    ]
    for outer in ways:
        called = effect("call_tool", **outer)
        assert (called.kind, called.reads) == ("read", (Range("/home/me/a.py"),))
    assert effect("call_tool", app="files", api="read", arguments=inner).line == "files.read a.py"
    assert effect("call_tool", api="read", arguments=inner).line == "read a.py"
    assert effect("call_tool", api="read").line == "call_tool read"  # nothing is passed on
    assert effect("call_tool", arguments=inner).kind == "other"  # nothing is named
    assert effect("Grep", method="read", args=inner).kind == "search"  # a tool that is known is itself


def test_calls_that_ask_for_the_same_have_one_key() -> None:
    asked = effect("Grep", pattern="x", path="src")
    assert asked.key == effect("Grep", path="src", pattern="x", timeout=5, description="again").key
    assert asked.key == effect("Grep", pattern="x", path="/home/me/src").key
    assert asked.key == effect("Grep", "/home", pattern="x", path="me/src").key
    for other in (
        effect("Grep", pattern="y", path="src"),
        effect("Grep", pattern="x", path="lib"),
        effect("Grep", "/srv", pattern="x", path="src"),
        effect("Glob", pattern="x", path="src"),
        effect("Grep", pattern="x", path="src", output_mode="count"),
    ):
        assert asked.key != other.key
    assert effect("Edit", file_path="a.py", new_string="x").key != effect("Edit", file_path="a.py", new_string="y").key
    assert effect("bash", command="cd /srv;  ls 2>&1").key == effect("bash", command="ls").key
    assert effect("bash", command="ls").key != effect("bash", "/srv", command="ls").key


def test_a_call_too_deep_to_compare_is_equal_to_itself_alone() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    one, other = Call("1", "Grep", {"x": deep}), Call("2", "Grep", {"x": deep})
    assert effect_of(one).key == effect_of(one).key != effect_of(other).key


@given(st.lists(st.sampled_from(["read", "search", "edit", "test", "plan", "other"]), max_size=14))
def test_a_reading_phase_has_mostly_reads_and_no_edit(kinds: list[str]) -> None:
    recent = kinds[-PHASE:]
    reads = recent.count("read") + recent.count("search")
    mostly = reads * 2 > len(recent) and reads >= 3
    assert in_reading_phase(kinds) == (mostly and "edit" not in recent)


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Error: no such file", True),
        (" \nerror", True),
        ("errors: none", False),
        ("Traceback (most recent call last)", True),
        ('{ "error": "x"}', True),
        ("done\nexit code: 2", True),
        ("done\nExit status 10", True),
        ("done\nexit code 0", False),
        ("no error", False),
        ("x" * 3_000 + "exit code 1", False),
    ],
)
def test_a_result_tells_whether_its_call_failed(text: str, failed: bool) -> None:
    assert reports_error(text) is failed


def turn(*results: Message, **call: Any) -> Turn:
    made = ToolCall("1", call.pop("tool"), str(call.pop("given", "{}"))) if call else None
    return Turn(Message("assistant", "", (made,)) if made else assistant("text"), results, 5)


DONE = Message("tool", "done", call_id="1")


@pytest.mark.parametrize(
    ("after", "phase"),
    [
        (None, "other"),
        (turn(), "other"),
        (turn(DONE, tool="read_file"), "read"),
        (turn(DONE, tool="list_files"), "read"),
        (turn(DONE, tool="write_file"), "edit"),
        (turn(DONE, tool="bash", given='{"command": "git commit -m x"}'), "edit"),
        (turn(DONE, tool="bash", given='{"command": "pytest"}'), "test"),
        (turn(DONE, tool="todo_write"), "other"),
        (turn(DONE, tool="write_file", given="[1]"), "other"),
        (turn(Message("tool", "Error: full", call_id="1"), DONE, tool="write_file"), "error"),
        (turn(DONE, user("Go on."), tool="read_file"), "user"),
        (turn(user("Error: call a tool."), tool="read_file"), "error"),
        (turn(user("Go on."), DONE, tool="read_file"), "read"),
    ],
)
def test_a_turn_ends_in_a_phase(after: Turn | None, phase: str) -> None:
    assert phase_of(after) == phase
