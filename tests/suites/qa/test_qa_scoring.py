"""Exact match and F1, beside figures from somebody else's implementation."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given, strategies as st

from recompact.suites.qa import retrieval, suite
from recompact.suites.qa.suite import exact_match, f1, normalize

# What torchmetrics 1.9.0 gives (functional.text.squad): answer, accepted answers, exact match, F1.
ELSEWHERE = [
    ("Blue Nile", ["the Blue Nile"], 1.0, 1.0),
    ("the Blue Nile river", ["Nile", "Blue Nile"], 0.0, 0.8),
    ("Nile", ["the Blue Nile"], 0.0, 0.666667),
    ("1,312", ["1312"], 1.0, 1.0),
    ("in 1312", ["1312"], 0.0, 0.666667),
    ("Halda  Brinn.", ["halda brinn"], 1.0, 1.0),
    ("Brinn, Halda", ["Halda Brinn"], 0.0, 1.0),
    ("a", ["the"], 1.0, 1.0),
    ("", ["the"], 1.0, 1.0),
    ("", ["x"], 0.0, 0.0),
    ("the", ["x"], 0.0, 0.0),
    ("cat's-eye", ["cats eye", "cat s eye"], 0.0, 0.0),
    ("Café", ["cafe"], 0.0, 0.0),
    ("new new york", ["new york new"], 0.0, 1.0),
    ("another theory", ["other theory"], 0.0, 0.5),
    ("U.S.A.", ["USA", "United States"], 1.0, 1.0),
    ("one two three four", ["three four five six seven"], 0.0, 0.444444),
    ("“quoted”", ["quoted"], 0.0, 0.0),
    ("x y", ["y", "x z w"], 0.0, 0.666667),
]
WORDS = st.lists(st.sampled_from(["the", "An", "nile,", "blue", "1,312", "café", "-"]), max_size=6).map(" ".join)


@pytest.mark.parametrize(("answer", "accepted", "exact", "overlap"), ELSEWHERE)
def test_scores_are_those_of_another_implementation(
    answer: str, accepted: list[str], exact: float, overlap: float
) -> None:
    assert exact_match(answer, accepted) == exact
    assert f1(answer, accepted) == pytest.approx(overlap, abs=1e-6)


@given(WORDS, WORDS)
def test_f1_is_symmetric_and_one_for_an_exact_match(one: str, other: str) -> None:
    assert f1(one, [other]) == f1(other, [one])
    assert 0.0 <= f1(one, [other]) <= 1.0
    assert exact_match(one, [other]) <= f1(one, [other])
    assert normalize(normalize(one)) == normalize(one)


@given(WORDS, st.lists(WORDS, max_size=3), WORDS)
def test_another_accepted_answer_never_hurts(answer: str, accepted: list[str], more: str) -> None:
    for score in (exact_match, f1):
        assert score(answer, [*accepted, more]) >= score(answer, accepted)


def test_examples() -> None:
    for module in (suite, retrieval):
        assert doctest.testmod(module).failed == 0
