"""Tasks with one, two and three apps, solved by scripts: what is right passes, what is nearly right fails."""

from __future__ import annotations

import pytest
from needs import needs
from officebench_solutions import SOLUTIONS, Step
from officebench_support import playing, tree

pytestmark = needs("officebench", "bubblewrap")


def test_the_scripts_cover_tasks_of_every_number_of_apps_and_both_splits() -> None:
    assert len(SOLUTIONS) >= 20
    assert {name.partition("-")[0] for name in SOLUTIONS} == {"1", "2", "3"}
    splits = {split: {"/".join(pair) for pair in tree().split(split)} for split in ("train", "test")}
    assert all(splits[split] & set(SOLUTIONS) for split in splits)


def play(name: str, steps: list[Step], answer: str) -> bool:
    with playing(name) as player:
        for action, arguments in steps:
            player.ok(action, **arguments)
        return player.finish(answer)


@pytest.mark.parametrize("name", SOLUTIONS)
def test_a_right_solution_passes_and_a_wrong_one_fails(name: str) -> None:
    solution = SOLUTIONS[name]
    assert play(name, solution.right, solution.answer)
    assert not play(name, solution.wrong, solution.wrong_answer)
