"""The statistics beside independent implementations and published examples."""

from __future__ import annotations

from random import Random
from statistics import NormalDist, fmean, pstdev

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from recompact.values.stats import (
    CONFIDENCE,
    FEWEST,
    RESAMPLES,
    Estimate,
    bootstrap,
    bootstrap_crossed,
    bootstrap_estimate,
    bootstrap_ratios,
    jaccard,
    mean_of,
    newcombe,
    pearson,
    percentile_estimate,
    probable_count,
    ranks,
    resampled_means,
    sign_test,
    spearman,
    spread,
    student,
    t_quantile,
    variance_of_mean,
    wilson,
)


def test_wilson() -> None:
    assert wilson(0.0, 0) == Estimate(0.0, 0.0, 1.0)
    assert wilson(1.0, 1).low == pytest.approx(0.2065, abs=1e-4)
    assert wilson(1.0, 1).high == 1.0


@given(mean=st.floats(0, 1), draws=st.integers(1, 1000))
def test_wilson_holds_its_mean_and_stays_between_0_and_1(mean: float, draws: int) -> None:
    interval = wilson(mean, draws)
    assert 0 <= interval.low <= mean <= interval.high <= 1


def test_the_mean_of_estimates_has_the_interval_of_independent_ones() -> None:
    halves = [Estimate(0.3, 0.2, 0.5), Estimate(0.5, 0.4, 0.7), Estimate(0.1, 0.0, 0.3), Estimate(0.3, 0.2, 0.5)]
    mean = mean_of(halves)
    assert mean.value == pytest.approx(0.3)
    assert mean.value - mean.low == pytest.approx(0.1 / 2)
    assert mean.high - mean.value == pytest.approx(0.2 / 2)


def test_the_mean_of_estimates_covers_the_truth_as_often_as_it_says() -> None:
    random = Random(3)
    truth = [(0.9, 0.2), (0.6, 0.6), (0.8, 0.5), (0.95, 0.9)]
    within = 0
    for _ in range(400):
        estimates = []
        for pre, post in truth:
            first, second = (fmean(random.random() < rate for _ in range(8)) for rate in (pre, post))
            estimates.append(newcombe(wilson(first, 8), wilson(second, 8)))
        mean = mean_of(estimates)
        within += mean.low <= fmean(pre - post for pre, post in truth) <= mean.high
    assert 0.92 <= within / 400 <= 0.99


@pytest.mark.parametrize("boundaries", [2, 3, 10, 40])
@pytest.mark.parametrize("draws", [3, 5])
@pytest.mark.parametrize(("pre", "post"), [(0.9, 0.4), (0.8, 0.5)])
def test_the_mean_of_many_small_samples_is_covered_too(pre: float, post: float, draws: int, boundaries: int) -> None:
    """Intervals of few draws lean towards the middle: without the variances, up to one in six is missed here."""
    random = Random(4)
    within = 0
    for _ in range(300):
        arms = [
            [[float(random.random() < rate) for _ in range(draws)] for rate in (pre, post)] for _ in range(boundaries)
        ]
        mean = mean_of(
            [newcombe(*(wilson(fmean(arm), draws) for arm in pair)) for pair in arms],
            [sum(variance_of_mean(arm) or 0.0 for arm in pair) for pair in arms],
        )
        within += mean.low <= pre - post <= mean.high
    assert within / 300 >= 0.92


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 0.2)), min_size=1, max_size=5))
def test_variances_never_narrow_the_interval_of_a_mean(known: list[tuple[float, float]]) -> None:
    estimates = [wilson(mean, 3) for mean, _ in known]
    plain, wider = mean_of(estimates), mean_of(estimates, [each for _, each in known])
    assert wider.low <= plain.low <= plain.value == wider.value <= plain.high <= wider.high
    assert mean_of(estimates, [None, *(each for _, each in known[1:])]) == plain
    assert mean_of(estimates[:1], [0.2]) == mean_of(estimates[:1])  # one estimate has an interval of its own


def test_newcombe_as_published() -> None:
    # Newcombe (1998), method 10, 56/70 against 48/80.
    interval = newcombe(wilson(56 / 70, 70), wilson(48 / 80, 80))
    assert (interval.low, interval.high) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert interval.value == pytest.approx(0.2)


def test_student_interval_is_symmetric() -> None:
    interval = student(2.0, 0.5, 4.0)
    assert interval.high - 2.0 == pytest.approx(2.0 - interval.low)
    assert interval.high - 2.0 == pytest.approx(0.5 * 2.7764, abs=1e-4)


