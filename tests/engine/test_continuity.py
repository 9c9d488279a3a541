"""Names, seeds and orders that stand in run files: a later version must go on with the run of an earlier one.

Where one of them is changed on purpose, runs that were begun before cannot be continued, and the changelog says so.
"""

from __future__ import annotations

from recompact.adaptation.acon import sample_entries
from recompact.attribution.continuations import continuation_unit
from recompact.attribution.records import further_unit
from recompact.engine.collection import unit_of as collected_unit
from recompact.engine.config import CompressorConfig
from recompact.environments.protocol import Task
from recompact.evaluation.arms import parse_arms
from recompact.evaluation.evaluate import plan_runs
from recompact.models.journal import seed_of
from recompact.values.chat import Usage, canonical
from recompact.values.template import default_template

TASKS = [Task(f"t{n}", "Do it.") for n in range(3)]


def test_the_text_that_digests_are_made_of() -> None:
    assert canonical({"ü": [1, "é"], "a": None}) == '{"a":null,"ü":[1,"é"]}'


def test_seeds_come_from_names() -> None:
    assert (seed_of("collect/demo/1"), seed_of("collect/demo/1", 3, 7)) == (209723576, 1590041859)


def test_the_names_of_units() -> None:
    assert collected_unit(TASKS[0]) == "collect/t0"
    assert continuation_unit("t0", 2, "PRE", 1) == "continue/t0/2/PRE/1"
    assert further_unit("confirm", "t0", 2, "POST", 0) == "confirm/t0/2/POST/0"


def test_the_lots_of_candidates() -> None:
    assert sample_entries("abcdefgh", 3, "acon-ut-1", 0) == ("c", "e", "g")
    assert sample_entries("abcdefgh", 3, "acon-ut-2", 0) == ("d", "f", "g")


def test_the_plan_of_an_evaluation() -> None:
    template = default_template()
    arms = parse_arms(["none", "fifo", "prompting"], CompressorConfig(budget=512), template)
    keys = {"none": "none", "fifo": "fifo-512", "prompting": f"prompted-512-history-{template.hash[:16]}"}
    order = [("none", "fifo", "prompting"), ("fifo", "prompting", "none"), ("prompting", "none", "fifo")]
    first = {("t0", 0): 0, ("t0", 1): 1, ("t1", 0): 0, ("t1", 1): 1, ("t2", 0): 1, ("t2", 1): 2}
    assert [run.unit for run in plan_runs(TASKS, arms, 2, seed=1)] == [
        f"evaluate/{keys[arm]}/{task}/{run}" for (task, run), begin in first.items() for arm in order[begin]
    ]


def test_nothing_was_used_before_anything_was_asked() -> None:
    assert set(vars(Usage()).values()) == {0}
