"""Several adaptations of one method: the interval of their mean is about the method, not about one template."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from evaluation_support import arm

from recompact.engine.config_parser import parse_config
from recompact.evaluation.adaptations import adaptations_table, plan_adaptations, several_adaptations
from recompact.evaluation.paired import compare
from recompact.evaluation.summary import evaluation
from recompact.values.stats import bootstrap_crossed
from recompact.values.tables import as_json


def test_luck_of_one_adaptation_is_not_the_methods() -> None:
    """One lucky template of three: its own interval excludes zero, that of the method does not."""
    usual = arm("prompting", ["00"] * 30 + ["11"] * 10, "history")
    lucky = arm("pair.1", ["11"] * 24 + ["00"] * 6 + ["11"] * 10, "history")
    others = [arm(f"pair.{n}", ["00"] * 30 + ["11"] * 10, "history") for n in (2, 3)]
    assert compare(lucky, usual).of("acc").low > 0
    found = {each.metric: each for each in several_adaptations(evaluation("x", [usual, lucky, *others]))}
    gain = found["acc"]
    assert gain.of == pytest.approx((0.6, 0.0, 0.0))
    assert gain.gain.value == pytest.approx(0.2)
    assert gain.gain.low == 0
    matrix = [[1.0] * 24 + [0.0] * 16, [0.0] * 40, [0.0] * 40]
    assert gain.gain == bootstrap_crossed([matrix])[0]
    assert (gain.method, gain.scope, gain.against, gain.tasks, gain.differ) == (
        "pair",
        "history",
        "prompting/history",
        40,
        24,
    )
    assert found.keys() == {"acc", "pass^2", "steps"}


def test_few_adaptations_or_tasks_are_not_marked() -> None:
    """However clear the difference looks."""
    for adaptations, tasks, marked in ((2, 40, False), (3, 5, False), (3, 40, True)):
        arms = [arm(f"pair.{n}", ["1"] * tasks) for n in range(1, adaptations + 1)]
        shown = evaluation("x", [arm("prompting", ["0"] * tasks), *arms])
        (acc, *_) = several_adaptations(shown)
        assert acc.marks is marked
        (row, *_) = as_json(adaptations_table([acc]))["rows"]
        assert row["adaptations"] == adaptations


def test_one_adaptation_and_other_names_are_no_repetition() -> None:
    usual, one, other = (arm(name, ["10"] * 8) for name in ("prompting", "pair.1", "pair"))
    assert several_adaptations(evaluation("x", [usual, one, other])) == []
    assert several_adaptations(evaluation("x", [one, arm("pair.2", ["10"] * 8)])) == []  # nothing to compare with


def test_each_adaptation_has_its_own_seed_run_and_template(tmp_path: Path) -> None:
    config = parse_config('[run]\nseed = 5\n[adapt]\nmethod = "facts"\n', tmp_path / "a.toml")
    plans = plan_adaptations(config, "a", tmp_path, 3)
    assert [plan.config.run.seed for plan in plans] == [5, 6, 7]
    assert [plan.name for plan in plans] == ["facts.1", "facts.2", "facts.3"]
    assert [plan.run.name for plan in plans] == ["a-facts-1.db", "a-facts-2.db", "a-facts-3.db"]
    assert len({plan.template for plan in plans}) == 3


@pytest.mark.parametrize("spread", [0.0, 0.08])
def test_the_interval_covers_what_a_method_gains(spread: float) -> None:
    """Three adaptations that differ, and tasks that do: over repetitions of all of it."""
    chance = Random(f"adaptations/{spread}")
    held = 0
    for _ in range(150):
        rates = [chance.uniform(0.3, 0.7) for _ in range(40)]
        effects = [chance.gauss(0.1, spread) for _ in range(3)]
        before = [float(chance.random() < rate) for rate in rates]
        matrix = [
            [float(chance.random() < rate + effect) - old for rate, old in zip(rates, before, strict=True)]
            for effect in effects
        ]
        interval = bootstrap_crossed([matrix], 300)[0]
        held += interval.low <= 0.1 <= interval.high
    assert held >= 0.9 * 150
