"""A small experiment with simulated models, as its config and plan say it."""

from __future__ import annotations

from pathlib import Path

import pytest

import experiment
from experiment import Experiment, load_experiment

SMALL = """\
[suite]
use = "pocket"
split = "train"
tasks = ["pocket-train-001", "pocket-train-002", "pocket-train-004", "pocket-train-005"]
[compressor]
budget = 1500
[verify]
allocation = "uniform:1"
[adapt]
method = "pair"
candidates = 2
fit_tasks = 2
"""
PLAN = """\
methods = ["facts", "pair", "facts-entries"]
arms = ["none", "prompting", "facts", "pair"]
later = ["facts-entries", "by-hand=by-hand"]
tasks = ["pocket-test-001", "pocket-test-002"]
by = ["family"]
[fresh]
facts-entries = ["pocket-test-002"]
"""


def small_experiment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """A whole experiment with simulated models."""
    folder = tmp_path / "experiments" / "small"
    (folder / "by-hand").mkdir(parents=True)
    (folder / "config.toml").write_text(SMALL)
    (folder / "plan.toml").write_text(PLAN)
    shipped = Path(experiment.__file__).parent / "all-real" / "by-hand"
    for part in shipped.glob("*.md"):
        (folder / "by-hand" / part.name).write_text(part.read_text())
    monkeypatch.setattr(experiment, "HERE", folder.parent)
    monkeypatch.setenv("RECOMPACT_EXPERIMENTS", str(tmp_path / "runs"))
    loaded = load_experiment("small")
    loaded.place.mkdir(parents=True)
    return loaded
