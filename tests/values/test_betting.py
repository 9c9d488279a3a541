"""Sequential tests by betting: they hold whenever one looks, and their bounds and forecasts agree with them."""

from __future__ import annotations

from random import Random

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
