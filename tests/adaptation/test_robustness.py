"""An optimizer that answers badly: each bad answer is redrawn with the reason, then reported; nothing else breaks."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from acon_support import Changed, edited, refusal, study_run
from shared_runs import verified_run

from recompact.adaptation.adapt import adapt, inputs_of
from recompact.adaptation.evidence import gather
from recompact.adaptation.lock import broken_rules, instances_in, names, unusable
from recompact.adaptation.method import load_method
from recompact.adaptation.optimizer import SAME, read_json
from recompact.adaptation.placement import with_clauses_in_place
from recompact.adaptation.revision import IN_PLACE
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.journal import seed_of
from recompact.values.candidate import ORIGINAL, Candidate, Proposal
from recompact.values.chat import Reply, Request
from recompact.values.template import default_template
from recompact.values.tokens import counter

Fault = Callable[[str], str | Reply]
REDRAWS = 2


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with all that comes before the optimizer: verified boundaries, and runs without compaction."""
    path = verified_run(tmp_path_factory)

    async def work(study: Study) -> None:
        await load_method("acon-ut").propose(await inputs_of(study))

    study_run(path, work, "pair")
    with Store.open(path) as store:
        store.forget_units(("feedback/", "revise/"))
    return path


def drawn(verified: Path, tmp_path: Path, method: str, change: Callable[[Request, str], str | Reply]) -> Any:
    """What a method comes to with such an optimizer: its candidates, all requests, and the run."""
    path = tmp_path / "run.db"
    shutil.copy(verified, path)
    optimizer = Changed(change)

    async def work(study: Study) -> tuple[Candidate, ...]:
        return Proposal.of(await load_method(method).propose(await inputs_of(study))).candidates

    candidates = study_run(path, work, method, models=optimizer.models)
    return candidates, optimizer.requests, path


def part(text: str, old: str, new: str) -> str:
    return edited(text, first=json.loads(text)["first"].replace(old, new))


def left_out(text: str) -> str:
    """A draft that says which clauses it added, and has other words in their place."""
    return edited(text, **{part: f"{default_template().part(part)}Be exact.\n" for part in ("first", "update")})


def rules(text: str, key: str, value: list[str]) -> str:
    found = json.loads(text)["rules"]
    return edited(text, rules=[{**rule, key: value} for rule in found])


