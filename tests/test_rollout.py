"""The one loop: what becomes of calls, mistakes, endings and compactions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fakes import PAGES, Noter, Reader, Scripted, calling, look, pages_suite

from recompact.attribution.continuations import continue_from
from recompact.chat import (
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
from recompact.compressors.fifo import Fifo
from recompact.compressors.prompted import Prompted
from recompact.compressors.protocol import Compaction, CompactionFailed, CompressorInputs
from recompact.config import Config
from recompact.context import Context, Turn
from recompact.environments.functions import function_suite
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import EnvironmentFailed, Observation, Opening
from recompact.execution.episodes import run_episode
from recompact.models.failures import ContextOverflow, RateLimited, Refused
from recompact.models.protocol import ChatModel
from recompact.outcome import ContinuationArm
from recompact.progress import Silent
from recompact.rollout import OBSERVATION_TOKENS, ODD_REPLY, Agent, rollout
from recompact.template import default_template
from recompact.tokens import counter
from recompact.trajectory import Action, Incident, Score, Snapshot, Trajectory

COUNT = counter()


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SUMS = function_suite("sums", [add], {"one": ("What is 2 + 2?", "4")})


async def run(model: ChatModel, suite: Any = SUMS, **settings: Any) -> Trajectory:
    task = suite.tasks("train")[0]
    settings = {"step_limit": 20, "count": COUNT, **settings}
    return await run_episode(task, InProcessEpisode(suite.environment(task), task.id), Agent(model), **settings)


async def test_calls_of_one_message_are_executed_in_order_within_one_turn() -> None:
    model = Scripted(
        calling(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2})), calling(("finish", {"answer": "4"}))
    )
    trajectory = await run(model)
    assert trajectory.steps == 2
    assert [m.content for m in trajectory.turns[0].results] == ["2", "4"]
    assert [m.call_id for m in trajectory.turns[0].results] == ["c0", "c1"]
    assert trajectory.ending == "finished"
    assert trajectory.score.success
    assert trajectory.usage["agent"] == Usage(20, 10, 0, 0, 2)


async def test_nothing_is_executed_after_the_end() -> None:
    trajectory = await run(Scripted(calling(("finish", {"answer": "4"}), ("add", {"a": 1, "b": 1}))))
    assert trajectory.turns[0].results[1].content.startswith("Error: not executed")


@pytest.mark.parametrize(
    ("reply", "excerpt"),
    [
        (Reply(assistant("I think it is 4.")), "called no tool"),
        (Reply(assistant(""), finish="length"), "cut at the output limit"),
        (calling(("add", '{"a": 1, "b"')), "not valid JSON"),
        (calling(("add", "[1, 2]")), "must be a JSON object, not list"),
        (calling(("subtract", {"a": 1})), "no tool 'subtract'; the tools are add, finish"),
        (calling(("add", {"a": 1})), "missing a required argument"),
        (calling(("add", {"a": 1, "b": "x"})), "TypeError"),
    ],
)
async def test_a_mistake_is_an_error_observation_and_a_step(reply: Reply, excerpt: str) -> None:
    model = Scripted(reply, calling(("finish", {"answer": "4"})))
    trajectory = await run(model)
    assert trajectory.steps == 2
    assert trajectory.score.success
    (result,) = trajectory.turns[0].results
    assert result.content.startswith("Error")
    assert excerpt in result.content
    assert model.requests[1].messages[-1] == result


async def test_running_out_of_steps_is_a_failure_with_that_length() -> None:
    model = Scripted(*(calling(("add", {"a": n, "b": n})) for n in range(5)))
    trajectory = await run(model, step_limit=5)
    assert (trajectory.ending, trajectory.steps, trajectory.score.success) == ("step limit", 5, False)


async def test_no_score_is_taken_at_the_step_limit() -> None:
    """An environment that would call the task solved is not asked: running out of steps is a failure."""
    task = SUMS.tasks("train")[0]
    episode = InProcessEpisode(Talk(), "talk")  # whose score is always a success
    ended = await run_episode(task, episode, Agent(Scripted("one", "two")), count=COUNT, step_limit=2)
    assert (ended.ending, ended.score.success, ended.score.value) == ("step limit", False, 0.0)
    episode = InProcessEpisode(Talk(), "talk")
    ended = await run_episode(task, episode, Agent(Scripted("one", "bye")), count=COUNT, step_limit=2)
    assert (ended.ending, ended.score.success) == ("finished", True)  # with the last step that it has


@pytest.mark.parametrize(
    ("failure", "ending"), [(ContextOverflow("too long"), "context overflow"), (Refused("no"), "refused")]
)
async def test_what_the_agent_did_to_itself_ends_its_trajectory(failure: Exception, ending: str) -> None:
    trajectory = await run(Scripted(calling(("add", {"a": 1, "b": 1})), failure))
    assert trajectory.ending == ending
    assert trajectory.steps == 1
    assert not trajectory.score.success
    assert str(failure) in trajectory.error


async def test_what_the_server_did_is_raised() -> None:
    with pytest.raises(RateLimited):
        await run(Scripted(RateLimited("slow down")))


class Talk:
    """An environment in which plain text is an action."""

    def start(self) -> Opening:
        return Opening((Message("system", "Talk."),), (), text_actions=True)

    def step(self, action: Action) -> Observation:
        return Observation(f"you said {action.text}", done=action.text == "bye")

    def score(self) -> Score:
        return Score.of(True)

    def snapshot(self) -> bytes:
        raise NotImplementedError

    def restore(self, state: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


async def test_text_is_an_action_where_the_suite_says_so() -> None:
    trajectory = await run_episode(
        SUMS.tasks("train")[0],
        InProcessEpisode(Talk(), "talk"),
        Agent(Scripted("hello", "bye")),
        count=COUNT,
        step_limit=5,
    )
    assert trajectory.ending == "finished"
    assert [m.content for t in trajectory.turns for m in t.results] == ["you said hello", "you said bye"]


async def test_a_broken_environment_ends_its_own_trajectory() -> None:
    class Broken(Talk):
        def step(self, action: Action) -> Observation:
            raise OSError("the disk is gone")

    trajectory = await run_episode(
        SUMS.tasks("train")[0], InProcessEpisode(Broken(), "b"), Agent(Scripted("hello")), count=COUNT, step_limit=5
    )
    assert trajectory.ending == "environment error"
    assert "OSError: the disk is gone" in trajectory.error


def prompted(model: ChatModel, **settings: Any) -> Any:
    return lambda opening: Prompted(model, default_template(), COUNT, tools=opening.tools, **settings)


async def test_boundaries_hold_pre_and_post_and_compaction_goes_on_from_the_summary() -> None:
    trajectory = await run(Reader(), pages_suite(), compressor=prompted(Noter()), budget=500)
    assert trajectory.score.success
    assert trajectory.steps == PAGES + 1
    assert len(trajectory.boundaries) >= 2
    first, second = trajectory.boundaries[:2]
    assert (first.index, second.index) == (1, 2)
    assert first.pre.summary is None
    assert first.pre.size > 500
    assert first.post.summary is not None
    assert first.post.turns == first.pre.turns[-1:]
    assert first.post.prefix == first.pre.prefix
    # PRE of a later boundary is the previous summary and the turns since: the only history left (Eq. 1).
    assert second.pre.summary == first.post.summary
    assert second.pre.turns[: len(first.post.turns)] == first.post.turns
    assert len(second.pre.turns) == second.step - first.step + 1
    assert [len(b.actions) for b in (first, second)] == [first.step, second.step]
    assert trajectory.usage["compressor"].calls == len(trajectory.boundaries)
    assert trajectory.peak < 1000


async def test_a_continuation_is_a_rollout_from_a_boundary() -> None:
    suite = pages_suite()
    trajectory = await run(Reader(), suite, compressor=prompted(Noter()), budget=500)
    boundary = trajectory.boundaries[0]
    for context in (boundary.pre, boundary.post):
        again = await run(
            Reader(), suite, snapshot=boundary.snapshot, context=context, actions=boundary.actions, step_limit=20
        )
        assert again.score.success  # the state was restored: each page is read exactly once in all
        assert again.steps == trajectory.steps - boundary.step
        assert not again.boundaries


@pytest.mark.parametrize("arm", ["PRE", "POST"])
@pytest.mark.parametrize("spare", [0, 1])
async def test_a_continuation_may_take_the_steps_that_were_left_and_no_more(arm: ContinuationArm, spare: int) -> None:
    suite = pages_suite()
    task = suite.tasks("train")[0]
    trajectory = await run(Reader(), suite, compressor=prompted(Noter()), budget=500)
    boundary = trajectory.boundaries[-1]
    assert boundary.step > 1
    episode = InProcessEpisode(suite.environment(task), task.id)
    limit = trajectory.steps - 1 + spare
    again = await continue_from(
        task,
        boundary,
        arm,
        episode,
        Agent(Reader()),
        count=COUNT,
        step_limit=limit,
        observation_tokens=OBSERVATION_TOKENS,
    )
    assert again.steps == limit - boundary.step
    assert again.ending == ("finished" if spare else "step limit")
    assert again.score.success == bool(spare)


async def test_fifo_forgets_and_reads_on() -> None:
    trajectory = await run(Reader(), pages_suite(), compressor=lambda opening: Fifo(), budget=500)
    assert trajectory.score.success
    assert all(b.post.size <= 500 and b.post.summary is None for b in trajectory.boundaries)


async def test_a_last_turn_over_budget_does_not_compact_for_ever() -> None:
    model = Noter()
    trajectory = await run(Reader(), pages_suite(), compressor=prompted(model), budget=20)
    assert trajectory.steps == PAGES + 1
    assert len(trajectory.boundaries) <= trajectory.steps


async def test_a_failed_compaction_is_an_incident_and_the_agent_goes_on() -> None:
    silent = Scripted(*[""] * 100)
    trajectory = await run(Reader(), pages_suite(), compressor=prompted(silent), budget=500)
    assert trajectory.score.success
    assert not trajectory.boundaries
    assert trajectory.incidents[0].kind == "compaction failed"
    assert trajectory.usage["compressor"].calls == 2 * len(trajectory.incidents)


@pytest.mark.parametrize("failure", [ContextOverflow("the window is full"), Refused("not this")])
async def test_an_overflow_of_the_compressor_is_an_incident_too(failure: Exception) -> None:
    broken = Scripted(*[failure] * 100)
    trajectory = await run(Reader(), pages_suite(), compressor=prompted(broken), budget=500)
    assert (trajectory.ending, trajectory.score.success) == ("finished", True)
    assert not trajectory.boundaries
    assert {(i.kind, i.text) for i in trajectory.incidents} == {("compaction failed", str(failure))}
    assert trajectory.incidents[0].step == trajectory.incidents[1].step - 1
    assert "compressor" not in trajectory.usage


async def test_an_environment_without_snapshots_is_replayed() -> None:
    episode = InProcessEpisode(Talk(), "talk")
    await episode.start()
    await episode.step(Action("", text="one"))
    await episode.step(Action("", text="two"))
    snapshot = await episode.snapshot()
    assert snapshot.strategy == "replay"
    fresh = InProcessEpisode(Talk(), "talk")
    await fresh.start()
    await fresh.restore(snapshot)

    class Moody(Talk):
        def step(self, action: Action) -> Observation:
            return Observation("something else")

    other = InProcessEpisode(Moody(), "talk")
    await other.start()
    with pytest.raises(EnvironmentFailed, match="replay differs at action 1"):
        await other.restore(snapshot)


async def test_an_agent_that_never_got_to_see_anything_has_no_peak() -> None:
    trajectory = await run(Scripted(ContextOverflow("too long")))
    assert (trajectory.ending, trajectory.steps) == ("context overflow", 0)
    assert (trajectory.peak, trajectory.peak_reported) == (0, 0)


async def test_a_cut_observation_is_an_incident_of_its_step() -> None:
    model = Scripted(
        calling(("add", {"a": 1, "b": 1})), calling(("look", {"page": 1})), calling(("finish", {"answer": "4"}))
    )
    suite = function_suite("long", [add, look], {"one": ("What is 2 + 2?", "4")}, state={"seen": []})
    trajectory = await run(model, suite, observation_tokens=30)
    assert [(incident.step, incident.kind) for incident in trajectory.incidents] == [(2, "observation cut")]


def test_defaults_are_those_of_the_papers_harness() -> None:
    """An agent may write 2,048 tokens a step, a compressor 8,192; 4,096 tokens of history; 50 steps."""
    parameters = inspect.signature(rollout).parameters
    assert (parameters["budget"].default, parameters["step_limit"].default) == (4096, 50)
    assert parameters["snapshots"].default is True
    assert Agent(Reader()).decoding.max_output_tokens == Config().agent.max_output_tokens == 2048
    inputs = CompressorInputs(Noter(), default_template(), COUNT)
    by_default = Prompted(Noter(), default_template(), COUNT)
    assert inputs.decoding == by_default.decoding
    assert by_default.decoding.max_output_tokens == Config().compressor.max_output_tokens == 8192


def test_the_cap_on_observations_is_the_one_that_is_documented() -> None:
    page = (Path(__file__).parent.parent / "docs" / "configuration.md").read_text(encoding="utf-8")
    (documented,) = re.findall(r"`observation_tokens` \(([\d,]+)", page)
    assert int(documented.replace(",", "")) == OBSERVATION_TOKENS


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


async def meet(model: ChatModel, episode: Meeting | None = None, **settings: Any) -> Trajectory:
    episode = episode or Meeting()
    settings = {"count": len, **settings}
    return await rollout(task="meeting", agent=Agent(model), episode=episode, opening=await episode.start(), **settings)


TALK_AND_TOOLS = Opening((system("Talk."), user("Say goodbye.")), (ToolSpec("wave", "Wave."), ToolSpec("leave", "Go.")))


@pytest.mark.parametrize("limit", [0, -1])
async def test_no_steps_left_is_the_step_limit_before_the_agent_was_asked(limit: int) -> None:
    model = Scripted()
    trajectory = await meet(model, step_limit=limit)
    assert (trajectory.ending, trajectory.steps, trajectory.error) == ("step limit", 0, "")
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


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_message_is_no_action_even_where_text_is_one(text: str) -> None:
    episode = Meeting()
    trajectory = await meet(Scripted(text, "bye"), episode)
    assert [action.text for action in episode.done] == ["bye"]
    assert trajectory.turns[0].results == (user("Error: the message called no tool. Each message must call one of: ."),)


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
    model = Scripted(Reply(assistant("I wave."), finish=finish), calling(("leave", {})))
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
    trajectory = await meet(Scripted(replace(calling(*calls), finish=finish)), episode)
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
    assert cut == Incident(
        2, "observation cut", f"an observation of about {whole:,} tokens was cut to 1,500 ([run] observation_tokens)"
    )
    (result,) = trajectory.turns[1].results
    assert (result.role, result.content.startswith("heard aaa")) == ("user", True)
    assert f"about {whole - 1500:,} tokens are left out" in result.content
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
