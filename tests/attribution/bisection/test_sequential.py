"""The test between two levels, by its numbers; what a cause says and records; and how continuations are shared out."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from recompact.attribution.bisection.bisect import FEWEST, MOST, allowance, bisection_unit
from recompact.attribution.bisection.cause import (
    NO_TRIAL,
    Cause,
    Levels,
    SequentialTest,
    Trial,
    levels_of,
    read_causes,
    write_cause,
)
from recompact.attribution.bisection.pieces import Intervention, Piece
from recompact.attribution.bisection.search import Search, search
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId, Outcome, Outcomes

AT = BoundaryId("collect/a", 2)


def outcomes(*steps: int, value: float = 1.0) -> list[Outcome]:
    return [Outcome(value, each) for each in steps]


def test_rates_of_success_are_smoothed() -> None:
    levels = levels_of("success", outcomes(1, 1, 1), outcomes(1, 1, value=0.0))
    assert levels == Levels("success", 4 / 5, 1 / 4)


def test_steps_have_their_means_and_the_spread_around_them() -> None:
    levels = levels_of("steps", outcomes(8, 12), outcomes(20, 24, 28))
    assert levels is not None
    assert (levels.without, levels.lost) == (10, 24)
    assert levels.spread == pytest.approx(math.sqrt((4 + 4 + 16 + 0 + 16) / 3))
    equal = levels_of("steps", outcomes(8, 8), outcomes(20, 20))
    assert equal is not None
    assert equal.spread == 1.0  # equal lengths do not mean that the next one must be equal
    alone = levels_of("steps", outcomes(8), outcomes(20))
    assert alone == Levels("steps", 8, 20, 1.0)
    assert levels_of("steps", outcomes(20), outcomes(8)) is None


def test_evidence_is_the_logarithm_of_the_likelihood_ratio() -> None:
    levels = Levels("success", 0.8, 0.2)
    assert levels.evidence(Outcome(1.0, 9)) == pytest.approx(math.log(4))
    assert levels.evidence(Outcome(0.0, 9)) == pytest.approx(-math.log(4))
    assert levels.evidence(Outcome(0.5, 9)) == pytest.approx(0)
    steps = Levels("steps", 10, 20, 2.0)
    assert steps.evidence(Outcome(1.0, 15)) == pytest.approx(0)
    assert steps.evidence(Outcome(0.0, 10)) == pytest.approx(100 / 8)


@pytest.mark.parametrize(
    ("values", "decision"),
    [
        ([], None),
        ([1.0], None),  # no single draw decides
        ([1.0, 1.0], "closes"),
        ([0.0, 0.0], "does not close"),
        ([1.0, 0.0], None),
        ([1.0, 0.0, 1.0], None),
        ([1.0, 0.0, 1.0, 1.0], "closes"),
        ([1.0, 0.0] * 3 + [1.0], None),
        ([1.0, 0.0] * 4, "undecided"),
    ],
)
def test_draws_decide_as_soon_as_they_are_sure_enough(values: list[float], decision: str | None) -> None:
    test = SequentialTest(Levels("success", 0.75, 0.25), error=0.15)
    assert test.decide([Outcome(value, 9) for value in values]) == decision


def test_of_copies_one_draw_is_all_there_is() -> None:
    test = SequentialTest(Levels("success", 0.75, 0.25), copies=True)
    assert [test.decide(draws) for draws in ([], outcomes(9), outcomes(9, value=0.0))] == [
        None,
        "closes",
        "does not close",
    ]
    assert test.decide([Outcome(0.5, 9)]) == "does not close"  # nothing speaks for it


def test_a_search_brings_back_success_where_verification_saw_it_lost() -> None:
    def lost(pre: float, post: float) -> str:
        verified = Outcomes({0: Outcome(pre, 9)}, {0: Outcome(post, 9)})
        return Search(AT, (), (), verified).loss

    threshold = Search(AT, (), (), Outcomes({}, {})).thresholds.hazard
    assert lost(1.0, 1.0 - threshold) == "success"
    assert lost(1.0, 1.01 - threshold) == "steps"
    assert lost(0.0, 1.0) == "steps"


def test_where_nothing_was_dropped_nothing_is_asked() -> None:
    asked = search(Search(AT, (), (), Outcomes({0: Outcome(1.0, 9)}, {0: Outcome(0.0, 9)})))
    with pytest.raises(StopIteration) as ended:
        next(asked)
    assert (ended.value.value.ending, ended.value.value.draws) == ("nothing dropped", 0)


# --- what a search is given


@given(st.integers(0, 2_000), st.integers(0, 30), st.floats(0.1, 1.0))
def test_continuations_are_shared_among_the_most_harmful(continuations: int, number: int, share: float) -> None:
    every = tuple(BoundaryId("collect/a", n) for n in range(number))
    given_ = allowance(every, continuations, share)
    total = int(continuations * share)
    assert given_.boundaries + given_.passed_over == every
    assert (len(given_.boundaries) > 0) == (number > 0)
    if number:
        assert FEWEST <= given_.each <= MOST
        assert given_.total == max(total, given_.each * len(given_.boundaries))
        if given_.passed_over:  # nobody is passed over while there is enough for one more
            assert total < FEWEST * (len(given_.boundaries) + 1)


def test_a_continuation_is_named_by_what_was_changed() -> None:
    few = Intervention(frozenset({"turn 2"}))
    assert bisection_unit("a", 3, few, 1) == "bisect/a/3/turn.2/1"
    fitting, longer = (Intervention(frozenset({"turn 1" + "0" * n})) for n in (54, 55))
    assert bisection_unit("a", 3, fitting, 0) == f"bisect/a/3/{fitting.key}/0"
    assert longer.key not in bisection_unit("a", 3, longer, 0)
    assert len(bisection_unit("a", 3, longer, 0)) == len("bisect/a/3//0") + 16


# --- what it found


def piece(kind: str, number: int, tokens: int = 1_200) -> Piece:
    return Piece(kind, number, f"text {number}", tokens, "## Done")  # type: ignore[arg-type]


def found(*names: str, ending: str = "found", loss: str = "success") -> Cause:
    pieces = (piece("entry", 1), piece("turn", 1), piece("turn", 2))
    lines = (piece("line", 1), piece("request", 1))
    closing, lost = tuple(outcomes(10, 11)), tuple(outcomes(30, 30, 31, value=0.0))
    return Cause(
        AT,
        ending,  # type: ignore[arg-type]
        loss,  # type: ignore[arg-type]
        14,
        tuple(each for each in (*pieces, *lines) if each.name in names),
        len(pieces),
        sum(each.tokens for each in pieces),
        Trial(lost),
        Trial(closing),
        Trial(closing),
        Trial(lost[:1]) if "placebo" not in ending else NO_TRIAL,
    )


@pytest.mark.parametrize(
    ("names", "change", "taken_out", "tokens"),
    [
        (("turn 1",), "putting back", False, 1_200),
        (("turn 1", "entry 1"), "putting back", False, 2_400),
        (("line 1",), "taking out", True, 1_200),
        (("line 1", "request 1"), "changing", True, 2_400),
        (("request 1",), "putting back", False, 1_200),
    ],
)
def test_what_was_done_with_the_pieces(names: tuple[str, ...], change: str, taken_out: bool, tokens: int) -> None:
    cause = found(*names)
    assert {each.name for each in cause.pieces} == set(names)
    assert (cause.change, cause.taken_out, cause.tokens) == (change, taken_out, tokens)
    assert (cause.known, cause.draws, cause.dropped, cause.dropped_tokens) == (True, 14, 3, 3_600)


def test_a_sentence_has_the_numbers_of_the_loss() -> None:
    one, more = found("turn 1").sentence(), found("turn 1", "turn 2", loss="steps").sentence()
    for number in ("1 piece ", "(1,200 of 3,600", "2 of 2 succeed with it", "0 of 3 succeed without", "0 of 1 succeed"):
        assert number in one
    for number in ("2 pieces", "(2,400 of 3,600", "10.5 steps in 2 draws with them", "30.3 steps in 3 draws without"):
        assert number in more
    # Where steps are lost, a reader judges them beside those of a context that lost nothing.
    assert "10.5 steps in 2 draws with everything put back" in more
    assert "everything" not in one
    assert "3,600" not in found("line 1").sentence()
    assert "3,600" not in found("request 1").sentence()
    unknown = found("turn 1", ending="not confirmed")
    assert (unknown.known, "closes the loss:" in unknown.sentence()) == (False, False)


def test_a_record_reads_as_it_was_written(tmp_path_factory: pytest.TempPathFactory) -> None:
    first, second = found("turn 1", "line 1", loss="steps"), found("request 1")
    assert Cause.from_json(json.loads(json.dumps(first.to_json()))) == first
    with Store.open(tmp_path_factory.mktemp("cause") / "run.db") as store:
        write_cause(store, first)
        assert read_causes(store) == {AT: first}
        write_cause(store, second)
        assert read_causes(store) == {AT: second}


def test_draws_count_what_came_of_them() -> None:
    trial = Trial((Outcome(1.0, 10), Outcome(0.5, 11), Outcome(0.0, 13)))
    assert (trial.draws, trial.success) == (3, 0.5)
    assert trial.words("success") == "1.5 of 3 succeed"
    assert trial.words("steps") == "11.3 steps in 3 draws"
    assert Piece("turn", 3, "x", 5).name == "turn 3"
