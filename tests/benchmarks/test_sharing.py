"""What sharing the steps before the first compaction saves, from runs with and without it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from recompact.engine.config_parser import parse_config
from recompact.engine.store.runs import open_run, trajectories
from recompact.evaluation.arms import Arm
from recompact.evaluation.evaluate import evaluate, open_evaluation
from sharing import Saving, saved_on_pocket, would_save

NONE, PROMPTING, FIFO = Arm("none", "none"), Arm("prompting", "prompted", scope="history"), Arm("fifo", "fifo")


def saving(path: Path, arms: Sequence[Arm]) -> Saving:
    text = "[suite]\nlimit = 3\n[compressor]\nbudget = 2048\n[run]\nshare_prefix = false\n"

    async def play() -> None:
        async with open_evaluation(parse_config(text, Path("c.toml")), path) as study:
            await evaluate(study, arms, 1)

    asyncio.run(play())
    with open_run(path) as store:
        return would_save(store)


def test_nothing_is_shared_with_an_arm_of_its_own_budget_or_with_none(tmp_path: Path) -> None:
    alone = saving(tmp_path / "r.db", [NONE, PROMPTING, Arm("small", "fifo", budget=1500)])
    assert (alone.steps_saved, alone.tokens_saved) == (0, 0)
    assert alone.steps > 0


def test_two_arms_would_share_one_beginning_of_the_two(tmp_path: Path) -> None:
    both = saving(tmp_path / "r.db", [PROMPTING, FIFO])
    assert 0 < both.steps_saved < both.steps / 2
    assert 0 < both.tokens_saved < both.tokens["agent"] / 2
    assert both.tokens["compressor"] > 0


def test_what_was_shared_on_pocket_is_what_its_arms_did_not_pay_for(tmp_path: Path) -> None:
    saved = saved_on_pocket(tmp_path / "r.db", 3)
    with open_run(tmp_path / "r.db") as store:
        rows = trajectories(store, phase="evaluate")
    assert saved.steps == sum(row.steps for row in rows)
    assert saved.steps_saved > 0
    assert sum(saved.tokens.values()) == pytest.approx(sum(u.total for row in rows for u in row.usage.values()))
