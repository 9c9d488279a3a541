"""A gate judges pairs as they come: what it shows, when it stops, and what breaks on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, strategies as st

from gate import cases, simulate
from recompact.engine.execution.scheduler import Unfinished, UnfinishedUnit
from recompact.evaluation.gate import BATCH, Gate, Pair, PairSource, Pick, Result, draw_items, run_gate
from recompact.models.failures import Overloaded
from recompact.presentation.gate import as_junit, as_markdown, sentences

BROKEN = Result(None, reason="the disk is full")


def scripted(play: Callable[[Pick], Pair | None], items: Sequence[str] = "abcdefgh") -> PairSource:
    """Pairs by a function of the pick; `items` are its names."""

    async def play_all(picks: Sequence[Pick]) -> list[Pair | None]:
        return [play(pick) for pick in picks]

    return PairSource(Gate("old", "new"), items, play_all)


def always(base: float | None, new: float | None) -> Callable[[Pick], Pair]:
    return lambda pick: Pair(pick.item, pick.run, Result(base), Result(new))


def judged(play: Callable[[Pick], Pair | None], margin: float = 10.0, most: int = 200) -> Gate:
    return asyncio.run(run_gate(scripted(play), margin, most))


@pytest.mark.parametrize(
    ("base", "new", "verdict", "code"),
    [(1.0, 1.0, "not worse", 0), (0.0, 0.0, "not worse", 0), (0.0, 1.0, "not worse", 0), (1.0, 0.0, "worse", 1)],
)
def test_clear_cases_stop_early(base: float, new: float, verdict: str, code: int) -> None:
    gate = judged(always(base, new))
    assert (gate.verdict, gate.exit_code) == (verdict, code)
    assert gate.settled[1] <= len(gate.pairs) < gate.settled[1] + BATCH
    assert len(gate.pairs) < 100


def test_few_pairs_cannot_tell_and_say_how_many_more() -> None:
    gate = judged(always(1.0, 1.0), margin=3.0, most=7)
    assert (gate.verdict, gate.exit_code, len(gate.pairs)) == ("cannot tell", 3, 7)
    assert gate.more is not None
    longer = judged(always(1.0, 1.0), margin=3.0, most=7 + gate.more)
    assert longer.verdict == "not worse"
    assert len(longer.pairs) == 7 + gate.more


def test_a_broken_pair_counts_against_either_claim() -> None:
    def play(pick: Pick) -> Pair:
        return Pair(pick.item, pick.run, Result(1.0), BROKEN if pick.item in "ab" else Result(1.0))

    gate = judged(play)
    assert gate.verdict == "cannot tell"
    assert gate.difference == 0
    assert gate.low < -10
    assert any("the disk is full" in sentence for sentence in sentences(gate))
    lost = judged(lambda pick: Pair(pick.item, pick.run, Result(1.0), BROKEN if pick.item == "a" else Result(0.0)))
    assert lost.verdict == "worse"


def test_what_never_works_shows_nothing() -> None:
    gate = judged(lambda pick: Pair(pick.item, pick.run, BROKEN, BROKEN), most=30)
    assert (gate.verdict, gate.difference, gate.more, gate.complete) == ("cannot tell", None, None, ())
    assert (gate.low, gate.high) == (-100, 100)
    assert sentences(gate)
    assert "error" in as_junit(gate)
    assert as_markdown(gate, "recompact gate")


def test_items_that_cannot_be_restored_take_no_part() -> None:
    gate = judged(lambda pick: None if pick.item in "abc" else always(1.0, 1.0)(pick))
    assert gate.verdict == "not worse"
    assert (set(gate.unusable), gate.items) == (set("abc"), 5)
    assert {pair.item for pair in gate.pairs} <= set("defgh")
    nothing = judged(lambda pick: None)
    assert (nothing.verdict, nothing.items, nothing.pairs) == ("cannot tell", 0, ())
    assert sentences(nothing)


def test_a_failing_model_leaves_what_was_shown() -> None:
    source = scripted(always(1.0, 1.0))
    played: list[Pick] = []

    async def fail(picks: Sequence[Pick]) -> list[Pair | None]:
        if len(played) >= 2 * BATCH:
            raise Unfinished([UnfinishedUnit("evaluate/x/a/0", Overloaded("busy"))])
        played.extend(picks)
        return await source.play(picks)

    with pytest.raises(Unfinished) as stopped:
        asyncio.run(run_gate(replace(source, play=fail), 3.0, 100))
    assert len(stopped.value.so_far.pairs) == 2 * BATCH
    assert stopped.value.so_far.exit_code == 3


@given(st.integers(0, 5), st.integers(1, 9))
def test_items_are_drawn_alike_whatever_is_compared(seed: int, items: int) -> None:
    names = [str(number) for number in range(items)]
    picks = list(islice(draw_items(names, seed), 60))
    assert picks == list(islice(draw_items(names, seed), 60))
    assert len(set(picks)) == 60  # every run of an item is another one
    for item in names:
        runs = [pick.run for pick in picks if pick.item == item]
        assert runs == list(range(len(runs)))


def test_false_verdicts_are_rare_at_the_margin() -> None:
    """The benchmark with few gates: a pass where NEW loses the whole margin, a fail where it loses nothing."""
    for case in cases([10.0]):
        if case.truth not in (-10.0, 0.0):
            continue
        gates = simulate(case, gates=60, pairs=80)
        wrong = sum(gate.verdict == ("not worse" if case.truth else "worse") for gate in gates)
        assert wrong <= 8, case  # with 5 % of 60, nine or more have a chance of 1 in 300
