"""Mean effects of many compactions: by equally many draws, however the others were spent, and by phase."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_up_runs import begin, collect, pair

from recompact.attribution.judgement import read_verdicts
from recompact.attribution.means import effects_by_phase, mean_effects, phase_table
from recompact.engine.store.runs import open_run
from recompact.values.outcome import BoundaryId
from recompact.values.stats import FEWEST

LOST, SAME = ((1.0, 5), (0.0, 9)), ((1.0, 5), (1.0, 5))


def test_later_draws_of_some_compactions_do_not_move_the_mean(tmp_path: Path) -> None:
    with open_run(tmp_path / "r.db") as store:
        begin(store)
        for task, first in (("t0", LOST), ("t1", SAME)):
            collect(store, task, (5, 10))
            pair(store, task, 1, 0, *first)
        before = mean_effects(read_verdicts(store))
        for number in (1, 2):  # the one that looked harmful is drawn again, and was not
            pair(store, "t0", 1, number, *SAME)
        after = mean_effects(read_verdicts(store))
    assert before == after
    assert (after.boundaries, after.examined, after.draws) == (4, 2, 1)
    assert after.hazard is not None
    assert after.burden is not None
    assert (after.hazard.value, after.burden.value) == (0.5, 2.0)


def test_the_phases_add_up_to_the_whole(tmp_path: Path) -> None:
    with open_run(tmp_path / "r.db") as store:
        begin(store)
        for n in range(4):
            collect(store, f"t{n}")
            pair(store, f"t{n}", 1, 0, *(LOST if n == 0 else SAME))
        every = read_verdicts(store)
        whole, phases = mean_effects(every), effects_by_phase(store, every)
        part = mean_effects(every, {BoundaryId("collect/t0", 1)})
    assert sum(each.boundaries for each in phases.values()) == whole.boundaries == 4
    sums = [each.hazard.value * each.examined for each in phases.values() if each.hazard]
    assert whole.hazard is not None
    assert sum(sums) == pytest.approx(whole.hazard.value * whole.examined)
    assert part.hazard is not None
    assert (part.boundaries, part.hazard.value) == (1, 1.0)
    assert len(phase_table(phases, False).rows) == len(phases)


@pytest.mark.parametrize(("trajectories", "shown"), [(FEWEST - 1, False), (FEWEST, True)])
def test_few_trajectories_have_no_interval(tmp_path: Path, trajectories: int, shown: bool) -> None:
    with open_run(tmp_path / "r.db") as store:
        begin(store)
        for n in range(trajectories):
            collect(store, f"t{n}")
            pair(store, f"t{n}", 1, 0, *(LOST if n == 0 else SAME))
        collect(store, "undrawn")
        means = mean_effects(read_verdicts(store))
    cell = means.cell(means.hazard, 2)
    assert cell is not None
    assert (means.trajectories, cell.interval is not None) == (trajectories, shown)


def test_a_run_without_draws_has_no_means(tmp_path: Path) -> None:
    with open_run(tmp_path / "r.db") as store:
        begin(store)
        nothing = mean_effects(read_verdicts(store))
        collect(store, "t")
        undrawn = mean_effects(read_verdicts(store))
    assert (nothing.boundaries, nothing.hazard) == (0, None)
    assert (undrawn.boundaries, undrawn.examined, undrawn.hazard) == (1, 0, None)
