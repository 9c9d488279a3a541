"""The paper's analyses of boundaries, from draws that a test has written down."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import begin, collect, pair
from report_support import adapted_template

from recompact.engine.config import Config, SuiteConfig, VerifyConfig
from recompact.engine.store.adaptations import AdaptationRecord, write_adaptation
from recompact.engine.store.store import Store
from recompact.evaluation.reproduction.experiments import DRAWS, Diagnostics, Setting, join_experiments
from recompact.evaluation.reproduction.results import allocation_table, effect_table
from recompact.values.candidate import Candidate, Clause
from recompact.values.tables import as_json
from recompact.values.template import default_template


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    """Every draw of one compaction loses the task, and none of the other does."""
    found = Setting(Config(suite=SuiteConfig(use="pocket")), tmp_path, ("history",))
    with Store.open(found.path(Diagnostics().name)) as store:
        begin(store, verified=VerifyConfig(allocation=f"uniform:{DRAWS}"))
        for task, after in (("a", 0.0), ("b", 1.0)):
            collect(store, task)
            for number in range(DRAWS):
                pair(store, task, 1, number, (1.0, 5), (after, 5))
    return found


def test_the_share_of_clauses_that_keep_a_boundary(setting: Setting) -> None:
    """One clause answers the harmful compaction, another one that no allocation retains."""
    clauses = tuple(Clause("Keep it.", "Goal", (f"{task}#1",)) for task in "ab")
    candidate = Candidate("c1", adapted_template(), clauses=clauses)
    with Store.open(setting.path(Diagnostics().name)) as store:
        write_adaptation(store, AdaptationRecord("pair", "compaction", default_template().hash, (candidate,), None))
    table = as_json(allocation_table(setting))
    by_name = {row["allocation"]: row["support"] for row in table["rows"]}
    assert by_name["uniform 3"] == by_name["halving"] == 0.5
    assert any("2 clauses" in note for note in table["notes"])


def test_without_clauses_there_is_no_support(setting: Setting) -> None:
    assert {row["support"] for row in as_json(allocation_table(setting))["rows"]} == {None}


def test_the_run_that_clauses_are_written_in_is_the_one_of_all_draws() -> None:
    plain, adapted = Diagnostics(), Diagnostics(adapted=True)
    assert join_experiments([plain, adapted]) == join_experiments([adapted, plain]) == (adapted,)


def test_where_the_paper_counts_strictly_a_note_says_so(setting: Setting) -> None:
    (note,) = [note for note in effect_table(setting).notes if "more than" in note]
    assert "at least" in note
    office = Setting(Config(suite=SuiteConfig(use="officebench")), setting.directory, ("history",))
    assert not any("more than" in note for note in effect_table(office).notes)
