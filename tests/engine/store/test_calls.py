"""The queries over the journal, and a trajectory by its unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from recompact.engine.store.calls import Pace, first_agent_inputs, journaled_calls, pace_of, tokens_by_phase
from recompact.engine.store.records import read_trajectory, write_continuation, write_trajectory
from recompact.engine.store.runs import continuation_rows, trajectories, trajectory_row
from recompact.engine.store.store import Store
from recompact.models.journal import JournaledReply
from recompact.values.chat import Reply, Usage, assistant
from recompact.values.context import Context
from recompact.values.trajectory import Score, Trajectory

CALLS = (  # unit, ordinal, role, input and output tokens
    ("collect/b", 1, "agent", 30, 3),
    ("collect/b", 0, "compressor", 20, 2),
    ("collect/a", 0, "agent", 10, 1),
    ("collect/a", 1, "agent", 40, 4),
    ("continue/a", 0, "agent", 50, 5),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.open(tmp_path / "run.db")
    for unit, ordinal, role, sent, written in CALLS:
        reply = Reply(assistant("yes"), Usage(sent, written, 0, 0, 1))
        store.journal(JournaledReply(unit, ordinal, role, "model", "00" * 32, reply, 0.1))
    return store


def test_calls_are_listed_in_order_and_by_prefix(store: Store) -> None:
    expected = sorted((unit, ordinal) for unit, ordinal, *_ in CALLS)
    assert journaled_calls(store) == expected
    assert journaled_calls(store, "collect/") == expected[:-1]
    assert journaled_calls(store, "coll%") == []  # a prefix is no pattern


def test_the_first_agent_call_is_the_one_with_the_lowest_ordinal(store: Store) -> None:
    assert first_agent_inputs(store) == {"collect/a": 10, "collect/b": 30, "continue/a": 50}


def test_tokens_add_up_by_phase_and_role(store: Store) -> None:
    assert tokens_by_phase(store) == {"collect": {"agent": 88, "compressor": 22}, "continue": {"agent": 55}}


def test_a_trajectory_is_found_by_its_unit_in_any_phase(store: Store) -> None:
    trajectory = Trajectory("t", (), (), "finished", Score.of(True), Context(()))
    write_trajectory(store, "replay/t", trajectory, phase="replay", run=2, groups={"level": "easy"}, seconds=0.1)
    row = trajectory_row(store, "replay/t")
    assert (row.task, row.run, row.success, row.ending, row.groups) == ("t", 2, True, "finished", {"level": "easy"})
    assert trajectories(store, phase="replay") == [row]
    with pytest.raises(LookupError, match="no trajectory replay/u"):
        trajectory_row(store, "replay/u")


def test_the_pace_is_that_of_collected_trajectories_without_their_compressor(store: Store) -> None:
    assert pace_of(store, "model") == Pace(0.0, 0.0)
    trajectory = Trajectory("t", (), (), "finished", Score.of(True), Context(()))
    for unit, seconds in (("collect/a", 1.0), ("collect/b", 0.5), ("continue/a", 9.0)):
        phase = unit.split("/")[0]
        write_trajectory(store, unit, trajectory, phase=phase, run=0, groups={}, seconds=seconds)
    store.journal(JournaledReply("collect/a", 2, "compressor", "other", "00" * 32, Reply(assistant("yes")), 0.2))
    store.journal(JournaledReply("collect/a", 3, "user", "third", "00" * 32, Reply(assistant("yes")), 0.3))
    pace = pace_of(store, "model")  # four calls of 0.1 s; of 1.5 s, 0.6 s are calls to it or to a compressor
    assert (round(pace.call, 9), round(pace.pause, 9)) == (0.1, 0.225)
    assert pace_of(store, "nobody") == Pace(0.0, 0.0)


def test_the_pace_of_an_evaluation_is_known_too(store: Store) -> None:
    trajectory = Trajectory("t", (), (), "finished", Score.of(True), Context(()))
    store.journal(JournaledReply("evaluate/a", 0, "agent", "model", "00" * 32, Reply(assistant("yes")), 0.1))
    write_trajectory(store, "evaluate/a", trajectory, phase="evaluate", run=0, groups={}, seconds=0.4)
    pace = pace_of(store, "model")
    assert (round(pace.call, 9), round(pace.pause, 9)) == (0.1, 0.3)


def test_what_was_cached_is_read_again_but_no_part_of_the_digest(tmp_path: Path) -> None:
    """Another order of work finds other things in a server's cache; what came out is the same."""
    digests = set()
    for cached, reported in ((0, 0), (0, 90), (60, 90)):
        usage = {"agent": Usage(90, 9, cached, 1, 1, 0, reported)}
        trajectory = Trajectory("t", (), (), "finished", Score.of(True), Context(()), usage)
        with Store.open(tmp_path / f"{cached}-{reported}.db") as store:
            write_trajectory(store, "collect/t", trajectory, phase="collect", run=0, groups={}, seconds=0.1)
            write_continuation(store, "continue/t/1/PRE/0", "collect/t", 1, "PRE", 0, trajectory, seconds=0.1)
            assert read_trajectory(store, "collect/t") == read_trajectory(store, "continue/t/1/PRE/0") == trajectory
            assert trajectories(store)[0].usage == continuation_rows(store)[0].usage == usage
            digests.add(store.digest())
    assert len(digests) == 1
