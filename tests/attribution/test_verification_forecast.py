"""What a verification will cost: steps and tokens worked out by hand from what trajectories used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from made_up_runs import STEP_LIMIT, begin, collect, draw, journal, turn

from recompact.attribution.allocation import play_through
from recompact.attribution.chained import Chained
from recompact.attribution.forecast import HARMFUL, WORLDS, forecast_draws, imagined_outcomes
from recompact.attribution.racing import Racing, StoppingRule
from recompact.attribution.uniform import Uniform
from recompact.engine.forecast import Amount, Work
from recompact.engine.store.runs import BoundaryRow
from recompact.engine.store.store import Store
from recompact.values.chat import Usage
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes

AT = BoundaryId("collect/a", 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "run.db") as opened:
        begin(opened)
        yield opened


def read(store: Store, *, user: int = 0) -> None:
    """Eight steps with a boundary after four; two of the last four repeat earlier ones.

    Every call sends 100 tokens beside the context; a turn adds 10, and the agent writes 5 in each of its calls.
    """
    pages = [1, 2, 3, 4, 5, 1, 6, 2]
    made = [turn(page, thought=f"step {n}") for n, page in enumerate(pages)]
    usage = {"agent": Usage(960, 40, calls=8), "compressor": Usage(5000, 5000, calls=1)}
    collect(store, "a", (4,), made=made, usage={**usage, "user": Usage(user)} if user else usage)
    journal(store, "collect/a", 0, "user", 7)
    journal(store, "collect/a", 1, "agent", 100)
    journal(store, "collect/a", 2, "agent", 900)


def most(work: Work) -> Amount:
    assert work.at_most is not None
    return work.at_most


def tokens(steps: int, size: int) -> int:
    return round(steps * (100 + size + 5) + 10 * steps * (steps - 1) / 2)


def test_tokens_on_average_are_of_continuations_as_long_as_the_trajectory_without_what_it_repeats(store: Store) -> None:
    read(store)
    found = forecast_draws(store, Uniform(2))
    assert (found.unit, found.done) == ("continuation", 0)
    # PRE takes the two steps that are new, POST three: half of those that repeat, too.
    assert found.expected.units == 4
    assert found.expected.tokens == 2 * (tokens(2, 40) + tokens(3, 17))
    assert most(found).units == 4
    assert most(found).tokens == 2 * (tokens(STEP_LIMIT - 4, 40) + tokens(STEP_LIMIT - 4, 17))


def test_models_beside_the_agent_and_the_compressor_cost_in_proportion(store: Store) -> None:
    read(store, user=500)  # half of what the agent used
    found = forecast_draws(store, Uniform(1))
    assert found.expected.tokens == pytest.approx(1.5 * (tokens(2, 40) + tokens(3, 17)), abs=1)


def test_what_a_run_has_costs_nothing_more(store: Store) -> None:
    read(store)
    draw(store, "a", 1, "PRE", 0)
    draw(store, "a", 1, "POST", 0)
    draw(store, "a", 1, "PRE", 1)
    found = forecast_draws(store, Uniform(2))
    assert (found.done, most(found).units, found.expected.units) == (3, 1, 1)
    assert found.expected.tokens == tokens(3, 17)


@pytest.mark.parametrize("chained", [False, True])
def test_a_race_may_take_as_many_draws_as_its_cap_has_left(store: Store, chained: bool) -> None:
    read(store)
    draw(store, "a", 1, "PRE", 0)
    draw(store, "a", 1, "POST", 0)
    racing = Racing(StoppingRule(cap=6))
    found = forecast_draws(store, Chained(racing, {}) if chained else racing)
    assert most(found).units == 4
    assert most(found).tokens == 4 * tokens(STEP_LIMIT - 4, 40)  # in the arm that costs more


def test_a_trajectory_whose_calls_nobody_counted_still_has_a_forecast(store: Store) -> None:
    collect(store, "a", (4,), made=[turn("one"), turn("one"), turn("two"), turn("three"), turn("one")])
    found = forecast_draws(store, Uniform(1))
    # Nothing new after the boundary: at least one step is taken.
    assert found.expected.tokens == (40 + 0) + (17 + 0)


def test_worlds_are_few_and_the_average_is_over_them(store: Store) -> None:
    assert (WORLDS, HARMFUL) == (5, 0.1)
    read(store)
    assert forecast_draws(store, Racing()) == forecast_draws(store, Racing())


def test_all_draws_that_are_asked_for_are_counted() -> None:
    known = {AT: Outcomes()}
    draws = play_through(Uniform(2), known, lambda draw: Outcome(1.0, 5))[1]
    assert sorted(draws) == sorted(Draw(AT, arm, n) for arm in ("PRE", "POST") for n in (0, 1))
    assert known == {AT: Outcomes()}


@pytest.mark.parametrize(("success", "share"), [(True, 0.9), (False, 0.4)])
def test_imagined_outcomes_are_like_those_of_the_trajectory(success: bool, share: float) -> None:
    rows = {AT: BoundaryRow("collect/a", 1, "a", 10, 2000, 900, 30, success)}
    seed = next(n for n in range(100) if Random(n).random() > HARMFUL)
    outcome = imagined_outcomes(rows, 60, Random(seed))
    made = [outcome(Draw(AT, arm, n)) for n in range(1500) for arm in ("PRE", "POST")]
    assert sum(o.value for o in made) / len(made) == pytest.approx(share, abs=0.03)
    assert sum(o.steps for o in made) / len(made) == pytest.approx(20, abs=0.3)
    assert {o.value for o in made} == {0.0, 1.0}


def test_imagined_harm_shows_after_the_compaction_only() -> None:
    rows = {AT: BoundaryRow("collect/a", 1, "a", 10, 2000, 900, 30, True)}
    seed = next(n for n in range(100) if Random(n).random() < HARMFUL)
    outcome = imagined_outcomes(rows, 60, Random(seed))
    for arm, share, steps in (("PRE", 0.9, 20), ("POST", 0.2, 25)):
        made = [outcome(Draw(AT, arm, n)) for n in range(1500)]  # type: ignore[arg-type]
        assert sum(o.value for o in made) / len(made) == pytest.approx(share, abs=0.04)
        assert sum(o.steps for o in made) / len(made) == pytest.approx(steps, abs=0.4)


@pytest.mark.parametrize(("limit", "most"), [(25, 15), (11, 1)])
def test_imagined_continuations_keep_to_the_steps_that_are_left(limit: int, most: int) -> None:
    rows = {AT: BoundaryRow("collect/a", 1, "a", 10, 2000, 900, 30, True)}
    outcome = imagined_outcomes(rows, limit, Random(1))
    assert max(outcome(Draw(AT, "PRE", n)).steps for n in range(200)) == most
    short = {AT: BoundaryRow("collect/a", 1, "a", 29, 2000, 900, 30, True)}
    tiny = imagined_outcomes(short, 60, Random(1))
    assert min(tiny(Draw(AT, "PRE", n)).steps for n in range(200)) == 1
