"""PAIR's steps and those of every adaptation, with diagnoses and selections made up; and methods by their names."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from method_support import method_inputs
from sentences import numbers_in

from recompact.adaptation import adapt as adapting, pair
from recompact.adaptation.adapt import STAGES, adapt, with_verification
from recompact.adaptation.evidence import EvidenceText
from recompact.adaptation.method import Method, load_method, method_in, method_of
from recompact.adaptation.pair import (
    PAIR,
    PAIR_RANDOM,
    PAIR_SWAPPED,
    count_evidence,
    propose_from,
    random_boundaries,
    reasons,
)
from recompact.adaptation.revision import Diagnosis, Finding
from recompact.engine.config import ConfigError
from recompact.engine.config_parser import parse_config
from recompact.engine.study import Study
from recompact.errors import InputError, OptionError
from recompact.values.candidate import ORIGINAL, Candidate, EvidenceCounts, Proposal, Reason
from recompact.values.outcome import BoundaryId
from recompact.values.template import default_template

TEMPLATE = default_template()
BETTER = replace(TEMPLATE, first=TEMPLATE.first + "Keep ids.\n")
CAUSE = Finding("omitted state", "ids", "", "", "It asked again.", lines=("S1",))


def evidence(*names: str) -> list[EvidenceText]:
    return [
        EvidenceText(BoundaryId(f"collect/{name}", 1), "burden", "", 1, {"S1": "it used tok-9042 here"})
        for name in names
    ]


def diagnosis(name: str, causes: int = 1, **more: Any) -> Diagnosis:
    return Diagnosis(BoundaryId(f"collect/{name}", 1), "burden", (CAUSE,) * causes, **more)


def proposed(
    monkeypatch: pytest.MonkeyPatch, diagnoses: Sequence[Diagnosis], usable: bool = True, **kinds: str
) -> tuple[Proposal, Any]:
    seen = SimpleNamespace(units=[], kind="", useful=None, failed=None, revised=[], method="")

    async def answers(study: Any, stage: str, kind: str, units: Any, answer: Any, *, useful: Any, failed: Any) -> Any:
        seen.units = list(units.values())
        seen.kind, seen.useful, seen.failed = kind, useful, failed
        return {made.id: made.to_json() for made in diagnoses}

    async def revise(optimizer: Any, name: str, template: Any, made: Any, instances: frozenset[str]) -> Candidate:
        seen.revised.append((name, template, list(made), instances))
        return Candidate(name, BETTER if usable else None, (), () if usable else ("no JSON",))

    async def draw_candidates(study: Any, method: str, draw: Any) -> tuple[Candidate, ...]:
        return (await draw(None, f"{method}-1"),)

    monkeypatch.setattr(pair, "answers", answers)
    monkeypatch.setattr(pair, "revise", revise)
    monkeypatch.setattr(pair, "draw_candidates", draw_candidates)
    monkeypatch.setattr(pair, "shared_prefix", lambda store: ())
    inputs = method_inputs(template=TEMPLATE)
    made = evidence(*(each.id.unit.removeprefix("collect/") for each in diagnoses))
    return asyncio.run(propose_from(inputs, made, "pair", **kinds)), seen


def test_one_diagnosis_is_enough_for_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnoses = [diagnosis("a"), diagnosis("b", 0, abstained="chance"), diagnosis("c", 0, objections=("no JSON",))]
    proposal, seen = proposed(monkeypatch, diagnoses)
    assert seen.units == ["diagnose/a#1", "diagnose/b#1", "diagnose/c#1"]
    assert seen.kind == "diagnosis"
    assert seen.revised == [("pair-1", TEMPLATE, diagnoses, frozenset({"tok-9042"}))]
    counts = EvidenceCounts("compaction", 3, 1, abstained=1, failed=1)
    assert proposal == Proposal((Candidate("pair-1", BETTER),), counts)
    assert [seen.useful(each.to_json()) for each in diagnoses] == [True, False, False]
    assert [seen.failed(each.to_json()) for each in diagnoses] == [False, False, True]


def test_other_evidence_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seen = proposed(monkeypatch, [diagnosis("a")], kind="other diagnosis", under="other/")
    assert (seen.kind, seen.units) == ("other diagnosis", ["diagnose/other/a#1"])


def test_candidates_of_no_use_are_to_be_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, _ = proposed(monkeypatch, [diagnosis("a")], usable=False)
    assert proposal.unusable
    assert proposal.statement.endswith(": no JSON")
    assert proposal.candidates[0].template is None


def test_without_boundaries_there_is_nothing_to_adapt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recompact.adaptation.evidence.failed_compactions", lambda store: SimpleNamespace(number=0))
    proposal, seen = proposed(monkeypatch, [])
    assert (proposal.candidates, proposal.evidence, proposal.unusable) == ((), None, False)
    assert proposal.statement
    assert seen.kind == ""


def test_where_all_abstained_the_original_stays_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal, _ = proposed(monkeypatch, [diagnosis(name, 0, abstained="chance") for name in "ab"])
    assert "abstained" in proposal.statement
    assert numbers_in(proposal.statement) == ["2"]
    assert not proposal.unusable


def test_where_answers_failed_the_first_three_reasons_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = [diagnosis("a", 0, objections=("one", "two")), diagnosis("b", 0, objections=("one", "three", "four"))]
    proposal, _ = proposed(monkeypatch, [*failed, diagnosis("c", 0, abstained="chance")])
    assert numbers_in(proposal.statement) == ["2", "3"]
    assert proposal.statement.endswith(": one; two; three")
    assert proposal.unusable


def test_everything_about_diagnoses_is_counted() -> None:
    made = [
        diagnosis("a", 2, cuts=1, left_out=10, losses=("x", "y")),
        replace(diagnosis("b"), causes=(replace(CAUSE, lines=()), CAUSE), cuts=3, left_out=5, losses=("z",)),
        diagnosis("c", 0, abstained="chance"),
        diagnosis("d", 0),
    ]
    assert count_evidence(made) == EvidenceCounts(
        "compaction", 4, 2, abstained=1, failed=1, cut=2, left_out=15, uncited=1, dropped=3
    )


def test_the_reasons_at_a_boundary_are_its_causes_or_its_abstention() -> None:
    records = {
        "1": replace(diagnosis("a"), causes=(CAUSE, replace(CAUSE, kind="second"))).to_json(),
        "2": diagnosis("b", 0, abstained="chance").to_json(),
        "3": diagnosis("c", 0).to_json(),
    }
    store = SimpleNamespace(finished=lambda kind: set(records) if kind == "k" else set(), result=records.__getitem__)
    assert reasons(cast(Any, store), "k") == {
        "a#1": (
            Reason("omitted state (ids): It asked again.", "ids"),
            Reason("omitted state (second): It asked again.", "second"),
        ),
        "b#1": (Reason("abstained: chance"),),
    }
    assert reasons(cast(Any, store)) == {}


def test_what_pair_and_its_controls_say_of_themselves() -> None:
    assert PAIR.needs_effects
    assert PAIR.phases == ("diagnose/", "revise/pair/")
    for control, name in ((PAIR_RANDOM, "pair-random"), (PAIR_SWAPPED, "pair-swapped")):
        assert (control.name, control.cites) == (name, "compaction")
        assert control.needs_effects
        assert control.phases == (f"diagnose/{name}/", f"revise/{name}/")


def test_boundaries_are_drawn_by_lot_among_those_that_have_an_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    def finding(number: int) -> Any:
        return SimpleNamespace(
            id=BoundaryId(f"collect/{number:02d}", 1), retained=number < 3, effect=None if number >= 12 else 1
        )

    every = [finding(number) for number in range(20)]

    def verification(store: Any) -> SimpleNamespace:
        return SimpleNamespace(
            examined=[each for each in every if each.effect], retained=[each for each in every if each.retained]
        )

    monkeypatch.setattr(pair, "read_verdicts", verification)
    monkeypatch.setattr(pair, "boundary_view", lambda store, verdict: verdict)

    def drawn(seed: int) -> list[Any]:
        store = SimpleNamespace(metadata=SimpleNamespace(seed=seed))
        return [cast(Any, each).id.unit for each in random_boundaries(cast(Any, store))]

    samples = {tuple(drawn(seed)) for seed in range(8)}
    assert all(len(set(sample)) == 3 for sample in samples)
    assert len(samples) > 4
    assert max(unit for sample in samples for unit in sample) <= "collect/11"
    assert any(unit > "collect/02" for sample in samples for unit in sample)
    before = drawn(0)
    every.reverse()
    assert drawn(0) == before


# --- the stages of an adaptation


def adapted(
    monkeypatch: pytest.MonkeyPatch, proposal: Any, winner: str = ORIGINAL, needs_effects: bool = True, **options: Any
) -> tuple[adapting.Adaptation, list[Any]]:
    done: list[Any] = []

    async def propose(study: Any) -> Any:
        done.append("propose")
        return proposal

    async def collect(study: Any) -> None:
        done.append("collect")

    async def verify(study: Any) -> None:
        done.append(("verify", study))

    async def inputs_of(study: Any) -> Any:
        return method_inputs(template=study.template)

    async def choose(study: Any, candidates: Any, method: Any) -> Any:
        done.append(("choose", method.name))
        return SimpleNamespace(winner=winner)

    monkeypatch.setattr(adapting, "collect", collect)
    monkeypatch.setattr(adapting, "verify", verify)
    monkeypatch.setattr(adapting, "with_verification", lambda study, allocation: allocation)
    monkeypatch.setattr(adapting, "check_allocation", lambda study: None)
    monkeypatch.setattr(adapting, "inputs_of", inputs_of)
    monkeypatch.setattr(adapting, "choose", choose)
    monkeypatch.setattr(adapting, "write_adaptation", lambda store, record: done.append(record))
    method = Method(
        "mine", propose, needs_effects=needs_effects, cites="task", reasons=lambda store: {"a": (Reason("because"),)}
    )
    study = cast(Study, SimpleNamespace(method=method, store=None, template=TEMPLATE))
    return asyncio.run(adapt(study, **options)), done


BOTH = (Candidate("one", BETTER), Candidate("bad", None))
COUNTS = EvidenceCounts("task", 1, 1)


def test_all_stages_are_done_in_order_and_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    result, done = adapted(monkeypatch, Proposal(BOTH, COUNTS, "said", True), "one", allocation="uniform:2")
    collected, verified, proposed_then, before, chosen, after = done
    assert (collected, verified, proposed_then, chosen) == (
        "collect",
        ("verify", "uniform:2"),
        "propose",
        ("choose", "mine"),
    )
    assert (before.candidates, before.selection) == (BOTH, None)
    assert (after.candidates, after.selection.winner) == (BOTH, "one")
    for record in (before, after):
        assert (record.method, record.cites, record.original) == ("mine", "task", TEMPLATE.hash)
        assert (record.reasons, record.evidence, record.statement) == ({"a": (Reason("because"),)}, COUNTS, "said")
    assert (result.template, result.winner, result.candidates) == (BETTER, "one", BOTH)
    assert (result.evidence, result.statement, result.unusable) == (COUNTS, "said", True)


@pytest.mark.parametrize("until", STAGES)
def test_an_adaptation_stops_after_the_stage_that_it_is_told(monkeypatch: pytest.MonkeyPatch, until: Any) -> None:
    result, done = adapted(monkeypatch, BOTH, until=until)
    names = [each if isinstance(each, str) else each[0] for each in done if isinstance(each, str | tuple)]
    assert names == ["collect", "verify", "propose", "choose"][: STAGES.index(until) + 1]
    assert bool(result.candidates) == (until in ("revise", "select"))
    assert (result.selection is None) == (until != "select")
    assert (result.winner, result.template) == (ORIGINAL, TEMPLATE)


def test_a_method_that_needs_no_effects_verifies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _, done = adapted(monkeypatch, BOTH, needs_effects=False)
    assert done[:2] == ["collect", "propose"]


def test_without_a_template_to_choose_there_is_no_selection(monkeypatch: pytest.MonkeyPatch) -> None:
    result, done = adapted(monkeypatch, Proposal(BOTH[1:], None, "nothing"))
    assert ("choose", "mine") not in done
    assert (result.selection, result.winner, result.template) == (None, ORIGINAL, TEMPLATE)


def test_boundaries_are_verified_as_they_were_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_config('[verify]\nallocation = "halving"\nburden = 7.0\n', Path("c.toml"))
    earlier = replace(config.verify, allocation="uniform:1", burden=3.0)
    monkeypatch.setattr(
        adapting, "settings_of", lambda store, otherwise: otherwise if store.metadata.verified is None else earlier
    )

    def settings(verified: Any, allocation: str | None = None) -> Any:
        store = SimpleNamespace(metadata=SimpleNamespace(verified=verified))
        nothing = cast(Any, None)
        study = Study(config, nothing, {}, nothing, TEMPLATE, cast(Any, store), nothing, len, nothing)
        return with_verification(study, allocation).config.verify

    assert settings(None) == config.verify
    assert settings({}) == earlier
    asked = settings({}, "uniform:2")
    assert (asked.allocation, asked.burden) == ("uniform:2", 7.0)
    assert settings(None, "uniform:2") == asked


# --- methods by name


def test_built_in_methods_are_found_by_their_names() -> None:
    for name in ("pair", "acon-ut", "acon-utco", "acon-ut-locked", "facts", "pair-random", "pair-swapped"):
        assert load_method(name).name == name
    assert load_method("acon-ut", {"samples": 5}).name == "acon-ut"


def test_options_of_a_method_that_takes_none_are_refused_by_their_name() -> None:
    with pytest.raises(OptionError, match="'pair'") as raised:
        load_method("pair", {"samples": 3})
    assert raised.value.key == "samples"
    assert load_method("pair", {}).name == "pair"


def test_a_plug_in_must_be_a_method_or_give_one(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from recompact import Method\nmade = Method('made', None)\n"
        "def make(name='given'):\n    return Method(name, None)\n"
        "def wrong():\n    return 3\nnumber = 3\n"
    )
    assert load_method("mine.py:made", None, tmp_path).name == "made"
    assert load_method("mine.py:make", None, tmp_path).name == "given"
    assert load_method("mine.py:make", {"name": "other"}, tmp_path).name == "other"
    for name in ("wrong", "number"):
        with pytest.raises(InputError, match=f"'mine.py:{name}'"):
            load_method(f"mine.py:{name}", None, tmp_path)


def test_a_method_of_the_callers_own_comes_before_the_config() -> None:
    own = Method("own", cast(Any, None))
    config = parse_config('[adapt]\nmethod = "facts"\n', Path("c.toml"))
    assert method_of(cast(Study, SimpleNamespace(method=own, config=config))) is own
    assert method_of(cast(Study, SimpleNamespace(method=None, config=config))).name == "facts"


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('method = "nowhere"', "[adapt] method"),
        ('method = "pair"\noptions = { samples = 3 }', "[adapt] options"),
        ('method = "acon-ut"\noptions = { wrong = 3 }', "[adapt] options"),
    ],
)
def test_what_is_wrong_with_a_method_is_said_with_its_place_in_the_config(text: str, where: str) -> None:
    config = parse_config(f"[adapt]\n{text}\n", Path("c.toml"))
    with pytest.raises(ConfigError) as raised:
        method_in(config)
    said = str(raised.value)
    assert "adapt" in said
    assert where.split()[1] in said
