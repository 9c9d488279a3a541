"""Candidates, their evidence and their selection in words, and that each comes back from JSON as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from recompact.candidate import (
    ORIGINAL,
    PARTS,
    Candidate,
    Clause,
    EvidenceCounts,
    Fit,
    MissingKind,
    Proposal,
    Selection,
)
from recompact.errors import InputError
from recompact.template import Template

TEMPLATE = Template("You sum up.", "{{ history }}", "{{ previous_summary }} {{ history }}", frame="frame")
CLAUSE = Clause("Keep every token.", "## Facts", ("a#1", "b#2"))


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("Before finishing, count them.", True),
        ("BEFORE EACH payment, look.", True),
        ("After every call, note it.", True),
        ("Verify the total.", True),
        ("Double-check it.", True),
        ("doublecheck it.", True),
        ("Recheck it.", True),
        ("Retry what failed.", True),
        ("The agent should wait.", True),
        ("Note what the next agent needs.", True),
        ("Keep what was verified.", False),  # another word
        ("Keep the page before that.", False),
        ("Keep ids exactly as they are.", False),
        ("", False),
    ],
)
def test_a_clause_that_says_how_to_act_tells_the_agent(text: str, tells: bool) -> None:
    clause = Clause(text, "", ())
    assert clause.tells_agent is tells
    assert clause.to_json() == {"text": text, "section": "", "answers": (), "tells_agent": tells}


@pytest.mark.parametrize("template", [TEMPLATE, None])
def test_a_candidate_comes_back_as_it_was(template: Template | None) -> None:
    candidate = Candidate("v1", template, (CLAUSE,), ("it is too long",))
    data = json.loads(json.dumps(candidate.to_json()))
    assert data["rules"] == [["Keep every token.", "## Facts", ["a#1", "b#2"]]]
    assert data["refused"] == ["it is too long"]
    assert data["parts"] == ({part: TEMPLATE.part(part) for part in PARTS} if template else None)
    assert Candidate.from_json(data, "frame") == candidate


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (MissingKind("path", "5 paths", "Files", 5, 0, 3), "5 paths (at 3; Files)"),
        (MissingKind("path", "1 path", "", 1, 1, 1), "1 path (at 1, 1 contradicted; no heading)"),
    ],
)
def test_missing_facts_in_words(kind: MissingKind, words: str) -> None:
    assert str(kind) == words


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (EvidenceCounts("task", 0, 0), "Of 0 tasks, 0 were diagnosed."),
        (EvidenceCounts("task", 1, 1), "Of 1 task, 1 was diagnosed."),
        (EvidenceCounts("task", 2, 2), "Of 2 tasks, 2 were diagnosed."),
        (EvidenceCounts("task", 9, 2, abstained=3), "Of 9 tasks, 2 were diagnosed, 3 were abstained on."),
        (EvidenceCounts("task", 9, 2, failed=4), "Of 9 tasks, 2 were diagnosed, 4 got no usable answer."),
        (
            EvidenceCounts("task", 9, 2, cut=1, left_out=12345),
            "Of 9 tasks, 2 were diagnosed. The evidence about 1 was cut to fit a call (12,345 characters left out).",
        ),
        (
            EvidenceCounts("task", 9, 2, uncited=1),
            "Of 9 tasks, 2 were diagnosed. 1 finding cites no line that is there.",
        ),
        (
            EvidenceCounts("task", 9, 2, uncited=2),
            "Of 9 tasks, 2 were diagnosed. 2 findings cite no line that is there.",
        ),
        (
            EvidenceCounts(
                "task", 9, 2, missing=(MissingKind("a", "1 a", "A", 1, 0, 1), MissingKind("b", "2 b", "", 2, 0, 2))
            ),
            "Of 9 tasks, 2 were diagnosed: 1 a (at 1; A), 2 b (at 2; no heading).",
        ),
    ],
)
def test_evidence_in_words(counts: EvidenceCounts, words: str) -> None:
    assert counts.statement == words
    assert EvidenceCounts.from_json(json.loads(json.dumps(counts.to_json()))) == counts


def test_evidence_of_an_older_run_has_no_kinds() -> None:
    assert EvidenceCounts.from_json({"about": "task", "pieces": 2, "diagnosed": 1}) == EvidenceCounts("task", 2, 1)


def test_a_method_may_return_a_proposal_or_its_candidates() -> None:
    candidate = Candidate("v1", TEMPLATE)
    whole = Proposal((candidate,), statement="nothing else")
    assert Proposal.of(whole) is whole
    assert Proposal.of((candidate,)) == Proposal((candidate,), None, "", False)
    assert Proposal.of([candidate]) == Proposal((candidate,))  # type: ignore[arg-type]
    assert Proposal.of(()) == Proposal(())
    assert not Proposal(()).unusable


@pytest.mark.parametrize(
    ("proposed", "kind"), [("v1", "str"), ((Candidate("v1", None), 3), "int"), ({}, "dict"), ([TEMPLATE], "Template")]
)
def test_anything_else_is_no_proposal(proposed: Any, kind: str) -> None:
    with pytest.raises(InputError, match=f"a method proposes a tuple of recompact.Candidate or a Proposal, not {kind}"):
        Proposal.of(proposed)


@pytest.mark.parametrize(
    ("fit", "rate", "words"),
    [
        (Fit("v1", 4, 3, 5.25), 0.75, "3 of 4 runs passed in 5.2 steps"),
        (Fit("v1", 1, 1, 5.0), 1.0, "1 of 1 run passed in 5.0 steps"),
        (Fit("v1", 0, 0, 0.0), 0.0, "0 of 0 runs passed in 0.0 steps"),
    ],
)
def test_a_fit_in_words(fit: Fit, rate: float, words: str) -> None:
    assert (fit.rate, fit.words, fit.broken) == (rate, words, 0)


BEST, BEFORE, NONE = Fit("v1", 4, 3, 5.0), Fit(ORIGINAL, 4, 2, 6.0), Fit(ORIGINAL, 0, 0, 0.0)


@pytest.mark.parametrize(
    ("selection", "words"),
    [
        (
            Selection((BEFORE, BEST), "v1", ("a",)),
            "v1 was selected: 3 of 4 runs passed in 5.0 steps; the original passed 2 in 6.0. It was chosen by these"
            " runs, so they flatter it: what it gains, only unseen tasks show.",
        ),
        (
            Selection((BEFORE, BEST), ORIGINAL, ("a",)),
            "No candidate beat the original template on the fit tasks (2 of 4 runs passed in 6.0 steps): it is kept.",
        ),
        (
            Selection((NONE,), ORIGINAL, ("a",)),
            "No candidate was left to be run on the fit tasks: the original template is kept.",
        ),
        (
            Selection((NONE,), ORIGINAL, ("a",), excluded=("a 0",)),
            "The environment broke in every run on the fit tasks: nothing could be selected, the original stays. 1 run"
            " of each template was left out, because an environment broke again and again.",
        ),
        (
            Selection((BEFORE, BEST), ORIGINAL, ("a",), excluded=("a 0", "a 1")),
            "No candidate beat the original template on the fit tasks (2 of 4 runs passed in 6.0 steps): it is kept. 2"
            " runs of each template were left out, because an environment broke again and again.",
        ),
        (
            Selection(
                (BEFORE, BEST), "v1", ("a",), "racing", confirmed=(Fit("v1", 2, 1, 7.0), Fit(ORIGINAL, 2, 2, 8.0))
            ),
            "v1 was selected by a race. On fresh runs of the fit tasks, 1 of 2 runs passed in 7.0 steps; of the"
            " original, 2 of 2 runs passed in 8.0 steps.",
        ),
        (
            Selection((BEFORE, BEST), "v1", ("a",), "racing", confirmed=(Fit("v1", 0, 0, 0.0), NONE)),
            "v1 was selected by a race. The environment broke in every fresh run of the fit tasks, so there is no"
            " estimate of what it gains.",
        ),
    ],
)
def test_a_selection_in_words(selection: Selection, words: str) -> None:
    assert selection.statement == words
    assert Selection.from_json(json.loads(json.dumps(selection.to_json()))) == selection


def test_a_selection_of_an_older_run_was_made_by_the_papers_rule() -> None:
    data = {"fits": [{"name": ORIGINAL, "runs": 4, "passed": 2, "steps": 6.0}], "winner": ORIGINAL, "tasks": ["a"]}
    assert Selection.from_json(data) == Selection((BEFORE,), ORIGINAL, ("a",), "paper", (), (), ())
