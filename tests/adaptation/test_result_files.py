"""The directory with an adapted template: its manifest and CHANGES.md, whoever won and whatever is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from recompact.adaptation import result
from recompact.adaptation.adapt import Adaptation
from recompact.adaptation.method import Method
from recompact.adaptation.placement import with_clauses_in_place
from recompact.adaptation.result import changes, manifest_of, write_result
from recompact.adaptation.selection import CAVEAT, fit_table
from recompact.engine.config import Config, VerifyConfig
from recompact.engine.config_parser import parse_config
from recompact.engine.store.store import Store
from recompact.engine.study import Study
from recompact.values.candidate import ORIGINAL, Candidate, Clause, EvidenceCounts, Fit, Reason, Selection
from recompact.values.tables import Number
from recompact.values.template import default_template, load

TEMPLATE = default_template()
KEEP = Clause("Keep Zoë’s *ids* exactly.", "Goal", ("a#1", "b#2"))
VERIFY = Clause("Before finishing, verify every payment.", "Goal", ("a#1",))
REVISED = with_clauses_in_place(TEMPLATE, [KEEP, VERIFY])
WINNER = Candidate("zeta", REVISED, (KEEP, VERIFY), ("one slip",))
BAD = Candidate("bad", None, (), ("no JSON", "the same again"))
FITS = (Fit(ORIGINAL, 4, 1, 9.0), Fit("zeta", 4, 3, 8.0))
SELECTION = Selection(FITS, "zeta", ("t1", "t2"))


def method(asks_optimizer: bool = True) -> Method:
    def reasons(store: Store) -> Mapping[str, Sequence[Reason]]:
        calls = Reason("omitted state (API signatures): It read the manual.", "API signatures")
        return {"a#1": (calls, Reason("omitted state (ids): It asked again.", "ids"))}

    return Method("mine", cast(Any, None), asks_optimizer=asks_optimizer, reasons=reasons)


UNCHANGED = "The template is the original one, unchanged."


def adaptation(**changed: Any) -> Adaptation:
    made = Adaptation(method(), REVISED, "zeta", (BAD, WINNER), SELECTION, EvidenceCounts("compaction", 2, 2), "")
    return replace(made, **changed)


def study(config: Config | None = None) -> Study:
    config = config or parse_config("", Path("c.toml"))
    return cast(Study, SimpleNamespace(config=config, template=TEMPLATE, store=None))


def told(made: Adaptation) -> str:
    return changes(study(), made, made.winning)


@pytest.fixture(autouse=True)
def no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "tokens_by_phase", lambda store: {"collect": {"agent": 7}})
    monkeypatch.setattr(result, "trajectories", lambda store: [SimpleNamespace(task=task) for task in ("t2", "t1")])


# --- CHANGES.md


def test_the_clauses_of_the_winner_stand_with_their_reasons() -> None:
    text = told(adaptation())
    assert "## first.md\n\n### Goal\n\n```diff\n+ - Keep Zoë’s *ids* exactly.\n" in text
    assert "## update.md\n\n### Goal\n" in text
    after = text.partition("## Clauses and the compactions they answer\n\n")[2]
    first, second, third, fourth, fifth = after.splitlines()[:5]
    assert first.startswith("- “Keep Zoë’s")
    assert "tells the agent" not in first
    assert second.endswith("omitted state (ids): It asked again.")  # not the first finding, which is of another kind
    assert first.endswith("”")
    assert "diagnosis" in third
    assert fourth.endswith(")**")
    assert fifth.endswith(": API signatures, ids")
    assert UNCHANGED not in text


def test_the_selection_and_the_evidence_are_told_first() -> None:
    text = told(adaptation(statement="A word more."))
    lines = text.splitlines()
    assert lines[:3] == ["# What changed, and why", "", SELECTION.statement]
    evidence = EvidenceCounts("compaction", 2, 2).statement
    assert text.index("| zeta |") < text.index(evidence) < text.index("A word more.") < text.index("## first.md")
    assert "- " not in text[: text.index("## first.md")].replace("---", "").replace("| -", "")


def test_without_selection_evidence_or_statement_nothing_is_said_of_them() -> None:
    text = told(adaptation(selection=None, evidence=None, winner=ORIGINAL, candidates=(), template=TEMPLATE))
    assert text == f"# What changed, and why\n\n{UNCHANGED}\n"


@pytest.mark.parametrize(
    "made",
    [
        adaptation(winner=ORIGINAL),
        adaptation(winner="nobody", selection=None),
        adaptation(winner="bad", selection=None),
    ],
)
def test_where_the_original_stays_no_clause_is_listed(made: Adaptation) -> None:
    text = told(made)
    assert UNCHANGED in text
    assert "## Clauses" not in text
    assert "## Candidates that could not be used\n\n- bad: no JSON; the same again\n" in text


@pytest.mark.parametrize("name", ["alpha", "zeta"])
def test_a_winner_is_no_original_whatever_its_name(name: str) -> None:
    won = replace(WINNER, name=name)
    text = told(adaptation(winner=name, candidates=(won,), selection=None))
    assert "## Clauses" in text
    assert "could not be used" not in text
    assert "## Candidates that could not be used\n\n- bad: no JSON; the same again\n" in told(adaptation())


# --- manifest.json


def test_the_manifest_has_the_winner_and_all_candidates() -> None:
    made = adaptation(statement="A word more.")
    manifest = manifest_of(study(), made, made.winning, "2026-01-02")
    assert (manifest["hash"], manifest["parent"]) == (REVISED.hash, TEMPLATE.hash)
    assert (manifest["method"], manifest["winner"], manifest["date"]) == ("mine", "zeta", "2026-01-02")
    assert manifest["rules"] == [
        {"clause": KEEP.text, "section": "Goal", "boundaries": ["a#1", "b#2"], "proof": "", "tells_agent": False},
        {"clause": VERIFY.text, "section": "Goal", "boundaries": ["a#1"], "proof": "", "tells_agent": True},
    ]
    assert manifest["candidates"] == [
        {"name": "bad", "hash": None, "rules": [], "refused_drafts": ["no JSON", "the same again"]},
        {"name": "zeta", "hash": REVISED.hash, "rules": manifest["rules"], "refused_drafts": ["one slip"]},
    ]
    assert manifest["evidence"] == asdict(EvidenceCounts("compaction", 2, 2))
    assert manifest["statement"] == "A word more."
    assert manifest["selection_rule"] == "paper"
    assert [(fit["name"], fit["passed"], fit["pass_rate"]) for fit in manifest["selection"]] == [
        (ORIGINAL, 1, 0.25),
        ("zeta", 3, 0.75),
    ]
    assert (manifest["excluded_runs"], manifest["fit_tasks"]) == ([], ["t1", "t2"])
    assert manifest["training_tasks"] == ["t1", "t2"]
    assert manifest["tokens"] == {"collect": {"agent": 7}}
    assert manifest["models"]["optimizer"] == study().config.optimizer_model


def test_a_manifest_without_selection_has_no_runs() -> None:
    made = adaptation(selection=None, evidence=None, winner=ORIGINAL, method=method(asks_optimizer=False))
    manifest = manifest_of(study(), made, made.winning, "2026-01-02")
    assert manifest["selection_rule"] == ""
    assert manifest["selection"] == manifest["excluded_runs"] == manifest["fit_tasks"] == []
    assert manifest["rules"] == []
    assert manifest["evidence"] is None
    assert manifest["models"]["optimizer"] is None


def test_runs_left_out_are_in_the_manifest() -> None:
    made = adaptation(selection=replace(SELECTION, excluded=("t1, run 0",)))
    assert manifest_of(study(), made, made.winning, "2026-01-02")["excluded_runs"] == ["t1, run 0"]


def test_the_files_are_written_in_readable_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[Any] = []
    monkeypatch.setattr(result, "note_result", lambda store, hash, directory: noted.append((hash, directory)))
    write_result(study(), adaptation(), tmp_path / "out", "2026-01-02")
    text = (tmp_path / "out" / "manifest.json").read_text(encoding="utf-8")
    assert "Keep Zoë’s *ids* exactly." in text
    assert text.startswith('{\n  "')
    assert text.endswith("}\n")
    assert json.loads(text)["hash"] == REVISED.hash
    assert load(tmp_path / "out") == REVISED
    assert (tmp_path / "out" / "CHANGES.md").read_text(encoding="utf-8") == told(adaptation())
    assert noted == [(REVISED.hash, tmp_path / "out")]


@pytest.mark.parametrize(("name", "place"), [("eta-2", "eta-2"), ("../../eta", "3"), ("", "3"), ("3", "3")])
def test_a_candidate_that_was_not_chosen_is_a_template_of_its_own(
    name: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "note_result", lambda store, hash, directory: None)
    other = with_clauses_in_place(TEMPLATE, [KEEP])
    made = adaptation(candidates=(BAD, WINNER, Candidate(name, other, (KEEP,))))
    for _ in range(2):  # the second time over itself
        write_result(study(), made, tmp_path / "deep" / "out", "2026-01-02")
    assert [path.name for path in (tmp_path / "deep" / "out" / "candidates").iterdir()] == [place]
    assert load(tmp_path / "deep" / "out" / "candidates" / place) == other
    assert load(tmp_path / "deep" / "out") == REVISED
    assert [path.name for path in tmp_path.iterdir()] == ["deep"]


def test_candidates_of_one_name_are_both_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result, "note_result", lambda store, hash, directory: None)
    twice = (Candidate("eta", REVISED), Candidate("eta", TEMPLATE))
    write_result(study(), adaptation(candidates=(WINNER, *twice)), tmp_path / "out", "2026-01-02")
    assert load(tmp_path / "out" / "candidates" / "eta") == REVISED
    assert load(tmp_path / "out" / "candidates" / "3") == TEMPLATE


def test_where_the_original_stays_every_usable_candidate_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "note_result", lambda store, hash, directory: None)
    kept = adaptation(template=TEMPLATE, winner=ORIGINAL)
    write_result(study(), kept, tmp_path / "out", "2026-01-02")
    assert load(tmp_path / "out") == TEMPLATE
    assert load(tmp_path / "out" / "candidates" / "zeta") == REVISED


# --- the table of fits


def test_a_table_of_fits_has_a_row_for_each_and_a_column_for_what_broke() -> None:
    table = fit_table(SELECTION)
    assert table.rows == ((ORIGINAL, 4, 1, Number(9.0)), ("zeta", 4, 3, Number(8.0)))
    assert table.notes == (CAVEAT,)
    broken = replace(SELECTION, fits=(FITS[0], replace(FITS[1], broken=2)))
    assert [row[-1] for row in fit_table(broken).rows] == [0, 2]


def test_the_winning_candidate_is_found_by_its_name() -> None:
    assert adaptation().winning == WINNER
    assert adaptation(winner="bad").winning == BAD
    assert adaptation(winner=ORIGINAL).winning is None


@pytest.mark.parametrize("needs_effects", [True, False])
def test_the_manifest_has_the_settings_that_the_run_was_verified_with(tmp_path: Path, needs_effects: bool) -> None:
    """A method that learns from no effects goes by the config."""
    own = VerifyConfig(allocation="uniform:1", hazard=0.25)
    made = adaptation(method=replace(method(), needs_effects=needs_effects))
    with Store.open(tmp_path / "run.db") as store:
        of_run = cast(Study, SimpleNamespace(**{**vars(study()), "store": store}))
        assert manifest_of(of_run, made, WINNER, "2026-01-02")["verify"] == asdict(VerifyConfig())
        store.set_metadata(replace(store.metadata, verified=asdict(own)))
        verify = manifest_of(of_run, made, WINNER, "2026-01-02")["verify"]
    assert verify == asdict(own if needs_effects else VerifyConfig())
