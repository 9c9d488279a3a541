"""The small experiment that the tests run."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiment_support import PLAN, SMALL

import experiment
from experiment import Experiment, load_experiment


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
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
