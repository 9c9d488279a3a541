"""Which turns stay where the oldest are dropped."""

from __future__ import annotations

import asyncio

import pytest
from examples import examples
from hypothesis import given, strategies as st

from recompact.compressors.fifo import Fifo
from recompact.values.chat import assistant, system
from recompact.values.context import Context, Summary, Turn

PREFIX = (system("You are an agent."),)


def turns(*sizes: int) -> tuple[Turn, ...]:
    return tuple(Turn(assistant(f"turn {n}"), (), size) for n, size in enumerate(sizes))


async def kept(context: Context, budget: int) -> Context:
    return (await Fifo().compress(context, budget)).context


@pytest.mark.parametrize(
    ("budget", "first"), [(61, 0), (60, 0), (59, 1), (50, 1), (49, 2), (30, 2), (29, 2), (1, 2), (0, 2)]
)
async def test_oldest_turns_go_until_the_rest_fits_but_the_last_one_stays(budget: int, first: int) -> None:
    all_turns = turns(10, 20, 30)
    assert await kept(Context(PREFIX, None, all_turns), budget) == Context(PREFIX, None, all_turns[first:])


async def test_a_summary_counts_and_stays() -> None:
    summary = Summary("what was before", 25)
    context = Context(PREFIX, summary, turns(10, 20, 30))
    assert await kept(context, 85) == context
    assert await kept(context, 84) == Context(PREFIX, summary, context.turns[1:])
    only_summary = Context(PREFIX, summary)
    assert await kept(only_summary, 10) == only_summary  # there is nothing that could be dropped


async def test_of_hundreds_of_turns_the_last_one_stays_too() -> None:
    all_turns = turns(*[5] * 300)
    assert (await kept(Context(PREFIX, None, all_turns), 4)).turns == all_turns[-1:]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(0, 200))
@examples(30)
def test_no_more_is_dropped_than_is_needed(sizes: list[int], budget: int) -> None:
    context = Context(PREFIX, None, turns(*sizes))
    after = asyncio.run(kept(context, budget))
    assert after.turns == context.turns[len(sizes) - len(after.turns) :]
    assert after.size <= budget or len(after.turns) == 1
    if len(after.turns) < len(sizes):
        assert sum(sizes[-len(after.turns) - 1 :]) > budget
