"""The verdict on a replay: each branch, and the paper's two cases by their numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sentences import numbers_in

from recompact.attribution.effects import effect_of
from recompact.evaluation.replay_verdict import Facts, verdict
from recompact.values.outcome import Effect, Outcome, Outcomes

Draws = Sequence[tuple[int, int]]
"""Success and steps of each draw."""


def effect(pre: Draws, post: Draws) -> Effect:
    arms = [{n: Outcome(value, steps) for n, (value, steps) in enumerate(draws)} for draws in (pre, post)]
    found = effect_of(Outcomes(*arms))
    assert found is not None
    return found


def draws(successes: int, *steps: int) -> Draws:
    return [(int(n < successes), taken) for n, taken in enumerate(steps)]


PRE = draws(3, 9, 9, 9)
FINE = effect(PRE, draws(3, 10, 9, 10))
FAILING = effect(PRE, draws(0, 9, 9, 9))
LONG = effect(PRE, draws(3, 15, 15, 15))
MORE = Facts(4, 1.0, 3.0)


def test_case_a_of_the_paper() -> None:
    """PRE 3/3, POST 1/3, control 0/3, PAIR 3/3 with about three steps more than PRE."""
    pre = draws(3, 6, 6, 6)
    original, control = effect(pre, draws(1, 1, 1, 8)), effect(pre, draws(0, 1, 1, 1))
    found = verdict("PAIR", original, control, effect(pre, draws(3, 9, 9, 9)), Facts(1, 0.0, 1.0))
    assert (found.closed, found.recurs, found.gone, found.shown) == (True, True, True, True)
    assert found.words.startswith("closed: ")
    assert numbers_in(found.words) == ["+1.00", "-5.0", "+0.00", "+3.0", "1.0", "1", "0.0"]
    # At the same boundary ACON-UT succeeds twice out of three times: H = 1/3 is below the threshold too.
    assert verdict("ACON", original, control, effect(pre, draws(2, 9, 9, 1)), Facts(1, 0.0, 2 / 3)).closed


def test_case_b_of_the_paper() -> None:
    """All succeed; PRE 9.0 steps, POST 14.0, control 17, 14 and 13 (mean 14.7), PAIR 10.7."""
    original, control = effect(PRE, draws(3, 14, 14, 14)), effect(PRE, draws(3, 17, 14, 13))
    found = verdict("PAIR", original, control, effect(PRE, draws(3, 11, 11, 10)), Facts(3, 0.0, 3.0))
    assert found.closed
    assert numbers_in(found.words)[:4] == ["+0.00", "+5.7", "+0.00", "+1.7"]
    # Two burden boundaries of the paper were not shortened by the adapted prompt.
    longer = verdict("PAIR", original, control, effect(PRE, draws(3, 14, 15, 14)), Facts(3, 0.0, 3.0))
    assert not longer.closed
    assert longer.words.startswith("not closed: ")
    assert numbers_in(longer.words) == ["+0.00", "+5.3"]


@pytest.mark.parametrize(
    ("original", "control", "template", "facts", "conditions", "said"),
    [
        (FAILING, FINE, FINE, MORE, (False, True, True), "an unlucky sample of the prompt"),
        (FAILING, LONG, FINE, MORE, (False, True, True), "another defect appeared, not the same one (H +0.00, B +6.0"),
        (FAILING, FAILING, FAILING, MORE, (True, False, True), "still there with T (H +1.00, B +0.0)"),
        (FAILING, FAILING, LONG, MORE, (True, False, True), "still there with T (H +0.00, B +6.0)"),
        (FAILING, FAILING, FINE, Facts(4, 3.0, 3.0), (True, True, False), "keep no more of the needed facts"),
        (FAILING, FINE, LONG, Facts(4, 3.0, 2.0), (False, False, False), "still there with T"),
        (FINE, FAILING, FINE, MORE, (None, True, True), "there is no defect here"),
    ],
)
def test_what_is_missing_is_said(
    original: Effect,
    control: Effect,
    template: Effect,
    facts: Facts,
    conditions: tuple[bool | None, bool, bool],
    said: str,
) -> None:
    found = verdict("T", original, control, template, facts)
    assert not found.closed
    assert (found.recurs, found.gone, found.shown) == conditions
    assert found.words.startswith("not closed: ")
    assert said in found.words


def test_where_no_fact_was_needed_the_summaries_are_not_judged() -> None:
    found = verdict("T", FAILING, FAILING, FINE, None)
    assert found.closed
    assert found.shown is None
    assert "PRE used no fact" in found.words
    assert not verdict("T", FAILING, FAILING, FAILING, None).closed


def test_a_defect_in_both_channels_recurs_in_either() -> None:
    both = effect(PRE, draws(0, 15, 15, 15))
    assert verdict("T", both, LONG, FINE, MORE).closed
    assert verdict("T", both, FAILING, FINE, MORE).closed


def test_without_recorded_draws_any_harm_of_the_control_is_the_defect() -> None:
    assert verdict("T", None, LONG, FINE, MORE).closed
    unseen = verdict("T", None, FINE, FINE, MORE)
    assert unseen.recurs is False
    # Nobody saw a defect here, so nothing was an unlucky sample.
    assert unseen.words.startswith("not closed: ")
    assert numbers_in(unseen.words) == ["+0.00", "+0.7"]


def test_where_pre_itself_fails_the_words_say_so() -> None:
    """Then H can show nothing, whatever the summaries are like; only steps can."""
    failing = draws(0, 9, 9, 9)
    none, long = effect(failing, draws(0, 9, 9, 9)), effect(failing, draws(0, 16, 16, 16))
    said = "No PRE draw succeeds, so a loss of success cannot show here."
    assert verdict("T", None, none, none, MORE, hopeless=True).words.endswith(said)
    burden = verdict("T", long, long, none, MORE, hopeless=True)
    assert burden.closed
    assert burden.words.endswith(said)
    assert said not in verdict("T", long, long, none, MORE).words
    assert said not in verdict("T", long, None, none, MORE, hopeless=True).words


def test_without_draws_nothing_is_judged() -> None:
    assert verdict("T", FAILING, None, FINE, MORE).words.startswith("not judged: the control ")
    lacking = verdict("T", FAILING, FAILING, None, MORE)
    assert (lacking.closed, lacking.gone) == (False, None)
    assert "T has no" in lacking.words