def test_percentiles_of_one_value() -> None:
    assert percentile_estimate(3.0, [3.0]) == spread([3.0]) == Estimate(3.0, 3.0, 3.0)


def test_spearman() -> None:
    assert spearman([1, 2, 3], [2, 4, 9]) == pytest.approx(1)
    assert spearman([1, 2, 3], [9, 4, 2]) == pytest.approx(-1)
    assert spearman([1, 1, 1], [1, 2, 3]) is None
    assert spearman([1], [1]) is None


def test_jaccard() -> None:
    assert jaccard([], []) == 1.0
    assert jaccard("ab", "bc") == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("wins", "losses", "p"),
    [(22, 7, 0.008), (21, 8, 0.024), (7, 5, 0.774), (13, 6, 0.167), (7, 6, 1.000), (5, 2, 0.453)],
)
def test_the_sign_tests_of_the_paper(wins: int, losses: int, p: float) -> None:
    assert round(sign_test(wins, losses), 3) == p
    assert sign_test(losses, wins) == sign_test(wins, losses)


def test_the_sign_test_beside_scipy() -> None:
    for n in (1, 2, 5, 6, 13, 29, 168):
        for wins in range(n + 1):
            expected = stats.binomtest(wins, n, 0.5).pvalue
            assert sign_test(wins, n - wins) == pytest.approx(expected, abs=1e-12)
    assert sign_test(0, 0) == 1.0


def test_the_bootstrap_beside_scipy() -> None:
    """Percentile intervals of a mean, on values as they occur: differences of shares of three runs, and of steps."""
    chance = Random("paired")
    shares = [chance.choice((-1, -2 / 3, -1 / 3, 0, 0, 0, 1 / 3, 2 / 3, 1)) for _ in range(120)]
    steps = [chance.gauss(2, 6) for _ in range(120)]
    for vector, estimate in zip((shares, steps), bootstrap([shares, steps]), strict=True):
        expected = stats.bootstrap(
            (np.array(vector),), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
        ).confidence_interval
        width = expected.high - expected.low
        assert estimate.value == pytest.approx(fmean(vector))
        assert estimate.low == pytest.approx(expected.low, abs=0.06 * width)
        assert estimate.high == pytest.approx(expected.high, abs=0.06 * width)


