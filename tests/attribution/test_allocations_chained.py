from __future__ import annotations

import asyncio
import math
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean, stdev

import pytest
from attribution_support import arm, arrive, outcomes, random_pool
from examples import examples
from hypothesis import given, strategies as st

from planted_truth import boundary_truth
from recompact.attribution.allocation import Allocation, TrajectoryFacts
from recompact.attribution.chained import Chained, Segment, links_of, with_chained
from recompact.attribution.detection import sample
from recompact.attribution.halving import Halving
from recompact.attribution.racing import Racing
from recompact.attribution.registry import trajectory_facts
from recompact.attribution.uniform import Uniform
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import CompressorConfig, Config, SuiteConfig
from recompact.engine.store.runs import boundary_rows, open_run
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes

UNIT = "collect/a"
FIRST, SECOND = BoundaryId(UNIT, 1), BoundaryId(UNIT, 2)
FACTS = TrajectoryFacts(UNIT, (10, 17), 30, 1.0, "finished")


def test_links_are_segments_and_the_trajectorys_own_rest() -> None:
    assert links_of([FACTS]) == {FIRST: Segment(SECOND, 7), SECOND: Outcome(1.0, 13)}


@pytest.mark.parametrize("ending", ["context overflow", "refused", "environment error"])
def test_a_trajectory_broken_off_has_no_rest(ending: str) -> None:
    facts = TrajectoryFacts(UNIT, (10, 17), 30, 0.0, ending)  # type: ignore[arg-type]
    assert links_of([facts]) == {FIRST: Segment(SECOND, 7)}


def test_running_out_of_steps_is_an_end_of_its_own() -> None:
    assert links_of([TrajectoryFacts(UNIT, (40,), 50, 0.0, "step limit")]) == {FIRST: Outcome(0.0, 10, ran_out=True)}


def test_chained_outcomes_come_from_pre_outcomes() -> None:
    links = links_of([FACTS])
    nothing = with_chained({FIRST: Outcomes(), SECOND: Outcomes()}, links)
    assert nothing == {FIRST: Outcomes(), SECOND: Outcomes({}, {0: Outcome(1.0, 13)})}
    known = {FIRST: Outcomes(), SECOND: Outcomes(arm((0, 11)))}
    assert with_chained(known, links)[FIRST].post == {0: Outcome(0.0, 18, tokens=0)}


def test_a_draw_that_was_made_is_not_replaced() -> None:
    known = {FIRST: Outcomes({}, {0: Outcome(0.0, 3)}), SECOND: Outcomes(arm((1, 11)))}
    assert with_chained(known, links_of([FACTS]))[FIRST].post == {0: Outcome(0.0, 3)}


def test_first_pairs_cost_one_draw() -> None:
    links = links_of([FACTS])
    pool = {FIRST: outcomes(*[(1, 20, 1, 20)] * 3), SECOND: outcomes(*[(1, 13, 1, 13)] * 3)}
    start = {FIRST: Outcomes(), SECOND: Outcomes()}
    assert set(Chained(Uniform(1), links).due(start)) == {Draw(FIRST, "PRE", 0), Draw(SECOND, "PRE", 0)}
    assert sample(Chained(Uniform(1), links), pool).continuations == 2
    assert sample(Chained(Uniform(3), links), pool).continuations == 10


def test_halving_costs_one_continuation_less_per_boundary() -> None:
    pool, links = chains(66, seed=4)
    plain, chained = sample(Halving(), pool), sample(Chained(Halving(), links), pool)
    assert plain.continuations - chained.continuations == 66


def chains(boundaries: int, seed: int) -> tuple[dict[BoundaryId, Outcomes], dict[BoundaryId, Segment | Outcome]]:
    """Trajectories of one to four boundaries with pools of chance."""
    chance = Random(seed)
    pools = list(random_pool(boundaries, 10, seed).values())
    pool: dict[BoundaryId, Outcomes] = {}
    facts: list[TrajectoryFacts] = []
    while pools:
        unit = f"collect/{len(facts)}"
        steps = tuple(sorted(chance.sample(range(5, 45), k=min(len(pools), chance.randint(1, 4)))))
        for index in range(1, len(steps) + 1):
            pool[BoundaryId(unit, index)] = pools.pop()
        facts.append(TrajectoryFacts(unit, steps, 50, float(chance.random() < 0.5), "finished"))
    return pool, links_of(facts)


@examples(40)
@given(
    boundaries=st.integers(1, 12),
    seed=st.integers(0, 10_000),
    inner=st.sampled_from([Uniform(2), Halving(), Racing()]),
    broken=st.booleans(),
)
def test_chained_allocations_end_and_do_not_mind_the_order(
    boundaries: int, seed: int, inner: Allocation, broken: bool
) -> None:
    pool, links = chains(boundaries, seed)
    if broken:
        links = {b: link for b, link in links.items() if isinstance(link, Segment)}
    allocation = Chained(inner, links)
    results = []
    for order in range(2):
        made, known = arrive(allocation, pool, Random(f"{seed}/{order}"))
        results.append((set(made), list(allocation.retained(known))))
        assert not [d for d in made if d.arm == "POST" and d.number == 0 and d.boundary in links]
    assert results[0] == results[1]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chained") / "run.db"
    config = Config(suite=SuiteConfig(split="train", limit=36), compressor=CompressorConfig(budget=2048))

    async def work(store: Store) -> None:
        async with open_study(config, store) as study:
            await collect(study)

    with open_run(path) as store:
        asyncio.run(work(store))
    return path


def test_the_truth_sees_as_much_of_an_observation_as_the_run_did(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    with Store.read(run) as store:
        unit = boundary_rows(store)[0].unit
        whole = store.metadata
    shutil.copy(run, path)
    truths = {}
    for tokens in (None, 40):
        identity = {**whole.identity, "run": {**whole.identity["run"], "observation_tokens": tokens or 20_000}}
        with Store.open(path) as store:
            store.set_metadata(replace(whole, identity=identity))
        truths[tokens] = boundary_truth(path, unit, 1, "train", 2)
    assert truths[None] == boundary_truth(run, unit, 1, "train", 2)
    assert truths[40] != truths[None]


def test_chained_draws_are_post_draws_in_expectation(run: Path) -> None:
    """On the embedded world: a chained POST draw and a fresh one differ by nothing but noise."""
    known: dict[BoundaryId, Outcomes] = {}
    with Store.read(run) as store:
        facts = trajectory_facts(store)
    for each in facts:
        for index in range(1, len(each.boundaries) + 1):
            truth = boundary_truth(run, each.unit, index, "train", 1)
            sides = [{0: Outcome(float(side.success[0]), side.steps[0])} for side in (truth.pre, truth.post)]
            known[BoundaryId(each.unit, index)] = Outcomes(*sides)
    links = links_of(facts)
    bare = {b: Outcomes(o.pre, {}) for b, o in known.items()}
    chained = with_chained(bare, links)
    assert len(links) == len(known) >= 60
    for figure in ("value", "steps"):
        # Draws of one trajectory share their ends, so trajectories are the sample.
        gaps: dict[str, float] = {}
        for b, o in known.items():
            gap = getattr(chained[b].post[0], figure) - getattr(o.post[0], figure)
            gaps[b.unit] = gaps.get(b.unit, 0.0) + gap
        error = stdev(gaps.values()) / math.sqrt(len(gaps))
        assert abs(fmean(gaps.values())) < 3.5 * error + 1e-9
