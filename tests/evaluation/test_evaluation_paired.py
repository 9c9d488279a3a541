"""The statistics beside independent implementations and the worked examples of the paper."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random
from statistics import NormalDist, fmean, pstdev

import pytest
from evaluation_support import arm

from recompact.attribution.controls import percentiles
from recompact.chat import Usage
from recompact.errors import InputError
from recompact.evaluation.paired import compare, sign_test, size_warnings, warnings
from recompact.evaluation.resampling import Estimate, bootstrap, ratios


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(22, 7, 0.008), (21, 8, 0.024), (7, 5, 0.774), (13, 6, 0.167), (7, 6, 1.000), (5, 2, 0.453)],
)
def test_the_sign_tests_of_the_paper(wins: int, losses: int, p: float) -> None:
    assert round(sign_test(wins, losses), 3) == p
    assert sign_test(losses, wins) == sign_test(wins, losses)


def test_the_sign_test_beside_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for n in (1, 2, 5, 6, 13, 29, 168):
        for wins in range(n + 1):
            expected = stats.binomtest(wins, n, 0.5).pvalue
            assert sign_test(wins, n - wins) == pytest.approx(expected, abs=1e-12)
    assert sign_test(0, 0) == 1.0


def test_quantiles_beside_numpy() -> None:
    numpy = pytest.importorskip("numpy")
    values = [Random(f"q{n}").random() for n in range(101)]
    for confidence in (0.5, 0.9, 0.95, 1.0):
        tail = (1 - confidence) / 2
        found = percentiles(values, confidence)
        assert (found.low, found.high) == pytest.approx(tuple(numpy.quantile(values, (tail, 1 - tail))))


def test_the_bootstrap_beside_scipy() -> None:
    """Percentile intervals of a mean, on values as they occur: differences of shares of three runs, and of steps."""
    stats = pytest.importorskip("scipy.stats")
    numpy = pytest.importorskip("numpy")
    chance = Random("paired")
    shares = [chance.choice((-1, -2 / 3, -1 / 3, 0, 0, 0, 1 / 3, 2 / 3, 1)) for _ in range(120)]
    steps = [chance.gauss(2, 6) for _ in range(120)]
    for vector, found in zip((shares, steps), bootstrap([shares, steps]), strict=True):
        expected = stats.bootstrap(
            (numpy.array(vector),), numpy.mean, n_resamples=10_000, method="percentile", rng=numpy.random.default_rng(1)
        ).confidence_interval
        width = expected.high - expected.low
        assert found.value == pytest.approx(fmean(vector))
        assert found.low == pytest.approx(expected.low, abs=0.06 * width)
        assert found.high == pytest.approx(expected.high, abs=0.06 * width)


def test_quotients_beside_scipy() -> None:
    """Sums over sums, as for literals kept and for steps beside another arm's: both vectors resampled together."""
    stats = pytest.importorskip("scipy.stats")
    numpy = pytest.importorskip("numpy")
    chance = Random("quotients")
    of = [chance.choice((0, 0, 1, 3, 5)) for _ in range(60)]
    counted = [sum(chance.random() < 0.3 for _ in range(n)) for n in of]
    (found,) = ratios([(counted, of)])
    assert found is not None
    expected = stats.bootstrap(
        (numpy.array(counted), numpy.array(of)),
        lambda x, y, axis=-1: x.sum(axis) / y.sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="percentile",
        rng=numpy.random.default_rng(2),
    ).confidence_interval
    width = expected.high - expected.low
    assert found.value == sum(counted) / sum(of)
    assert found.low == pytest.approx(expected.low, abs=0.05 * width)
    assert found.high == pytest.approx(expected.high, abs=0.05 * width)
    assert ratios([([0, 0], [0, 0])]) == [None]
    # One task in which there is something to divide by: resamples without it have no part.
    (rare,) = ratios([([1, 0, 0], [2, 0, 0])], 200)
    assert rare == Estimate(0.5, 0.5, 0.5)


