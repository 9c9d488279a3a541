"""A gate by probes: both sides compact every point, and the share of facts still shown decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from replay_support import KEEP, Forbidden, Mute, study_of, told

from recompact.attribution.uniform import Uniform
from recompact.attribution.verify import verify
from recompact.engine.collection import collect
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arms import Arm
from recompact.evaluation.gate import Gate, run_gate
from recompact.evaluation.gate_sources import own_arm, probe_pairs
from recompact.evaluation.probes import CompactionPoint, points_of_run
from recompact.evaluation.probing import PLANTED
from recompact.evaluation.reproduction.forecast import forecast_pairs, forecast_probes
from recompact.models.protocol import ChatModel

KEEPING, PLAIN = Arm("keeping", template=told(KEEP)), Arm("plain")
NONE, FIFO = Arm("none", "none"), Arm("fifo", "fifo", 200)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("probe-pairs") / "run.db"

    async def work(store: Store) -> None:
        study = study_of(store)
        await collect(study)
        await verify(study, Uniform(1))

    with Store.open(place) as store:
        asyncio.run(work(store))
    return place


def gated(path: Path, base: Arm, new: Arm, margin: float = 30.0, most: int = 30, **models: ChatModel) -> Gate:
    with Store.open(path) as store:
        study = study_of(store, models=models)
        pairs = probe_pairs(study, list(points_of_run(store)), base, new)
        return asyncio.run(run_gate(pairs, margin, most))


def test_the_template_that_keeps_the_code_wins(path: Path) -> None:
    worse = gated(path, KEEPING, PLAIN)
    assert (worse.verdict, worse.difference, worse.noun, worse.measure) == ("worse", -100, "compaction", "recall")
    assert {(pair.base.value, pair.new.value) for pair in worse.pairs} == {(1.0, 0.0)}
    again = gated(path, KEEPING, PLAIN, agent=Forbidden(), noter=Forbidden())
    assert again == worse  # what was compacted once is not asked for again
    assert gated(path, PLAIN, KEEPING).verdict == "not worse"


def test_no_compaction_shows_everything_at_its_full_size(path: Path) -> None:
    gate = gated(path, NONE, FIFO, noter=Forbidden())
    assert gate.verdict == "worse"
    assert all(pair.base.value == 1.0 and not pair.base.reason for pair in gate.pairs)
    sizes = {point.name: point.pre.size for point in points(path)}
    assert {pair.item: pair.base.amount for pair in gate.pairs}.items() <= sizes.items()
    assert all((pair.new.amount or 0) <= 200 < (pair.base.amount or 0) for pair in gate.pairs)


def test_a_compressor_that_writes_nothing_shows_nothing(path: Path) -> None:
    gate = gated(path, NONE, Arm("silent", template=told("Be silent.")), noter=Mute())
    assert {(pair.new.value, bool(pair.new.reason)) for pair in gate.pairs} == {(0.0, True)}
    assert gate.verdict == "worse"


def test_the_same_twice_needs_no_pair(path: Path) -> None:
    gate = gated(path, PLAIN, Arm("other"), agent=Forbidden(), noter=Forbidden())
    assert (gate.identical, gate.pairs, gate.exit_code) == (True, (), 0)


def points(path: Path) -> list[CompactionPoint]:
    with Store.open(path) as store:
        return list(points_of_run(store))


def test_points_of_a_run_go_on_as_their_continuations_did(path: Path) -> None:
    every = points(path)
    assert [point.name for point in every] == [f"vault-{task}#{n}" for task in (0, 1) for n in (1, 2, 3)]
    with_facts = [point for point in every if point.facts]
    assert {point.name.partition("#")[2] for point in with_facts} == {"1"}  # later ones have lost the code already
    for point, following in pairwise(every):
        assert point.recorded is not None
        assert point.recorded.size < point.pre.size
        if point.name.partition("#")[0] == following.name.partition("#")[0]:
            taken = following.pre.turns[-len(point.following) :]
            assert point.following == taken  # up to the next compaction


def test_where_nothing_was_used_there_is_nothing_to_ask(path: Path) -> None:
    with Store.open(path) as store:
        later = [point for point in points_of_run(store) if not point.facts]
        with pytest.raises(InputError):
            probe_pairs(study_of(store), later, PLAIN, KEEPING)


def test_a_config_is_an_arm_named_after_its_file(path: Path) -> None:
    with Store.open(path) as store:
        config = study_of(store).config
    assert (own_arm(config).name, own_arm(config).kind) == ("replay_support", config.compressor.kind)


def calls(asked: Sequence[Arm], path: Path, *, ask: bool = False, judge: bool = False) -> dict[str, tuple[int, int]]:
    """By kind of work, how many pieces of it, and how many calls."""
    with Store.open(path) as store:
        config = study_of(store).config
    forecast = forecast_probes(config, points(path), asked, ask=ask, judge=judge)
    return {work.name: (work.expected.units, work.expected.calls) for work in forecast.works}


def test_a_forecast_of_probes_multiplies_points_arms_and_questions(path: Path) -> None:
    every = [point for point in points(path) if point.probes]
    questions, open_questions = (
        sum(len(point.probes) for point in every),
        sum(len(point.probes) - len(point.facts) for point in every),
    )
    assert calls([FIFO], path) == {}
    twice = sum(1 + bool(point.following) for point in every)
    assert calls([KEEPING, PLAIN, FIFO], path)["compact"] == (2 * len(every), 2 * twice)
    whole = calls([KEEPING, FIFO], path, ask=True, judge=True)
    assert whole["ask"] == (4 * questions, 4 * questions)
    assert whole["judge"] == (4 * open_questions + 4 * PLANTED,) * 2


def test_a_forecast_of_pairs_is_by_the_mean_point(path: Path) -> None:
    with Store.open(path) as store:
        config = study_of(store).config
    every = points(path)
    (work,) = forecast_pairs(config, every, [KEEPING, FIFO], 12).works
    mean = sum(point.pre.size for point in every) / len(every)
    usage = work.expected.usage["compressor"]
    assert (work.expected.units, usage.calls) == (24, 12)
    assert usage.input == pytest.approx(12 * mean, abs=1)
    assert usage.output == 12 * config.compressor.budget
    (free,) = forecast_pairs(config, every, [NONE, FIFO], 12).works
    assert not free.expected.usage
