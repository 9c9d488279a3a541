"""The tables of a replay, from conditions made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up_runs import begin, collect
from report_support import adapted_template
from sentences import numbers_in

from recompact.engine.store.adaptations import AdaptationRecord, write_adaptation
from recompact.engine.store.store import Store
from recompact.evaluation.replay import Condition, Replay, ReplayDraw, cited_boundaries
from recompact.evaluation.replay_tables import case_table, condition_table, fact_table, tally
from recompact.evaluation.replay_verdict import ReplayVerdict
from recompact.evaluation.summary import SIMULATED
from recompact.values.candidate import Candidate, Clause, Selection
from recompact.values.outcome import BoundaryId, Effect, Thresholds
from recompact.values.stats import Estimate
from recompact.values.tables import Number
from recompact.values.template import default_template

EFFECT = Effect(Estimate(1.0, 0.5, 1.0), Estimate(-2.0, -5.0, 1.0), 3, 3, 0.9, 0.8, "error")


def draw(
    success: bool, steps: int, *kept: str, tokens: int = 20, answer: str = "", ending: str = "finished"
) -> ReplayDraw:
    return ReplayDraw(success, float(success), steps, ending, answer, "a summary", tokens, kept)


def replay(*conditions: Condition, needed: tuple[str, ...] = ("k1", "k2")) -> Replay:
    return Replay(BoundaryId("collect/task", 2), Thresholds(0.5, 5.0), needed, conditions, (), ())


PRE = Condition("PRE", (draw(True, 4, "k1", "k2", answer="yes"), draw(True, 6, "k1", "k2", answer="yes")))
POST = Condition(
    "POST",
    (draw(True, 9, "k1", answer="yes", tokens=10), draw(False, 12, tokens=30, ending="step limit")),
    EFFECT,
    "hash",
)
NOTHING = Condition("control", ())


def texts(row: tuple[Any, ...]) -> list[Any]:
    return [cell.text if isinstance(cell, Number) else cell for cell in row]


def test_each_condition_is_a_row() -> None:
    table = condition_table(replay(PRE, POST, NOTHING))
    assert table.title == "task#2"
    assert [column.title for column in table.columns] == [
        *("condition", "success", "mean steps", "H", "B", "summary tokens", "needed facts kept", "endings", "answers"),
    ]
    assert [texts(row) for row in table.rows] == [
        ["PRE", "2/2", "5.0", None, None, None, None, "finished ×2", "yes ×2"],
        [
            *("POST", "1/2", "10.5", "+1.00 [+0.50, +1.00]*", "-2.0 [-5.0, +1.0]", "20", "0.5 of 2"),
            *("finished, step limit", "yes"),
        ],
        ["control", "0/0", None, None, None, None, None, "", ""],
    ]


def test_thresholds_and_simulated_models_are_told_below() -> None:
    (said,) = condition_table(replay(PRE)).notes
    assert numbers_in(said)[-2:] == ["0.5", "5"]
    assert condition_table(replay(PRE), simulated=True).notes == (said, SIMULATED)


def test_where_no_fact_was_needed_none_is_kept() -> None:
    table = condition_table(replay(PRE, POST, needed=()))
    assert [row[6] for row in table.rows] == [None, None]
    assert fact_table(replay(PRE, POST, needed=())) is None


def test_in_how_many_draws_each_fact_is_kept() -> None:
    table = fact_table(replay(PRE, POST, NOTHING))
    assert table is not None
    assert [column.key for column in table.columns] == ["fact", "POST", "control"]
    assert table.rows == (("k1", "1/2", "0/0"), ("k2", "0/2", "0/0"))
    assert len(table.notes) == 1


@pytest.mark.parametrize(("count", "more"), [(19, None), (20, None), (21, "1 more: --json"), (25, "5 more: --json")])
def test_twenty_facts_are_listed(count: int, more: str | None) -> None:
    table = fact_table(replay(PRE, POST, needed=tuple(f"k{n}" for n in range(count))))
    assert table is not None
    assert len(table.rows) == min(count, 20)
    assert table.notes[1:] == ((more,) if more else ())


@pytest.mark.parametrize(("length", "shown"), [(40, 40), (79, 79), (80, 41)])
def test_a_long_answer_or_fact_is_cut(length: int, shown: int) -> None:
    """After forty characters, unless that would save hardly anything."""
    long = "x" * length
    answered = Condition("POST", (draw(True, 1, answer=long),))
    (row,) = condition_table(replay(answered)).rows
    facts = fact_table(replay(answered, needed=(long,)))
    assert facts is not None
    for text in (row[-1], facts.rows[0][0]):
        assert isinstance(text, str)
        assert len(text) == shown
        assert text.endswith("…") is (shown != length)


def test_values_are_tallied_the_most_frequent_first() -> None:
    assert tally([]) == ""
    assert tally(["a", "b", "b"]) == "b ×2, a"
    assert tally(["a", "b"]) == "a, b"


def test_a_condition_as_json_tells_what_is_kept_but_not_of_pre() -> None:
    assert (PRE.kept, POST.kept, NOTHING.kept) == (2, 0.5, None)
    assert PRE.to_json()["kept"] is None
    assert POST.to_json()["kept"] == 0.5
    assert POST.to_json()["effect"] == EFFECT.to_json()
    assert NOTHING.to_json()["effect"] is None
    found = replay(PRE, POST).to_json()
    assert found["boundary"] == "task#2"
    assert found["thresholds"] == {"hazard": 0.5, "burden": 5.0}
    assert found["needed"] == ["k1", "k2"]
    assert [each["name"] for each in found["conditions"]] == ["PRE", "POST"]
    assert (found["verdicts"], found["left_out"]) == ([], {})


def test_cited_are_the_compactions_that_the_clauses_of_winners_answer(tmp_path: Path) -> None:
    clauses = (Clause("Keep it.", "Goal", ("a#1", "gone#1")), Clause("Keep that.", "Goal", ("b#1", "a#1")))
    candidate = Candidate("c1", adapted_template(), clauses=clauses)
    with Store.open(tmp_path / "run.db") as store:
        begin(store)
        for task in "abc":
            collect(store, task)
        for method, winner in (("causes", "c1"), ("pair", "c1"), ("facts", "original")):
            selection = Selection((), winner, ())
            write_adaptation(
                store, AdaptationRecord(method, "compaction", default_template().hash, (candidate,), selection)
            )
        assert cited_boundaries(store) == [BoundaryId("collect/a", 1), BoundaryId("collect/b", 1)]


def judged(template: str, recurs: bool | None, gone: bool | None, shown: bool | None) -> ReplayVerdict:
    return ReplayVerdict(template, bool(recurs and gone and shown), recurs, gone, shown, "words")


def test_cited_compactions_are_rows_with_what_became_of_each() -> None:
    control = Condition("control", (draw(False, 9), draw(False, 11)))
    one, other = (Condition(name, (draw(True, 5),)) for name in ("causes", "pair"))
    first = replace(
        replay(PRE, POST, control, one, other),
        verdicts=(judged("causes", True, True, True), judged("pair", False, None, False)),
    )
    plain = replace(
        replay(PRE, replace(POST, effect=None), control, one), verdicts=(judged("causes", True, True, None),)
    )
    table = case_table([first, plain])
    assert [column.title for column in table.columns][:4] == ["boundary", "by", "channel", "PRE"]
    before = ["2/2", "5.0", "1/2", "10.5", "0/2", "10.0", "1/1", "5.0"]
    assert [texts(row) for row in table.rows] == [
        ["task#2", "causes", "error", *before, "yes", "yes", "yes", "yes"],
        ["task#2", "pair", "error", *before, "no", "?", "no", "no"],
        ["task#2", "causes", None, *before, "yes", "yes", "?", "no"],
    ]
    groups = [(note.partition(":")[0], numbers_in(note)) for note in table.notes[1:]]
    assert groups == [
        ("causes, a loss of success", ["1", "1", "0"]),
        ("pair, a loss of success", ["0", "1", "1"]),
        ("causes, no harm", ["0", "1", "0"]),
    ]
    assert case_table([first], simulated=True).notes == (*case_table([first]).notes, SIMULATED)