def test_quotients_beside_scipy() -> None:
    """Sums over sums, as for literals kept and for steps beside another arm's: both vectors resampled together."""
    chance = Random("quotients")
    of = [chance.choice((0, 0, 1, 3, 5)) for _ in range(60)]
    counted = [sum(chance.random() < 0.3 for _ in range(n)) for n in of]
    (estimate,) = bootstrap_ratios([(counted, of)])
    assert estimate is not None
    expected = stats.bootstrap(
        (np.array(counted), np.array(of)),
        lambda x, y, axis=-1: x.sum(axis) / y.sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=10_000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    width = expected.high - expected.low
    assert estimate.value == sum(counted) / sum(of)
    assert estimate.low == pytest.approx(expected.low, abs=0.05 * width)
    assert estimate.high == pytest.approx(expected.high, abs=0.05 * width)
    assert bootstrap_ratios([([0, 0], [0, 0])]) == [None]
    # One task in which there is something to divide by: resamples without it have no part.
    (rare,) = bootstrap_ratios([([1, 0, 0], [2, 0, 0])], 200)
    assert rare == Estimate(0.5, 0.5, 0.5)


def test_the_bootstrap_comes_close_to_the_normal_interval() -> None:
    vector = [Random(n).gauss(1, 4) for n in range(400)]
    (estimate,) = bootstrap([vector])
    half = NormalDist().inv_cdf(0.975) * pstdev(vector) / 400**0.5
    assert estimate.low == pytest.approx(fmean(vector) - half, abs=0.1 * half)
    assert estimate.high == pytest.approx(fmean(vector) + half, abs=0.1 * half)


@given(st.lists(st.tuples(st.floats(-9, 9), st.integers(0, 5)), min_size=1, max_size=9), st.integers(0, 99))
def test_resamples_are_those_of_pythons_own_generator(tasks: list[tuple[float, float]], seed: int) -> None:
    """Also where they come in blocks."""
    vectors = list(zip(*tasks, strict=True))
    chance = Random(f"bootstrap/{seed}")
    expected = [fmean(picked) for _ in range(20) for picked in zip(*chance.choices(tasks, k=len(tasks)), strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        for block in (1 << 21, 3 * len(tasks)):
            patch.setattr("recompact.values.stats._BLOCK", block)
            means = resampled_means(vectors, 20, seed)
            assert means.T.ravel() == pytest.approx(expected, abs=1e-12)


def test_vectors_share_their_draws_and_seeds_decide_them() -> None:
    vector = [Random(n).random() for n in range(30)]
    one, two = bootstrap([vector, [2 * v for v in vector]], 500)
    assert (two.low, two.high) == pytest.approx((2 * one.low, 2 * one.high))
    assert bootstrap([vector], 500) == [one]
    assert bootstrap([vector], 500, seed=1) != [one]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_a_probable_count_lies_within_its_interval(shares: list[float]) -> None:
    count = probable_count(shares)
    assert count.value == pytest.approx(sum(shares))
    assert 0 <= count.low <= count.high <= len(shares)
    assert count.low - 1 < count.value < count.high + 1


def test_a_probable_count_of_coins_is_binomial() -> None:
    count = probable_count([0.5] * 20)
    assert (count.low, count.value, count.high) == (6, 10, 14)


def test_the_crossed_bootstrap_covers_rows_and_columns() -> None:
    chance = Random("crossed")
    skill = [chance.gauss(0, 0.2) for _ in range(10)]
    matrix = [[float(chance.random() < 0.5 + own) for _ in range(30)] for own in skill]
    (found,) = bootstrap_crossed([matrix], 4000)
    values, draws = np.array(matrix), np.random.default_rng(3)
    means = []
    for _ in range(4000):
        rows, places = draws.integers(0, 10, 10), draws.integers(0, 30, 30)
        means.append(values[np.ix_(rows, places)].mean())
    low, high = np.percentile(means, (2.5, 97.5))
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.08 * (high - low))
    (tasks_alone,) = bootstrap([[sum(column) / 10 for column in zip(*matrix, strict=True)]], 4000)
    assert found.high - found.low > tasks_alone.high - tasks_alone.low


@given(st.integers(1, 4), st.integers(1, 5), st.floats(-3, 3))
def test_the_crossed_bootstrap_of_a_constant_is_that_constant(rows: int, places: int, value: float) -> None:
    (found,) = bootstrap_crossed([[[value] * places] * rows], 20)
    assert (found.low, found.value, found.high) == pytest.approx((value, value, value), abs=1e-9)  # ends are rounded
    assert bootstrap_crossed([]) == []


def test_constants_that_figures_depend_on() -> None:
    assert (CONFIDENCE, RESAMPLES, FEWEST) == (0.95, 10_000, 6)


@pytest.mark.parametrize(
    ("xs", "ys", "value"),
    [
        ([1.0], [1.0], None),
        ([], [], None),
        ([1.0, 2.0], [3.0, 3.0], None),
        ([3.0, 3.0], [1.0, 2.0], None),
        ([1.0, 2.0], [3.0, 5.0], 1.0),
        ([1.0, 2.0], [5.0, 3.0], -1.0),
        ([0.0, 1.0, 2.0], [0.0, 2.0, 1.0], 0.5),
    ],
)
def test_a_correlation_needs_two_values_on_both_sides(xs: list[float], ys: list[float], value: float | None) -> None:
    assert pearson(xs, ys) == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], []), ([5.0], [1.0]), ([3.0, 1.0, 2.0], [3.0, 1.0, 2.0]), ([2.0, 1.0, 2.0, 2.0], [3.0, 1.0, 3.0, 3.0])],
)
def test_tied_values_share_their_mean_rank(values: list[float], expected: list[float]) -> None:
    assert ranks(values) == expected


def test_degrees_of_freedom_are_rounded_to_a_tenth() -> None:
    assert student(1.0, 2.0, 7.34) == student(1.0, 2.0, 7.3)
    assert student(1.0, 2.0, 7.36) == student(1.0, 2.0, 7.4)
    assert student(0.0, 1.0, 7.3).high == pytest.approx(t_quantile(0.975, 7.3))


@pytest.mark.parametrize(
    ("one", "other", "overlap"), [("", "", 1.0), ("a", "", 0.0), ("ab", "bc", 1 / 3), ("a", "a", 1)]
)
def test_the_overlap_of_two_sets(one: str, other: str, overlap: float) -> None:
    assert jaccard(one, other) == pytest.approx(overlap)


def test_nothing_to_resample_is_nothing_and_one_task_has_no_spread() -> None:
    assert bootstrap([]) == []
    assert bootstrap_crossed([]) == []
    assert resampled_means([[3.0], [4.0]], 2).tolist() == [[3.0, 3.0], [4.0, 4.0]]
    assert bootstrap([[3.0]]) == [Estimate(3.0, 3.0, 3.0)]
    assert len(resampled_means([[1.0, 2.0]], 7)[0]) == 7
    assert len(resampled_means([[1.0, 2.0]])[0]) == RESAMPLES


