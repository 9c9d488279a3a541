"""Agents that are commands, in every wire format, through collection and verification."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from agent_support import NOTES, agent_config, collected, verified, write_notes
from workspace_support import needs_bubblewrap

pytestmark = needs_bubblewrap
EVERY = [(wire, mode) for wire in ("chat", "responses", "messages") for mode in ("plain", "stream")]


@pytest.mark.parametrize(("wire", "mode"), EVERY)
async def test_the_harmful_boundary_is_found_and_no_other(tmp_path: Path, wire: str, mode: str) -> None:
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", wire, mode)
    (trajectory,) = await collected(config, tmp_path / "one.db")
    assert trajectory.ending == "finished", trajectory.error
    assert not trajectory.score.success
    assert len(trajectory.boundaries) >= 2
    assert [message.role for message in trajectory.context.prefix] == ["system", "user"]
    assert trajectory.incidents == ()
    first, second = [await verified(config, tmp_path / f"{name}.db") for name in ("one", "two")]
    assert first[0].left_out == {}
    assert [id.index for id in first[0].retained] == [1]
    assert first[1] == second[1]


async def test_an_agent_with_the_users_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports and paths differ from run to run then; this agent shows neither to its model."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary-123")
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", agent='sandbox = "off"')
    verification, _ = await verified(config, tmp_path / "run.db")
    assert verification.left_out == {}
    assert [id.index for id in verification.retained] == [1]


async def test_without_compaction_the_task_is_done(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks", "a", "b", "c")
    config = agent_config(tmp_path / "tasks", further="[ceiling]\ntokens = 1_000_000\n")
    free = replace(config, compressor=replace(config.compressor, budget=100_000))
    trajectories = await collected(free, tmp_path / "run.db")
    assert [(t.ending, t.score.success, t.steps) for t in trajectories] == [("finished", True, NOTES + 2)] * 3