PAIR_ONLY = "clauses that stand nowhere"
ANY: dict[str, tuple[Fault, str]] = {
    "broken JSON": (lambda text: text[: len(text) // 2], "it is not valid JSON"),
    "prose": (lambda text: "The prompt is fine as it is.", "it contains no JSON object"),
    "nothing": (lambda text: "", "it contains no JSON object"),
    "a refusal": (lambda text: refusal(), "the optimizer refused to answer"),
    "another object": (lambda text: '{"thoughts": []}', "the answer lacks"),
    "half a character": (lambda text: text.replace("{", '{"x": "\\ud800",', 1), "half a character"),
}
TEMPLATE: dict[str, tuple[Fault, str]] = {
    "a missing placeholder": (lambda text: part(text, "{{ history }}", ""), "{{ history }}"),
    "a doubled placeholder": (lambda text: part(text, "{{ history }}", "{{ history }}{{ history }}"), "placeholders"),
    "an empty part": (lambda text: edited(text, update="  \n"), "update is empty"),
    "no part": (lambda text: edited(text, first=None), "first is empty"),
    "rules of another form": (lambda text: edited(text, rules=[None]), "not the form that was asked for"),
    PAIR_ONLY: (lambda text: left_out(text), "no clause of rules stands in first or update"),
    "no change": (lambda text: edited(text, **{p: default_template().part(p) for p in ("first", "update")}), "changed"),
}
LOCK: dict[str, tuple[Fault, str]] = {
    "a wrong heading": (lambda text: part(text, "## Goal", "## Aim"), "headings must stay"),
    "a lost heading": (lambda text: part(text, "## Goal\n", ""), "headings must stay"),
    "a lost tag": (lambda text: part(text, "</conversation>", ""), "tags must stay"),
    "a lost form": (lambda text: part(text, "- [x]", "-"), "must keep its form"),
}
IN_ITS_PLACE = [fault for fault in {**TEMPLATE, **LOCK} if fault != "rules of another form"]
REVISIONS = [
    *(("pair", fault) for fault in ({**ANY, **TEMPLATE, **LOCK}) if fault not in IN_ITS_PLACE),
    *(("acon-ut-locked", fault) for fault in ({**ANY, **TEMPLATE, **LOCK}) if fault != PAIR_ONLY),
    *(("acon-ut", fault) for fault in ({**ANY, **TEMPLATE}) if fault != PAIR_ONLY),
]


def told(requests: list[Request], reason: str) -> bool:
    """Whether the optimizer heard of it."""
    complaints = [m.content for r in requests for m in r.messages if m.content.startswith("That answer cannot be used")]
    return any(reason in complaint for complaint in complaints)


def objected(objections: Sequence[str], reason: str) -> bool:
    """Whether each answer was refused for that reason, until the redraws or the differences between answers ended."""
    *first, last = objections
    ended = last == SAME if len(objections) <= REDRAWS else reason in last or last == SAME
    return bool(first) and all(reason in said for said in first) and ended


def asks_for_a_template(request: Request) -> bool:
    return any("<first>" in message.content for message in request.messages)


@pytest.mark.parametrize(("method", "fault"), REVISIONS)
def test_a_bad_revision_is_redrawn_then_reported(verified: Path, tmp_path: Path, method: str, fault: str) -> None:
    spoil, reason = {**ANY, **TEMPLATE, **LOCK}[fault]
    candidates, requests, _ = drawn(
        verified, tmp_path, method, lambda request, text: spoil(text) if asks_for_a_template(request) else text
    )
    assert len(candidates) == 3
    for candidate in candidates:
        assert candidate.template is None
        assert objected(candidate.objections, reason), candidate.objections
    assert told(requests, reason)


@pytest.mark.parametrize("fault", IN_ITS_PLACE)
def test_clauses_are_put_in_their_places_where_no_draft_keeps_the_form(
    verified: Path, tmp_path: Path, fault: str
) -> None:
    spoil, reason = {**TEMPLATE, **LOCK}[fault]
    candidates, requests, _ = drawn(
        verified, tmp_path, "pair", lambda request, text: spoil(text) if asks_for_a_template(request) else text
    )
    assert told(requests, reason)
    for candidate in candidates:
        assert objected(candidate.objections[:-1], reason), candidate.objections
        assert candidate.objections[-1] == IN_PLACE
        assert candidate.template is not None
        assert candidate.template == with_clauses_in_place(default_template(), candidate.clauses)
        assert broken_rules(default_template(), candidate.template) == ()


def an_instance(path: Path, method: str) -> str:
    """An address that stands in a method's evidence."""
    with Store.read(path) as store:
        if method == "pair":
            evidence = gather(store, {}, "history", 60_000, counter())
            found = {*instances_in(line for entry in evidence for line in entry.lines.values())}
        else:
            found = {*instances_in(turn.text for turn in read_trajectory(store, "collect/pocket-train-025").turns)}
    return min(literal for literal in found if "@" in literal)


@pytest.mark.parametrize("method", ["pair", "acon-ut-locked"])
def test_instances_of_the_evidence_are_refused(verified: Path, tmp_path: Path, method: str) -> None:
    literal = an_instance(verified, method)
    candidates, requests, _ = drawn(
        verified,
        tmp_path,
        method,
        lambda request, text: part(text, "## Goal\n", f"## Goal\nMind {literal}.\n") if '"first"' in text else text,
    )
    assert len(candidates) == 3
    for candidate in candidates:
        assert (candidate.template is None) == (method != "pair")
        assert candidate.template is None or literal not in "".join(candidate.template.parts().values())
        assert f"names {literal!r}" in candidate.objections[0]
    assert told(requests, literal)


def test_what_only_a_continuation_showed_belongs_to_one_task_too(verified: Path, tmp_path: Path) -> None:
    with Store.read(verified) as store:
        lines = [line for entry in gather(store, {}, "history", 60_000, counter()) for line in entry.lines.items()]
    later = instances_in(text for label, text in lines if label.startswith("C"))
    before = "\n".join(text for label, text in lines if not label.startswith("C"))
    literal = min(literal for literal in later if literal.isalnum() and not names(before, literal))
    candidates, _, _ = drawn(
        verified,
        tmp_path,
        "pair",
        lambda request, text: part(text, "## Goal\n", f"## Goal\nMind {literal}.\n") if '"first"' in text else text,
    )
    assert all(literal not in "".join(c.template.parts().values()) for c in candidates if c.template)
    assert f"names {literal!r}" in candidates[0].objections[0]


@pytest.mark.parametrize(
    ("method", "key"), [("pair", "boundaries"), ("acon-ut", "entries"), ("acon-ut-locked", "entries")]
)
def test_unknown_boundaries_are_refused(verified: Path, tmp_path: Path, method: str, key: str) -> None:
    candidates, requests, _ = drawn(
        verified,
        tmp_path,
        method,
        lambda request, text: rules(text, key, ["nowhere#9"]) if asks_for_a_template(request) else text,
    )
    assert [c.template for c in candidates] == [None] * 3
    assert told(requests, "nowhere#9")


@pytest.mark.parametrize("method", ["pair", "acon-ut", "acon-ut-locked"])
def test_the_other_candidates_go_on(verified: Path, tmp_path: Path, method: str) -> None:
    second = {seed_of(f"revise/{method}/{method}-2", ordinal) for ordinal in range(20)}
    candidates, _, _ = drawn(
        verified, tmp_path, method, lambda request, text: "{" if request.decoding.seed in second else text
    )
    assert [candidate.template is not None for candidate in candidates] == [True, False, True]
    assert candidates[1].objections
    for candidate in (candidates[0], candidates[2]):
        assert unusable(candidate.template) == ()


@pytest.mark.parametrize("method", ["pair", "acon-ut", "acon-ut-locked"])
def test_one_slip_costs_one_redraw(verified: Path, tmp_path: Path, method: str) -> None:
    """The first draft of a candidate is bad; the next is taken, and the report still tells of the first."""

    def slips(request: Request, text: str) -> str:
        again = any(message.content.startswith("That answer") for message in request.messages)
        return part(text, "{{ history }}", "") if asks_for_a_template(request) and not again else text

    candidates, _, _ = drawn(verified, tmp_path, method, slips)
    assert len(candidates) == 3
    for candidate in candidates:
        assert candidate.template is not None
        assert len(candidate.objections) == 1
        assert "{{ history }}" in candidate.template.first


def finding(text: str, **changes: str) -> str:
    entries = json.loads(text)["findings"]
    return edited(text, findings=[{**entry, **changes} for entry in entries])


DIAGNOSES: dict[str, tuple[Fault, str]] = {
    **ANY,
    "an unknown mechanism": (lambda text: finding(text, mechanism="bad luck"), "is no mechanism"),
    "no kind": (lambda text: finding(text, kind=" "), "its kind is empty"),
    "no findings": (lambda text: edited(text, findings=[]), "it has no findings"),
    "findings of another form": (lambda text: edited(text, findings="none"), "findings must be a list"),
}


@pytest.mark.parametrize("fault", DIAGNOSES)
def test_a_bad_diagnosis_is_redrawn_then_reported(verified: Path, tmp_path: Path, fault: str) -> None:
    spoil, reason = DIAGNOSES[fault]
    candidates, requests, path = drawn(verified, tmp_path, "pair", lambda request, text: spoil(text))
    assert candidates == ()  # nothing is known, so nothing is changed
    assert told(requests, reason)
    with Store.read(path) as store:
        made = [store.result(unit) for unit in store.finished("diagnosis")]
    assert made
    for diagnosis in made:
        assert diagnosis["findings"] == []
        assert objected(diagnosis["refused"], reason), diagnosis["refused"]


FEEDBACK: dict[str, tuple[Fault, str]] = {
    **ANY,
    "an unknown category": (lambda text: finding(text, category="bad luck"), "is no category"),
    "no remedies": (lambda text: edited(text, remedies=["  "]), "it has no remedies"),
    "remedies of another form": (lambda text: edited(text, remedies="keep all"), "remedies must be a list"),
    "findings of another form": (lambda text: edited(text, findings=["lost"]), "not the form that was asked for"),
}


@pytest.mark.parametrize("fault", FEEDBACK)
def test_bad_feedback_is_redrawn_then_reported(verified: Path, tmp_path: Path, fault: str) -> None:
    spoil, reason = FEEDBACK[fault]
    candidates, requests, path = drawn(verified, tmp_path, "acon-ut", lambda request, text: spoil(text))
    (report,) = candidates
    assert (report.name, report.template) == ("acon-ut", None)
    assert report.objections
    assert told(requests, reason)
    with Store.read(path) as store:
        made = [store.result(unit) for unit in store.finished("feedback")]
    assert made
    for feedback in made:
        assert feedback["remedies"] == []
        assert objected(feedback["refused"], reason), feedback["refused"]


def _silent_at(seeds: set[int], request: Request, text: str) -> str:
    return "" if request.decoding.seed in seeds else text


def test_one_lost_diagnosis_or_feedback_leaves_the_others(verified: Path, tmp_path: Path) -> None:
    with Store.read(verified) as store:
        first = gather(store, {}, "history", 60_000, counter())[0].id
    for method, unit in (("pair", f"diagnose/{first}"), ("acon-ut", "feedback/pocket-train-025")):
        lost = {seed_of(unit, ordinal) for ordinal in range(5)}
        (tmp_path / method).mkdir()
        candidates, _, path = drawn(verified, tmp_path / method, method, partial(_silent_at, lost))
        assert all(candidate.template for candidate in candidates)
        with Store.read(path) as store:
            assert store.result(unit)["refused"]
            assert store.result(unit)["findings"] == []


@pytest.mark.parametrize("method", ["pair", "acon-ut"])
@pytest.mark.parametrize("failure", [ContextOverflow("too long"), Refused("against the rules")])
def test_a_request_that_no_server_takes_is_reported(
    verified: Path, tmp_path: Path, method: str, failure: Exception
) -> None:
    def fails(request: Request, text: str) -> str:
        if asks_for_a_template(request):
            raise failure
        return text

    candidates, _, _ = drawn(verified, tmp_path, method, fails)
    assert [c.template for c in candidates] == [None] * 3
    assert all(str(failure) in c.objections[-1] for c in candidates)


def test_a_free_rewriting_may_change_headings_and_the_locked_one_may_not(verified: Path, tmp_path: Path) -> None:
    def other(request: Request, text: str) -> str:
        return part(text, "## Goal", "## Aim") if asks_for_a_template(request) else text

    (tmp_path / "free").mkdir()
    free, _, _ = drawn(verified, tmp_path / "free", "acon-ut", other)
    assert [candidate.template.first.count("## Aim") for candidate in free] == [1, 1, 1]
    (tmp_path / "locked").mkdir()
    locked, _, _ = drawn(verified, tmp_path / "locked", "acon-ut-locked", other)
    assert [candidate.template for candidate in locked] == [None, None, None]


@pytest.mark.parametrize("method", ["pair", "acon-ut", "acon-utco", "acon-ut-locked"])
def test_an_optimizer_that_never_answers_leaves_the_original(verified: Path, tmp_path: Path, method: str) -> None:
    path = tmp_path / "run.db"
    shutil.copy(verified, path)
    result = study_run(path, adapt, method, models=Changed(lambda request, text: refusal()).models)
    assert (result.winner, result.template, result.selection) == (ORIGINAL, default_template(), None)
    assert all(candidate.template is None and candidate.objections for candidate in result.candidates)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON object"),
        ("[1, 2]", "no JSON object"),
        ('{"a": ', "not valid JSON"),
        ("Sure! {it} is done", "not valid JSON"),
        ('{"a":' * 100_000, "not valid JSON"),
        ('{"a": "\\ud83d"}', "half a character"),
    ],
)
def test_any_text_gives_json_or_a_reason(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_json(text)
