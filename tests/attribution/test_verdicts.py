"""The findings of a run: which draws each boundary is judged by, its order among the others, and its row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from made_up_runs import STEP_LIMIT, begin, collect, draw, further, pair, turn

from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import priors_of, read_verdicts
from recompact.attribution.racing import Racing
from recompact.attribution.records import (
    Purpose,
    copied_arms,
    fresh_summaries,
    further_draws,
    further_outcomes,
    outcomes_in,
)
from recompact.attribution.registry import allocation_of
from recompact.attribution.statement import control_of, two_hazards
from recompact.attribution.uniform import PostOnly
from recompact.engine.config import VerifyConfig
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId, Draw, Outcome, Outcomes, without_copies

ONE = VerifyConfig(allocation="uniform:1")
GOOD, LOST = (1.0, 5), (0.0, 5)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "run.db") as opened:
        begin(opened, verified=ONE)
        yield opened


def at(task: str, index: int = 1) -> BoundaryId:
    return BoundaryId(f"collect/{task}", index)


def test_by_harm_and_then_by_name_and_what_has_no_verdict_comes_last(store: Store) -> None:
    for task in ("broken", "b-good", "a-good", "longer", "lost"):
        collect(store, task)
    pair(store, "b-good", 1, 0, GOOD, GOOD)
    pair(store, "a-good", 1, 0, GOOD, GOOD)
    pair(store, "longer", 1, 0, GOOD, (1.0, 30))
    pair(store, "lost", 1, 0, GOOD, LOST)
    draw(store, "broken", 1, "PRE", 0, ending="environment error", error="no disk")
    found = read_verdicts(store)
    assert found.settled
    assert [f.row.task for f in found.verdicts] == ["longer", "lost", "a-good", "b-good", "broken"]
    assert [f.retained for f in found.verdicts] == [True, True, False, False, False]
    assert [f.left_out for f in found.verdicts] == ["", "", "", "", "no disk"]
    assert [f["boundary"] for f in found.to_json()["boundaries"]][-1] == "broken#1"
    assert found.to_json()["settled"] is True
    assert found.to_json()["allocation"] == "uniform:1"
    assert [found.of(f.id) for f in found.verdicts] == list(found.verdicts)


def test_retained_ones_come_before_worse_ones_that_are_not(store: Store) -> None:
    """Under halving with one round too few draws, a boundary that did not go on is never retained."""
    settings = VerifyConfig(allocation="halving")
    for n in range(4):
        collect(store, str(n))
        pair(store, str(n), 1, 0, GOOD, LOST)
    now = read_verdicts(store, settings)
    assert not now.settled
    assert not any(f.retained for f in now.verdicts)
    assert all(f.effect is not None and f.effect.selected for f in now.verdicts)


def test_settings_are_those_of_the_last_verification_or_those_that_are_given(store: Store) -> None:
    collect(store, "a")
    pair(store, "a", 1, 0, GOOD, (0.5, 5))
    assert read_verdicts(store).verdicts[0].retained
    strict = VerifyConfig(hazard=0.6, allocation="uniform:1")
    found = read_verdicts(store, strict)
    assert not found.verdicts[0].retained
    assert found.settings == strict
    assert read_verdicts(store).settings == ONE


def test_the_row_of_a_boundary_has_its_figures_or_nothing(store: Store) -> None:
    collect(store, "a", (5, 9))
    pair(store, "a", 1, 0, GOOD, (0.0, 12))
    draw(store, "a", 1, "PRE", 1)
    first, second = (read_verdicts(store).of(at("a", n)) for n in (1, 2))
    effect = first.effect
    assert effect is not None
    assert first.flat() == {
        "task": "a",
        "t": 1,
        "step": 5,
        "pre_tokens": 50,
        "post_tokens": 17,
        "verdict": "suspected",
        "reason": "harmful so far",
        "H": 1.0,
        "H_low": effect.hazard_estimate.low,
        "H_high": effect.hazard_estimate.high,
        "B": 7.0,
        "B_low": effect.burden_estimate.low,
        "B_high": effect.burden_estimate.high,
        "p_harmful": effect.p_harmful,
        "score": 2.0,
        "channel": "both",
        "pre_draws": 2,
        "post_draws": 1,
        "retained": False,
    }
    assert [key for key, value in second.flat().items() if value is None] == [
        *("H", "H_low", "H_high", "B", "B_low", "B_high", "p_harmful", "score", "channel")
    ]
    assert first.to_json() == {
        "boundary": "a#1",
        **first.flat(),
        "left_out": "",
        "confirmed": None,
        "resampled": None,
        "wordings": 0,
        "copies": False,
    }


def test_each_boundary_is_judged_with_the_steps_that_were_left_and_what_others_teach(store: Store) -> None:
    for task, step in (("early", 1), ("late", 38)):
        collect(store, task, (step,), steps=39)
        pair(store, task, 1, 0, GOOD, (1.0, 12))
    found, priors = {f.id: f for f in read_verdicts(store).verdicts}, priors_of(store, ONE)
    outcomes = outcomes_in(store).outcomes
    for task, step in (("early", 1), ("late", 38)):
        effect = found[at(task)].effect
        assert effect == effect_of(outcomes[at(task)], remaining=STEP_LIMIT - step, prior=priors.of(at(task)))
    early, late = (found[at(task)].effect for task in ("early", "late"))
    assert early is not None
    assert late is not None
    assert early.p_harmful > 10 * late.p_harmful


def test_fresh_pairs_and_fresh_summaries_have_effects_of_their_own(store: Store) -> None:
    collect(store, "a")
    collect(store, "b")
    pair(store, "a", 1, 0, GOOD, LOST)
    pair(store, "b", 1, 0, GOOD, LOST)
    further(store, "confirm", "a", 1, "PRE", 0, 1.0)
    further(store, "confirm", "a", 1, "POST", 0, 1.0)
    for task in ("a", "b"):
        further(store, "resample", task, 1, "POST", 0, 1.0, 9, summary="one")
        further(store, "resample", task, 1, "POST", 1, 1.0, 9, summary="one" if task == "a" else None)
    found = {f.id: f for f in read_verdicts(store).verdicts}
    first, second = found[at("a")], found[at("b")]
    assert first.confirmed is not None
    assert first.reported_effect is first.confirmed
    assert first.confirmed.hazard == 0.0
    assert second.confirmed is None
    assert second.reported_effect is second.effect
    for finding in (first, second):
        assert finding.resampled is not None
        assert (finding.resampled.pre, finding.resampled.post) == (1, 2)
        assert finding.resampled.burden == 4.0
    assert (first.wordings, second.wordings) == (1, 2)
    assert fresh_summaries(store) == {at("a"): 1, at("b"): 2}
    assert further_draws(store) == {"control": 0, "confirm": 2, "resample": 4}
    assert further_outcomes(store, "confirm") == {
        at("a"): Outcomes({0: Outcome(1.0, 5, 100)}, {0: Outcome(1.0, 5, 100)})
    }
    assert first.to_json()["resampled"]["burden"] == 4.0


def test_so_many_post_draws_are_due_where_they_are_missing() -> None:
    known = {at("b"): Outcomes(), at("a"): Outcomes({}, {1: Outcome(1.0, 5)})}
    assert PostOnly(2).name == "resampled 2"
    assert PostOnly(2).due(known) == [Draw(at("a"), "POST", 0), Draw(at("b"), "POST", 0), Draw(at("b"), "POST", 1)]
    assert PostOnly(2).retained(known) == []


@pytest.mark.parametrize("name", ["uniform:1", "chained"])
def test_a_control_is_one_once_it_is_complete(store: Store, name: str) -> None:
    settings = VerifyConfig(allocation=name)
    for n in range(2):
        collect(store, str(n))
        assert control_of(store, settings) is None
    for n in range(2):
        for number in range(3):
            further(store, "control", str(n), 1, "PRE", number, 1.0)
            if (n, number) != (1, 0):
                further(store, "control", str(n), 1, "POST", number, 0.0 if n == 0 else 1.0)
    assert control_of(store, settings) is None  # one draw is missing
    further(store, "control", "1", 1, "POST", 0, 1.0)
    control = control_of(store, settings)
    assert control is not None
    assert control.boundaries == 2
    assert control.rate.value == 0.5


def test_a_control_of_a_race_is_judged_by_what_the_verification_teaches(store: Store) -> None:
    """Where harm is common, a race retains more by chance than its control would by a prior of its own."""
    settings = VerifyConfig(allocation="racing")
    begin(store, verified=settings)
    tasks = [f"t{n:02}" for n in range(30)]
    for task in tasks:
        collect(store, task)
    racing = allocation_of(store, settings)
    assert isinstance(racing, Racing)
    while due := racing.due(outcomes_in(store).outcomes):
        for each in due:
            longer = 8 if each.arm == "POST" else 0
            draw(store, each.boundary.unit.removeprefix("collect/"), 1, each.arm, each.number, 1.0, 10 + longer)
    known: dict[BoundaryId, Outcomes] = {at(task): Outcomes() for task in tasks}
    while due := racing.due(known):
        for each in due:
            task = each.boundary.unit.removeprefix("collect/")
            longer = (10, 8, 0)[each.number % 3] if each.arm == "POST" and task < "t03" else 0
            further(store, "control", task, 1, each.arm, each.number, 1.0, 10 + longer)
        known = {id: further_outcomes(store, "control").get(id, Outcomes()) for id in known}
    control = control_of(store)
    assert control is not None
    retained = racing.retained(known, priors=priors_of(store, settings))
    assert control.rate.value == len(retained) / 30
    assert (len(racing.retained(known)), len(retained)) == (0, 3)


@pytest.fixture
def greedy(store: Store) -> Store:
    """A run at temperature 0 with one boundary."""
    begin(store, temperature=0, verified=ONE)
    collect(store, "a")
    return store


def test_draws_that_did_the_same_to_the_same_end_are_one(greedy: Store) -> None:
    for number in range(3):
        draw(greedy, "a", 1, "POST", number)
    draw(greedy, "a", 1, "PRE", 0)
    assert copied_arms(greedy) == {(at("a"), "POST")}
    (finding,) = read_verdicts(greedy).verdicts
    assert finding.copies
    assert finding.to_json()["copies"] is True
    assert (len(finding.outcomes.pre), len(finding.outcomes.post)) == (1, 1)
    draw(greedy, "a", 1, "PRE", 1)
    assert copied_arms(greedy) == {(at("a"), "PRE"), (at("a"), "POST")}


@pytest.mark.parametrize("allocation", ["racing", "chained:racing"])
def test_what_a_race_retains_is_more_probably_harmful_than_not_also_by_copies(greedy: Store, allocation: str) -> None:
    """Ten copies settle a race, but as evidence they are one pair."""
    settings = VerifyConfig(allocation=allocation)
    post = {"a": (0.0, 5), "b": (1.0, 5), "c": (1.0, 30), "d": (0.0, 13), "e": (1.0, 11)}
    for task in ("b", "c", "d", "e"):
        collect(greedy, task)
    while due := allocation_of(greedy, settings).due(outcomes_in(greedy).outcomes):
        for each in due:
            task = each.boundary.unit.removeprefix("collect/")
            draw(greedy, task, 1, each.arm, each.number, *(post[task] if each.arm == "POST" else GOOD))
    found = read_verdicts(greedy, settings)
    assert found.settled
    assert any(f.copies for f in found.verdicts)
    for finding in found.verdicts:
        assert finding.effect is not None
        assert finding.retained == (finding.effect.p_harmful >= 0.5)
    with_copies = allocation_of(greedy, settings).retained(outcomes_in(greedy).outcomes)
    assert set(with_copies) != {f.id for f in found.verdicts if f.retained}


@pytest.mark.parametrize("allocation", ["uniform:3", "halving"])
def test_copies_cannot_show_that_a_compaction_helped(greedy: Store, allocation: str) -> None:
    settings = VerifyConfig(allocation=allocation)
    for number in range(3):
        pair(greedy, "a", 1, number, (0.0, 5), (1.0, 30))
    (finding,) = read_verdicts(greedy, settings).verdicts
    assert finding.copies
    assert finding.effect is not None
    assert not finding.effect.helped
    assert finding.retained


def test_copies_beside_the_verification_are_one_too(greedy: Store) -> None:
    draw(greedy, "a", 1, "PRE", 0)
    draw(greedy, "a", 1, "POST", 0)
    for number in range(3):
        further(greedy, "confirm", "a", 1, "PRE", number)
        further(greedy, "confirm", "a", 1, "POST", number, 0.0, steps=5 + number)
        further(greedy, "resample", "a", 1, "POST", number, summary="one")
    assert not copied_arms(greedy)
    assert copied_arms(greedy, "confirm") == {(at("a"), "PRE")}
    assert copied_arms(greedy, "resample") == {(at("a"), "POST")}
    (finding,) = read_verdicts(greedy).verdicts
    assert finding.copies
    assert finding.copied_summaries
    assert finding.confirmed is not None
    assert (finding.confirmed.pre, finding.confirmed.post) == (1, 3)
    assert finding.resampled is not None
    assert (finding.resampled.pre, finding.resampled.post) == (1, 1)
    hazards = two_hazards([finding])
    assert hazards is not None
    assert hazards.same == 1  # there were several draws, all about one summary


def test_the_same_actions_from_other_words_are_no_copies(greedy: Store) -> None:
    draw(greedy, "a", 1, "PRE", 0)
    further(greedy, "resample", "a", 1, "POST", 0, summary="one")
    further(greedy, "resample", "a", 1, "POST", 1, summary="two")
    assert not copied_arms(greedy, "resample")
    (finding,) = read_verdicts(greedy).verdicts
    assert not finding.copies
    assert finding.resampled is not None
    assert finding.resampled.post == 2


@pytest.mark.parametrize("boundaries", [(), (5,)], ids=["no boundary is left", "one is left"])
def test_draws_of_boundaries_that_are_no_more_belong_to_none(store: Store, boundaries: tuple[int, ...]) -> None:
    collect(store, "a", boundaries)
    for purpose in get_args(Purpose):
        further(store, purpose, "a", 2, "PRE", 0)
        further(store, purpose, "a", 2, "POST", 0)
        assert further_outcomes(store, purpose) == {}
    assert further_draws(store) == {"control": 0, "confirm": 0, "resample": 0}
    assert fresh_summaries(store) == {}
    assert len(read_verdicts(store).verdicts) == len(boundaries)


def test_only_copies_in_pre_are_copies_too(greedy: Store) -> None:
    draw(greedy, "a", 1, "PRE", 0)
    draw(greedy, "a", 1, "PRE", 1)
    draw(greedy, "a", 1, "POST", 0)
    assert copied_arms(greedy) == {(at("a"), "PRE")}
    assert read_verdicts(greedy).verdicts[0].copies


@pytest.mark.parametrize(
    "other",
    [
        {"value": 0.9},
        {"steps": 6},
        {"ending": "step limit"},
        {"made": [turn(n) for n in (1, 2, 3, 5, 4)]},
    ],
    ids=lambda other: next(iter(other)),
)
def test_draws_that_differ_in_anything_are_no_copies(greedy: Store, other: dict[str, Any]) -> None:
    draw(greedy, "a", 1, "PRE", 0)
    draw(greedy, "a", 1, "PRE", 1, **other)
    draw(greedy, "a", 1, "POST", 0)
    assert not copied_arms(greedy)
    (finding,) = read_verdicts(greedy).verdicts
    assert not finding.copies
    assert len(finding.outcomes.pre) == 2


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_where_decoding_is_random_the_same_twice_is_chance(store: Store, temperature: float) -> None:
    begin(store, temperature=temperature, verified=ONE)
    collect(store, "a")
    draw(store, "a", 1, "PRE", 0)
    draw(store, "a", 1, "PRE", 1)
    assert not copied_arms(store)


def test_of_copies_the_first_draw_stays_and_other_arms_keep_theirs() -> None:
    own = Outcomes({2: Outcome(1.0, 2), 1: Outcome(1.0, 1)}, {0: Outcome(0.0, 3), 1: Outcome(0.0, 3)})
    known = {at("a"): own, at("b"): own}
    assert without_copies(known, frozenset()) is known
    assert without_copies(known, frozenset({(at("a"), "PRE")})) == {
        at("a"): Outcomes({1: Outcome(1.0, 1)}, own.post),
        at("b"): own,
    }
    assert without_copies(known, frozenset({(at("b"), "POST")})) == {
        at("a"): own,
        at("b"): Outcomes(own.pre, {0: Outcome(0.0, 3)}),
    }


def test_evidence_shows_draws_side_by_side_also_where_one_is_missing(store: Store) -> None:
    collect(store, "a", (3,))
    draw(store, "a", 1, "PRE", 0, 1.0, 2, made=[turn(7), turn("Done with page 7.")])
    draw(store, "a", 1, "POST", 0, 0.25, 2, ending="step limit", error="too long", made=[turn(7), turn(2)])
    draw(store, "a", 1, "POST", 2, made=[turn(4)])
    evidence = boundary_view(store, at("a"))
    assert evidence.verdict == read_verdicts(store).verdicts[0]
    assert [(pair.number, pair.pre is None, pair.post is None) for pair in evidence.pairs] == [
        (0, False, False),
        (2, True, False),
    ]
    assert [pair.divergence for pair in evidence.pairs] == [1, None]
    found = evidence.to_json()
    assert [pair["draw"] for pair in found["pairs"]] == [1, 3]
    assert [pair["first_divergence"] for pair in found["pairs"]] == [1, None]
    assert found["pairs"][1]["PRE"] is None
    assert found["pairs"][0]["POST"] == {
        "success": False,
        "value": 0.25,
        "details": {},
        "ending": "step limit",
        "steps": 2,
        "usage": {"agent": [100, 0, 0, 0, 0]},
        "actions": [["look", {"page": 7}, ""], ["look", {"page": 2}, ""]],
        "repeated": [1],
        "error": "too long",
    }
    assert len(found["pre"]) == 1 + 2 * 3
    assert len(found["post"]) == 1 + 1 + 2
    assert found["boundary"] == "a#1"
    given = read_verdicts(store, VerifyConfig(allocation="uniform:2")).verdicts[0]
    assert boundary_view(store, given).verdict is given
