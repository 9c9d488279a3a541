from __future__ import annotations

import pytest
from attribution_support import arm, boundary
from hypothesis import given, strategies as st
from sentences import numbers_in

from recompact.attribution.savings import token_report
from recompact.values.outcome import Outcome, Outcomes


def test_tokens_by_phase_and_the_saving() -> None:
    known = {
        boundary(1): Outcomes(arm((1, 10), (1, 10), (1, 10)), arm((1, 10), (1, 10), (1, 10))),
        boundary(2): Outcomes(arm((1, 20))),  # settled without POST
    }
    report = token_report(known, {"collect": 1000})
    assert report.by_phase == {"collect": 1000, "verify": 6 * 100 + 200}
    assert (report.continuations, report.uniform_continuations) == (7, 12)
    # Boundary 2 has no POST draw: it is counted with the mean POST draw of the others.
    assert report.uniform_tokens == 6 * 100 + 3 * 200 + 3 * 100
    assert report.saved_continuations == pytest.approx(5 / 12)
    assert report.saved_verification == pytest.approx(1 - 800 / 1500)
    assert report.saved_total == pytest.approx(1 - 1800 / 2500)


def test_where_an_arm_was_never_drawn_nothing_is_supposed_about_it() -> None:
    report = token_report({boundary(1): Outcomes(arm((1, 10)))}, {})
    assert report.uniform_tokens == 3 * 100
    assert report.uniform_continuations == 6


def test_draws_whose_tokens_nobody_counted_cost_nothing() -> None:
    report = token_report({boundary(1): Outcomes({0: Outcome(1.0, 3)}, {0: Outcome(0.0, 5)})}, {})
    assert (report.by_phase["verify"], report.uniform_tokens) == (0, 0)


@given(st.integers(1, 5), st.integers(0, 9), st.integers(0, 9))
def test_the_saving_that_is_told_is_one(boundaries: int, pre: int, post: int) -> None:
    """Nine pairs take more than three: then nothing was saved, and nothing is minus 200 % fewer."""
    own = Outcomes(arm(*[(1, 10)] * pre), arm(*[(1, 10)] * post))
    report = token_report({boundary(n): own for n in range(boundaries)}, {})
    made, three = boundaries * (pre + post), 6 * boundaries
    assert "-" not in report.statement
    if not made:
        assert not numbers_in(report.statement)
        return
    assert numbers_in(report.statement)[:3] == [str(made), "3", str(three)]
    if made < three:
        assert f"{1 - made / three:.0%} fewer" in report.statement
        told = f"{report.saved_verification:.0%} of the tokens" in report.statement
        assert told == (report.saved_verification > 0)
    else:
        assert report.statement.endswith("the same." if made == three else "saved.")
