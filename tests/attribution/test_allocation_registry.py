"""Allocations by name: what each is made of, and how many draws it can come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from attribution_support import arm, boundary, outcomes
from made_up_runs import STEP_LIMIT, begin, collect

from recompact.attribution.allocation import Allocation, TrajectoryFacts
from recompact.attribution.chained import Chained, Segment
from recompact.attribution.detection import sample
from recompact.attribution.halving import Halving
from recompact.attribution.racing import Racing, StoppingRule
from recompact.attribution.registry import (
    ALLOCATIONS,
    allocation_in,
    allocation_names,
    allocation_of,
    describe_allocation,
    trajectory_facts,
    with_allocation,
)
from recompact.attribution.uniform import Uniform
from recompact.engine.config import ConfigError, VerifyConfig
from recompact.engine.config_parser import parse_config
from recompact.engine.store.store import Store
from recompact.errors import InputError, OptionError
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes, Thresholds

STRICT = Thresholds(0.25, 3.0)
RACE = Racing(StoppingRule(cap=6))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "run.db") as opened:
        begin(opened)
        collect(opened, "b", (5, 12), steps=20, value=0.25)
        collect(opened, "a", (), steps=4)
        collect(opened, "c", (7,), steps=30, ending="context overflow")
        yield opened


def of(store: Store, name: str, **options: Any) -> Allocation:
    return allocation_of(store, VerifyConfig(STRICT.hazard, STRICT.burden, name, options))


def test_each_name_gives_its_allocation_with_the_thresholds_of_the_settings(store: Store) -> None:
    assert of(store, "uniform:7") == Uniform(7, STRICT)
    assert of(store, "halving") == Halving(3, STRICT, seed=3, half="even")
    assert of(store, "halving", half="up") == Halving(3, STRICT, seed=3, half="up")
    remaining = {
        BoundaryId("collect/b", 1): STEP_LIMIT - 5,
        BoundaryId("collect/b", 2): STEP_LIMIT - 12,
        BoundaryId("collect/c", 1): STEP_LIMIT - 7,
    }
    assert of(store, "racing") == Racing(StoppingRule(STRICT), remaining)


@pytest.mark.parametrize("name", ["chained", "chained:halving"])
def test_a_chained_allocation_has_halving_within_where_nothing_else_is_said(store: Store, name: str) -> None:
    assert of(store, name) == Chained(
        Halving(3, STRICT, seed=3),
        {
            BoundaryId("collect/b", 1): Segment(BoundaryId("collect/b", 2), 7),
            BoundaryId("collect/b", 2): Outcome(0.25, 8),  # the last one of c says nothing: it was broken off
        },
    )


def test_chaining_reaches_what_is_within(store: Store) -> None:
    chained = of(store, "chained:racing")
    assert isinstance(chained, Chained)
    assert chained.inner == of(store, "racing")


@pytest.mark.parametrize(
    "name", ["", "Halving", "uniform:", "uniform:x", "uniform:0", "chained:", "halving:3", "racing:2"]
)
def test_what_is_no_allocation_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InputError):
        of(store, name)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("halving", {"half": "down"}),
        ("racing", {"prior": "mine"}),
        ("uniform", {"half": "up"}),
    ],
)
def test_options_are_checked_as_those_of_other_plugins(store: Store, name: str, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError) as refused:
        of(store, name, **options)
    assert refused.value.key in options


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[verify]\nallocation = "halfing"', "line 2: [verify] allocation"),
        ('[verify]\nallocation = "racing"\n[verify.options]\nhalf = "up"', "line 4: [verify.options] half"),
    ],
)
def test_a_mistake_in_a_config_is_shown_with_its_line(tmp_path: Path, text: str, line: str) -> None:
    config = parse_config(text, tmp_path / "c.toml")
    with pytest.raises(ConfigError) as refused:
        allocation_in(config)
    assert refused.value.problems[0].startswith(line)


def test_options_belong_to_one_allocation() -> None:
    settings = VerifyConfig(allocation="halving", options={"half": "up"})
    assert with_allocation(settings, "chained").options == {"half": "up"}
    assert with_allocation(settings, "uniform:3") == VerifyConfig(allocation="uniform:3")


OWN = """
from dataclasses import dataclass

from recompact import Allocation, Draw


@dataclass(frozen=True)
class Once(Allocation):
    again: int = 1
    name = "once"

    def due(self, outcomes):
        return [
            Draw(id, arm, n)
            for id, own in outcomes.items()
            for arm in ("PRE", "POST")
            for n in range(self.again)
            if n not in own.of(arm)
        ]
