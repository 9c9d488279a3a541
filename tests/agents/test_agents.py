"""Agents that are commands, in every wire format, through collection and verification."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from agent_support import NOTES, agent_config, collected, verified, write_notes
from needs import needs

from recompact.agents import episode, process
from recompact.agents.normalizer import Manifest
from recompact.errors import InputError

pytestmark = needs("bubblewrap")
QUICK = [("chat", "stream"), ("responses", "plain"), ("messages", "stream")]
SLOW = [("chat", "plain"), ("responses", "stream"), ("messages", "plain")]


@pytest.mark.parametrize(("wire", "mode"), [*QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)])
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
    assert [v.id.index for v in first[0].retained] == [1]
    assert first[1] == second[1]


async def test_an_agent_with_the_users_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports and paths differ from run to run then; this agent shows neither to its model."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary-123")
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", agent='sandbox = "off"')
    verification, _ = await verified(config, tmp_path / "run.db")
    assert verification.left_out == {}
    assert [v.id.index for v in verification.retained] == [1]


async def test_without_compaction_the_task_is_done(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks", "a", "b", "c")
    config = agent_config(tmp_path / "tasks", further="[ceiling]\ntokens = 1_000_000\n")
    free = replace(config, compressor=replace(config.compressor, budget=100_000))
    trajectories = await collected(free, tmp_path / "run.db")
    assert [(t.ending, t.score.success, t.steps) for t in trajectories] == [("finished", True, NOTES + 2)] * 3


async def test_what_is_installed_where_agents_see_their_workspace_is_seen_by_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In containers, projects often lie in /workspace. A directory of the test's stands in for it."""
    project = tmp_path / "project"
    (project / "own" / "tools").mkdir(parents=True)
    (project / "own" / "tools" / "tool").write_text("a tool")
    monkeypatch.setattr(process, "WORKSPACE", str(project))
    changes: list[dict[str, str]] = []

    class Noting(Manifest):
        def change(self, stop: threading.Event | None = None) -> dict[str, str]:
            change = super().change(stop)
            changes.append(change)
            return change

    monkeypatch.setattr(episode, "Manifest", Noting)
    write_notes(tmp_path / "tasks")
    toml = tmp_path / "tasks" / "notes" / "task.toml"
    toml.write_text(toml.read_text().replace("grep", "test ! -e own && grep"))
    config = agent_config(tmp_path / "tasks", agent=f"readable = ['{project}/own/tools']")
    free = replace(config, compressor=replace(config.compressor, budget=100_000))
    (trajectory,) = await collected(free, tmp_path / "run.db")
    assert (trajectory.ending, trajectory.score.success) == ("finished", True), trajectory.error
    assert [name for change in changes[1:] for name in change] == ["answer.txt"]  # the first is how it began


async def test_a_place_that_would_hide_the_workspace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.setattr(process, "WORKSPACE", str(tmp_path / "project"))
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", agent=f"readable = ['{tmp_path}/project']")
    with pytest.raises(InputError, match="cannot be shown in a sandbox"):
        await collected(config, tmp_path / "run.db")
