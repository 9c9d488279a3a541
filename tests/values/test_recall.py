"""Dropped turns that are looked up: the best first, within the tokens that were granted."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from recompact.values.chat import assistant
from recompact.values.context import Turn
from recompact.values.recall import NOTHING, recall, search


def count(text: str) -> int:
    return len(text) // 4 + 1


def turn(text: str) -> Turn:
    return Turn.measured(assistant(text), (), count)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.integers(40, 300))
def test_what_is_recalled_keeps_within_its_limit(sizes: list[int], limit: int) -> None:
    turns = [turn(f"the code of room {number}: " + "x " * size) for number, size in enumerate(sizes)]
    assert 0 < count(recall("code of room", turns, limit, count)) <= limit


def test_the_best_fit_comes_first() -> None:
    turns = [turn("the weather is fine"), turn("the code of room 7 is 1234"), turn("room 7 is on the left")]
    shown = recall("code of room 7", turns, 1_000, count)
    assert shown.index("1234") < shown.index("on the left")


def bm25(query: list[str], texts: list[list[str]]) -> list[float]:
    """The scores of Okapi BM25 as its paper gives them, with the weight that is never negative."""
    mean = sum(map(len, texts)) / len(texts)
    scores = []
    for words in texts:
        score = 0.0
        for word in set(query):
            having = sum(word in each for each in texts)
            weight = math.log((len(texts) + 1) / (having + 0.5))
            times = words.count(word)
            score += weight * 2.2 * times / (times + 1.2 * (0.25 + 0.75 * len(words) / mean))
        scores.append(score)
    return scores


WORDS = st.lists(st.sampled_from("abcde"), min_size=1, max_size=9)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=6))
def test_texts_come_by_their_score_and_of_equal_ones_the_latest_first(query: list[str], texts: list[list[str]]) -> None:
    scores = bm25(query, texts)
    order = search(" ".join(query).upper(), [" ".join(words) for words in texts])
    assert sorted(order) == [n for n, score in enumerate(scores) if score > 0]
    for before, after in pairwise(order):
        assert scores[before] > scores[after] - 1e-12
        if texts[before] == texts[after]:
            assert before > after


def test_what_has_no_word_of_the_query_is_not_recalled() -> None:
    assert recall("zebra", [turn("the weather is fine")], 100, count) == NOTHING
    assert search("zebra", []) == search("zebra", ["", ""]) == []


def test_a_turn_that_hardly_fits_is_left_out_and_the_first_is_cut() -> None:
    long, short = turn("code " + "x " * 400), turn("the code is 7")
    assert "code is 7" in recall("the code is", [short, long], 60, count)
    alone = recall("code", [long], 60, count)
    assert "tokens" in alone  # the mark of a cut
    assert count(alone) <= 60


def said(text: str) -> Turn:
    return Turn(assistant(text), (), 0)


@pytest.mark.parametrize(("room", "turns"), [(24, 1), (25, 2), (60, 2)])
def test_what_comes_next_is_shown_where_a_quarter_of_the_room_is_left(room: int, turns: int) -> None:
    heading = len(said("x").text) - 1
    best, other = said(("code " * 30)[: 103 - room - heading]), said("the code")
    assert len(best.text) == 103 - room
    texts = [best.text, other.text]
    assert recall("code", [other, best], 103, len) == "\n\n".join(texts[:turns])


@pytest.mark.parametrize(("fewer", "turns"), [(0, 2), (1, 1)])
def test_turns_may_fill_the_limit_to_the_last_token(fewer: int, turns: int) -> None:
    best, other = said("code code"), said("the code")
    whole = f"{best.text}\n\n{other.text}"
    shown = recall("code", [other, best], len(whole) - fewer, len)
    assert (shown == whole) is (turns == 2)
    assert len(shown) <= len(whole) - fewer
