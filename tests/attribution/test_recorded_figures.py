"""Figures of one made-up run, as they were when they were last looked at: none of them may change unnoticed.

Other tests say what the figures must be like. These notice what those cannot: another seed, another constant of the
prior, one subsample more. Where a change is meant, `RECORD_FIGURES=1 pytest` with this file writes them anew, and the
changelog says so.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
from attribution_support import boundary, outcomes, random_pool

from recompact.attribution.allocation import Allocation, TrajectoryFacts, play_through
from recompact.attribution.bisection.pieces import Piece
from recompact.attribution.bisection.search import Search, search
from recompact.attribution.chained import links_of
from recompact.attribution.controls import TaskRuns, _coupling, check_identity
from recompact.attribution.detection import (
    Part,
    PartRule,
    compare_allocations,
    sample,
    sensitivity_to_draws,
    sensitivity_to_thresholds,
    shuffle_draws,
)
from recompact.attribution.effects import effect_of, effects_of
from recompact.attribution.forecast import imagined_outcomes
from recompact.attribution.halving import Halving
from recompact.attribution.means import counts, coupling
from recompact.attribution.posterior import (
    doubt_after,
    probability_burden,
    probability_harmful,
    probability_hazard,
    probability_none,
)
from recompact.attribution.prior import Prior, cells, learn_priors, published_prior
from recompact.attribution.racing import Racing
from recompact.attribution.uniform import Uniform
from recompact.engine.store.runs import BoundaryRow
from recompact.values.outcome import ARMS, PAPER, BoundaryId, Outcome, Outcomes, Thresholds

RECORDED = Path(__file__).with_name("recorded_figures.json")


def graded(pool: Mapping[BoundaryId, Outcomes], seed: int) -> dict[BoundaryId, Outcomes]:
    """The pool with a partial reward here and there."""
    chance = Random(seed)

    def other(outcome: Outcome) -> Outcome:
        return replace(outcome, value=chance.choice([0.25, 0.5, 0.8])) if chance.random() < 0.1 else outcome

    return {
        id: Outcomes({n: other(o) for n, o in own.pre.items()}, {n: other(o) for n, o in own.post.items()})
        for id, own in pool.items()
    }


POOL = graded(random_pool(30, 9, seed=7), 7)
FEW = {id: Outcomes({0: own.pre[0]}, {n: own.post[n] for n in range(2)}) for id, own in POOL.items()}
ALLOCATIONS: Sequence[Allocation] = (
    Uniform(2),
    Halving(),
    Halving(seed=1, half="up"),
    Racing(),
    Racing(remaining={boundary(n): n for n in range(30)}),
)


RULES: Sequence[PartRule] = (
    "first two boundaries",
    "first loss of success",
    "random half",
    "half of the trajectories",
)
PARTS = [Part(rule, Uniform(3)) for rule in RULES]


def of_prior(prior: Prior) -> list[float]:
    steps = cells().burdens
    mean, added = float(prior.rates @ cells().rates), float(prior.burdens @ steps)
    severe = float(prior.burdens[steps >= 5].sum())
    return [mean, added, severe, prior.changed, prior.variance, prior.dispersion]


def of_posterior() -> Iterator[float]:
    priors = learn_priors(POOL)
    for id in sorted(POOL)[:10]:
        for own in (FEW[id], POOL[id], Outcomes(POOL[id].pre, {}), Outcomes()):
            for remaining, prior in ((None, None), (9, priors.of(id))):
                yield probability_harmful(own, remaining=remaining, prior=prior)
        for arm in ARMS:
            yield doubt_after([o.value for o in FEW[id].pre.values()], [0.0, 1.0], 0.5, arm)


def of_allocations() -> Iterator[Any]:
    for allocation in ALLOCATIONS:
        sampled = sample(allocation, POOL)
        yield [allocation.name, sampled.continuations, sampled.tokens, [str(id) for id in sampled.retained]]


def imagined() -> list[Any]:
    rows = {
        id: BoundaryRow(id.unit, 1, id.unit, n % 7, 2000, 900, 12 + n % 5, bool(n % 3)) for n, id in enumerate(POOL)
    }
    nothing = {id: Outcomes() for id in rows}
    outcome = imagined_outcomes(rows, 40, Random("forecast/0/0"))
    draws = play_through(Halving(), nothing, outcome)[1]
    return [len(draws), *([o.value, o.steps] for o in map(outcome, draws[:12]))]


def of_chains() -> list[Any]:
    facts = [TrajectoryFacts(f"collect/{n}", (4 + n, 9 + 2 * n), 30, n / 4, "finished") for n in range(5)]
    return [[str(id), str(link)] for id, link in sorted(links_of(facts).items())]


def without_harm() -> Iterator[float]:
    """How probable it is that a run has no harmful compaction, whatever the thresholds; also where every one is."""
    lost = {boundary(n): outcomes(*[(1, 10, 0, 22)] * 3) for n in range(12)}
    steady = {boundary(n): outcomes(*[(1, 10 + n % 3, n % 2, 11)] * (1 + n % 3)) for n in range(9)}
    for known in (FEW, steady, lost):
        for thresholds in (PAPER, Thresholds(0.3, 2.0), Thresholds(0.96, 12.0)):
            yield probability_none(known, thresholds)


def of_thresholds() -> Iterator[float]:
    for threshold in (0.1, 0.25, 0.99, 1.0, 1.2):
        yield probability_hazard([1.0, 0.8], [0.0, 0.5, 1.0], threshold)
        yield probability_burden([10, 14], [13, 13, 20], 10 * threshold, 21)
        yield probability_burden([10, 14], [], 10 * threshold, 14)


def of_searches() -> Iterator[Any]:
    """What searches ask for, and what they end with, where few pieces mostly bring back what was lost."""
    pieces = tuple(Piece("turn", n, f"turn {n}", 50 * n) for n in range(1, 8))
    lines = tuple(Piece("line", n, f"line {n}", 30) for n in range(1, 5))
    good, bad = dict.fromkeys(range(3), Outcome(1.0, 10)), dict.fromkeys(range(3), Outcome(0.0, 12))
    worlds = [{"turn 2"}, {"turn 3", "turn 6"}, {"line 2"}, {"turn 1", "turn 4", "turn 7"}, set[str](), {"turn 5"}]
    for seed, cause in enumerate(worlds):
        for lost, certainty in ((bad, 0.95), (dict.fromkeys(range(3), Outcome(1.0, 19)), 0.8), (bad, 0.7)):
            chance, asked = Random(seed), Counter[str]()
            given = Search(boundary(seed), pieces, lines, Outcomes(good, lost), statements=lines[:2], most=60)
            conversation = search(given)
            try:
                intervention = next(conversation)
                while True:
                    asked[intervention.key] += 1
                    closed = bool(cause) and cause <= intervention.back | intervention.out
                    well = (chance.random() < certainty) is closed
                    steps = chance.randint(8, 12) + (0 if well else 7)
                    intervention = conversation.send(Outcome(float(well), steps))
            except StopIteration as ended:
                found = ended.value
                yield [found.ending, found.draws, found.change, [p.name for p in found.pieces], dict(asked)]


def figures() -> dict[str, Any]:
    effects = effects_of(POOL)
    success = {id.unit: bool(number % 3) for number, id in enumerate(sorted(POOL))}
    runs = [TaskRuns(f"t{n}", (n % 2, 1.0), (n / 10,), (1.0, n % 3 / 2)) for n in range(12)]
    shuffles = [shuffle_draws(POOL, seed)[boundary(3)] for seed in (0, 1)]
    return {
        "published prior": of_prior(published_prior()),
        "learned priors": [of_prior(prior) for prior in learn_priors(POOL).folds],
        "learned from few": [of_prior(prior) for prior in learn_priors(FEW).folds],
        "posteriors": list(of_posterior()),
        "without harm": list(without_harm()),
        "of other thresholds": list(of_thresholds()),
        "effects": [effect.to_json() for id in sorted(POOL)[:12] if (effect := effect_of(POOL[id])) is not None],
        "allocations": list(of_allocations()),
        "comparison": [asdict(each) for each in compare_allocations(ALLOCATIONS[:2], POOL, seeds=range(3))],
        "sensitivity": [asdict(each) for each in sensitivity_to_draws(POOL, (1, 3, 9), subsamples=30)],
        "many draws": [
            asdict(each) for each in sensitivity_to_draws(random_pool(6, 16, seed=1), (8,), subsamples=20, seed=3)
        ],
        "halves": [[str(id) for id in sample(part, POOL).retained] for part in PARTS],
        "parts": [asdict(each) for each in compare_allocations(PARTS, POOL, seeds=(0, 1))],
        "usual draws": [asdict(each) for each in sensitivity_to_draws(random_pool(4, 10, seed=2))],
        "usual orders": [asdict(each) for each in compare_allocations([Uniform(2)], random_pool(8, 5, seed=7))],
        "thresholds": [asdict(each) for each in sensitivity_to_thresholds(POOL)],
        "counts": [asdict(each) for each in counts(effects, success)],
        "coupling": coupling(effects.values()),
        "identity": asdict(check_identity(runs, resamples=50)),
        "usual identity": asdict(check_identity(runs)),
        "coupling of halves": asdict(halves) if (halves := _coupling(POOL, 7)) else None,
        "shuffled": [[o.steps for o in own.of(arm).values()] for own in shuffles for arm in ARMS],
        "imagined": imagined(),
        "searches": list(of_searches()),
        "chains": of_chains(),
        "mean steps": fmean(o.steps for own in POOL.values() for arm in ARMS for o in own.of(arm).values()),
    }


@pytest.fixture(scope="module")
def now() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(figures()))
    if os.environ.get("RECORD_FIGURES"):
        RECORDED.write_text(json.dumps(found, indent=1) + "\n")
    return found


@pytest.mark.parametrize("name", json.loads(RECORDED.read_text()) if RECORDED.exists() else ["coupling"])
def test_no_figure_changed_unnoticed(name: str, now: dict[str, Any]) -> None:
    recorded = json.loads(RECORDED.read_text())
    assert now.keys() == recorded.keys()
    assert plain(now[name]) == [
        pytest.approx(each, rel=1e-9, abs=1e-12) if isinstance(each, float) else each for each in plain(recorded[name])
    ]


def plain(value: Any) -> list[Any]:
    """The leaves of a JSON value, in order."""
    if isinstance(value, dict):
        return [leaf for key in value for leaf in [key, *plain(value[key])]]
    if isinstance(value, list):
        return [leaf for each in value for leaf in plain(each)]
    return [value]
