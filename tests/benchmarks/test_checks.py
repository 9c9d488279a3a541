"""The verdict on a repair: p, r and d add up to what it gains."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, strategies as st

import checks
from recompact.engine.config_parser import parse_config
from recompact.values.context import Context
from recompact.values.trajectory import Score, Trajectory


def draws(successes: int, number: int) -> tuple[Trajectory, ...]:
    return tuple(Trajectory("t", (), (), "finished", Score.of(n < successes), Context(())) for n in range(number))


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from("abcdefgh")), min_size=1, max_size=12))
def test_it_pays_above_the_threshold_and_only_there(places: list[tuple[int, int, str]]) -> None:
    verdict = checks.judge(
        [task for *_, task in places],
        [draws(before, 4) for before, *_ in places],
        [draws(after, 4) for _, after, _ in places],
    )
    net = verdict.p * (verdict.r or 0) - (1 - verdict.p) * (verdict.d or 0)
    assert net == pytest.approx(verdict.gain.value)
    if verdict.threshold is not None and verdict.p not in (0.0, 1.0):
        assert (verdict.p > verdict.threshold + 1e-9) == (verdict.gain.value > 1e-9)


def test_every_compaction_that_lacks_something_is_continued(tmp_path: Path) -> None:
    config = parse_config("[suite]\nlimit = 3\n[compressor]\nbudget = 900\n", Path("c.toml"))
    places, compactions = asyncio.run(checks.of_run(config, tmp_path / "r.db", 1, 12))
    assert compactions == 12
    assert all(len(place.repaired) == 1 and place.facts for place in places)
