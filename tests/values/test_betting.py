"""Sequential tests by betting: they hold whenever one looks, and their bounds and forecasts agree with them."""

from __future__ import annotations

from math import log, log1p
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, strategies as st

from recompact.values.betting import ERROR, first_above, further_values, lower_bound, upper_bound

VALUES = st.lists(st.floats(-1, 1), min_size=1, max_size=40)


@given(VALUES, st.floats(-0.99, 0.99))
def test_bounds_agree_with_the_test(values: list[float], threshold: float) -> None:
    low = lower_bound(values)
    assert -1 <= low <= upper_bound(values) <= 1
    if abs(low - threshold) > 1e-6:
        assert (first_above(values, threshold) is not None) == (low > threshold)


@given(VALUES, st.lists(st.floats(-1, 1), max_size=10))
def test_what_is_shown_stays_shown(values: list[float], more: list[float]) -> None:
    assert lower_bound([*values, *more]) >= lower_bound(values) - 1e-9


@pytest.mark.parametrize(("value", "threshold"), [(0.0, -0.03), (0.1, 0.05), (1.0, 0.9)])
def test_a_forecast_comes_true_where_all_are_alike(value: float, threshold: float) -> None:
    more = further_values([value] * 5, threshold)
    assert more is not None
    assert first_above([value] * (5 + more), threshold) == 5 + more


def test_nothing_is_shown_by_nothing() -> None:
    assert (lower_bound([]), upper_bound([]), first_above([], -0.5), further_values([], -0.5)) == (-1, 1, None, None)
    assert further_values([-1.0] * 5, -0.5) is None


def test_a_mean_at_the_threshold_is_rarely_called_above_it() -> None:
    wrong = 0
    for number in range(300):
        chance = Random(number)
        wrong += first_above([chance.choice((-1.0, 1.0)) for _ in range(150)], 0.0) is not None
    assert wrong / 300 <= ERROR + 2.5 * (ERROR * (1 - ERROR) / 300) ** 0.5


def money(values: list[float], threshold: float) -> list[float]:
    """What a bet against a mean of at most the threshold has come to after each value, spread over 64 stakes."""
    stakes = [(n + 0.5) / 64 for n in range(64)]
    held, course = [1.0] * len(stakes), []
    for value in values:
        held = [m * (1 + stake * (value - threshold) / (1 + threshold)) for m, stake in zip(held, stakes, strict=True)]
        course.append(fmean(held))
    return course


SERIES = st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), min_size=1, max_size=40)


@given(SERIES, st.sampled_from([-0.9, -0.3, 0.0, 0.4]))
def test_it_is_shown_as_soon_as_the_money_is_twenty_times_what_it_was(values: list[float], threshold: float) -> None:
    shown = [n for n, held in enumerate(money(values, threshold), 1) if held >= 20]
    assert first_above(values, threshold) == (shown[0] if shown else None)
    tenfold = [n for n, held in enumerate(money(values, threshold), 1) if held >= 10]
    assert first_above(values, threshold, 0.1) == (tenfold[0] if tenfold else None)


@pytest.mark.parametrize("values", [[1.0, -0.5, 0.5], [0.25, 0.0], [0.5] * 3, [0.02, 0.0, 0.01]])
def test_so_many_more_values_like_these_suffice_and_no_fewer(values: list[float]) -> None:
    threshold = -0.01
    stakes = [(n + 0.5) / 64 for n in range(64)]
    sums = [sum(log1p(stake * (value - threshold) / (1 + threshold)) for value in values) for stake in stakes]

    def held(more: int) -> float:
        return log(fmean(2.718281828459045 ** (each * (1 + more / len(values))) for each in sums))

    more = further_values(values, threshold)
    assert more is not None
    assert held(more) >= log(20)
    assert more == 0 or held(more - 1) < log(20)


def test_ends_of_what_a_mean_can_be() -> None:
    assert first_above([0.0], -1.0) == 1  # below which nothing lies
    assert further_values([0.0], -1.0) == 0
    assert first_above([1.0] * 99, 1.0) is further_values([1.0] * 99, 1.0) is None
    assert first_above([1.0] * 999, 0.99) is not None
    assert lower_bound([0.3] * 10, 0.2) > lower_bound([0.3] * 10)


def test_what_would_take_a_million_values_is_never_shown() -> None:
    assert further_values([0.002] * 100, 0.0) in range(100, 1_000_000)
    assert further_values([1e-7] * 100, 0.0) is None
