"""The cap on observations: both ends are kept, the cut is marked and counted, and below the cap nothing happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples import examples
from fakes import Scripted, calling
from hypothesis import given, strategies as st
from sentences import numbers_in

from recompact.engine.config_parser import parse_config
from recompact.engine.rollout import Agent, run_episode
from recompact.environments.functions import function_suite
from recompact.environments.inprocess import InProcessEpisode
from recompact.values.texts import keep_ends
from recompact.values.tokens import counter
from recompact.values.trajectory import Trajectory

COUNT = counter()
LINES = "\n".join(f"line {n} of the log" for n in range(5000))


async def played(text: str, cap: int) -> Trajectory:
    def look() -> str:
        return text

    suite = function_suite("s", [look], {"t": ("Look.", "x")})
    task = suite.tasks("train")[0]
    model = Scripted(calling(("look", {})), calling(("finish", {"answer": "x"})))
    episode = InProcessEpisode(suite.environment(task), task.id)
    return await run_episode(task, episode, Agent(model), count=COUNT, step_limit=3, observation_tokens=cap)


async def test_a_long_observation_keeps_both_ends_and_says_so() -> None:
    trajectory = await played(LINES, 500)
    seen = trajectory.turns[0].results[0].content
    assert seen.startswith("line 0 of the log\nline 1 of")
    assert seen.endswith("line 4999 of the log")
    assert "tokens are left" in seen
    assert COUNT(seen) <= 500
    (incident,) = trajectory.incidents
    assert (incident.step, incident.kind) == (1, "observation cut")
    assert numbers_in(incident.text)[-1] == "500"
    assert "[run] observation_tokens" in incident.text
    assert (await played(LINES, 500)).turns == trajectory.turns
    assert trajectory.score.success


async def test_below_the_cap_nothing_happens() -> None:
    size = COUNT(LINES)
    assert (await played(LINES, size)).turns[0].results[0].content == LINES
    assert (await played(LINES, size)).incidents == ()
    assert (await played(LINES, size - 1)).incidents


@given(st.text(), st.integers(1, 3000), st.integers(40, 400))
@examples(150)
def test_any_text_fits_or_is_left_alone(part: str, times: int, cap: int) -> None:
    text = part * times
    kept, omitted = keep_ends(text, cap, COUNT)
    if COUNT(text) <= cap:
        assert (kept, omitted) == (text, 0)
    else:
        assert omitted > 0
        assert COUNT(kept) <= cap + 4  # tokens may fall otherwise at the seams
    assert keep_ends(text, cap, COUNT) == (kept, omitted)


def test_the_middle_of_a_huge_text_is_not_even_counted() -> None:
    counted: list[str] = []

    def noting(text: str) -> int:
        counted.append(text)
        return COUNT(text)

    kept, omitted = keep_ends("word " * 10_000_000, 1000, noting)
    assert sum(map(len, counted)) < 5_000_000  # of 50 million characters
    assert COUNT(kept) <= 1000
    assert omitted == pytest.approx(10_000_000, rel=0.05)


def test_the_default_is_no_part_of_a_runs_identity_so_that_older_runs_go_on() -> None:
    default = parse_config("", Path("c.toml"))
    assert default.run.observation_tokens == 20_000
    assert "observation_tokens" not in default.identity()["run"]
    other = parse_config("[run]\nobservation_tokens = 500", Path("c.toml"))
    assert other.identity()["run"]["observation_tokens"] == 500
