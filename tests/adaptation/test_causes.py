"""The method `causes`: tested causes become general clauses, success before steps, and nothing of a task gets in."""

from __future__ import annotations

from typing import Any

import pytest
from sentences import numbers_in

from recompact.adaptation.cause_kinds import Trials, check_clause, kinds_of
from recompact.adaptation.causes import KindOfCause, Settings, candidates_from, weigh_kinds
from recompact.adaptation.facts import CLAUSES
from recompact.adaptation.missing_facts import KINDS, Kind
from recompact.attribution.bisection.cause import Cause, Trial
from recompact.attribution.bisection.pieces import Piece
from recompact.values.chat import Message, ToolCall, system, user
from recompact.values.context import Context, Summary, Turn
from recompact.values.outcome import BoundaryId, Outcome
from recompact.values.template import default_template
from recompact.values.trajectory import Boundary, Score, Trajectory

PREFIX = (system("Be brief."), user("The task."))
AT = Boundary(1, 3, Context(PREFIX), Context(PREFIX, Summary("## Goal\nPay Ann.", 5)), None, ())


def piece(kind: str, text: str, number: int = 1) -> Piece:
    return Piece(kind, number, text, 10)  # type: ignore[arg-type]


def cause(*pieces: Piece, loss: str = "success", task: str = "a", **more: Any) -> Cause:
    ends = {"closing": Trial((Outcome(1.0, 3),) * 2), "post": Trial((Outcome(0.0, 9),) * 2)}
    return Cause(BoundaryId(f"collect/{task}", 1), "found", loss, 12, pieces, 5, 100, **{**ends, **more})  # type: ignore[arg-type]


def ending_with(*arguments: str) -> Trajectory:
    """A continuation that made one call with each of these arguments."""
    turns = tuple(
        Turn(Message("assistant", "", (ToolCall(f"c{n}", "pay", text),)), (Message("tool", "ok", call_id=f"c{n}"),), 5)
        for n, text in enumerate(arguments)
    )
    return Trajectory("a", turns, (), "finished", Score.of(True), Context(PREFIX, turns=turns))


RECORDS = '[assistant]\n-> list({"page": 2})\n[result of list]\n{"items": [{"id": "r1"}, {"id": "r2"}], "pages": 4}'


@pytest.mark.parametrize(
    ("kind", "text", "used", "expected"),
    [
        ("turn", RECORDS, '{"id": "r1"}', {"result", "page"}),
        ("entry", "- requests, pages 1 to 2 of 4: id|amount\n  r1|3.20\n  r2|4.10", '{"id": "r1"}', {"result", "page"}),
        ("entry", "- payments token: pay-21d92116", '{"token": "pay-21d92116"}', {"secret"}),
        ("entry", "- Ann's account is acc-7f31", '{"to": "acc-7f31"}', {"identifier"}),
        ("entry", "- Ann's account is acc-7f31", '{"to": "other"}', set()),
    ],
)
def test_the_kind_of_a_cause_is_that_of_what_came_back_and_was_used(
    kind: str, text: str, used: str, expected: set[Kind]
) -> None:
    assert set(kinds_of(cause(piece(kind, text)), AT, Trials(closing=(ending_with(used),)))) == expected


@pytest.mark.parametrize(
    ("kind", "heading", "expected"),
    [("line", "## Done", "open"), ("line", "## Goal", "condition"), ("request", "## Goal", "condition")],
)
def test_what_a_summary_said_wrongly_is_about_conditions_or_open_work(kind: str, heading: str, expected: Kind) -> None:
    said = Piece(kind, 1, "All is paid.", 10, heading)  # type: ignore[arg-type]
    assert kinds_of(cause(said), AT, Trials()) == (expected,)


def test_a_change_that_was_made_again_while_its_entry_was_missing_is_finished_work() -> None:
    entry = piece("entry", '- [x] pay(to="acc-7f31", amount=12.50, note="rent May")')
    again = ending_with('{"to": "acc-7f31", "amount": "12.50", "note": "rent May", "token": "t-91"}')
    trials = Trials(lost=(again,), closing=(ending_with('{"to": "other"}'),))
    assert kinds_of(cause(entry), AT, trials) == ("done",)


@pytest.mark.parametrize("text", ["{", "[[[", "{]", "", "\x00", '{"a": 1e999}', "[" * 2000])
def test_no_text_of_an_environment_breaks_it(text: str) -> None:
    kinds_of(cause(piece("turn", text)), AT, Trials(closing=(ending_with("{}"),)))


def known(kind: Kind, losses: str) -> KindOfCause:
    """A kind with one cause for each letter: s for success, b for steps."""
    names = {"s": "success", "b": "steps"}
    own = tuple(cause(piece("entry", "x"), loss=names[letter], task=f"{kind}{n}") for n, letter in enumerate(losses))
    return KindOfCause(kind, own)


def test_the_first_candidate_answers_every_kind_and_the_second_what_cost_success() -> None:
    kinds = [known("result", "ssb"), known("page", "s"), known("secret", "bb")]
    one, two = candidates_from(default_template(), kinds, frozenset(), "causes")
    assert [len(candidate.clauses) for candidate in (one, two)] == [3, 2]
    assert two.template is not None
    assert {clause.answers for clause in two.clauses} == {("page0#1",), ("result0#1", "result1#1", "result2#1")}


@pytest.mark.parametrize("losses", ["ss", "bb"])
def test_one_candidate_where_a_second_would_be_the_same(losses: str) -> None:
    assert len(candidates_from(default_template(), [known("result", losses)], frozenset(), "causes")) == 1


def test_a_clause_carries_its_proof_and_an_untested_one_carries_none() -> None:
    (tested,) = candidates_from(default_template(), [known("result", "ssb")], frozenset(), "causes")
    assert numbers_in(tested.clauses[0].proof)[:2] == ["3", "2"]
    guess = KindOfCause("page", (cause(piece("turn", "x"), closing=Trial()),) * 2)
    (untested,) = candidates_from(default_template(), [guess], frozenset(), "causes-random")
    assert untested.clauses[0].proof == ""


def test_no_clause_tells_the_agent_what_to_do() -> None:
    kinds = [known(kind, "s") for kind in KINDS]
    (candidate,) = candidates_from(default_template(), kinds, frozenset(), "causes")
    assert len(candidate.clauses) == len(CLAUSES)
    assert not any(clause.tells_agent for clause in candidate.clauses)


@pytest.mark.parametrize(
    ("losses", "weights", "enough"), [("s", True, True), ("b", True, False), ("bb", True, True), ("s", False, False)]
)
def test_one_cause_of_lost_success_makes_a_clause_and_one_of_steps_does_not(
    losses: str, weights: bool, enough: bool
) -> None:
    causes = [(each, ("page",)) for each in known("page", losses).causes]
    assert bool(weigh_kinds(causes, Settings(weights=weights))) is enough  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Keep the token t-91 of Ann.",
        "The agent must check every payment.",
        "# Heading",
        "Keep {{ history }}",
        "x" * 301,
    ],
)
def test_a_clause_in_other_words_is_refused_where_it_names_a_task_or_tells_the_agent(text: str) -> None:
    with pytest.raises(ValueError):
        check_clause(text, frozenset({"t-91"}))


def test_a_usable_clause_is_one_line() -> None:
    assert check_clause("- Keep every page\n  that was read.", frozenset({"t-91"})) == "Keep every page that was read."