def test_the_bootstrap_comes_close_to_the_normal_interval() -> None:
    vector = [Random(n).gauss(1, 4) for n in range(400)]
    (found,) = bootstrap([vector])
    half = NormalDist().inv_cdf(0.975) * pstdev(vector) / 400**0.5
    assert found.low == pytest.approx(fmean(vector) - half, abs=0.1 * half)
    assert found.high == pytest.approx(fmean(vector) + half, abs=0.1 * half)


def test_vectors_share_their_draws_and_seeds_decide_them() -> None:
    vector = [Random(n).random() for n in range(30)]
    one, two = bootstrap([vector, [2 * v for v in vector]], 500)
    assert (two.low, two.high) == pytest.approx((2 * one.low, 2 * one.high))
    assert bootstrap([vector], 500) == [one]
    assert bootstrap([vector], 500, seed=1) != [one]


def test_a_comparison_counts_tasks_solved_in_all_runs() -> None:
    a = arm("a", ["111", "111", "111", "110", "000"])
    b = arm("b", ["111", "110", "000", "111", "000"], steps=12)
    found = compare(a, b, resamples=2000)
    assert (found.wins, found.losses, found.p) == (2, 1, 1.0)
    assert (found.tasks, found.runs, found.reliability) == (5, 3, "pass^3")
    assert found.of("pass^3").delta == pytest.approx(0.2)
    assert found.of("steps").delta == pytest.approx(-2.0)
    assert found.of("steps").low == found.of("steps").high == -2.0
    assert found.of("steps").excludes_zero
    assert found.of("acc").low <= found.of("acc").delta <= found.of("acc").high
    back = compare(b, a, resamples=2000)
    for there, here in zip(found.differences, back.differences, strict=True):
        assert (there.delta, there.low, there.high) == pytest.approx((-here.delta, -here.high, -here.low))


def test_an_arm_compared_with_itself_shows_nothing() -> None:
    a = arm("a", ["111", "110", "000"] * 10)
    found = compare(a, a, resamples=200)
    assert all((d.delta, d.low, d.high) == (0.0, 0.0, 0.0) for d in found.differences)
    assert not any(d.excludes_zero for d in found.differences)
    assert found.p == 1.0


def test_tokens_that_nobody_counted_are_not_zero() -> None:
    """Released records have one role of their own, or none: beside our own arms that is no difference in tokens."""
    own = arm("own", ["111"] * 8)
    released = replace(own, name="theirs", rows=tuple(replace(row, usage={}) for row in own.rows))
    counted = replace(own, rows=tuple(replace(row, usage={"agent input": Usage(900, 0)}) for row in own.rows))
    for one, other in ((own, released), (counted, own), (released, counted)):
        assert not any("tokens" in d.metric for d in compare(one, other, resamples=10).differences)
    assert compare(counted, counted, resamples=10).of("tokens.agent input").first == 900
    lone = replace(own, rows=tuple(replace(row, usage={"agent": Usage(50, 5)}) for row in own.rows))
    assert compare(own, lone, resamples=10).of("tokens.compressor").second == 0  # an arm that has no compressor


def test_arms_without_a_common_task_are_refused() -> None:
    a = arm("a", ["111"])
    other = arm("b", ["11", "111"])
    with pytest.raises(InputError, match="no task that a, b have all done in"):
        compare(a, type(other)("b", None, other.rows[2:]), resamples=10)


def test_warnings_in_words() -> None:
    assert size_warnings(168, 3) == ()
    assert "40 tasks: one task is 2.5 points of Pass^3" in size_warnings(40, 3)[0]
    assert any("too narrow" in said for said in size_warnings(12, 3))
    assert any("fewer than 6 tasks an interval over tasks tells nothing" in said for said in size_warnings(5, 3))
    assert any("One run" in said for said in size_warnings(200, 1))
    few = compare(arm("a", ["111"] * 30), arm("b", ["110"] + ["111"] * 29), resamples=100)
    assert any("only 1 task differs" in said for said in warnings(few))


def test_168_tasks_and_10_000_resamples_take_seconds() -> None:
    chance = Random("speed")

    def outcomes() -> list[str]:
        return ["".join(chance.choice("01") for _ in range(3)) for _ in range(168)]

    a, b = arm("a", outcomes()), arm("b", outcomes())
    started = time.process_time()
    compare(a, b)
    assert time.process_time() - started < 5
