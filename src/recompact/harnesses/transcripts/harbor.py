"""Jobs of Harbor: beside an agent's logs lies the result of its trial, which has the task and the reward."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import DOCUMENT_LIMIT, decode
from recompact.harnesses.transcripts.reader import mapping, text
from recompact.values.session import Info

RESULT = "result.json"
_ABOVE = 8  # folders: agents nest their own logs, as `agent/sessions/2026/11/18`


def is_result(values: list[Any]) -> bool:
    """Whether these records are the result of a trial or of a job, and no transcript."""
    document = mapping(values[0]) if len(values) == 1 else {}
    return "trial_name" in document or {"n_total_trials", "stats"} <= document.keys()


def trial_outcome(path: Path, results: dict[Path, Info | None]) -> Info | None:
    """What the trial that a log belongs to came to; None for a log of no trial. `results` remembers what was read."""
    for folder in list(path.parents)[:_ABOVE]:
        if folder not in results:
            results[folder] = _outcome_in(folder)
        if (outcome := results[folder]) is not None:
            return outcome
    return None


def _outcome_in(folder: Path) -> Info | None:
    file = folder / RESULT
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > DOCUMENT_LIMIT:
            return None
        document = mapping(decode(file.read_bytes()))
    except (OSError, ValueError):
        return None
    if "trial_name" not in document:
        return None
    reward = _reward(mapping(document.get("verifier_result")))
    return Info(score=reward, task=text(document.get("task_name")))


def _reward(result: Mapping[str, Any]) -> float | None:
    """The reward by that name, or the only one. A trial without a verdict has none: it did not score 0."""
    rewards = {
        key: float(value)
        for key, value in mapping(result.get("rewards")).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)
