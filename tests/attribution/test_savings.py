from __future__ import annotations

import pytest
from attribution_support import arm, boundary

from recompact.attribution.savings import token_report
from recompact.outcome import Outcome, Outcomes


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
