"""The one loop to the word: limits, peaks, incidents and errors, on an environment that says anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes import Scripted, calling
from sentences import numbers_in

from recompact.compressors.fifo import Fifo
from recompact.compressors.protocol import Compaction, CompactionFailed, Compressor
from recompact.engine.rollout import ODD_REPLY, Agent, run_episode, with_differences
from recompact.environments.protocol import EnvironmentFailed, Observation, Opening, Task
from recompact.models.failures import Refused
from recompact.models.journal import UnitCalls
from recompact.models.protocol import ChatModel
from recompact.values.chat import (
    Decoding,
    Finish,
    Message,
    Reply,
    ToolCall,
    ToolSpec,
    Usage,
    assistant,
    canonical,
    system,
    user,
)
from recompact.values.context import Context, Summary, Turn
from recompact.values.progress import Silent
from recompact.values.tokens import counter
from recompact.values.trajectory import COMPACTION_FAILED, Action, Boundary, Incident, Score, Snapshot, Trajectory

COUNT = counter()


class Meeting:
    """An episode in which plain text and calls are actions; what was done to it is noted."""

    def __init__(self, opening: Opening | None = None, usage: Mapping[str, Usage] | None = None) -> None:
        self.opening = opening or Opening((system("Talk."),), (), text_actions=True)
        self.usage = usage or {}
        self.changes: Mapping[str, int] = {}
        self.done: list[Action] = []

    async def start(self) -> Opening:
        return self.opening

    async def step(self, action: Action) -> Observation:
        self.done.append(action)
        return Observation(f"heard {action.text or action.name}", done=action.text == "bye" or action.name == "leave")

    async def score(self) -> Score:
        return Score(True, 0.75)

    async def snapshot(self) -> Snapshot:
        return Snapshot("counted", str(len(self.done)).encode())

    async def restore(self, snapshot: Snapshot) -> None:
        raise NotImplementedError

    async def close(self) -> None: ...


async def meet(
    model: ChatModel, episode: Meeting | None = None, *, compressor: Compressor | None = None, **settings: Any
) -> Trajectory:
    episode = episode or Meeting()
    settings = {"count": len, "compressor": lambda opening: compressor, **settings}
    return await run_episode(Task("meeting", ""), episode, Agent(model), **settings)


TALK_AND_TOOLS = Opening((system("Talk."), user("Say goodbye.")), (ToolSpec("wave", "Wave."), ToolSpec("leave", "Go.")))


@pytest.mark.parametrize("limit", [0, -1])
async def test_no_steps_left_is_the_step_limit_before_the_agent_was_asked(limit: int) -> None:
    model = Scripted()
    trajectory = await meet(model, step_limit=limit)
    assert (trajectory.ending, trajectory.steps, trajectory.error) == ("step limit", 0, "")
    assert (trajectory.peak, trajectory.peak_reported, trajectory.shared) == (0, 0, 0)
    assert not model.requests
    assert trajectory.context == Context((system("Talk."),))


async def test_a_limit_of_hundreds_of_steps_is_met_exactly() -> None:
    trajectory = await meet(Scripted(*["well"] * 300), step_limit=300)
    assert (trajectory.ending, trajectory.steps) == ("step limit", 300)


async def test_the_trajectory_ends_with_the_environments_own_score() -> None:
    trajectory = await meet(Scripted("hello", "bye"))
    assert (trajectory.task, trajectory.ending, trajectory.error) == ("meeting", "finished", "")
    assert trajectory.score == Score(True, 0.75)
    assert trajectory.context.turns == trajectory.turns
    assert [turn.message.content for turn in trajectory.turns] == ["hello", "bye"]


async def test_each_step_is_told_to_who_watches() -> None:
    class Watcher(Silent):
        steps = 0

        def step(self) -> None:
            self.steps += 1

    watcher = Watcher()
    await meet(Scripted("hello", "well", "bye"), progress=watcher)
    assert watcher.steps == 3


async def test_what_the_environment_asked_models_for_counts_under_their_roles() -> None:
    asked = {"user": Usage(30, 3, 0, 0, 1), "agent": Usage(100, 10, 0, 0, 1)}
    trajectory = await meet(Scripted("bye"), Meeting(usage=asked))
    assert trajectory.usage == {"user": Usage(30, 3, 0, 0, 1), "agent": Usage(110, 15, 0, 0, 2)}
    ended = await meet(Scripted(Refused("no")), Meeting(usage=asked))
    assert (ended.ending, ended.usage) == ("refused", asked)


async def test_the_agent_is_asked_with_its_whole_context_its_tools_and_its_decoding() -> None:
    model = Scripted(calling(("wave", {})), calling(("leave", {})))
    trajectory = await meet(model, Meeting(TALK_AND_TOOLS))
    for request, context in zip(
        model.requests,
        [Context(TALK_AND_TOOLS.prefix), Context(TALK_AND_TOOLS.prefix, None, trajectory.turns[:1])],
        strict=True,
    ):
        assert request.messages == context.messages
        assert request.tools == TALK_AND_TOOLS.tools
        assert request.decoding == Decoding(max_output_tokens=2048)
        assert request.chain == context.digest


async def test_the_peak_is_the_largest_input_with_everything_that_is_sent() -> None:
    """The prefix with the calls in it and the tools are sent with every call, so they count besides the turns."""
    call = ToolCall("c", "wave", '{"hand": "left"}')
    prefix = (system("Talk."), assistant("I wave.", call), Message("tool", "seen", call_id="c"))
    opening = Opening(prefix, TALK_AND_TOOLS.tools)
    fixed = len("Talk.") + len("I wave.") + len('{"hand": "left"}') + len("seen")
    fixed += sum(len(canonical(tool.to_json())) for tool in opening.tools)
    sizes = [0, 40, 90, 60]
    replies = [Reply(calling(("wave", {})).message, Usage(size, 1, 0, 0, 1)) for size in sizes]
    trajectory = await meet(Scripted(*replies), Meeting(opening), step_limit=4)
    assert trajectory.peak == fixed + sum(turn.tokens for turn in trajectory.turns[:-1])
    assert trajectory.peak_reported == 90


@dataclass(frozen=True)
class Given:
    """A compressor that gives back one result, whatever it is asked, or raises it."""

    result: Compaction | Exception

    async def compress(self, context: Context, budget: int) -> Compaction:
        if isinstance(self.result, Exception):
            raise self.result
        return replace(self.result, context=replace(context, turns=context.turns[-1:]))


EMPTY = Context(())


async def test_a_compaction_is_recorded_as_its_compressor_told_it() -> None:
    told = Compaction(EMPTY, Usage(7, 2, 0, 0, 1), asked_again=True, notes=("its calls were left out",))
    trajectory = await meet(Scripted("one", "two", "three", "bye"), compressor=Given(told), budget=50)
    first, second = trajectory.boundaries
    assert [(b.index, b.step, len(b.actions)) for b in (first, second)] == [(1, 2, 2), (2, 3, 3)]
    assert (first.asked_again, first.cut) == (True, False)
    assert [action.text for action in second.actions] == ["one", "two", "three"]
    assert first.snapshot == Snapshot("counted", b"2")
    assert first.pre.turns == trajectory.turns[:2]
    assert first.post.turns == trajectory.turns[1:2]
    assert trajectory.usage["compressor"] == Usage(14, 4, 0, 0, 2)
    assert trajectory.incidents == (
        Incident(2, ODD_REPLY, "its calls were left out"),
        Incident(3, ODD_REPLY, "its calls were left out"),
    )
    was_cut = await meet(Scripted("one", "two", "bye"), compressor=Given(Compaction(EMPTY, cut=True)), budget=50)
    assert [(b.asked_again, b.cut) for b in was_cut.boundaries] == [(False, True)]


async def test_the_largest_input_may_lie_before_a_compaction() -> None:
    trajectory = await meet(
        Scripted("one" * 50, "two", "three", "bye"), compressor=Given(Compaction(EMPTY)), budget=300
    )
    assert [b.step for b in trajectory.boundaries] == [2]
    assert trajectory.peak == len("Talk.") + trajectory.turns[0].tokens


async def test_a_rollout_that_stops_where_a_compaction_is_due_leaves_the_state_there() -> None:
    trajectory = await meet(Scripted("one", "two", "three"), compressor=Fifo(), budget=50, stop_when_due=True)
    context, actions = trajectory.context, (Action("", text="one"), Action("", text="two"))
    assert trajectory.ending == "compaction due"
    assert trajectory.boundaries == (Boundary(1, 2, context, context, Snapshot("counted", b"2"), actions),)


async def test_a_budget_that_is_just_met_is_kept_to() -> None:
    """Compaction is due when the history is over the budget, and not at the budget itself."""
    sizes = [turn.tokens for turn in (await meet(Scripted("one", "two", "bye"))).turns]
    for budget, boundaries in ((sizes[0] + sizes[1], 0), (sizes[0] + sizes[1] - 1, 1)):
        trajectory = await meet(Scripted("one", "two", "bye"), compressor=Given(Compaction(EMPTY)), budget=budget)
        assert len(trajectory.boundaries) == boundaries


async def test_a_compressor_that_asks_no_model_spends_nothing() -> None:
    trajectory = await meet(Scripted("one", "two", "bye"), compressor=Fifo(), budget=50)
    assert trajectory.boundaries
    assert set(trajectory.usage) == {"agent"}


@dataclass(frozen=True)
class Padding:
    """A compressor that adds as many characters of summary as it is told to; `None` is a compaction that helps."""

    added: list[int | None]

    async def compress(self, context: Context, budget: int) -> Compaction:
        if (more := self.added.pop(0)) is None:
            return Compaction(replace(context, turns=context.turns[-1:]))
        return Compaction(replace(context, summary=Summary("x" * more, more)))


async def test_a_compaction_that_gains_nothing_is_refused_with_its_sizes_and_two_in_a_row_end_it() -> None:
    added = [0, None, 7, 1_000, 0]
    trajectory = await meet(Scripted(*["well"] * 8, "bye"), compressor=Padding(added), budget=30)
    assert added == [0]  # the last was not asked for
    sizes = [sum(turn.tokens for turn in turns) for turns in (trajectory.turns[:2], trajectory.turns[2:4])]
    later = trajectory.turns[2:5]
    assert [(i.step, i.kind, numbers_in(i.text)) for i in trajectory.incidents] == [
        (2, COMPACTION_FAILED, [f"{sizes[0]}", f"{sizes[0]}"]),
        (4, COMPACTION_FAILED, [f"{sizes[1]}", f"{sizes[1] + 7}"]),
        (5, COMPACTION_FAILED, [f"{sum(t.tokens for t in later)}", f"{sum(t.tokens for t in later) + 1_000:,}", "2"]),
    ]
    assert [boundary.step for boundary in trajectory.boundaries] == [3]


async def test_two_that_gain_nothing_at_the_very_beginning_are_enough() -> None:
    added: list[int | None] = [0, 0, None]
    trajectory = await meet(Scripted(*["well"] * 8, "bye"), compressor=Padding(added), budget=30)
    assert added == [None]
    assert [numbers_in(each.text)[2:] for each in trajectory.incidents] == [[], ["2"]]


async def test_the_state_is_left_out_of_boundaries_that_nobody_continues_from() -> None:
    trajectory = await meet(Scripted("one", "two", "bye"), compressor=Fifo(), budget=50, snapshots=False)
    assert [boundary.snapshot for boundary in trajectory.boundaries] == [None]


async def test_actions_that_were_executed_before_come_first_in_a_boundary() -> None:
    earlier = (Action("", text="earlier"),)
    trajectory = await meet(Scripted("one", "two", "bye"), compressor=Fifo(), budget=50, actions=earlier)
    assert [action.text for action in trajectory.boundaries[0].actions] == ["earlier", "one", "two"]
    assert earlier == (Action("", text="earlier"),)


async def test_a_failed_compaction_costs_what_was_asked_and_tells_what_was_odd() -> None:
    failure = CompactionFailed("nothing usable", Usage(9, 1, 0, 0, 2), ("half a character",))
    trajectory = await meet(Scripted("one", "two", "three", "bye"), compressor=Given(failure), budget=50)
    assert trajectory.boundaries == ()
    assert trajectory.usage["compressor"] == Usage(18, 2, 0, 0, 4)
    assert [(each.step, each.kind, each.text) for each in trajectory.incidents] == [
        (2, ODD_REPLY, "half a character"),
        (2, "compaction failed", "nothing usable"),
        (3, ODD_REPLY, "half a character"),
        (3, "compaction failed", "nothing usable"),
    ]
    assert trajectory.context.turns == trajectory.turns  # it goes on with all that it had


async def test_what_was_odd_about_a_reply_is_an_incident_after_the_steps_before_it() -> None:
    odd = Reply(assistant("bye"), notes=("one thing", "another"))
    trajectory = await meet(Scripted("hello", odd))
    assert trajectory.incidents == (Incident(1, ODD_REPLY, "one thing"), Incident(1, ODD_REPLY, "another"))


async def test_values_that_an_environment_changed_are_incidents_with_how_often() -> None:
    episode = Meeting()
    episode.changes = {"b": 2, "a": 1, "c": 3}
    trajectory = await meet(Scripted("hello", "bye"), episode)
    assert [(each.step, each.kind, each.text[:1], numbers_in(each.text)) for each in trajectory.incidents] == [
        (2, "value changed", "a", []),
        (2, "value changed", "b", ["2"]),
        (2, "value changed", "c", ["3"]),
    ]


@pytest.mark.parametrize("context", [None, Context((system("Talk."),), Summary("before", 1))])
async def test_an_environment_that_does_not_start_leaves_the_context_as_it_was(context: Context | None) -> None:
    class Broken(Meeting):
        async def start(self) -> Opening:
            raise EnvironmentFailed("no room")

    trajectory = await meet(Scripted(), Broken(), context=context)
    assert (trajectory.ending, trajectory.steps, trajectory.error) == ("environment error", 0, "no room")
    assert (trajectory.context, trajectory.score) == (context or EMPTY, Score.of(False))


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_message_is_no_action_even_where_text_is_one(text: str) -> None:
    episode = Meeting()
    trajectory = await meet(Scripted(text, "bye"), episode)
    assert [action.text for action in episode.done] == ["bye"]
    assert trajectory.turns[0].results == (user("Error: the message was empty. Answer with text: there are no tools."),)


async def test_calls_are_executed_where_text_is_an_action_too() -> None:
    episode = Meeting(replace(TALK_AND_TOOLS, text_actions=True))
    trajectory = await meet(Scripted(calling(("leave", {"by": "train"}), content="Goodbye.")), episode)
    assert episode.done == [Action("leave", {"by": "train"})]
    assert trajectory.turns[0].results == (Message("tool", "heard leave", call_id="c0"),)
    assert trajectory.ending == "finished"


@pytest.mark.parametrize(
    ("finish", "said"),
    [
        ("stop", "Error: the message called no tool. Each message must call one of: wave, leave."),
        ("refusal", "Error: the message called no tool. Each message must call one of: wave, leave."),
        (
            "length",
            "Error: the message was cut at the output limit before it called a tool. Call one of: wave, leave.",
        ),
    ],
)
async def test_text_where_a_call_is_needed_is_answered_with_the_tools(finish: Finish, said: str) -> None:
    model = Scripted(Reply(assistant("I wave."), finish=json.loads(json.dumps(finish))), calling(("leave", {})))
    trajectory = await meet(model, Meeting(TALK_AND_TOOLS))
    assert trajectory.turns[0].results == (user(said),)
    assert trajectory.ending == "finished"


@pytest.mark.parametrize(
    ("finish", "hint"), [("length", " (the message was cut at the output limit)"), ("stop", ""), ("refusal", "")]
)
async def test_a_call_that_cannot_be_read_is_excused_only_where_the_message_was_cut(finish: Finish, hint: str) -> None:
    calls: tuple[tuple[str, object], ...] = (
        ("dance", {}),
        ("wave", "[]"),
        ("wave", {"hand": "left"}),
        ("leave", {}),
        ("wave", {}),
        ("wave", {}),
    )
    episode = Meeting(TALK_AND_TOOLS)
    read = json.loads(json.dumps(finish))  # as a journal gives it back
    trajectory = await meet(Scripted(replace(calling(*calls), finish=read)), episode)
    assert [(result.role, result.call_id, result.content) for result in trajectory.turns[0].results] == [
        ("tool", "c0", f"Error: there is no tool 'dance'; the tools are leave, wave{hint}"),
        ("tool", "c1", f"Error: the arguments of wave must be a JSON object, not list{hint}"),
        ("tool", "c2", "heard wave"),
        ("tool", "c3", "heard leave"),
        ("tool", "c4", "Error: not executed, the task was ended before."),
        ("tool", "c5", "Error: not executed, the task was ended before."),
    ]
    assert episode.done == [Action("wave", {"hand": "left"}), Action("leave")]


async def test_a_cut_observation_tells_its_size_and_the_cap() -> None:
    said = "a" * 5000
    whole = len("heard ") + len(said)
    trajectory = await meet(Scripted("bye bye", said), observation_tokens=1500, step_limit=2)
    (cut,) = trajectory.incidents
    assert (cut.step, cut.kind) == (2, "observation cut")
    assert numbers_in(cut.text) == [f"{whole:,}", "1,500"]
    assert "[run] observation_tokens" in cut.text
    (result,) = trajectory.turns[1].results
    assert (result.role, result.content.startswith("heard aaa")) == ("user", True)
    assert f"{whole - 1500:,}" in numbers_in(result.content)
    assert trajectory.turns[1] == Turn.measured(assistant(said), (result,), len)  # it is measured as it is shown


async def test_what_ends_a_trajectory_early_keeps_the_steps_before_it() -> None:
    class Breaking(Meeting):
        async def step(self, action: Action) -> Observation:
            if self.done:
                raise EnvironmentFailed("the room is on fire")
            return await super().step(action)

    trajectory = await meet(Scripted("hello", "bye"), Breaking())
    assert (trajectory.ending, trajectory.error, trajectory.steps) == ("environment error", "the room is on fire", 1)
    assert (trajectory.score.success, trajectory.usage["agent"].calls) == (False, 2)


async def test_an_environment_that_cannot_give_its_score_ends_as_an_error_of_its_own() -> None:
    class Undecided(Meeting):
        async def score(self) -> Score:
            raise EnvironmentFailed("no verdict")

    trajectory = await meet(Scripted("bye"), Undecided())
    assert (trajectory.ending, trajectory.error) == ("environment error", "no verdict")
    assert not trajectory.score.success


async def test_unless_told_otherwise_fifty_steps_may_be_taken() -> None:
    trajectory = await meet(Scripted(*["well"] * 51))
    assert (trajectory.ending, trajectory.steps) == ("step limit", 50)


@pytest.mark.parametrize(("size", "boundaries"), [(4096, 0), (4097, 1)])
async def test_unless_told_otherwise_the_history_may_have_4096_tokens(size: int, boundaries: int) -> None:
    (first,) = (await meet(Scripted("one"), step_limit=1)).turns
    context = Context((system("Talk."),), None, (first, replace(first, tokens=size - first.tokens)))
    trajectory = await meet(Scripted("bye"), context=context, compressor=Fifo())
    assert len(trajectory.boundaries) == boundaries


@pytest.mark.parametrize(("length", "cuts"), [(20_000, 0), (20_001, 1)])
async def test_unless_told_otherwise_20000_tokens_of_an_observation_are_shown(length: int, cuts: int) -> None:
    trajectory = await meet(Scripted("a" * (length - len("heard "))), step_limit=1)
    assert len(trajectory.incidents) == cuts


async def test_unless_told_otherwise_boundaries_have_the_state() -> None:
    trajectory = await meet(Scripted("one", "two", "bye"), compressor=Fifo(), budget=50)
    assert [boundary.snapshot for boundary in trajectory.boundaries] == [Snapshot("counted", b"2")]


@pytest.mark.parametrize("differed", [False, True])
async def test_a_resumed_episode_that_went_another_way_says_so(differed: bool) -> None:
    trajectory = await meet(Scripted("bye"))
    after = with_differences(trajectory, cast(UnitCalls, SimpleNamespace(differed=differed)))
    assert [(each.step, each.kind) for each in after.incidents] == [(0, "replay differed")] * differed
    assert replace(after, incidents=()) == trajectory


@pytest.mark.parametrize(("finish", "cut"), [("stop", False), ("length", True), ("refusal", False)])
async def test_an_empty_message_where_there_are_no_tools_may_have_been_cut(finish: Finish, cut: bool) -> None:
    empty = Reply(assistant(""), finish=json.loads(json.dumps(finish)))
    trajectory = await meet(Scripted(empty, "bye"))
    (result,) = trajectory.turns[0].results
    assert result.content.startswith("Error: the message was empty")
    assert ("cut at the output limit" in result.content) is cut
