"""A cause that was found is shown wherever a person looks at its compaction."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from verify_support import books, study_of

from recompact.attribution.bisection.bisect import bisect
from recompact.attribution.bisection.cause import Cause
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.verify import verify
from recompact.cli.main import cli
from recompact.engine.collection import collect
from recompact.engine.config import VerifyConfig
from recompact.engine.store.store import Store
from recompact.presentation.report.content.shown_cases import worst_cases


@pytest.fixture(scope="module")
def bisected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Cause, str]:
    """A run with one cause that was found, and a compaction that nobody bisected."""
    path = tmp_path_factory.mktemp("shown") / "books.db"
    with Store.open(path) as store:
        base = study_of(store, books(8))
        study = replace(base, config=replace(base.config, verify=VerifyConfig(allocation="uniform:3")))

        async def work() -> tuple[Cause, str]:
            await collect(study)
            verification = await verify(study)
            for verdict in verification.retained:
                cause = (await bisect(study, [verdict.id], most=40)).causes[verdict.id]
                if cause.known:
                    return cause, str(verification.examined[-1].id)
            raise AssertionError("no cause was found")

        return path, *asyncio.run(work())


def test_the_report_shows_it_beside_the_summary(bisected: tuple[Path, Cause, str]) -> None:
    path, cause, _ = bisected
    with Store.read(path) as store:
        cases = {case.id: case for case in worst_cases(store, read_verdicts(store), 20, "c")}
    shown = cases[cause.boundary].cause
    assert shown is not None
    assert len(shown.pieces) == len(cause.pieces)


def test_boundary_tells_the_cause_alone(bisected: tuple[Path, Cause, str]) -> None:
    path, cause, _ = bisected
    result = CliRunner().invoke(cli, ["boundary", str(path), str(cause.boundary), "--cause", "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert [piece[2] for piece in told["pieces"]] == [piece.text for piece in cause.pieces]
    assert CliRunner().invoke(cli, ["boundary", str(path), str(cause.boundary)]).exit_code == 0


def test_a_compaction_that_nobody_bisected_is_sent_to_the_command(bisected: tuple[Path, Cause, str]) -> None:
    path, _, other = bisected
    result = CliRunner().invoke(cli, ["boundary", str(path), other, "--cause"])
    assert result.exit_code != 0
    assert "bisect" in str(result.exception or "") + result.output
