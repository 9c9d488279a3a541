"""More harm in a draw never makes harm less probable, whatever the other draws and boundaries say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from attribution_support import arm, outcomes, random_pool
from examples import examples
from hypothesis import given, strategies as st

from recompact.attribution.posterior import clearly_helped, probability_harmful
from recompact.attribution.prior import FOLDS, learn_priors, published_prior
from recompact.values.outcome import PAPER, BoundaryId, Outcome, Outcomes

Arm = list[tuple[float, int]]
draws = st.lists(st.tuples(st.sampled_from([0.0, 0.25, 1 / 3, 1.0]), st.integers(1, 50)), min_size=1, max_size=6)


@pytest.mark.parametrize("added", range(0, 60, 3))
def test_more_steps_after_one_pair(added: int) -> None:
    one, other = (probability_harmful(outcomes((1, 10, 1, 10 + n))) for n in (added, added + 3))
    assert one <= other


@examples(300)
@given(draws, draws, st.integers(0, 5), st.integers(1, 40), st.sampled_from([None, 30, 50]), st.data())
def test_more_harm_in_any_draw(
    pre: Arm, post: Arm, which: int, more: int, remaining: int | None, data: st.DataObject
) -> None:
    now = probability_harmful(Outcomes(arm(*pre), arm(*post)), remaining=remaining)
    kind = data.draw(st.sampled_from(["longer POST", "POST fails", "shorter PRE", "PRE succeeds"]))
    side = post if "POST" in kind else pre
    value, steps = side[which % len(side)]
    worse = {
        "longer POST": (value, steps + more),
        "POST fails": (0.0, steps),
        "shorter PRE": (value, max(1, steps - more)),
        "PRE succeeds": (1.0, steps),
    }[kind]
    side[which % len(side)] = worse
    assert probability_harmful(Outcomes(arm(*pre), arm(*post)), remaining=remaining) >= now - 1e-12


@examples(25)
@given(st.integers(0, 10_000), st.integers(0, 19), st.integers(1, 30), st.booleans())
def test_also_under_the_prior_that_the_run_teaches(seed: int, which: int, more: int, fails: bool) -> None:
    pool = random_pool(20, 2, seed)
    boundary = sorted(pool)[which]
    own = pool[boundary]
    first = own.post[0]
    harmed = replace(first, value=0.0) if fails else replace(first, steps=first.steps + more)
    worse = {**pool, boundary: Outcomes(own.pre, {**own.post, 0: harmed})}
    before = probability_harmful(own, prior=learn_priors(pool).of(boundary))
    assert probability_harmful(worse[boundary], prior=learn_priors(worse).of(boundary)) >= before - 1e-12


def test_a_run_teaches_its_own_rates() -> None:
    def run(share: float) -> dict[BoundaryId, Outcomes]:
        lost, good = outcomes(*[(1, 10, 0, 10)] * 3), outcomes(*[(1, 10, 1, 10)] * 3)
        return {BoundaryId(f"collect/{n}", 1): lost if n < share * 400 else good for n in range(400)}

    one = Outcomes({0: Outcome(1.0, 10)}, {0: Outcome(0.0, 10)})
    rare, often = learn_priors(run(0.0)), learn_priors(run(0.3))
    assert len(rare.folds) == FOLDS
    chances = [probability_harmful(one, prior=p) for p in (rare.folds[0], published_prior(), often.folds[0])]
    assert chances == sorted(chances)
    assert chances[0] < 0.7 * chances[1]
    assert often.folds[0].changed > published_prior().changed > rare.folds[0].changed


def test_lengths_that_vary_little_make_few_added_steps_certain() -> None:
    steady = {BoundaryId(f"collect/{n}", 1): outcomes(*[(1, 10, 1, 10)] * 3) for n in range(100)}
    assert learn_priors(steady).folds[0].variance < 0.1 * published_prior().variance
    assert learn_priors({}).folds == (published_prior(),) * FOLDS


def test_a_compaction_that_clearly_helped_is_no_evidence_of_harm() -> None:
    rescued = outcomes(*[(0, 5, 1, 20)] * 3)
    assert clearly_helped([0, 0, 0], [1, 1, 1])
    assert probability_harmful(rescued, PAPER) < 0.01
    assert probability_harmful(outcomes(*[(0, 5, 0, 20)] * 3), PAPER) > 0.9