"""


def test_an_allocation_of_ones_own_is_one_file(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    store.set_metadata(replace(store.metadata, config_file="mine.toml"))
    settings = VerifyConfig(STRICT.hazard, STRICT.burden, "mine.py:Once", {"again": 2})
    own = allocation_of(store, settings)
    start = {boundary(1): Outcomes(), boundary(2): Outcomes()}
    pool = {boundary(1): outcomes(*[(1, 5, 0, 5)] * 2), boundary(2): outcomes(*[(1, 5, 1, 5)] * 2)}
    assert len(own.due(start)) == 8
    assert own.judge(sample(own, pool).outcomes) == {boundary(1): "retained", boundary(2): "not harmful"}
    assert own.rule() == "H >= 0.5 or B >= 5 by the estimate of all draws"
    chained = allocation_of(store, replace(settings, allocation="chained:mine.py:Once"))
    assert chained.name == "chained once"
    assert describe_allocation(replace(settings, allocation="gone.py:Once")).name == "gone.py:Once"


def test_help_and_pages_list_what_the_registry_has() -> None:
    for page in ("verify.md", "attribution.md", "configuration.md"):
        text = (Path(__file__).parents[2] / "docs" / page).read_text()
        for name in ALLOCATIONS.built_in:
            assert f"`{name}" in text or f'`"{name}' in text, (page, name)
    assert all(name in allocation_names() for name in ALLOCATIONS.names())


def test_facts_are_in_order_of_trajectories_with_the_steps_of_their_boundaries(store: Store) -> None:
    assert trajectory_facts(store) == [
        TrajectoryFacts("collect/a", (), 4, 1.0, "finished"),
        TrajectoryFacts("collect/b", (5, 12), 20, 0.25, "finished"),
        TrajectoryFacts("collect/c", (7,), 30, 1.0, "context overflow"),
    ]


def test_only_a_chained_allocation_sees_chained_draws() -> None:
    known = {boundary(1): Outcomes(arm((1, 5)))}
    rest = Outcome(0.0, 9)
    assert Halving().seen(known) is known
    seen = Chained(Halving(), {boundary(1): rest}).seen(known)
    assert seen == {boundary(1): Outcomes(arm((1, 5)), {0: rest})}


@pytest.mark.parametrize("allocation", [RACE, Chained(RACE, {})], ids=lambda each: each.name)
def test_a_race_has_a_cap_of_its_own(allocation: Allocation) -> None:
    assert allocation.cap == 6


@pytest.mark.parametrize("allocation", [Uniform(2), Halving(), Chained(Halving(), {})], ids=lambda each: each.name)
def test_other_allocations_compare_boundaries(allocation: Allocation) -> None:
    assert allocation.cap is None


class Unknown(Allocation):
    """An allocation that somebody else wrote."""

    name = "unknown"

    def due(self, outcomes: Mapping[BoundaryId, Outcomes]) -> Sequence[Draw]:
        return ()


@pytest.mark.parametrize(
    ("allocation", "most"),
    [
        (Uniform(2), 4 + 6 + 4),  # one boundary has more than it asks for already
        (Uniform(1), 2 + 6 + 3),
        (Uniform(5), 30),
        (Racing(StoppingRule(cap=5)), 5 + 6 + 5),
        (Chained(Racing(StoppingRule(cap=10)), {}), 30),
        (Halving(), 2 * (3 + 2 + 1)),
        (Halving(half="up"), 2 * (3 + 2 + 1)),
        (Halving(rounds=1), 6),
        (Chained(Halving(rounds=2), {}), 10),
        (Unknown(), None),
    ],
)
def test_the_most_draws_count_those_that_are_made(allocation: Allocation, most: int | None) -> None:
    known = {
        boundary(1): Outcomes(),
        boundary(2): outcomes(*[(1, 5, 1, 5)] * 3),
        boundary(3): Outcomes(arm((1, 5)), arm((1, 5), (1, 5))),
    }
    assert allocation.most_draws(known) == most


def test_only_races_go_by_a_probability_and_only_some_by_the_first_draws() -> None:
    chained = [Chained(inner, {}) for inner in (Halving(), RACE, Uniform(2))]
    for allocation, by_probability, draws in (
        (Halving(), False, 3),
        (RACE, True, None),
        (Uniform(2), False, 2),
        (chained[0], False, 3),
        (chained[1], True, None),
        (chained[2], False, 2),
    ):
        assert (allocation.by_probability, allocation.deciding_draws) == (by_probability, draws)
