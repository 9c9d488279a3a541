"""The search for a cause, in worlds whose cause is planted: it is found, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from examples import examples
from hypothesis import given, strategies as st

from recompact.attribution.bisection.cause import Cause, SequentialTest, levels_of
from recompact.attribution.bisection.pieces import Intervention, Piece
from recompact.attribution.bisection.search import MOST_PIECES, Search, search
from recompact.values.outcome import BoundaryId, Outcome, Outcomes

World = Callable[[Intervention], Outcome]


def where(closed: Callable[[Intervention], bool], bad: Outcome | None = None) -> World:
    """A world in which the loss is closed after some interventions."""
    return lambda intervention: GOOD if closed(intervention) else bad or BAD


def coin(rate: float, seed: int) -> World:
    """A world in which interventions change nothing."""
    rng = Random(seed)
    return lambda intervention: Outcome(float(rng.random() < rate), rng.randrange(5, 30))


def pieces(number: int, kind: str = "turn", tokens: int = 100) -> tuple[Piece, ...]:
    return tuple(Piece(kind, n, f"{kind} {n} text", tokens) for n in range(1, number + 1))  # type: ignore[arg-type]


def play(given_: Search, world: World) -> tuple[Cause, list[Intervention]]:
    """The result of a search in a world, and what it asked for."""
    conversation = search(given_)
    asked: list[Intervention] = []
    try:
        intervention = next(conversation)
        while True:
            asked.append(intervention)
            intervention = conversation.send(world(intervention))
    except StopIteration as ended:
        return ended.value, asked


def names(cause: Cause) -> frozenset[str]:
    return frozenset(piece.name for piece in cause.pieces)


AT = BoundaryId("collect/b", 1)
GOOD, BAD = Outcome(1.0, 10), Outcome(0.0, 30)
LOST_SUCCESS = Outcomes(dict.fromkeys(range(3), GOOD), dict.fromkeys(range(3), BAD))
LOST_STEPS = Outcomes(dict.fromkeys(range(3), GOOD), {n: Outcome(1.0, 18) for n in range(3)})


@given(st.data(), st.integers(1, 14), st.booleans())
def test_the_planted_cause_is_found_whatever_it_is(data: st.DataObject, number: int, success: bool) -> None:
    every = pieces(number)
    cause = frozenset(data.draw(st.sets(st.sampled_from([p.name for p in every]), min_size=1, max_size=MOST_PIECES)))
    bad = BAD if success else Outcome(1.0, 18)
    world = where(lambda intervention: cause <= intervention.back, bad)
    given_ = Search(AT, every, (), LOST_SUCCESS if success else LOST_STEPS, most=200)
    result, asked = play(given_, world)
    assert result.draws == len(asked)
    assert (result.ending, names(result)) == ("found", cause)
    assert result.closing.success == 1.0
    assert result.loss == ("success" if success else "steps")


@given(st.integers(0, 10), st.integers(0, 5), st.integers(1, 60))
def test_no_search_asks_for_more_than_it_may(number: int, lines: int, most: int) -> None:
    world = coin(0.5, most)
    given_ = Search(AT, pieces(number), pieces(lines, "line"), LOST_SUCCESS, most=most)
    result, asked = play(given_, world)
    assert len(asked) == result.draws <= most


def test_a_loss_that_is_not_seen_again_has_no_cause() -> None:
    result, _ = play(Search(AT, pieces(5), (), LOST_SUCCESS), lambda intervention: GOOD)
    assert (result.ending, names(result)) == ("not seen again", frozenset())


def test_a_compaction_whose_undoing_costs_success_helped() -> None:
    result, _ = play(Search(AT, pieces(5), (), LOST_STEPS), lambda i: Outcome(0.0, 10) if i.back else Outcome(1.0, 18))
    assert result.ending == "helped"


def test_where_any_piece_would_do_none_is_the_cause() -> None:
    """A restored turn may itself change how an agent behaves: the placebo closes the loss too."""
    result, _ = play(Search(AT, pieces(6), (), LOST_SUCCESS), lambda i: GOOD if i.back else BAD)
    assert result.ending == "placebo closes it"


def test_where_the_placebo_stays_undecided_no_cause_is_named() -> None:
    """A cause is what closes the loss where a placebo does not; this one does every other time."""
    placebo: list[Outcome] = []

    def world(intervention: Intervention) -> Outcome:
        if "turn 2" in intervention.back or len(intervention.back) == 6:
            return GOOD
        if len(intervention.back) == 1:  # asked again and again only as a placebo
            placebo.append(GOOD if len(placebo) % 2 else BAD)
            return placebo[-1]
        return BAD

    result, _ = play(Search(AT, pieces(6), (), LOST_SUCCESS, suspects=("turn 2",), most=200), world)
    assert (result.ending, result.known) == ("placebo undecided", False)
    assert result.placebo.success == 0.5


def test_a_false_sentence_is_found_by_taking_it_out() -> None:
    world = where(lambda i: "line 3" in i.out)
    result, _ = play(Search(AT, pieces(4), pieces(5, "line"), LOST_SUCCESS), world)
    assert (result.ending, names(result)) == ("found", frozenset({"line 3"}))
    assert result.placebo.outcomes


@pytest.mark.parametrize("cause", ["line 2", "request 1"])
def test_where_any_turn_would_do_the_summary_itself_is_searched(cause: str) -> None:
    """The agent falls for a fresh summary only: any turn cures it, and so does mending what the summary says."""
    request = Piece("request", 1, "Pay Ann.", 100)
    lines = pieces(5, "line")
    world = where(lambda i: bool(i.back - {"request 1"}) or cause in i.back | i.out)
    result, _ = play(Search(AT, pieces(6), lines, LOST_SUCCESS, statements=(*lines[:2], request)), world)
    assert (result.ending, names(result)) == ("found", frozenset({cause}))
    assert result.placebo.success < result.closing.success


@examples(25)
@given(st.integers(0, 10_000))
def test_a_placebo_never_closes_what_a_named_cause_closes(seed: int) -> None:
    lines = pieces(4, "line")
    result, _ = play(Search(AT, pieces(9), lines, LOST_SUCCESS, statements=lines[:2], most=60), coin(0.4, seed))
    if result.ending == "found" and result.placebo.outcomes:
        assert result.levels is not None
        verdicts = [
            SequentialTest(result.levels, error=0.1).decide(t.outcomes) for t in (result.closing, result.placebo)
        ]
        assert verdicts[0] == "closes" != verdicts[1]


def test_where_nothing_closes_it_no_cause_is_named() -> None:
    result, _ = play(Search(AT, pieces(4), pieces(5, "line"), LOST_SUCCESS), lambda i: BAD)
    assert (result.ending, names(result)) == ("not closed by everything", frozenset())


def test_a_piece_alone_needs_no_placebo() -> None:
    result, _ = play(Search(AT, pieces(1), (), LOST_SUCCESS), lambda i: GOOD if i.back else BAD)
    assert (result.ending, result.placebo.outcomes) == ("found", ())


def test_right_suspects_save_draws_and_wrong_ones_change_no_cause() -> None:
    world = where(lambda i: "turn 2" in i.back)
    plain, _ = play(Search(AT, pieces(14), (), LOST_SUCCESS), world)
    right, _ = play(Search(AT, pieces(14), (), LOST_SUCCESS, suspects=("turn 2",)), world)
    wrong, _ = play(Search(AT, pieces(14), (), LOST_SUCCESS, suspects=("turn 9", "no such piece")), world)
    assert names(plain) == names(right) == names(wrong) == {"turn 2"}
    assert right.draws < plain.draws


def test_copies_are_one_draw_for_each_context() -> None:
    world = where(lambda i: "turn 2" in i.back)
    result, asked = play(Search(AT, pieces(8), (), LOST_SUCCESS, copies=True), world)
    assert names(result) == {"turn 2"}
    assert len(asked) == len(set(asked))


@examples(25)
@given(st.integers(0, 10_000))
def test_chance_alone_rarely_names_a_cause(seed: int) -> None:
    """Where the pieces change nothing, a search may err, but says `found` only after fresh draws and a placebo."""
    result, _ = play(Search(AT, pieces(9), (), LOST_SUCCESS), coin(0.4, seed))
    if result.ending == "found":
        assert result.closing.outcomes
        assert result.placebo.success < result.closing.success


def test_harmless_compactions_get_no_false_cause() -> None:
    """Over many searches where no piece matters, causes are rare."""
    results = [play(Search(AT, pieces(9), (), LOST_SUCCESS), coin(0.5, seed))[0] for seed in range(300)]
    causes = sum(result.ending == "found" for result in results)
    assert causes <= 0.1 * len(results), causes


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 7), st.floats(0, 1))
def test_a_better_draw_never_turns_closing_into_not_closing(values: list[float], at: int, more: float) -> None:
    levels = levels_of("success", [GOOD] * 3, [BAD] * 3)
    assert levels is not None
    test = SequentialTest(levels)
    better = [*values]
    better[at % len(values)] = max(better[at % len(values)], more)
    first, second = (test.decide([Outcome(v, 5) for v in each]) for each in (values, better))
    rank = {"does not close": 0, None: 1, "undecided": 1, "closes": 2}
    assert rank[second] >= rank[first]


@pytest.mark.parametrize("loss", ["success", "steps"])
def test_levels_that_do_not_differ_are_none(loss: str) -> None:
    assert levels_of(loss, [GOOD] * 3, [GOOD] * 3) is None  # type: ignore[arg-type]
