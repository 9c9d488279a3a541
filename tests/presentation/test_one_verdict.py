"""One verdict a boundary: terminal, report, viewer and optimizer say the same of every boundary of a run, whether the
verdicts are stored in it or are worked out because it is still being verified."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from examples import examples
from hypothesis import given, strategies as st
from made_up_runs import collect, draw, further
from report_support import claim

from recompact.adaptation.evidence import retained_evidence
from recompact.attribution.boundary_view import boundary_view
from recompact.attribution.judgement import Verification, judge, read_verdicts, store_verdicts, stored_key
from recompact.attribution.statement import LEGEND, headline, legend_text, statement_of
from recompact.cli.boundaries import command as boundaries_command
from recompact.cli.boundary import command as boundary_command
from recompact.engine.config import VerifyConfig
from recompact.engine.store.checksums import checksum_of, columns_of_tables
from recompact.engine.store.runs import continuation_rows
from recompact.engine.store.store import Store, StoreError
from recompact.engine.store.verdicts import KINDS, Reason
from recompact.presentation.report.content.overview import boundary_table, exact_boundary_table
from recompact.presentation.report.content.report import read_report
from recompact.presentation.report.html.page import page_environment
from recompact.presentation.view.case import case_page
from recompact.presentation.view.runs import Place, line_of, run_page
from recompact.presentation.view.verdicts import open_moment
from recompact.values.outcome import ARMS, BoundaryId, ContinuationArm
from recompact.values.trajectory import Ending

ALLOCATIONS = ("uniform:1", "uniform:3", "halving", "racing", "chained", "chained:racing")


def make_run(path: Path, seed: int, allocation: str) -> Store:
    """Trajectories with up to three boundaries: some lose success, some add steps, some help, some are left out, some
    have too few draws or copies; at temperature 0 in every other run."""
    chance, store = Random(seed), Store.open(path)
    claim(store, "verify")
    cold = seed % 2
    identity = {**store.metadata.identity, "agent": {"temperature": 0 if cold else 0.7}}
    verified = {"allocation": allocation, "hazard": 0.5, "burden": 5}
    store.set_metadata(replace(store.metadata, identity=identity, verified=verified))
    for n in range(chance.randrange(1, 6)):
        steps = tuple(range(2, 2 + 3 * chance.randrange(1, 4), 3))
        collect(store, f"t{n}", steps, steps=14, value=float(chance.random() < 0.5))
        for index in range(1, len(steps) + 1):
            _draws(store, chance, f"t{n}", index, bool(cold))
    return store


def _draws(store: Store, chance: Random, task: str, index: int, cold: bool) -> None:
    kind = chance.choice(("lost", "longer", "helped", "fine", "broken", "few", "none"))
    rates = {"lost": (1.0, 0.0), "helped": (0.0, 1.0)}.get(kind, (0.8, 0.8))
    added = 9 if kind in ("longer", "helped") else 0
    most = {"none": 0, "few": 1}.get(kind, chance.choice((3, 5, 10)))
    for number in range(most):
        for arm in ARMS:
            value = float((0.5 if cold else chance.random()) < rates[arm == "POST"])
            broken = kind == "broken" and number == 0 and arm == "POST"
            ending: Ending = "environment error" if broken else "finished"
            draw(store, task, index, arm, number, value, 4 + added * (arm == "POST"), ending=ending, error="no disk")
            if kind == "lost" and number < 2:
                further(store, "confirm", task, index, arm, number, value, 4)


def marks_in(page: str) -> Counter[str]:
    """How many marks of each kind a drawing has; circles and diamonds of the legend are text."""
    return Counter(re.findall(r'<(?:rect|circle|polygon) class="(\w+)"', page))


@examples(20)
@given(st.integers(0, 10_000), st.sampled_from(ALLOCATIONS), st.booleans())
def test_everybody_says_the_same_of_every_boundary(
    tmp_path_factory: pytest.TempPathFactory, seed: int, allocation: str, stored: bool
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.db"
    with make_run(path, seed, allocation) as store:
        verification = judge(store, VerifyConfig(allocation=allocation))
        if stored:
            assert store_verdicts(store, VerifyConfig(allocation=allocation)) == verification
        assert (stored_key(store) is not None) == (stored and verification.settled and bool(verification.verdicts))
        assert read_verdicts(store) == verification
        kinds = {verdict.id: verdict.kind for verdict in verification.verdicts}
        # the optimizer
        assert [view.id for view in retained_evidence(store)] == [id for id, kind in kinds.items() if kind == "harmful"]
        assert boundary_view(store, verification.verdicts[0].id).verdict == verification.verdicts[0]
    # JSON and the list of the terminal
    document = CliRunner().invoke(boundaries_command, [str(path), "--json"], catch_exceptions=False).stdout
    assert _json_kinds(document) == {str(id): kind for id, kind in kinds.items()}
    listing = CliRunner().invoke(boundaries_command, [str(path), "--all"], catch_exceptions=False).stdout
    if verification.examined:  # without any effect there is nothing to list
        symbols = dict(re.findall(r"^(\S+#\d+) (\S) ", listing, flags=re.MULTILINE))
        assert symbols == {str(id): LEGEND[kind].symbol for id, kind in kinds.items()}
    for id, kind in list(kinds.items())[:2]:
        shown = CliRunner().invoke(boundary_command, [str(path), str(id)], catch_exceptions=False).stdout
        assert f"{LEGEND[kind].symbol} {LEGEND[kind].label}" in shown.splitlines()[0]
    _check_statement(verification)
    if any(verdict.effect for verdict in verification.verdicts) or stored:
        _check_report(path, verification)
    _check_viewer(path, verification)


def test_random_runs_have_verdicts_of_every_kind(tmp_path: Path) -> None:
    """What the property above is about occurs: chained, copied, left-out and helped boundaries, for every reason."""
    reasons: set[str] = set()
    copies = chained = 0
    for seed in range(16):
        allocation = ALLOCATIONS[seed % len(ALLOCATIONS)]
        with make_run(tmp_path / f"{seed}.db", seed, allocation) as store:
            for verdict in judge(store, VerifyConfig(allocation=allocation)).verdicts:
                reasons.add(verdict.reason)
                copies += verdict.copies
                recorded = len(continuation_rows(store, verdict.id.unit, verdict.id.index))
                chained += len(verdict.outcomes.pre) + len(verdict.outcomes.post) > recorded
    assert {KINDS[reason] for reason in get_args(Reason) if reason in reasons} == set(LEGEND)
    assert {"left out", "helped", "retained"} <= reasons
    assert copies
    assert chained


def _json_kinds(text: str) -> dict[str, str]:
    rows = json.loads(text)["boundaries"]
    assert all(KINDS[row["reason"]] == row["verdict"] for row in rows)
    assert all(row["retained"] == (row["verdict"] == "harmful") for row in rows)
    return {row["boundary"]: row["verdict"] for row in rows}


def _check_statement(verification: Verification) -> None:
    statement = statement_of(verification)
    assert statement.to_json()["verdicts"] == {kind: verification.kinds.get(kind, 0) for kind in LEGEND}
    assert statement.retained == verification.kinds.get("harmful", 0)
    if statement.examined:
        assert statement.sentences()[0] == headline(verification.kinds, verification.settled)


def _check_report(path: Path, verification: Verification) -> None:
    with Store.read(path) as store:
        if not store.finished("continuation"):
            return
    (run,) = read_report([str(path)], path.parent).verified
    assert run.verification == verification
    assert run.harm.harmful == verification.kinds.get("harmful", 0)
    assert run.harm.suspected == verification.kinds.get("suspected", 0)
    if run.timeline is not None:
        marks = {str(mark.id): mark.kind for track in run.timeline.tracks for mark in track.marks}
        assert marks == {str(verdict.id): verdict.kind for verdict in verification.verdicts}
        macros: Any = page_environment().get_template("timeline.html.jinja").module
        assert marks_in(macros.timeline(run.timeline, "timeline", {})) == verification.kinds
    labels = {row[0]: row[-1] for row in boundary_table(verification).rows}
    assert labels == {str(verdict.id): LEGEND[verdict.kind].label for verdict in verification.examined}
    if verification.verdicts:
        exact = exact_boundary_table(verification)
        at = [column.key for column in exact.columns].index("verdict")
        assert [row[at] for row in exact.rows] == [verdict.kind for verdict in verification.verdicts]
    shown = {case.verdict.kind for case in run.cases}
    assert len(shown) <= 1 or not shown & {"harmful", "suspected"}


def _check_viewer(path: Path, verification: Verification) -> None:
    line = line_of(Place("run", path))
    with open_moment(path) as store:
        _, page = run_page(store, line, {"order": "harm"})
        marks = {str(mark.id): mark.kind for _, _, marked in page["rows"] for mark in marked}
        assert marks == {str(verdict.id): verdict.kind for verdict in verification.verdicts}
        first = [row.unit for row, _, marked in page["rows"] if marked]
        if line.counts and line.counts.continuations:
            assert first == list(dict.fromkeys(verdict.id.unit for verdict in verification.verdicts))
        if line.kinds is not None:
            assert {kind: line.kinds.get(kind, 0) for kind in LEGEND} == {
                kind: verification.kinds.get(kind, 0) for kind in LEGEND
            }
        if verification.verdicts and line.counts and line.counts.continuations:
            worst = verification.verdicts[0]
            address = {"unit": worst.id.unit, "index": str(worst.id.index)}
            assert case_page(store, line, address)[1]["case"].verdict == worst


def test_a_draw_that_comes_or_goes_takes_the_stored_verdicts_out_of_force(tmp_path: Path) -> None:
    by = VerifyConfig(allocation="uniform:1")
    with Store.open(tmp_path / "run.db") as store:
        claim(store, "verify")
        store.set_metadata(replace(store.metadata, verified={"allocation": "uniform:1"}))
        for task, value in (("more", 0.0), ("less", 1.0)):
            collect(store, task)
            draw(store, task, 1, "PRE", 0)
            draw(store, task, 1, "POST", 0, value)
        store_verdicts(store, by)
        assert stored_key(store, by) is not None
        assert stored_key(store, replace(by, hazard=0.4)) is None
        assert read_verdicts(store).of(BoundaryId("collect/more", 1)).kind == "harmful"
        name = draw(store, "less", 1, "POST", 1, 0.0)
        assert stored_key(store, by) is None
        assert read_verdicts(store) == judge(store, by)
        store.reopen(name)
        assert stored_key(store, by) is not None  # the run has the records again that they rest on
        store.set_metadata(replace(store.metadata, skipped=("more",)))
        assert stored_key(store, by) is None
        assert BoundaryId("collect/more", 1) not in {verdict.id for verdict in read_verdicts(store).verdicts}


def test_stored_verdicts_are_read_without_a_look_at_each_draw_unless_one_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by, path, looks = VerifyConfig(allocation="uniform:1"), tmp_path / "run.db", Counter[int]()

    def counted(texts: int, blobs: int, *values: Any) -> int:
        looks[len(values)] += 1
        return checksum_of(texts, blobs, *values)

    with Store.open(path) as store:
        claim(store, "verify")
        collect(store, "t")
        for arm in ARMS:
            name = draw(store, "t", 1, arm, 0)
        store_verdicts(store, by)
    monkeypatch.setattr("recompact.engine.store.checksums.checksum_of", counted)
    with Store.read(path) as store:
        assert read_verdicts(store, by).examined
        assert not looks[len(columns_of_tables()["units"].names)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE units SET result = zeroblob(32) WHERE name = ?", (name,))
    with Store.read(path) as store, pytest.raises(StoreError, match="units"):
        read_verdicts(store, by)


def test_verdicts_of_several_settings_stay_beside_each_other_until_the_draws_change(tmp_path: Path) -> None:
    one, three = VerifyConfig(allocation="uniform:1"), VerifyConfig(allocation="halving")
    with Store.open(tmp_path / "run.db") as store:
        claim(store, "verify")
        for n in range(4):
            collect(store, f"t{n}")
            for number in range(3):
                draw(store, f"t{n}", 1, "PRE", number)
                draw(store, f"t{n}", 1, "POST", number, 0.0)
        for by in (one, three):
            store_verdicts(store, by)
        assert stored_key(store, one) is not None
        assert stored_key(store, three) is not None
        # Halving gives all draws to one boundary in four, though every one of them lost success.
        assert [verdict.reason for verdict in read_verdicts(store, three).verdicts] == [
            "retained",
            *["stopped early"] * 3,
        ]
        draw(store, "t0", 1, "PRE", 3)
        store_verdicts(store, one)
        assert len(store._rows("SELECT DISTINCT settings FROM verdicts")) == 1


def test_where_halving_stops_early_all_look_harmful_and_few_are_diagnosed(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db") as store:
        claim(store, "verify")
        store.set_metadata(replace(store.metadata, verified={"allocation": "halving"}))
        for n in range(6):
            collect(store, f"t{n}")
        while due := _due(store):
            for task, arm, number in due:
                draw(store, task, 1, arm, number, float(arm == "PRE"))
        verification = store_verdicts(store, VerifyConfig())
        assert verification.kinds == {"harmful": 2, "suspected": 4}
        assert {verdict.reason for verdict in verification.verdicts} == {"retained", "stopped early"}
        assert all(verdict.effect and verdict.effect.hazard == 1 for verdict in verification.verdicts)
    _check_viewer(tmp_path / "run.db", verification)
    _check_report(tmp_path / "run.db", verification)
    assert legend_text(verification.kinds.keys()).count("◇") == 1


def _due(store: Store) -> list[tuple[str, ContinuationArm, int]]:
    from recompact.attribution.records import outcomes_in
    from recompact.attribution.registry import allocation_of

    draws = allocation_of(store, VerifyConfig()).due(outcomes_in(store).outcomes)
    return [(each.boundary.unit.removeprefix("collect/"), each.arm, each.number) for each in draws]
