"""Known agents as they are installed, behind the gateway, with a scripted model: `make test-agents`."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from agent_support import agent_config, collected, verified, write_notes
from workspace_support import needs_bubblewrap

PLACE = os.environ.get("RECOMPACT_TEST_AGENTS", "")
PROGRAMS = {"mini-swe-agent": "mini", "codex": "codex", "claude-code": "claude", "opencode": "opencode", "pi": "pi"}

pytestmark = [
    needs_bubblewrap,
    pytest.mark.skipif(not PLACE, reason="installs agents: make test-agents"),
]


@pytest.fixture
def place() -> Path:
    return Path(PLACE).resolve()


@pytest.mark.parametrize("profile", PROGRAMS)
async def test_the_harmful_boundary_is_found_and_no_other(
    profile: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [place / "npm" / "node_modules" / ".bin", place / "mini" / "bin"]
    monkeypatch.setenv("PATH", ":".join((*map(str, places), os.environ["PATH"])))
    if shutil.which(PROGRAMS[profile]) is None:
        pytest.skip(f"{PROGRAMS[profile]} is not installed in {place}")
    write_notes(tmp_path / "tasks", "one", "two", "three")
    small = agent_config(tmp_path / "tasks")
    agent = replace(small.agent, profile=profile, command=(), files={}, timeout=120.0, readable=(str(place),))
    config = replace(small, agent=agent)
    trajectories = await collected(config, tmp_path / "one.db")
    assert [(each.ending, each.error) for each in trajectories] == [("finished", "")] * 3
    assert all(len(each.boundaries) >= 2 and not each.score.success for each in trajectories)
    first, second = [await verified(config, tmp_path / f"{run}.db") for run in ("one", "two")]
    print(f"{profile}: {len(first[0].outcomes)} boundaries, {len(first[0].left_out)} left out", first[0].left_out)
    assert {id.index for id in first[0].retained} == {1}
    assert len(first[0].retained) == 3
    assert first[1] == second[1]
