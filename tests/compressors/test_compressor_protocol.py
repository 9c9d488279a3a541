"""When a compaction is due, how much room it leaves for a summary, and what its values are by default."""

from __future__ import annotations

import pytest
from fakes import Noter

from recompact.compressors.protocol import (
    SCOPES,
    Compaction,
    CompactionFailed,
    CompressorInputs,
    CompressorKind,
    room_beside_last,
)
from recompact.triggers.protocol import Schedule
from recompact.values.chat import Decoding, Usage, assistant, system
from recompact.values.context import Context, Summary, Turn
from recompact.values.template import default_template

SUMMARY = Summary("what was before", 10)


def context(*sizes: int, summary: Summary | None = None) -> Context:
    return Context((system("x" * 1000),), summary, tuple(Turn(assistant(""), (), size) for size in sizes))


@pytest.mark.parametrize(
    ("before", "is_due"),
    [
        (context(50, 50), False),
        (context(50, 51), True),
        (context(101), False),
        (context(50, 40, summary=SUMMARY), False),
        (context(50, 41, summary=SUMMARY), True),
        (context(91, summary=SUMMARY), False),
        (context(summary=Summary("long", 101)), False),
        (context(), False),
        (context(1, 1, 99), True),
    ],
)
def test_a_compaction_is_due_over_the_budget_where_there_is_more_than_the_last_turn(
    before: Context, is_due: bool
) -> None:
    assert Schedule().due(before, 100, 3) is is_due


@pytest.mark.parametrize(
    ("last", "budget", "room"),
    [(30, 100, 70), (49, 100, 51), (50, 100, 50), (51, 100, 50), (400, 100, 50), (400, 101, 50), (0, 100, 100)],
)
def test_a_summary_gets_what_the_last_turn_leaves_and_half_the_budget_at_least(
    last: int, budget: int, room: int
) -> None:
    assert room_beside_last(context(1000, last), budget) == room
    assert room_beside_last(context(last, summary=Summary("long", 1000)), budget) == room


def test_without_turns_all_of_the_budget_is_for_the_summary() -> None:
    assert room_beside_last(context(summary=SUMMARY), 100) == 100
    assert room_beside_last(context(), 7) == 7


def test_what_is_not_said_is_the_plain_case() -> None:
    assert Compaction(context()) == Compaction(context(), Usage(), asked_again=False, cut=False, notes=())
    inputs = CompressorInputs(Noter(), default_template(), len)
    assert (inputs.task, inputs.tools, inputs.scope, inputs.rendering) == ("", (), "history", "quoted")
    assert inputs.decoding == Decoding(max_output_tokens=8192)
    assert SCOPES == ("history", "prefix")
    assert not CompressorKind(lambda inputs: None).uses_template
    failure = CompactionFailed("no summary", Usage(1, 2, 0, 0, 1))
    assert (str(failure), failure.usage, failure.notes) == ("no summary", Usage(1, 2, 0, 0, 1), ())
    assert CompactionFailed("no summary", Usage(), ("odd",)).notes == ("odd",)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("then", [True, False])
def test_what_follows_another_compaction_has_what_came_of_both(first: bool, then: bool) -> None:
    earlier = Compaction(context(1), Usage(10, 1, calls=1), first, then, ("odd",), ("a",))
    later = Compaction(context(2), Usage(20, 2, calls=1), then, first, ("even",), ("b",))
    both = first or then
    assert later.following(earlier) == Compaction(
        context(2), Usage(30, 3, calls=2), both, both, ("odd", "even"), ("a", "b")
    )
