"""Tools that the loop itself offers: recall of what was dropped, and asking for a compaction."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes import Noter, Scripted, pages_suite

from recompact.compressors.fifo import Fifo
from recompact.compressors.protocol import CompressorInputs
from recompact.compressors.registry import load_compressor
from recompact.engine.rollout import NOTED, Agent, run_episode
from recompact.environments.functions import function_suite
from recompact.environments.inprocess import InProcessEpisode
from recompact.errors import InputError
from recompact.triggers.protocol import Moment, Schedule
from recompact.triggers.registry import load_trigger
from recompact.values.chat import Message, Reply, ToolCall, ToolSpec
from recompact.values.context import Context, Turn
from recompact.values.recall import NOTHING, RECALL, recall
from recompact.values.template import default_template
from recompact.values.tokens import counter
from recompact.values.trajectory import Trajectory


def says(name: str, **arguments: object) -> Reply:
    name = json.loads(json.dumps(name))  # as a model's reply is read
    return Reply(Message("assistant", "", (ToolCall(f"c-{name}-{arguments}", name, json.dumps(arguments)),)))


async def play(schedule: Schedule, *replies: Reply, budget: int = 500, context: Context | None = None) -> Trajectory:
    suite = pages_suite(1)
    task = suite.tasks("train")[0]
    return await run_episode(
        task,
        InProcessEpisode(suite.environment(task), task.id),
        Agent(Scripted(*replies)),
        count=counter(),
        step_limit=len(replies),
        compressor=lambda opening: Fifo(),
        budget=budget,
        schedule=schedule,
        context=context,
    )


LOOKS = [says("look", page=page) for page in range(1, 7)]


async def test_dropped_turns_are_found_and_the_environment_hears_nothing() -> None:
    played = await play(Schedule(recall=300), *LOOKS, says("recall", query="word1x7"), says("recall", query="word6x7"))
    assert played.boundaries
    assert played.steps == 8  # a call of the tool is a step like any other
    found, shown = (turn.results[0].content for turn in played.turns[-2:])
    assert "word1x7" in found
    assert counter()(found) <= 300
    assert "word6x7" not in shown  # it is still in view
    assert [action.name for action in played.boundaries[-1].actions] == ["look"] * len(played.boundaries[-1].actions)


@pytest.mark.parametrize("arguments", [{}, {"query": ""}, {"query": 5}])
async def test_a_call_without_a_query_is_told_so(arguments: dict[str, object]) -> None:
    played = await play(Schedule(recall=300), says("recall", **arguments))
    assert played.turns[0].results[0].content.startswith("Error")


async def test_without_recall_there_is_no_such_tool() -> None:
    played = await play(Schedule(), says("recall", query="x"))
    assert "there is no tool 'recall'" in played.turns[0].results[0].content


async def test_an_agent_may_ask_for_a_compaction() -> None:
    schedule = Schedule(load_trigger("tool"))
    played = await play(schedule, *LOOKS[:3], says("compact_context"), LOOKS[3], budget=10_000)
    assert not played.boundaries  # first in, first out leaves alone what fits
    assert [incident.step for incident in played.incidents] == [4]
    played = await play(schedule, *LOOKS, budget=500)
    assert played.boundaries  # over the budget at the latest


class Asks:
    """A trigger of somebody's own, with tools that say no more than that they were called."""

    def __init__(self, *names: str) -> None:
        self.tools = tuple(ToolSpec(name, "Say so.") for name in names)

    def __call__(self, moment: Moment) -> bool:
        return False


async def test_tools_of_a_trigger_are_answered_by_the_loop_whatever_their_names() -> None:
    schedule = Schedule(Asks("note_this", "tidy_up"), recall=300)
    played = await play(schedule, says("note_this", query="x"), says("tidy_up", query="x"), says("recall", query="x"))
    assert [turn.results[0].content for turn in played.turns] == [NOTED, NOTED, NOTHING]


async def test_what_a_message_calls_besides_is_executed_too() -> None:
    calls = [("note_this", {}), ("recall", {"query": ""}), ("look", {"page": 1}), ("gone", {}), ("tidy_up", {})]
    made = tuple(ToolCall(f"c{n}", name, json.dumps(arguments)) for n, (name, arguments) in enumerate(calls))
    played = await play(Schedule(Asks("note_this", "tidy_up"), recall=300), Reply(Message("assistant", "", made)))
    results = [result.content for result in played.turns[0].results]
    assert [result.call_id for result in played.turns[0].results] == [call.id for call in made]
    assert (results[0], results[4]) == (NOTED, NOTED)
    assert [text.startswith("Error") for text in results] == [False, True, False, True, False]


async def test_a_tool_of_that_name_of_the_environments_own_is_kept() -> None:
    def recall(query: str) -> str:
        """Look something up."""
        return query

    suite = function_suite("own", [recall], {"t": ("Do it.", "done")})
    task = suite.tasks("train")[0]
    for schedule, named in ((Schedule(recall=100), "recall"), (Schedule(Asks("finish"), recall=100), "finish")):
        with pytest.raises(InputError, match=f"'{named}'"):
            await run_episode(
                task,
                InProcessEpisode(suite.environment(task), task.id),
                Agent(Scripted()),
                count=counter(),
                step_limit=1,
                schedule=schedule,
            )


def test_recall_is_a_stage_of_any_compressor_and_changes_nothing_else() -> None:
    kind = load_compressor("recall+masking+prompted", {"recall": {"tokens": 200}}, Path())
    assert (kind.recall, kind.uses_template) == (200, True)
    assert load_compressor("masking+prompted", {}, Path()).recall == 0
    assert kind.build(CompressorInputs(Noter(), default_template(), counter())) is not None


@pytest.mark.parametrize("query", ["", "  ", "…", "\ud800", "x" * 50_000, "absent"])
def test_a_query_that_finds_nothing_says_so(query: str) -> None:
    turn = Turn(Message("assistant", "ünï çødé"), (Message("user", ""),), 3)
    assert recall(query, [turn], 100, counter()) == NOTHING
    assert recall(query, [], 100, counter()) == NOTHING
    assert RECALL.parameters["required"] == ["query"]
