"""What `recompact wrap` writes down: every message and every compaction."""

from __future__ import annotations

import json
from pathlib import Path

from recompact.agents.wrapping import transcript, transcript_of_calls
from recompact.audit.auditing import audit_trajectory, audit_transcripts, trajectory_events
from recompact.audit.findings import Session
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.trajectory import Boundary, Score, Trajectory


def count(text: str) -> int:
    return len(text)


def test_a_compaction_after_the_last_turn_is_marked_too() -> None:
    prefix = (user("Do it."),)
    turns = tuple(Turn.measured(assistant(f"step {n}"), (user(f"result {n}"),), count) for n in range(3))
    boundaries = tuple(
        Boundary(number, step, Context(prefix), Context(prefix, Summary.measured(f"summary {step}", count)), None, ())
        for number, step in ((1, 1), (2, 3))
    )
    trajectory = Trajectory("t", turns, boundaries, "context overflow", Score.of(False), Context(prefix))
    told = [(each["content"], each.get("compaction", False)) for each in transcript(trajectory)]
    expected = [("Do it.", False), ("step 0", False), ("result 0", False), ("summary 1", True), ("step 1", False)]
    expected += [("result 1", False), ("step 2", False), ("result 2", False), ("summary 3", True)]
    assert told == expected


def test_a_transcript_is_made_of_calls_too() -> None:
    task, said, told = user("Do it."), [assistant(f"step {n}") for n in range(4)], [user(f"r{n}") for n in range(4)]
    summary = user("So far: two steps.")
    calls = [
        ((task,), said[0]),
        ((task, said[0], told[0]), said[1]),
        ((task, summary, said[1], told[1]), said[2]),
        ((task, summary, said[1], told[1], said[2], told[2]), said[3]),
    ]
    lines = list(transcript_of_calls(calls))
    expected = ["Do it.", "step 0", "r0", "step 1", "So far: two steps.", "r1", "step 2", "r2", "step 3"]
    assert [line["content"] for line in lines] == expected
    assert [line["kept"] for line in lines if line.get("compaction")] == [[1, 4]]


def compacted() -> Trajectory:
    """Twelve reads, compacted after the sixth, which is kept with the prefix, and after the ninth."""
    prefix = (system("Config is in /etc/app/base_config.yaml."), user("Read all of them."))
    turns = []
    for n in range(12):
        call = ToolCall(f"c{n}", "bash", json.dumps({"command": f"cat f{n % 6}.txt /etc/app/base_config.yaml"}))
        text = "\n".join(f"line {line} of the file number {n % 6}, which is long enough" for line in range(5))
        turns.append(Turn.measured(assistant("", call), (Message("tool", text, call_id=call.id),), count))
    summary = Summary.measured("Some were read.", count)
    boundaries = (
        Boundary(1, 6, Context(prefix, None, tuple(turns[:6])), Context(prefix, summary, (turns[5],)), None, ()),
        Boundary(2, 9, Context(prefix, summary, tuple(turns[5:9])), Context(prefix, summary), None, ()),
    )
    return Trajectory("t", tuple(turns), boundaries, "finished", Score.of(True), Context(prefix))


def figures(session: Session) -> list[object]:
    return [
        (
            each.before,
            each.after,
            each.dropped_calls,
            each.kept_calls,
            [(refetch.call, refetch.chars) for refetch in each.refetches],
            [need.literal.text for need in each.needs],
        )
        for each in session.compactions
    ]


def test_a_transcript_is_audited_as_the_trajectory_is(tmp_path: Path) -> None:
    made = compacted()
    path = tmp_path / "wrap.jsonl"
    path.write_text("\n".join(map(json.dumps, transcript(made))))
    (session,) = audit_transcripts(read_transcripts([path])).sessions
    parts: list[Turn | Boundary] = list(made.turns)
    for boundary in reversed(made.boundaries):
        parts.insert(boundary.step, boundary)
    events = trajectory_events("t", "wrap", made.context.prefix, parts)
    assert figures(session) == figures(audit_trajectory(events, path, "t"))
    kept = [
        (each.kept_calls, any("base_config" in need.literal.text for need in each.needs))
        for each in session.compactions
    ]
    assert kept == [(1, False), (0, False)]
