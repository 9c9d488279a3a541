"""Odd replies: none of them ends a run, all that is journaled can be read, sent back and replayed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import odd_replies
import pytest
from commands import recompact
from examples import examples
from hypothesis import given, strategies as st
from odd_replies import BODIES, add, kinds, odd_server, places, some_kinds, with_value
from run_files import select_rows

from recompact.engine.execution.scheduler import InProcess, Unfinished, Unit, run_units
from recompact.engine.rollout import Agent, run_episode
from recompact.engine.store.records import read_trajectory, write_trajectory
from recompact.engine.store.store import Store
from recompact.environments.functions import function_suite
from recompact.environments.inprocess import InProcessEpisode
from recompact.environments.protocol import Task
from recompact.models.anthropic import AnthropicModel
from recompact.models.endpoint import Endpoint
from recompact.models.failures import BrokenModel, MalformedReply, ModelFailure
from recompact.models.journal import UnitCalls
from recompact.models.openai import OpenAIModel
from recompact.models.openai_wire import chat_body, responses_body
from recompact.models.shape import LONGEST_TEXT, MOST_CALLS, Shaped, in_shape, request_tokens, shape_reply
from recompact.values.chat import Message, Reply, Request, ToolCall, ToolSpec, Usage, assistant, user
from recompact.values.tokens import counter
from recompact.values.trajectory import Trajectory

COUNT = counter()
SUITE = function_suite("odd", [add], {"one": ("What is 2 + 2?", "4")})
FINISH = Reply(assistant("", ToolCall("c", "finish", '{"answer": "4"}')), Usage(30, 10, calls=1))
ENDPOINT = Endpoint("odd", "http://127.0.0.1:1/v1")
KINDS = {api: kinds(api) for api in BODIES}
NUMBER = sum(map(len, KINDS.values()))


class Odd:
    """Reads its first reply from the bytes of a server, then ends the task. Every request must be fit to be sent."""

    name = "odd"

    def __init__(self, api: str, body: bytes) -> None:
        client = AnthropicModel if api == "anthropic" else OpenAIModel
        self._reader = client(Endpoint("odd", "http://127.0.0.1:1/v1", api=api))  # type: ignore[arg-type]
        self._body: bytes | None = body

    async def reply(self, request: Request) -> Reply:
        for sent in (chat_body(ENDPOINT, request), responses_body(ENDPOINT, request)):
            json.dumps(sent, ensure_ascii=False, allow_nan=False).encode()
        if self._body is None:
            return FINISH
        body, self._body = self._body, None
        reply = self._reader._read(body.decode("utf-8", "replace"), len(request.messages))
        if isinstance(reply, ModelFailure):
            raise reply
        return reply


class Nobody:
    """A replay asks nobody."""

    name = "odd"

    async def reply(self, request: Request) -> Reply:
        raise AssertionError("a journaled call was sent again")


def unit(store: Store, name: str, model: Any, record: bool = True) -> Unit[Trajectory]:
    task = SUITE.tasks("train")[0]

    async def play(calls: UnitCalls) -> Trajectory:
        episode = InProcessEpisode(SUITE.environment(task), task.id)
        return await run_episode(task, episode, Agent(calls.bound(model, "agent")), count=COUNT, step_limit=3)

    def write(trajectory: Trajectory, seconds: float) -> None:
        if record:
            write_trajectory(store, name, trajectory, phase="collect", run=0, groups={}, seconds=seconds)
        else:
            assert trajectory == read_trajectory(store, name)

    return Unit(name, play, write, task=name)


@pytest.mark.attack
@pytest.mark.parametrize("api", KINDS)
def test_more_than_300_kinds_of_odd_replies_end_no_run_and_replay_as_they_were(api: str, tmp_path: Path) -> None:
    bodies = KINDS[api]
    print(f"{len(bodies)} kinds of odd replies of {api}, {NUMBER} in all")
    assert len(bodies) > 300
    with Store.open(tmp_path / "run.db") as store:
        every = [unit(store, f"collect/{kind}", Shaped(Odd(api, body))) for kind, body in bodies.items()]
        unfinished: dict[str, str] = {}
        try:
            asyncio.run(run_units(every, InProcess(store), 4))
        except Unfinished as stopped:
            unfinished = {unit.name: unit.failure.kind for unit in stopped.units}
        # What holds no reply is a failure of the call; nothing is a bug of ours, and nothing is lost.
        assert set(unfinished.values()) <= {"malformed reply", "bad request", "overload"}
        assert store.finished() | unfinished.keys() == {u.name for u in every}
        assert len(store.finished()) > 250
        again = [unit(store, name, Nobody(), record=False) for name in sorted(store.finished())]
        asyncio.run(run_units(again, InProcess(store), 4))
        usage = sum(store.spent().values(), Usage())
        assert 0 < usage.input < 1000 * usage.calls
        assert 0 < usage.estimated < usage.calls


def _json_values() -> st.SearchStrategy[Any]:
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=20)
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    )


@given(st.data())
@examples(200)
def test_any_value_in_any_two_places_is_shaped_or_a_failure_of_the_call(data: st.DataObject) -> None:
    api = data.draw(st.sampled_from(list(BODIES)))
    body = BODIES[api]
    for _ in range(data.draw(st.integers(1, 2))):
        body = with_value(body, data.draw(st.sampled_from(list(places(body)))), data.draw(_json_values()))
    request = Request((user("hello"),), (ToolSpec("add", "Add."),))

    async def ask() -> Reply:
        return await Shaped(Odd(api, json.dumps(body).encode())).reply(request)

    try:
        reply = asyncio.run(ask())
    except ModelFailure as failure:
        if isinstance(failure, BrokenModel):
            raise
        return
    assert in_shape(reply)
    assert shape_reply(reply, request) == reply  # once is enough
    written = Reply.from_json(json.loads(json.dumps(reply.to_json(), ensure_ascii=False).encode()))
    assert written == reply


def _plug_in_values() -> st.SearchStrategy[Any]:
    return _json_values() | st.binary(max_size=5) | st.sets(st.integers(), max_size=2) | st.just(object())


@given(st.data())
@examples(150)
def test_a_model_of_the_users_own_may_return_anything(data: st.DataObject) -> None:
    value = _plug_in_values()
    call = st.builds(ToolCall, value, value, value) | value
    message = st.builds(Message, value, value, st.lists(call, max_size=3).map(tuple) | value, value) | value
    usage = st.builds(Usage, value, value, value, value, value, value) | value
    odd = data.draw(st.builds(Reply, message, usage, value, value, value) | value)

    class Own:
        name = "own"

        async def reply(self, request: Request) -> Any:
            return odd

    request = Request((user("hello"),))
    try:
        reply = asyncio.run(Shaped(Own()).reply(request))
    except MalformedReply:
        assert not isinstance(odd, Reply) or not isinstance(odd.message, Message)
        return
    assert in_shape(reply)
    assert shape_reply(reply, request) == reply


@pytest.mark.parametrize("error", [ValueError("a bug"), RecursionError(), asyncio.CancelledError("from within")])
async def test_what_a_model_of_the_users_own_raises_is_a_failure_of_the_call(error: BaseException) -> None:
    class Own:
        name = "own"

        async def reply(self, request: Request) -> Reply:
            raise error

    with pytest.raises(BrokenModel, match="the model own"):
        await Shaped(Own()).reply(Request((user("hello"),)))


async def test_a_failure_names_the_model_and_holds_no_key() -> None:
    class Own:
        name = "own"

        def __init__(self, answer: object) -> None:
            self.answer = answer

        async def reply(self, request: Request) -> Reply:
            if isinstance(self.answer, Exception):
                raise self.answer
            return cast(Reply, self.answer)

    request = Request((user("hello"),))
    with pytest.raises(BrokenModel) as broken:
        await Shaped(Own(RuntimeError("401 for sk-proj-abcdefgh12345678"))).reply(request)
    assert "own" in str(broken.value)
    assert str(broken.value).endswith("RuntimeError: 401 for [key]")
    with pytest.raises(MalformedReply, match=r"\bown\b.*\bstr\b"):
        await Shaped(Own("hello")).reply(request)


async def test_cancelling_from_outside_stays_cancelling() -> None:
    class Slow:
        name = "slow"

        async def reply(self, request: Request) -> Reply:
            await asyncio.sleep(60)
            raise AssertionError

    asking = asyncio.create_task(Shaped(Slow()).reply(Request((user("hello"),))))
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


def call(id: Any = "c", name: Any = "add", arguments: Any = "{}") -> Reply:
    return Reply(Message("assistant", "", (ToolCall(id, name, arguments),)), Usage(30, 10, calls=1))


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        (call(arguments="[" * 980 + "]" * 980), "nested 980 levels deep"),
        (call(id={"a": 1}), "the id of call 1 could not be used and became call_1_0"),
        (call(id="a\ud800"), "became call_1_0"),
        (call(name="a\ud800"), "the name of call 1 had halves of characters"),
        (call(arguments={"a": 1}), "the arguments of call 1 was of type dict"),
        (call(arguments="x" * (LONGEST_TEXT + 1)), "was cut to 1,000,000"),
        (Reply(assistant("", *[ToolCall(f"c{n}", "add", "{}") for n in range(MOST_CALLS + 1)])), "more than 128 calls"),
        (Reply(assistant("", ToolCall("c", "add", "{}"), ToolCall("c", "add", "{}"))), "the id of call 2"),
        (Reply(assistant("x"), finish=cast(Any, "tired")), 'was taken to be "stop"'),
    ],
)
def test_what_was_changed_is_noted(reply: Reply, note: str) -> None:
    changed = shape_reply(reply, Request((user("hello"),)))
    assert in_shape(changed)
    assert any(note in text for text in changed.notes), changed.notes


async def test_a_note_is_an_incident_of_the_trajectory() -> None:
    body = with_value(BODIES["chat"], ("choices", 0, "message", "tool_calls", 0, "id"), {"odd": 1})
    task: Task = SUITE.tasks("train")[0]
    model = Shaped(Odd("chat", json.dumps(body).encode()))
    episode = InProcessEpisode(SUITE.environment(task), task.id)
    trajectory = await run_episode(task, episode, Agent(model), count=COUNT, step_limit=3)
    assert [(i.step, i.kind) for i in trajectory.incidents] == [(0, "odd reply")]
    assert trajectory.score.success


def test_a_good_reply_passes_as_it_is() -> None:
    reply = call(arguments='{"a": [1, {"b": "\U0001f600"}]}')
    assert shape_reply(reply, Request((user("hello"),))) == reply
    assert shape_reply(reply, Request((user("hello"),))).message is reply.message


HELLO = Request((user("hello there"),), (ToolSpec("add", "Add two numbers."),))
OWN = request_tokens(HELLO, COUNT)


@pytest.mark.parametrize(
    ("given_usage", "expected"),
    [
        (Usage(30, 10, 5, 2, 1), Usage(30, 10, 5, 2, 1, 0, 30)),
        (Usage(30, 10, 0, 2, 1), Usage(30, 10, 0, 2, 1)),  # nothing said of a cache
        (Usage(30, 10, 0, 2, 1, 0, 30), Usage(30, 10, 0, 2, 1, 0, 30)),  # nothing cached, and that was said
        (Usage(30, 10, 5, 2, 1, 0, 7), Usage(30, 10, 5, 2, 1, 0, 30)),  # of part of a call nobody can say it
        (Usage(30, 10, 5, 2, 1, 0, -7), Usage(30, 10, 5, 2, 1, 0, 30)),
        (Usage(30, 10, 0, 2, 1, 0, "x"), Usage(30, 10, 0, 2, 1)),  # type: ignore[arg-type]
        (Usage(-30, 10, 0, 0, 1, 0, -30), Usage(OWN, 10, 0, 0, 1, 1)),
        (Usage(), Usage(OWN, 6, 0, 0, 1, 1)),  # absent
        (Usage(-30, 10, 0, 0, 1), Usage(OWN, 10, 0, 0, 1, 1)),
        (Usage(30, -1, 0, 0, 1), Usage(30, 6, 0, 0, 1, 1)),
        (Usage(30, 10, 31, 0, 1), Usage(OWN, 10, 0, 0, 1, 1)),  # more cached than sent
        (Usage(30, 10, -1, 0, 1), Usage(OWN, 10, 0, 0, 1, 1)),
        (Usage(10**9, 10, 0, 0, 1), Usage(OWN, 10, 0, 0, 1, 1)),  # more than the bytes that were sent
        (Usage(30, 10**9, 0, 0, 1), Usage(30, 6, 0, 0, 1, 1)),
        (Usage(30, 10, 0, 50, 1), Usage(30, 56, 0, 50, 1, 1)),  # reasoning counted beside the output
        (Usage(1.5, "x", None, [], 1), Usage(OWN, 6, 0, 0, 1, 1)),  # type: ignore[arg-type]
    ],
)
def test_usage_that_cannot_be_is_replaced_by_our_own_count_and_marked(given_usage: Usage, expected: Usage) -> None:
    reply = shape_reply(Reply(assistant("Good day"), given_usage), HELLO, COUNT)
    assert reply.usage == expected
    assert reply.usage.to_json() == [*expected.to_json()]
    assert len(reply.usage.to_json()) == (7 if expected.cache_reported else 5 + bool(expected.estimated))


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_collect_finishes_beside_odd_replies_of_a_server(api: str, tmp_path: Path) -> None:
    """End to end over HTTP: good tasks all succeed, the others have an outcome or a reason, and a second command
    changes nothing."""
    names = some_kinds(api)
    with odd_server(api) as url:
        config = tmp_path / "odd.toml"
        config.write_text(
            f"""
[suite]
use = "{odd_replies.__file__}:some_odd_{api}"
[models.odd]
id = "odd"
base_url = "{url}"
api = "{api}"
attempts = 2
retry_wait = 0.001
[agent]
model = "odd"
[compressor]
kind = "none"
[run]
step_limit = 3
"""
        )
        first = recompact("collect", config)
        assert "Traceback" not in first.stderr
        assert first.returncode == 1, first.stderr
        with Store.read(tmp_path / "runs" / "odd.db") as store:
            done = {row["task"]: row["success"] for row in select_rows(store, "SELECT task, success FROM trajectories")}
            digest = store.digest()
        good = [f"task-{n:04d}" for n, name in enumerate(names) if name == "good"]
        assert len(good) >= 30
        assert all(done[task] for task in good)
        assert 0 < len(names) - len(done) < len(names) / 4
        second = recompact("collect", config)
        assert second.returncode == 1
        with Store.read(tmp_path / "runs" / "odd.db") as store:
            assert store.digest() == digest
