"""The one loop: what becomes of calls, mistakes, endings and compactions."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from fakes import PAGES, Noter, Reader, Scripted, calling, look, pages_suite

from recompact.compressors.fifo import Fifo
from recompact.compressors.prompted import Prompted
from recompact.compressors.protocol import CompressorInputs
from recompact.engine.config import Config
from recompact.engine.rollout import OBSERVATION_TOKENS, Agent, run_episode
from recompact.environments.functions import function_suite
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import EnvironmentFailed, Observation, Opening
from recompact.models.failures import ContextOverflow, RateLimited, Refused
from recompact.models.protocol import ChatModel
from recompact.values.chat import (
    Message,
    Reply,
    Usage,
    assistant,
)
from recompact.values.template import default_template
from recompact.values.tokens import counter
from recompact.values.trajectory import Action, Score, Trajectory

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
    with pytest.raises(EnvironmentFailed, match="action 1"):
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
    parameters = inspect.signature(run_episode).parameters
    assert (parameters["budget"].default, parameters["step_limit"].default) == (4096, 50)
    assert parameters["snapshots"].default is True
    assert Agent(Reader()).decoding.max_output_tokens == Config().agent.max_output_tokens == 2048
    inputs = CompressorInputs(Noter(), default_template(), COUNT)
    by_default = Prompted(Noter(), default_template(), COUNT)
    assert inputs.decoding == by_default.decoding
    assert by_default.decoding.max_output_tokens == Config().compressor.max_output_tokens == 8192


def test_the_cap_on_observations_is_the_one_that_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    (documented,) = re.findall(r"`observation_tokens` \(([\d,]+)", page)
    assert int(documented.replace(",", "")) == OBSERVATION_TOKENS
