"""Known agents as they are installed, behind the gateway, with a scripted model: `make test-agents`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from agent_support import agent_config, collected, verified, write_notes
from needs import needs

from recompact.agents.settings import PROFILES

PLACE = os.environ.get("RECOMPACT_TEST_AGENTS", "")
PROGRAMS = {
    "mini-swe-agent": "mini/bin/mini",
    "codex": "npm/node_modules/.bin/codex",
    "claude-code": "npm/node_modules/.bin/claude",
    "gemini-cli": "npm/node_modules/.bin/gemini",
    "goose": "npm/node_modules/.bin/goose",
    "pi": "npm/node_modules/.bin/pi",
    "deepagents": "deepagents/bin/python",
    "opencode": "npm/node_modules/.bin/opencode",
}

pytestmark = needs("agents", "bubblewrap")


@pytest.fixture
def place() -> Path:
    return Path(PLACE).resolve()


@pytest.mark.parametrize("profile", PROGRAMS)
async def test_the_harmful_boundary_is_found_and_no_other(
    profile: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place / PROGRAMS[profile]
    if not program.exists():
        pytest.skip(f"{program} is not installed")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    write_notes(tmp_path / "tasks", "one", "two", "three")
    small = agent_config(tmp_path / "tasks")
    command = (str(program), *PROFILES[profile].command[1:]) if profile == "deepagents" else ()
    readable = (
        () if "node_modules" in PROGRAMS[profile] else (str(place),)
    )  # packages beside .bin are seen by themselves
    agent = replace(small.agent, profile=profile, command=command, files={}, timeout=120.0, readable=readable)
    config = replace(small, agent=agent)
    trajectories = await collected(config, tmp_path / "one.db")
    assert [(each.ending, each.error) for each in trajectories] == [("finished", "")] * 3
    assert all(len(each.boundaries) >= 2 and not each.score.success for each in trajectories)
    first, second = [await verified(config, tmp_path / f"{run}.db") for run in ("one", "two")]
    print(f"{profile}: {len(first[0].verdicts)} boundaries, {len(first[0].left_out)} left out", first[0].left_out)
    assert {v.id.index for v in first[0].retained} == {1}
    assert len(first[0].retained) == 3
    if profile != "goose":  # which tells its model the time
        assert first[1] == second[1]