def test_quotients_of_nothing_are_none_and_resamples_without_a_divisor_do_not_count() -> None:
    assert bootstrap_ratios([([1.0, 2.0], [0.0, 0.0])], 50) == [None]
    (estimate,) = bootstrap_ratios([([1.0, 1.0], [0.0, 2.0])], 200)
    assert estimate is not None
    assert estimate.value == 1.0
    assert (estimate.low, estimate.high) == (0.5, 1.0)


def test_seeds_decide_the_crossed_bootstrap_and_matrices_share_its_draws() -> None:
    matrix = [[0.0, 1.0, 2.0], [3.0, 5.0, 8.0]]
    one, same = bootstrap_crossed([matrix, matrix], 40)
    assert one == same
    assert bootstrap_crossed([matrix], 40, seed=0) == [one]
    assert bootstrap_crossed([matrix], 40, seed=1) != [one]
    assert one.value == pytest.approx(19 / 6)


@pytest.mark.parametrize(
    ("shares", "confidence", "expected"),
    [
        ([], 0.95, (0.0, 0.0, 0.0)),
        ([0.5], 0.95, (0.5, 0.0, 1.0)),
        ([0.5], 0.0, (0.5, 0.0, 0.0)),  # exactly half of the mass lies at none
        ([0.99, 0.99], 0.95, (1.98, 2.0, 2.0)),
        ([0.9, 0.9], 0.9, (1.8, 1.0, 2.0)),
        ([0.01, 0.01], 0.95, (0.02, 0.0, 0.0)),
    ],
)
def test_how_many_of_a_few_events_happen(
    shares: list[float], confidence: float, expected: tuple[float, float, float]
) -> None:
    count = probable_count(shares, confidence)
    assert (count.value, count.low, count.high) == pytest.approx(expected)


@pytest.mark.parametrize("draws", [1, 2, 7, 40])
def test_wilson_beside_scipy(draws: int) -> None:
    for won in range(draws + 1):
        expected = stats.binomtest(won, draws).proportion_ci(method="wilson")
        interval = wilson(won / draws, draws)
        assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_unless_told_otherwise_ten_thousand_resamples_are_drawn_from_the_first_seed() -> None:
    vector, other = [0.0, 1.0, 2.0, 5.0, 9.0], [1.0, 2.0, 3.0, 1.0, 2.5]
    assert bootstrap([vector]) == bootstrap([vector], 10_000, 0)
    assert bootstrap_ratios([(vector, other)]) == bootstrap_ratios([(vector, other)], 10_000, 0)
    assert bootstrap_crossed([[vector, other]]) == bootstrap_crossed([[vector, other]], 10_000, 0)
    assert resampled_means([vector]).tolist() == resampled_means([vector], 10_000, 0).tolist()
    for one, two in ((0, 1), (1, 2)):
        assert bootstrap_ratios([(vector, other)], 50, one) != bootstrap_ratios([(vector, other)], 50, two)


def test_rows_and_columns_are_drawn_by_pythons_own_generator() -> None:
    matrix = [[0.0, 1.0, 2.0], [3.0, 5.0, 8.0]]
    chance = Random("crossed/4")
    means = []
    for _ in range(30):
        drawn = [chance.random() for _ in range(5)]
        rows, places = [int(2 * each) for each in drawn[:2]], [int(3 * each) for each in drawn[2:]]
        means.append(fmean(matrix[row][place] for row in rows for place in places))
    expected = percentile_estimate(19 / 6, means)
    (found,) = bootstrap_crossed([matrix], 30, seed=4)
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


@pytest.mark.parametrize(("end", "rounded"), [(4e-11, 0.0), (-4e-11, 0.0), (6e-11, 1e-10), (0.25, 0.25)])
def test_ends_of_a_bootstrap_that_are_nearly_nothing_are_nothing(end: float, rounded: float) -> None:
    assert bootstrap_estimate(0.0, np.array([end] * 3)) == Estimate(0.0, rounded, rounded)


def test_the_chance_that_nothing_happens_takes_its_share() -> None:
    plain, doubtful = probable_count([0.5] * 20), probable_count([0.5] * 20, none=0.5)
    assert (doubtful.value, doubtful.low, doubtful.high) == (plain.value / 2, 0, 14)
    assert probable_count([0.5] * 20, none=0.02).low > 0
    assert probable_count([1.0] * 3, none=0.024).low == 3
    assert probable_count([1.0] * 3, none=0.026).low == 0
