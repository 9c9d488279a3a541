"""The policy of placement: where an environment goes, whatever the cluster looks like."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, strategies as st

from recompact.environments.cluster.placement import Room, choose, marks
from recompact.environments.cluster.settings import Placement
from recompact.values.trajectory import Action

rooms_of = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4), st.integers(0, 4)), max_size=8).map(
    lambda drawn: [Room(id, node, places, min(used, places)) for id, (node, places, used) in enumerate(drawn)]
)
placements: st.SearchStrategy[Placement] = st.sampled_from(["spread", "pack"])


@given(rooms_of, st.lists(st.integers(0, 9), max_size=4), placements)
def test_a_place_is_taken_where_there_is_one(rooms: list[Room], holding: list[int], placement: Placement) -> None:
    chosen = choose(rooms, holding, placement)
    free = {room.id for room in rooms if room.used < room.places}
    assert (chosen is None) == (not free)
    assert chosen is None or chosen in free


@given(rooms_of, st.lists(st.integers(0, 9), max_size=4), placements)
def test_a_forked_process_is_gone_on_from_where_it_is(
    rooms: list[Room], holding: list[int], placement: Placement
) -> None:
    free = [room.id for room in rooms if room.used < room.places]
    near = [id for id in holding if id in free]
    if near:
        assert choose(rooms, holding, placement) == near[0]
    else:  # its actor is gone or full: as if nobody held it
        assert choose(rooms, holding, placement) == choose(rooms, (), placement)


@given(rooms_of)
def test_spread_takes_the_emptiest_node_and_pack_the_fullest(rooms: list[Room]) -> None:
    load = Counter[str]()
    for room in rooms:
        load[room.node] += room.used
    node_of = {room.id: room.node for room in rooms}
    loads = [load[room.node] for room in rooms if room.free]
    spread, pack = choose(rooms), choose(rooms, (), "pack")
    if spread is not None and pack is not None:
        assert load[node_of[spread]] == min(loads)
        assert load[node_of[pack]] == max(loads)


steps = st.lists(st.tuples(st.sampled_from(["look", "take"]), st.text(max_size=3), st.text(max_size=3)), max_size=5)


@given(steps, steps, st.text(max_size=3), st.text(max_size=3))
def test_marks_are_equal_exactly_where_episodes_are(
    one: list[tuple[str, str, str]], other: list[tuple[str, str, str]], task: str, second: str
) -> None:
    first_log, second_log = ([(Action(name, {"a": value}), text) for name, value, text in log] for log in (one, other))
    first, second_marks = marks(task, first_log), marks(second, second_log)
    assert len(first) == len(one) + 1
    for length in range(min(len(one), len(other)) + 1):
        same = task == second and one[:length] == other[:length]
        assert (first[::-1][length] == second_marks[::-1][length]) == same
