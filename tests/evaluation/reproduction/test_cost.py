"""What PAIR's adaptation cost: every unit that was run for it counts, by whichever rule was selected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from report_support import adapted_template, make_verified

from recompact.engine.config import Config, SuiteConfig
from recompact.engine.store.adaptations import AdaptationRecord, write_adaptation
from recompact.engine.store.store import Store
from recompact.evaluation.reproduction.experiments import Setting
from recompact.evaluation.reproduction.results import cost_table
from recompact.models.journal import JournaledReply
from recompact.values.candidate import Candidate
from recompact.values.chat import Reply, Usage, assistant
from recompact.values.tables import Number
from recompact.values.template import Template, default_template

ORIGINAL = default_template()
REVISED = adapted_template()
OTHER = replace(REVISED, first=REVISED.first + "\nAnother method's.\n")


def own_units(places: Sequence[str]) -> list[str]:
    return [f"select/{place}{template.hash[:16]}/t/0" for place in places for template in (ORIGINAL, REVISED)]


@pytest.mark.parametrize(
    "selecting",
    [own_units([""]), own_units(["check/"])],
    ids=["paper", "tested causes"],
)
def test_selecting_is_part_of_the_cost(tmp_path: Path, selecting: Sequence[str]) -> None:
    foreign = [f"select/{place}{OTHER.hash[:16]}/t/0" for place in ("", "check/")]
    with Store.open(make_verified(tmp_path / "adapt-history.db")) as store:
        reply = Reply(assistant("x"), Usage(900_000, 100_000, 0, 0, 1))
        for unit in ("collect/t", "continue/t", "diagnose/t", *selecting, *foreign):
            store.journal(JournaledReply(unit, 0, "agent", "m", "00" * 32, reply, 0.0))
        customer = Reply(assistant("x"), Usage(900_000, 100_000, 0, 0, 1))
        store.journal(
            JournaledReply("collect/t", 1, "user", "m", "00" * 32, customer, 0.0)
        )  # the benchmark's, not the agent's
        for method, template in (("pair", REVISED), ("facts", OTHER)):
            write_adaptation(store, record(method, template))
    (row,) = cost_table(Setting(Config(suite=SuiteConfig(use="office")), tmp_path, scopes=("history",))).rows
    (tokens,) = [cell for cell in row if isinstance(cell, Number)]
    assert tokens.value == pytest.approx(3 + len(selecting))


def test_the_papers_cost_is_of_training_tasks(tmp_path: Path) -> None:
    with Store.open(make_verified(tmp_path / "adapt-history.db")) as store:
        write_adaptation(store, record("pair", REVISED))
    notes = cost_table(Setting(Config(suite=SuiteConfig(use="pocket")), tmp_path, scopes=("history",))).notes
    assert [("training" in note, "test tasks" in note) for note in notes if note.startswith("paper: ")] == [
        (True, False)
    ]


def record(method: str, template: Template) -> AdaptationRecord:
    return AdaptationRecord(method, "compaction", ORIGINAL.hash, (Candidate("c", template),), None)
