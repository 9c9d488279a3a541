"""Before a compaction: the cut of each harness, what is at stake, and what a summary loses of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from audit_planting import Compact, Said, Script, claude_code, codex, pi, shell
from commands import recompact
from examples import examples
from hypothesis import given, strategies as st

from recompact.audit.preview import Preview, _cut, preview, trial_of
from recompact.values.chat import Message, ToolCall, assistant, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.session import Tail

PLAN = {"todos": [{"content": "fix the parser", "status": "pending"}, {"content": "read", "status": "completed"}]}


def count(text: str) -> int:
    return len(text.split())


def turn(name: str, arguments: Mapping[str, object], result: str = "ok") -> Turn:
    call = ToolCall(f"{name}{result}", name, json.dumps(arguments))
    return Turn.measured(Message("assistant", "", (call,)), (Message("tool", result, call_id=call.id),), count)


def session(*turns: Turn, tail: Tail | None = None) -> Preview:
    return preview(Context((user("Never push to main-7f."),), turns=turns), tail or Tail(), count)


def test_values_of_calls_rules_files_and_open_steps_are_at_stake() -> None:
    old = [turn("Bash", {"command": f"cat /src/old/f{n}.py"}, f"{n}") for n in range(30)]
    seen = session(turn("TodoWrite", PLAN), *old, turn("Bash", {"command": "git show 3f2a9c1"}), turn("Bash", {}))
    assert seen.rules == ("Never push to main-7f.",)
    assert seen.steps == ("fix the parser",)
    assert seen.values[0].text == "3f2a9c1"
    assert [value.text for value in seen.likely][1:3] == ["/src/old/f29.py", "/src/old/f28.py"]
    assert len(seen.likely) == 20 < len(seen.values) == 31
    assert seen.files[0].path.endswith("/src/old/f29.py")
    assert seen.reading


def test_what_a_summary_says_is_not_lost() -> None:
    seen = session(turn("TodoWrite", PLAN), turn("Bash", {"command": "git show 3f2a9c1 pay-77ab"}), turn("Bash", {}))
    post = Context((), Summary("never push to main-7f; then Fix the parser; commit 3f2a9c1", 9), seen.bare.turns)
    losses = trial_of("mine", seen, post).losses
    assert ([value.text for value in losses.values], losses.rules, losses.steps) == (["pay-77ab"], (), ())


def test_codex_keeps_what_the_user_said_and_no_turn() -> None:
    turns = (turn("Bash", {"command": "ls /a/b/c1"}), Turn.measured(assistant("?"), (user("go on now"),), count))
    seen = session(*turns, tail=Tail(turns=0, said=9))
    assert len(seen.dropped) == len(seen.pre.turns)
    assert [pin.message.content for pin in seen.bare.pinned] == ["go on now"]  # the older one does not fit


@examples(80)
@given(st.lists(st.integers(1, 50), max_size=12), st.integers(0, 3), st.integers(0, 120))
def test_a_cut_keeps_as_much_as_the_tail_says(sizes: list[int], least: int, tokens: int) -> None:
    turns = [Turn(assistant("x"), (), size) for size in sizes]
    kept = sizes[_cut(turns, Tail(least, tokens)) :]
    assert len(kept) >= min(least, len(sizes))
    assert len(kept) <= least or sum(kept) <= tokens
    more = sizes[len(sizes) - len(kept) - 1 :]
    assert len(kept) == len(sizes) or (sum(more) > tokens and len(kept) >= least)


SCRIPT: Script = [
    Said("Never touch the lock file."),
    *(shell(f"cat src/part_{n}.py", "words " * 60) for n in range(6)),
    Compact("parts 0 to 5 are read", 0),
    Said("Go on."),
    *(shell(f"git show 3f2a9c{n}", "words " * 60) for n in range(6)),
]


@pytest.mark.parametrize(("writer", "kept"), [(claude_code, 1), (codex, 0), (pi, 7)])
def test_the_command_reads_a_live_session(writer: object, kept: int, tmp_path: Path) -> None:
    lines, _ = writer(SCRIPT)  # type: ignore[operator]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines) + '\n{"half": ')
    done = recompact("preview", path, "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["turns"] - document["dropped_turns"] == kept
    assert document["compactions"] == 1
    past = json.loads(recompact("preview", path, "--at", 1, "--json").stdout)
    assert past["rules"] == (["Never touch the lock file."] if writer is claude_code else [])
    (then,) = past["trials"]  # codex keeps what the user said, and for pi there is too little to drop anything
    assert then["summary"].startswith("parts 0 to 5")
    text = recompact("preview", path, columns=80)
    assert text.returncode == 0
    assert all(len(line) <= 80 for line in text.stdout.splitlines())


def test_a_model_writes_the_summary_only_with_leave(tmp_path: Path) -> None:
    lines, _ = claude_code(SCRIPT)
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    (tmp_path / "c.toml").write_text("[compressor]\nbudget = 4096\n")
    asked = ("preview", tmp_path / "s.jsonl", "--config", tmp_path / "c.toml", "--template", "default", "--json")
    assert recompact(*asked).returncode == 2
    trial = json.loads(recompact(*asked, "--yes").stdout)["trials"][0]
    assert trial["receipt"]["usage"][0] > 0
    assert trial["receipt"]["after"] < trial["receipt"]["before"]


def test_the_latest_session_of_a_folder_is_taken(tmp_path: Path) -> None:
    for number, name in enumerate(("new", "old")):
        lines, _ = claude_code(SCRIPT)
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
        os.utime(tmp_path / f"{name}.jsonl", (2_000_000_000 - number, 2_000_000_000 - number))
    assert json.loads(recompact("preview", tmp_path, "--json").stdout)["session"] == "new.jsonl"


def test_a_reader_that_fails_is_named_and_is_no_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("changed")

    lines, _ = claude_code(SCRIPT)
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    monkeypatch.setattr("recompact.cli.preview.moments", fail)
    done = recompact("preview", tmp_path / "s.jsonl")
    assert done.returncode == 2
    assert "s.jsonl" in done.stderr
    assert "KeyError" in done.stderr


def test_what_cannot_be_previewed_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("no session")
    done = recompact("preview", tmp_path / "x.txt")
    assert done.returncode == 2
    assert "x.txt" in done.stderr
    (tmp_path / "y.json").write_text('{"no": "session"}')
    assert "1 JSON file of no known transcript format: y.json" in recompact("preview", tmp_path / "y.json").stderr
    lines, _ = claude_code(SCRIPT)
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    assert recompact("preview", tmp_path / "s.jsonl", "--at", 7).returncode == 2
    assert recompact("preview", tmp_path / "s.jsonl", "--template", "default").returncode == 2
