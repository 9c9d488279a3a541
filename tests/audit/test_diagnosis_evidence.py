"""Diagnosis from observation: what is sent, to whom, what is made of the answers, and the directory that is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import Scripted
from sentences import numbers_in

from recompact.adaptation.evidence import EvidenceText
from recompact.adaptation.placement import with_clauses_in_place
from recompact.adaptation.revision import Diagnosis, Finding
from recompact.audit.diagnosis import (
    OBSERVATIONAL,
    SUMMARY_CHARS,
    ObservedDiagnosis,
    Plan,
    diagnose_observed,
    observed_evidence,
    plan_diagnosis,
    write_revision,
)
from recompact.audit.findings import Need, Scene, ShownCall
from recompact.audit.scoring import Assessment, RankedCompaction
from recompact.engine import assembly
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.values.candidate import Candidate, Clause
from recompact.values.literals import Literal
from recompact.values.outcome import BoundaryId
from recompact.values.template import default_template, load

TEMPLATE = default_template()


def words(text: str) -> int:
    return len(text.split())


def need(text: str, covered: bool = False) -> Need:
    return Need(Literal("path", text, text), "call", 1, 1, covered, found_again=True, lost_late=False)


def ranked(name: str = "s.jsonl", readable: bool = True, following: int = 3, **scene: Any) -> RankedCompaction:
    given: dict[str, Any] = {
        "before": (ShownCall(1, "ls"), ShownCall(2, "cat a.py", "the text of a")),
        "summary": "## Done\nread a.py",
        "after": (
            ShownCall(4, "cat a.py", "again", chars=9),
            ShownCall(5, "make", failed_again=True),
            ShownCall(6, "echo"),
        ),
        "asked": "Fix it.",
        **scene,
    }
    needs = (need("src/a.py"), need("src/b.py", covered=True), need("src/c.py"))
    found = SimpleNamespace(ordinal=2, needs=needs, scene=Scene(**given), readable=readable, following=following)
    session = SimpleNamespace(label=name)
    return cast(RankedCompaction, SimpleNamespace(session=session, compaction=found))


def test_an_excerpt_has_all_parts_in_order_and_what_the_summary_lacks() -> None:
    one, other = observed_evidence([ranked(), ranked("other.jsonl")], 10_000, words)
    assert one.text == (
        "<task>\nT1| Fix it.\n</task>\n"
        "<segment>\nS1| -> ls\nS2| -> cat a.py\nS3| the text of a\n</segment>\n"
        "<summary>\nN1| ## Done\nN2| read a.py\n</summary>\n"
        "<missing-facts>\n"
        "F1| src/a.py (path): found again in a result before it was used\n"
        "F2| src/c.py (path): found again in a result before it was used\n</missing-facts>\n"
        "<continuation>\nC1.1| (fetched again) -> cat a.py\nC1.2| again\n"
        "C1.3| (failed again) -> make\nC1.4| -> echo\n</continuation>\n"
        "<effect>\nnot known: observed only\n</effect>"
    )
    assert (one.id, one.channel) == (BoundaryId("1. s.jsonl", 2), "observed")
    assert other.id == BoundaryId("2. other.jsonl", 2)
    assert one.lines["C1.3"] == "(failed again) -> make"
    assert one.tokens == words(one.text)


def test_parts_that_are_empty_are_left_out() -> None:
    (one,) = observed_evidence([ranked(readable=False, asked="", before=())], 10_000, words)
    assert "<missing-facts>" not in one.text
    assert "<task>" not in one.text
    assert "<segment>" not in one.text
    assert "<summary>" in one.text


def test_known_keys_are_taken_out_of_every_part() -> None:
    (one,) = observed_evidence([ranked(asked="use KEY", summary="KEY")], 10_000, words, lambda t: t.replace("KEY", "*"))
    assert "KEY" not in one.text
    assert "T1| use *" in one.text


@pytest.mark.parametrize(
    ("part", "made", "limit"),
    [
        ("asked", lambda text: text, 2_000),
        ("summary", lambda text: text, 16_000),
        ("before", lambda text: (ShownCall(1, text),), 240),
        ("after", lambda text: (ShownCall(1, "x", text),), 360),
    ],
)
def test_long_parts_are_cut_at_their_limits(part: str, made: Any, limit: int) -> None:
    def shown(length: int) -> str:
        return observed_evidence([ranked(**{part: made("ab " * (length // 3))})], 100_000, words)[0].text

    long = shown(3 * limit)
    assert long.count("ab") < limit
    kept = ("ab " * limit)[:limit].rstrip()
    assert f"{kept}" in long
    assert f"{kept} a" not in long
    assert " […]" in long
    assert SUMMARY_CHARS == 16_000


# --- the plan


def evidence(number: int, tokens: int = 2_500) -> EvidenceText:
    lines = {"S1": "cat src/x9042.py", "N1": "nothing"}
    return EvidenceText(BoundaryId(f"{number}. s.jsonl", number), "observed", f"text {number}", tokens, lines)


def plan(number: int = 2, unreadable: int = 0, price: float = 0.0) -> Plan:
    return Plan("luna", "https://api.example.org", tuple(evidence(n) for n in range(1, number + 1)), unreadable, price)


def test_a_plan_says_what_will_be_sent() -> None:
    assert numbers_in(plan().statement) == ["2", "5,000"]
    assert "luna (https://api.example.org)" in plan().statement
    one = plan(1, unreadable=2, price=4.0)
    assert numbers_in(one.statement) == ["1", "2,500", "0.01", "2"]
    assert one.tokens == 2_500


CONFIG = """
[optimizer]
model = "luna"
[adapt]
evidence_tokens = 900
[models.luna]
id = "luna-1"
base_url = "http://127.0.0.1:9/v1"
price = { input = 3.0, output = 9.0 }
"""


def config(text: str = CONFIG) -> Config:
    return parse_config(text, Path("c.toml"))


def assessment(scored: tuple[RankedCompaction, ...], every: tuple[RankedCompaction, ...] = ()) -> Assessment:
    return cast(Assessment, SimpleNamespace(scored=scored, ranked=every))


def test_the_worst_that_can_be_read_are_planned() -> None:
    scored = (ranked("1"), ranked("2", readable=False), ranked("3"), ranked("4"))
    made = plan_diagnosis(config(), assessment(scored), 3, words, ["0123456789abcdef"])
    assert [each.id.unit for each in made.evidence] == ["1. 1", "2. 3", "3. 4"]
    assert made.unreadable == 1
    assert (made.model, made.where, made.price_of_input) == ("luna", "http://127.0.0.1:9/v1", 3.0)


def test_without_scores_those_that_go_on_are_planned_in_their_order() -> None:
    every = (ranked("1", following=0), ranked("2"), ranked("3"))
    made = plan_diagnosis(config(), assessment((), every), 9, words, ())
    assert [each.id.unit for each in made.evidence] == ["1. 2", "2. 3"]
    scored = plan_diagnosis(config(), assessment(every[2:], every), 9, words, ())
    assert [each.id.unit for each in scored.evidence] == ["1. 3"]


def test_where_a_model_is_reached_is_said_though_the_config_does_not() -> None:
    without = CONFIG.replace('base_url = "http://127.0.0.1:9/v1"\n', "")
    assert plan_diagnosis(config(without), assessment(()), 1, words, ()).where == "its usual address"
    built_in = plan_diagnosis(config(""), assessment(()), 1, words, ())
    assert (built_in.where, built_in.price_of_input) == ("built in", 0.0)


def test_excerpts_are_cut_to_the_tokens_of_one_call_and_keys_are_scrubbed() -> None:
    long = ranked(summary="\n".join(["0123456789abcdef word"] * 700))
    (made,) = plan_diagnosis(config(), assessment((long,)), 1, words, ["0123456789abcdef"]).evidence
    assert made.tokens <= 900
    assert made.cuts == 1
    assert "0123456789abcdef" not in made.text


# --- what comes of it

CAUSE = Finding("omitted state", "paths", "", "cat src/x9042.py", "It read *again*.", lines=("S1",))
CLAUSE = Clause("Keep every path, é too.", "Goal", ("1. s.jsonl#1",))
REVISED = with_clauses_in_place(TEMPLATE, [CLAUSE])


def diagnoses() -> tuple[Diagnosis, ...]:
    ids = [BoundaryId(f"{n}. s.jsonl", n) for n in (1, 2, 3, 4)]
    return (
        Diagnosis(ids[0], "observed", (CAUSE, replace(CAUSE, kind="second"))),
        Diagnosis(ids[1], "observed", (CAUSE,)),
        Diagnosis(ids[2], "observed", (), abstained="chance"),
        Diagnosis(ids[3], "observed", (), objections=("no JSON",)),
    )


def observed(**changes: Any) -> ObservedDiagnosis:
    candidate = Candidate("observed-1", REVISED, (CLAUSE,), ("a slip",))
    return replace(ObservedDiagnosis(plan(), diagnoses(), TEMPLATE, candidate, 4_400, 0.0), **changes)


def test_the_outcome_is_said_in_numbers() -> None:
    assert numbers_in(observed().statement) == ["4", "2", "1", "1", "4,400"]
    assert numbers_in(observed(money=0.00812).statement) == ["4", "2", "1", "1", "4,400", "0.0081"]
    for candidate in (None, Candidate("observed-1", None)):
        assert "no template" in observed(candidate=candidate).statement
        assert "no template" not in observed().statement


def test_the_outcome_as_json() -> None:
    data = observed().to_json()
    assert data["observational"] == OBSERVATIONAL
    assert (data["statement"], data["model"]) == (observed().statement, "luna")
    assert [each["boundary"] for each in data["diagnoses"]] == [f"{n}. s.jsonl#{n}" for n in (1, 2, 3, 4)]
    assert [each["clause"] for each in data["rules"]] == [CLAUSE.text]
    assert data["refused"] == ["a slip"]
    assert (data["tokens"], data["money"]) == (4_400, 0.0)
    nothing = observed(candidate=None).to_json()
    assert (nothing["rules"], nothing["refused"]) == ([], [])


def test_the_revised_template_is_written_with_where_it_came_from(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert write_revision(observed(), out, "2026-01-02") is True
    assert load(out) == REVISED
    text = (out / "manifest.json").read_text(encoding="utf-8")
    assert "é too" in text
    assert text.startswith('{\n  "')
    assert text.endswith("}\n")
    manifest = json.loads(text)
    assert (manifest["evidence"], manifest["method"]) == ("observational", "audit --diagnose")
    assert (manifest["parent"], manifest["hash"], manifest["date"]) == (TEMPLATE.hash, REVISED.hash, "2026-01-02")
    changes = (out / "CHANGES.md").read_text(encoding="utf-8")
    assert changes.startswith(
        f"# What changed, and why\n\n**{OBSERVATIONAL}**\n\n{observed().statement}\n\n## first.md"
    )
    assert "## update.md\n\n### Goal" in changes
    listed = changes.partition("## Clauses and the compactions they answer\n\n")[2].splitlines()
    assert listed[0] == "- “Keep every path, é too.”"
    assert listed[1].startswith("  - 1. s.jsonl\\#1: omitted state (paths): It read ")
    assert len(listed) == 2


@pytest.mark.parametrize("candidate", [None, Candidate("observed-1", None)])
def test_without_a_revision_nothing_is_written(tmp_path: Path, candidate: Candidate | None) -> None:
    assert write_revision(observed(candidate=candidate), tmp_path / "out", "2026-01-02") is False
    assert not (tmp_path / "out").exists()


# --- sending it


def answer(**changes: Any) -> str:
    finding = {"mechanism": "omitted state", "kind": "paths", "lines": ["S1"], "explanation": "It read again."}
    return json.dumps({"findings": [finding], "abstain": "", **changes})


def revision(clause: str = "Keep every path exactly.") -> str:
    rule = {"clause": clause, "section": "Goal", "boundaries": ["1. s.jsonl#1"]}
    revised = with_clauses_in_place(TEMPLATE, [Clause(clause, "Goal", ())])
    return json.dumps({"rules": [rule], "first": revised.first, "update": revised.update})


def sent(monkeypatch: pytest.MonkeyPatch, text: str, *replies: str) -> tuple[ObservedDiagnosis, Scripted]:
    model = Scripted(*replies)

    @asynccontextmanager
    async def clients(config: Config, needed: Sequence[str]) -> AsyncIterator[Mapping[str, Any]]:
        assert needed == ["luna"]
        yield {"luna": model}

    monkeypatch.setattr(assembly, "open_clients", clients)
    return asyncio.run(diagnose_observed(config(text), plan(2), TEMPLATE, words)), model


def test_each_compaction_is_diagnosed_then_one_template_is_revised(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIG.replace('model = "luna"\n', 'model = "luna"\nmax_output_tokens = 123\ntemperature = 0.5\n')
    text += '[agent]\nmodel = "terra"\n[models.terra]\nid = "terra-1"\n'
    abstains = json.dumps({"findings": [], "abstain": "It is chance."})
    result, model = sent(monkeypatch, text, answer(), abstains, '{"groups": []}', revision())
    assert [bool(each.causes) for each in result.diagnoses] == [True, False]
    assert result.candidate is not None
    assert result.candidate.name == "observed-1"
    assert result.candidate.template is not None
    assert "Keep every path exactly." in result.candidate.template.update
    assert result.original == TEMPLATE
    assert result.tokens == 4 * 15
    assert result.money == pytest.approx(4 * (10 * 3.0 + 5 * 9.0) / 1e6)
    prompts = [request.messages[-1].content for request in model.requests]
    assert "text 1" in prompts[0]
    assert "Nobody has\ncontinued without the compaction" in prompts[0]
    assert {request.decoding.max_output_tokens for request in model.requests} == {123}
    assert {request.decoding.temperature for request in model.requests} == {0.5}


def test_where_nothing_was_diagnosed_no_revision_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    abstains = json.dumps({"findings": [], "abstain": "It is chance."})
    result, model = sent(monkeypatch, CONFIG, abstains, abstains)
    assert result.candidate is None
    assert len(model.requests) == 2


def test_a_revision_must_not_name_what_stood_in_an_excerpt(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIG.replace("evidence_tokens = 900", "evidence_tokens = 900\nredraws = 0")
    result, _ = sent(monkeypatch, text, answer(), answer(), '{"groups": []}', revision("Keep x9042 in view."))
    assert result.candidate is not None
    assert result.candidate.template is None
    assert "names 'x9042'" in result.candidate.objections[0]
