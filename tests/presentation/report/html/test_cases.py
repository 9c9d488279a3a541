"""The most harmful compactions, the prompt's changes and the facts, as values."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from growth import LINEAR, growth
from report_support import (
    Page,
    adapted_template,
    add_boundary,
    claim,
    make_evaluation,
    make_verified,
    note_adaptation,
    render_undrawn,
    selected,
)
from rich.console import Console

from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.continuations import continuation_unit
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.statement import headline, why
from recompact.engine.config import VerifyConfig
from recompact.engine.store.adaptations import note_result
from recompact.engine.store.records import read_boundary, write_continuation, write_trajectory
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.presentation.report.content.cases import PAGE, TERMINAL, Case, case_of
from recompact.presentation.report.content.overview import boundary_table
from recompact.presentation.report.content.report import Report, read_report
from recompact.presentation.report.document import Fact, Piece
from recompact.presentation.report.html.page import render
from recompact.presentation.report.terminal import print_case
from recompact.values.candidate import Candidate, Clause
from recompact.values.chat import Message, ToolCall
from recompact.values.context import Context, Turn
from recompact.values.outcome import BoundaryId
from recompact.values.trajectory import Score, Trajectory


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    home = tmp_path_factory.mktemp("cases")
    return read_report([str(make_verified(home / "verified.db", ["red", "blue"]))], home, top=1)


@pytest.fixture(scope="module")
def case(report: Report) -> Case:
    return report.verified[0].cases[0]


def text_of(pieces: tuple[Piece, ...]) -> str:
    return "".join(piece.text for piece in pieces)


def test_top_says_how_many_are_shown(report: Report) -> None:
    assert len(report.verified[0].cases) == 1
    assert len(report.verified[0].boundaries.rows) == 2
    assert report.anchors == {str(report.verified[0].cases[0].id): "boundary-1-1"}


def test_a_case_tells_what_happened(case: Case) -> None:
    assert case.verdict.kind == "harmful"
    assert case.sentence == (
        "With the context before, the agent succeeded in 2 of 2 continuations; with the summary, in 0 of 2, and it took"
        f" 8.0 more steps on average. {why(case.verdict)}"
    )
    assert case.notes == ("The first summary was over the budget, so Recompact asked for another.",)
    assert case.diagnosis
    assert case.diagnosis.causes[0].mechanism == "omitted state"


def test_once_there_are_fresh_pairs_the_effects_shown_are_theirs_and_say_so(tmp_path: Path) -> None:
    path = make_verified(tmp_path / "verified.db", ["red"])
    with Store.open(path) as store:
        first = read_verdicts(store).verdicts[0]
        task = first.row.task
        for number in range(3):  # fresh pairs do no harm, and fresh summaries lose one task in three
            draws = (("PRE", "confirm", True), ("POST", "confirm", True), ("POST", "resample", number > 0))
            for arm, phase, success in draws:
                name = f"{phase}/{task}/1/{arm}/{number}"
                boundaries = (read_boundary(store, BoundaryId(first.id.unit, 1)),) if phase == "resample" else ()
                made = Trajectory(task, (), boundaries, "finished", Score.of(success), Context(()))
                write_trajectory(store, name, made, phase=phase, run=number, groups={}, seconds=0.0)
    read = read_report([str(path)], tmp_path, top=1).verified[0]
    case = read.cases[0]
    facts = {fact.label: fact for fact in case.facts}
    assert (facts["Success lost, H"].value, facts["Steps added, B"].value) == ("0.00", "0.0")
    assert facts["Success lost, H"].note.endswith("fresh pairs")
    assert (facts["Draws"].value, facts["Draws"].note) == ("3 PRE, 3 POST", "fresh pairs")
    assert facts["P(harmful)"].note == "without the fresh pairs"
    assert facts["H of the prompt, with fresh summaries"].value == "+0.33"
    assert case.sentence.startswith("In the verification, with the context before, the agent succeeded in 2 of 2")
    row = read.boundaries.rows[0]
    assert "3+3" in row
    assert any("fresh pairs are of those alone" in note for note in read.boundaries.notes)


def test_the_note_on_verdicts_is_that_of_the_allocation(tmp_path: Path) -> None:
    with Store.read(make_verified(tmp_path / "verified.db", ["red"])) as store:
        by_halving = " ".join(boundary_table(read_verdicts(store, VerifyConfig())).notes)
        by_racing = " ".join(boundary_table(read_verdicts(store, VerifyConfig(allocation="racing"))).notes)
    assert "goes by the estimates" in by_halving
    assert "goes by it" in by_racing
    assert "goes by the estimates" not in by_racing


def test_what_was_dropped_is_marked_in_pre_and_only_that(case: Case) -> None:
    assert [block.title for block in case.before] == [f"step {n}" for n in range(1, 6)]
    lines = [line for block in case.before for line in block.lines]
    marked = [piece.text for line in lines for piece in line.pieces if piece.kind == "dropped"]
    assert "rec-077" in marked
    assert "rec-577" not in case.literals  # it stands in the turn that was kept
    assert set(marked) <= set(case.literals)
    assert all(line.sign == "-" for line in lines if "rec-077" in line.text)
    assert [(line.sign, line.text) for line in lines if "blue" not in line.text and "rec-" not in line.text] == [
        *[(" ", "[result of look]")] * 5
    ]
    assert [line.sign for line in case.after[0].lines] == ["+"]
    assert ["".join(text_of(line.pieces) for line in block.lines) for block in case.after] == [
        "## Goal\nSummary: blue",
        "1 turn after that stays verbatim, in PRE as in POST",
    ]


def test_continuations_stand_side_by_side_with_their_marks(case: Case) -> None:
    (pair,) = case.pairs
    assert pair.pre
    assert pair.post
    assert pair.pre.title == "PRE, draw 1: success, finished after 4 steps"
    assert pair.post.title == "POST, draw 1: failure, finished after 12 steps"
    assert pair.parting == "They diverge at step 1."
    assert [step.diverges for step in pair.post.steps] == [True] + [False] * 11
    assert [step.again for step in pair.post.steps] == [True] * 6 + [False] * 6
    assert [step.again for step in pair.pre.steps] == [True] * 3 + [False]
    assert text_of(pair.post.steps[0].action) == 'look(page=0, note="blue")'
    assert text_of(pair.post.steps[0].observation).startswith('{"id": "rec-077"')
    assert pair.post.score == (Fact("answer", "answer blue"),)
    assert [other.title for other in case.others] == [
        "PRE, draw 2: success, finished after 4 steps, 3 actions done before",
        "POST, draw 2: failure, finished after 12 steps, 6 actions done before",
    ]


def needing(path: Path, fact: str = "rec-077") -> Path:
    """A verified run whose PRE continuations use a fact that the summary dropped."""
    make_verified(path, ["red"])
    with Store.open(path) as store:
        unit, name = "collect/task red", continuation_unit("task red", 1, "PRE", 9)
        call = ToolCall("c", "look", json.dumps({"id": fact}))
        turn = Turn(Message("assistant", "", (call,)), (Message("tool", "seen", call_id="c"),), 9)
        score = Score(False, 0.5, {"answer": "42", "checks": {"paid": False}})
        made = Trajectory("task red", (turn,), (), "finished", score, Context(()))
        write_continuation(store, name, unit, 1, "PRE", 9, made, seconds=0.0)
    return path


def test_what_was_needed_and_dropped_comes_first(tmp_path: Path) -> None:
    report = read_report([str(needing(tmp_path / "v.db"))], tmp_path)
    (found,) = report.verified[0].cases
    assert found.needed == ("rec-077",)
    assert "rec-077" not in found.literals
    marked = [p.text for block in found.before for line in block.lines for p in line.pieces if p.kind == "needed"]
    assert marked == ["rec-077"]
    html = render_undrawn(report)
    text = Page(html).text
    assert text.index("Dropped, and used") < text.index("Success lost, H") < text.index("other literals dropped")
    assert '<mark class="needed">rec-077</mark>' in html


def test_the_terminal_shows_the_same_facts_first_and_the_details_of_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store.read(needing(tmp_path / "v.db")) as store:
        evidence = boundary_view(store, BoundaryId("collect/task red", 1))
    print_case(Console(width=100, highlight=False), case_of(evidence, TERMINAL), simulated=False)
    shown = capsys.readouterr().out
    assert shown.index("Dropped, and used") < shown.index("rec-077") < shown.index("Success lost, H")
    for words in ("reward: 0.5", "answer: 42", 'checks: {"paid": false}', "PRE, draw 10", '- -> look({"page": 0'):
        assert words in " ".join(shown.split()).replace("│ ", "")
    data = evidence.to_json()
    assert data["needed"] == ["rec-077"]
    assert [pair["draw"] for pair in data["pairs"]] == [1, 2, 10]
    assert data["pairs"][2]["PRE"]["details"]["answer"] == "42"


def test_the_timeline_leads_to_the_cases(tmp_path: Path) -> None:
    report = read_report([str(make_verified(tmp_path / "v.db", ["red", "blue"]))], tmp_path, top=1)
    shown = report.verified[0].timeline
    assert shown
    assert [track.task for track in shown.tracks] == ["task blue", "task red"]
    (first,), (second,) = (track.marks for track in shown.tracks)
    assert (first.kind, report.anchors) == ("harmful", {str(first.id): "boundary-1-1"})
    assert str(second.id) not in report.anchors
    assert "after step 6: harmful, H +1.00, B +8.0" in first.title
    assert 0 < first.step < shown.tracks[0].steps <= shown.longest
    drawing = re.search(r"<svg.*?</svg>", render_undrawn(report), flags=re.DOTALL)
    assert drawing
    assert '<a href="#boundary-1-1"' in drawing[0]


def test_a_page_says_where_the_adapted_template_is(tmp_path: Path) -> None:
    run = make_verified(tmp_path / "runs" / "v.db", ["red"])
    candidate = Candidate("pair-1", adapted_template())
    with Store.open(run) as store:
        note_adaptation(store, candidate, selected(candidate))
        note_result(store, adapted_template().hash, tmp_path / "adapted")
        (method, record), *_ = store.metadata.adaptations.items()
        counts = {"about": "compaction", "pieces": 5, "diagnosed": 3, "abstained": 2}
        store.set_metadata(replace(store.metadata, adaptations={method: {**record, "evidence": counts}}))
    report = read_report([str(run)], tmp_path)
    assert report.selections[0].path == str(tmp_path / "adapted")
    assert report.selections[0].notes == ("Of 5 compactions, 3 were diagnosed, 2 were abstained on.",)
    assert f"--arm adapted={tmp_path / 'adapted'}" in report.next[0].command
    assert f'set template = "{tmp_path / "adapted"}"' in Page(render_undrawn(report)).text


def test_long_continuations_keep_their_beginning_and_their_end(tmp_path: Path) -> None:
    with Store.open(tmp_path / "long.db") as store:
        claim(store, "verify")
        store.set_metadata(replace(store.metadata, verified={"allocation": "uniform:1", "hazard": 0.5, "burden": 5.0}))
        add_boundary(store, "red", draws=1, steps=60)
    (found,) = read_report([str(tmp_path / "long.db")], tmp_path).verified[0].cases
    (pair,) = found.pairs
    assert PAGE.steps
    assert pair.post
    assert len(pair.post.steps) == PAGE.steps
    assert pair.post.hidden == 60 - PAGE.steps - 1
    assert pair.post.last
    assert pair.post.last.number == 60


def test_values_and_errors_that_are_cut_say_by_how_much(tmp_path: Path) -> None:
    run = make_verified(tmp_path / "v.db", ["x" * 5000])
    post = read_report([str(run)], tmp_path).verified[0].cases[0].pairs[0].post
    assert post
    assert post.score == (Fact("answer", f"answer {'x' * 193} […4,807 more characters]"),)
    assert post.error == f"error task {'x' * 289} […4,711 more characters]"


def test_without_harm_the_largest_effects_are_shown(tmp_path: Path) -> None:
    with Store.open(tmp_path / "fine.db") as store:
        claim(store, "verify")
        store.set_metadata(
            replace(store.metadata, verified={"allocation": "uniform:2", "hazard": 2.0, "burden": 100.0})
        )
        add_boundary(store, "red")
    report = read_report([str(tmp_path / "fine.db")], tmp_path)
    assert [found.verdict.kind for found in report.verified[0].cases] == ["harmless"]
    assert "These had the largest effects." in render_undrawn(report)
    assert report.lead[0].text == headline({"harmless": 1})


@pytest.mark.slow
def test_the_time_for_a_text_without_an_end_does_not_explode(tmp_path: Path) -> None:
    def report_about(size: int) -> None:
        texts = ["x" * size, "1" * size + "x", "a." * (size // 2), "a@" * (size // 2), '"' * size]
        run = make_verified(tmp_path / f"{next(numbers)}.db", texts)
        assert read_report([str(run)], tmp_path).verified[0].cases

    numbers = count()
    assert growth(report_about, 5_000) < LINEAR


# --- prompts


CLAUSE = "Keep every condition of the task exactly."


def test_an_adaptation_alone_gives_the_change_and_the_selection(tmp_path: Path) -> None:
    run = make_verified(tmp_path / "adapt.db", ["red"])
    rules = (Clause(CLAUSE, "Goal", ("task red#1", "gone#9")), Clause("Said nowhere.", "Goal", ("task red#1",)))
    with Store.open(run) as store:
        candidate = Candidate("pair-1", adapted_template(), rules)
        note_adaptation(store, candidate, selected(candidate))
    report = read_report([str(run)], tmp_path)
    (change,) = report.prompts
    assert (change.before, change.after) == ("original", "pair-1")
    assert [part.part for part in change.parts] == ["first", "update"]
    assert not any(part.structure for part in change.parts)
    lines = [(line.sign, line.text, line.clauses) for line in change.parts[0].sections[0].lines]
    assert ("+", CLAUSE, (rules[0],)) in lines
    assert change.loose == (rules[1],)
    assert report.selections[0].outcome.startswith("pair-1 was selected: 2 of 2 runs passed")
    assert "they flatter it" in report.selections[0].outcome
    html = render_undrawn(report)
    assert f'<a href="#{report.anchors["task red#1"]}">task red#1</a>, <span class="name">gone#9</span>' in html
    assert "<ins>" in html


def test_an_evaluation_gives_the_templates_of_its_arms(tmp_path: Path) -> None:
    report = read_report([str(make_evaluation(tmp_path / "e.db", names=["twin"]))], tmp_path)
    assert [(change.before, change.after) for change in report.prompts] == [("prompting/history", "PAIR/history")]
    assert not report.prompts[0].loose


def test_given_templates_come_first_and_their_manifest_tells_why(tmp_path: Path) -> None:
    adapted_template().save(tmp_path / "after")
    rule = {"clause": CLAUSE, "section": "Goal", "boundaries": ["t#1"], "tells_agent": False}
    manifest = {"hash": adapted_template().hash, "rules": [rule]}
    (tmp_path / "after" / "manifest.json").write_text(json.dumps(manifest))
    run = make_evaluation(tmp_path / "e.db")
    report = read_report([str(run)], tmp_path, prompt=(Path("default"), tmp_path / "after"))
    (change,) = report.prompts
    assert change.before == "default"
    cited = [clause.answers for part in change.parts for s in part.sections for m in s.lines for clause in m.clauses]
    assert cited == [("t#1",)]
    (tmp_path / "after" / "manifest.json").write_text("[1, 2")  # then it tells nothing, and that is all
    assert read_report([str(run)], tmp_path, prompt=(Path("default"), tmp_path / "after")).prompts


# --- facts


def test_simulated_and_real_runs_are_told_apart(tmp_path: Path) -> None:
    real, made_up = tmp_path / "real.db", tmp_path / "sim.db"
    make_evaluation(real, model="gpt-x")
    make_verified(made_up)
    assert read_report([str(real)], tmp_path).simulated == ()
    both = read_report([str(real), str(made_up)], tmp_path)
    assert both.simulated == (str(made_up),)
    assert f"real model behaves: {made_up}." in render_undrawn(both)


def test_several_runs_are_named(tmp_path: Path) -> None:
    names = [str(make_evaluation(tmp_path / f"e{n}.db")) for n in (1, 2)]
    names += [str(make_verified(tmp_path / f"v{n}.db")) for n in (1, 2)]
    report = read_report([*names, names[0]], tmp_path)  # the same run twice is one run
    assert (len(report.evaluations), len(report.verified)) == (2, 2)
    # What both say alike is said once, with the numbers of each.
    named = [list(dict.fromkeys(line.split(": ")[0] for line in claim.numbers)) for claim in report.lead]
    assert named == [["e1", "e2"]] * 2 + [["v1"], ["v2"]]
    assert [row[0].note for row in report.figures[:2]] == ["arm none of e1", "arm none of e2"]
    assert report.evaluations[1].arms.title == "office, 8 tasks, 2 runs (e2)"
    html = render(report)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert 'id="boundary-2-1"' in html


def test_how_it_was_made(report: Report) -> None:
    (made,) = report.provenance
    facts = dict(made.facts)
    assert len(facts) == len(made.facts)  # each is said once
    assert facts["Suite"] == "office, split train"
    assert facts["Models"] == "agent sim-agent"
    assert facts["Harmful"] == "H ≥ 0.5 or B ≥ 5"
    assert facts["Tokens spent"] == "agent 110"
    assert made.commands[0].startswith("recompact boundaries ")


def test_a_run_with_nothing_to_report_is_refused(tmp_path: Path) -> None:
    with Store.open(tmp_path / "empty.db") as store:
        claim(store, "collect")
    with pytest.raises(InputError, match=r"nothing to report yet.*recompact verify"):
        read_report([str(tmp_path / "empty.db")], tmp_path)
