"""Jobs of Harbor: the reward in a trial's result is the score of the session beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recompact.audit.auditing import audit_transcripts
from recompact.audit.scoring import assess
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.audit import words


def step(number: int, source: str, message: str, **more: Any) -> dict[str, Any]:
    return {"step_id": number, "source": source, "message": message, **more}


def trajectory(compacted: bool) -> dict[str, Any]:
    steps = [step(1, "user", "The task.")]
    for page in range(6):
        call = {"tool_call_id": f"c{page}", "function_name": "look", "arguments": {"page": page}}
        results = [{"source_call_id": f"c{page}", "content": f"page {page}"}]
        steps.append(step(len(steps) + 1, "agent", "", tool_calls=[call], observation={"results": results}))
        if compacted and page == 3:
            managed = {"context_management": {"type": "compaction", "boundary": "replace"}}
            told = {"results": [{"content": "A summary."}]}
            steps.append(step(len(steps) + 1, "system", "compacted", observation=told, extra=managed))
    return {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": steps}


def write_trial(job: Path, name: str, task: str, *, compacted: bool, result: dict[str, Any] | None) -> None:
    logs = job / name / "agent"
    logs.mkdir(parents=True)
    (logs / "trajectory.json").write_text(json.dumps(trajectory(compacted)))
    (job / name / "config.json").write_text("{}")
    document = {"task_name": task, "trial_name": name, "verifier_result": result}
    (job / name / "result.json").write_text(json.dumps(document))


def test_rewards_are_joined_and_compared_within_tasks(tmp_path: Path) -> None:
    job = tmp_path / "jobs" / "one"
    for number, (task, compacted, reward) in enumerate(
        [("easy", False, 1.0), ("easy", True, 1.0), ("hard", True, 0.0), ("hard", False, 1.0), ("other", True, 0.0)]
    ):
        write_trial(job, f"t{number}", task, compacted=compacted, result={"rewards": {"reward": reward, "speed": 3}})
    (job / "result.json").write_text(json.dumps({"n_total_trials": 5, "stats": {}}))
    audit = audit_transcripts(read_transcripts([tmp_path / "jobs"]))
    assert [(each.info.task, each.info.score, len(each.compactions)) for each in audit.sessions] == [
        ("easy", 1.0, 0),
        ("easy", 1.0, 1),
        ("hard", 0.0, 1),
        ("hard", 1.0, 0),
        ("other", 0.0, 1),
    ]
    assert {file.path.name for file in audit.skipped} == {"config.json"}
    overall, within = words.outcomes(assess(audit))
    assert ("0.33" in overall, "1.00" in overall) == (True, True)
    assert ("−0.50" in within, "2 tasks" in within) == (True, True)


@pytest.mark.parametrize(
    "result", [None, {}, {"rewards": None}, {"rewards": {"a": 1, "b": 0}}, {"rewards": {"a": "1"}}]
)
def test_a_trial_without_a_verdict_has_no_score(result: Any, tmp_path: Path) -> None:
    write_trial(tmp_path / "job", "t", "easy", compacted=True, result=result)
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    assert (session.info.task, session.info.score) == ("easy", None)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"trial_name": 3, "task_name": [], "verifier_result": 4}'])
def test_odd_results_are_no_error(text: str, tmp_path: Path) -> None:
    write_trial(tmp_path, "t", "easy", compacted=False, result=None)
    (tmp_path / "t" / "result.json").write_text(text)
    (session,) = audit_transcripts(read_transcripts([tmp_path])).sessions
    assert session.info.score is None
