"""PAIR from a verified run to the directory that a person takes home."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from run_files import select_rows

from recompact.adaptation.adapt import Adaptation, adapt
from recompact.adaptation.evidence import EvidenceText, gather, shared_prefix
from recompact.adaptation.lock import broken_rules, instances_in
from recompact.adaptation.pair import PAIR
from recompact.adaptation.result import write_result
from recompact.adaptation.selection import fit_tasks
from recompact.attribution.judgement import read_verdicts
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.models.failures import Overloaded
from recompact.suites.pocket import PocketSuite
from recompact.values.candidate import ORIGINAL, Clause
from recompact.values.chat import Reply, Request
from recompact.values.template import Template, default_template, load, render_sections
from recompact.values.tokens import counter

TASKS = [f"pocket-train-{n:03d}" for n in (3, 9, 14, 20, 25, 29)]  # the last two have harmful compactions
CONFIG = f"""
[suite]
tasks = {json.dumps(TASKS)}
[compressor]
budget = 2048
[adapt]
method = "pair"
candidates = 3
fit_tasks = 4
"""


def run(path: Path, text: str = CONFIG, **changes: object) -> tuple[Study, Adaptation]:
    async def work(store: Store) -> tuple[Study, Adaptation]:
        async with open_study(parse_config(text, Path("c.toml")), store) as study:
            return study, await adapt(study, **changes)  # type: ignore[arg-type]

    with Store.open(path) as store:
        return asyncio.run(work(store))


@pytest.fixture(scope="module")
def adapted_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adapt") / "run.db"
    run(path)
    return path


def evidence_in(path: Path, scope: str = "history", budget: int = 60_000) -> tuple[EvidenceText, ...]:
    texts = {f"collect/{task.id}": task.text for task in PocketSuite().tasks("train")}
    with Store.read(path) as store:
        return gather(store, texts, scope, budget, counter())  # type: ignore[arg-type]


def test_the_most_harmful_boundary_comes_first_in_the_evidence(adapted_run: Path) -> None:
    """Whatever the channel: lost success and added steps are measured by their thresholds."""
    with Store.read(adapted_run) as store:
        retained = [finding for finding in read_verdicts(store).verdicts if finding.retained]
    ids = [entry.id for entry in evidence_in(adapted_run)]
    assert ids == [finding.id for finding in retained]
    assert ids != sorted(ids)
    scores = [finding.effect.score for finding in retained if finding.effect]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[-1]


def test_every_retained_boundary_is_diagnosed_however_small_a_call_may_be(adapted_run: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    shutil.copy(adapted_run, path)
    with Store.open(path) as store:
        retained = {str(finding.id) for finding in read_verdicts(store).verdicts if finding.retained}
        store.forget_units(PAIR.phases)
    assert len(retained) > 2
    _, small = run(path, CONFIG + "evidence_tokens = 3000\n", until="revise")
    with Store.read(path) as store:
        records = [store.result(unit) for unit in store.finished("diagnosis")]
        (recorded,) = read_adaptations(store)
    assert {record["boundary"] for record in records} == retained
    assert small.evidence is not None
    assert small.evidence == recorded.evidence
    assert small.evidence.pieces == len(retained)
    assert small.evidence.cut == sum(record["cuts"] > 0 for record in records) == len(retained)
    assert small.evidence.left_out == sum(record["left_out"] for record in records) > 0
    assert f"The evidence about {len(retained)} was cut" in small.evidence.statement
    for evidence in evidence_in(path, budget=3000):
        assert evidence.tokens <= 3000
    with Store.read(adapted_run) as store:
        shared = shared_prefix(store)
    assert any("You do tasks in a person's apps" in message for message in shared)
    assert not any("pocket-train" in message or "post.example" in message for message in shared)


def test_candidates_keep_the_lock_and_cite_their_boundaries(adapted_run: Path) -> None:
    study, adapted = run(adapted_run)  # read back: nothing is done again
    assert len(adapted.candidates) == 3
    original = default_template()
    ids = {str(e.id) for e in evidence_in(adapted_run)}
    for candidate in adapted.candidates:
        assert candidate.template is not None, candidate.objections
        assert broken_rules(original, candidate.template) == ()
        assert candidate.clauses
        for clause in candidate.clauses:
            assert set(clause.answers) <= ids
    assert len({c.template.hash for c in adapted.candidates if c.template}) > 1
    assert adapted.selection is not None
    assert {fit.name for fit in adapted.selection.fits} == {ORIGINAL, *(c.name for c in adapted.candidates)}
    assert adapted.winner in {fit.name for fit in adapted.selection.fits}
    assert study.template == original


def test_what_is_done_is_not_done_again_and_concurrency_changes_nothing(adapted_run: Path, tmp_path: Path) -> None:
    with Store.read(adapted_run) as store:
        calls = select_rows(store, "SELECT count(*) AS n FROM calls")[0]["n"]
        digest = store.digest()
    run(adapted_run)
    with Store.read(adapted_run) as store:
        assert select_rows(store, "SELECT count(*) AS n FROM calls")[0]["n"] == calls
    run(tmp_path / "again.db", CONFIG + "[run]\nconcurrency = 1\n")
    with Store.read(tmp_path / "again.db") as store:
        assert store.digest() == digest


def test_stages_can_be_stopped_after_and_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    _, early = run(path, until="verify")
    assert early.candidates == ()
    with Store.read(path) as store:
        kinds = {row["kind"] for row in select_rows(store, "SELECT DISTINCT kind FROM units")}
    assert "diagnosis" not in kinds
    _, whole = run(path)
    with Store.open(path) as store:
        before = store.digest()
        store.forget_units(("revise/", "select/"))
        assert not store.finished("candidate")
        assert store.finished("diagnosis")
    _, again = run(path)
    assert again.winner == whole.winner
    with Store.read(path) as store:
        assert store.digest() == before


def test_a_run_records_its_adaptation_for_the_report(adapted_run: Path) -> None:
    study, adapted = run(adapted_run)
    with Store.read(adapted_run) as store:
        (record,) = read_adaptations(store)
    assert (record.method, record.cites, record.original) == ("pair", "compaction", study.template.hash)
    assert (record.candidates, record.selection) == (adapted.candidates, adapted.selection)
    cited = {answered for candidate in record.candidates for clause in candidate.clauses for answered in clause.answers}
    assert cited
    assert cited <= record.reasons.keys()


def test_candidates_are_on_record_although_their_selection_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    small = CONFIG.replace(json.dumps(TASKS), '["pocket-train-029", "pocket-train-032", "pocket-train-061"]')
    run(path, small, until="verify")

    async def work(store: Store) -> None:
        async with open_study(parse_config(small, Path("c.toml")), store) as study:
            await adapt(replace(study, models={**study.models, "sim-agent": Down()}))

    with Store.open(path) as store:
        with pytest.raises((Unfinished, Overloaded)):
            asyncio.run(work(store))
        (stopped,) = read_adaptations(store)
    assert len(stopped.candidates) == 3
    assert stopped.selection is None
    _, whole = run(path, small)
    with Store.read(path) as store:
        (record,) = read_adaptations(store)
    assert record.selection == whole.selection
    assert whole.selection is not None


class Down:
    name = "sim-agent"

    async def reply(self, request: Request) -> Reply:
        raise Overloaded("busy")


def test_the_result_is_a_directory_that_a_person_and_a_program_can_read(adapted_run: Path, tmp_path: Path) -> None:
    study, adapted = run(adapted_run)
    target = tmp_path / "result"
    with Store.open(adapted_run) as store:
        write_result(replace(study, store=store), adapted, target, "2026-01-02")
        write_result(replace(study, store=store), adapted, target, "2026-01-02")  # again, over itself
    assert load(target) == adapted.template
    manifest = json.loads((target / "manifest.json").read_text())
    assert manifest["hash"] == adapted.template.hash
    assert manifest["parent"] == default_template().hash
    assert manifest["winner"] == adapted.winner
    assert {"collect", "continue", "diagnose", "revise", "select"} <= manifest["tokens"].keys()
    told = (target / "CHANGES.md").read_text()
    assert adapted.selection is not None
    assert adapted.selection.statement in told
    if adapted.winner != ORIGINAL:
        assert "```diff" in told
        assert all(rule["boundaries"] for rule in manifest["rules"])


def test_fit_tasks_are_those_with_the_most_compactions(adapted_run: Path) -> None:
    with Store.read(adapted_run) as store:
        chosen = fit_tasks(store, 5, seed=0)
        rows = {row.task: row for row in trajectories(store)}
    assert len(chosen) == len(set(chosen)) == 5
    least = min(rows[t].compactions for t in chosen)
    assert all(row.compactions <= least for task, row in rows.items() if task not in chosen)
    assert all("test" not in task for task in chosen)


def revised(change: str, to: str) -> Template:
    t = default_template()
    assert change in t.first
    return replace(t, first=t.first.replace(change, to), update=t.update.replace(change, to))


@pytest.mark.parametrize(
    ("change", "to", "said"),
    [
        ("## Goal", "## Aim", "headings must stay"),
        ("### Done", "## Done", "headings must stay"),
        ("{{ budget }}", "2000", "placeholders must stay"),
        ("{{ history }}", "{{ history }}{{ history }}", "placeholders must stay"),
        ("</conversation>", "</talk>", "tags must stay"),
        ("- [x] What", "- What", "must keep its form"),
        ("1. What", "What", "must keep its form"),
        ("Be brief in every section.", "Be brief. Keep t1042.", "names 't1042'"),
    ],
)
def test_the_lock_catches_each_break(change: str, to: str, said: str) -> None:
    broken = broken_rules(default_template(), revised(change, to), frozenset({"t1042"}))
    assert any(said in rule for rule in broken), broken


@pytest.mark.parametrize("part", ["first", "update"])
def test_the_lock_keeps_headings_in_their_order(part: str) -> None:
    original = default_template()
    sections = list(original.sections(part))
    titled = [n for n, section in enumerate(sections) if section.level == 2]
    for one, other in pairwise(titled):
        swapped = list(sections)
        swapped[one], swapped[other] = swapped[other], swapped[one]
        broken = broken_rules(original, replace(original, **{part: render_sections(swapped)}))  # type: ignore[arg-type]
        assert any(rule.startswith(f"{part}: the headings") for rule in broken), broken
    assert len(titled) > 3


def test_guidance_may_change_and_old_words_may_name_anything() -> None:
    t = default_template()
    free = revised("What the agent has been asked to achieve.", "The whole request with every condition.")
    assert broken_rules(t, free, frozenset({"Goal", "Key Decisions"})) == ()


def test_instances_and_clauses_for_the_agent() -> None:
    found = instances_in(["ann.miller@post.example paid 12.50 on 2025-03-01, see pay-7f3a9c21 and account 52834"])
    assert {"ann.miller@post.example", "12.50", "2025-03-01", "pay-7f3a9c21", "52834"} <= found
    assert Clause("Before any irreversible action, verify the target set.", "", ()).tells_agent
    assert not Clause("Keep every condition of the task exactly.", "", ()).tells_agent


def test_methods_and_defaults() -> None:
    config: Config = parse_config("", Path("c.toml"))
    assert (config.adapt.method, config.adapt.candidates, config.adapt.fit_tasks, config.adapt.fit_runs) == (
        "causes",
        5,
        12,
        1,
    )
