"""`recompact.gateway`: loops in this process, whose histories are compacted and whose calls are journaled."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from agent_support import NOTES, Clerk, Forgetful, agent_config, collected, verified, write_notes
from commands import recompact as command
from needs import needs
from sentences import numbers_in

import recompact
from recompact.agents.client import InProcessClient
from recompact.compressors.protocol import Compaction, CompactionFailed
from recompact.engine.loops import LoopCompaction, _failure_of, _Loops, _Noted, _scratch, _settings_of
from recompact.engine.store.store import Store
from recompact.environments.own_directory import own_directory
from recompact.environments.protocol import Task
from recompact.errors import InputError, RecompactError
from recompact.models.failures import ContextOverflow, ModelFailure, Overloaded, RateLimited, Refused
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage, assistant
from recompact.values.context import Context, Summary
from recompact.values.trajectory import Score, Trajectory

SHELL: Any = {
    "type": "function",
    "function": {
        "name": "shell",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


def run(command: str, workspace: Path) -> str:
    return subprocess.run(command, shell=True, cwd=workspace, capture_output=True, text=True).stdout


def loop(task: str, workspace: Path, client: InProcessClient, stream: bool = False) -> list[Any]:
    """A plain loop, as its owner would write it."""
    messages: list[Any] = [{"role": "system", "content": "You have a shell."}, {"role": "user", "content": task}]
    while True:
        message = (streamed if stream else answered)(client, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return messages
        for call in message["tool_calls"]:
            output = run(json.loads(call["function"]["arguments"])["command"], workspace)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


def answered(client: InProcessClient, messages: list[Any]) -> dict[str, Any]:
    completion = client.chat.completions.create(model="mine", messages=messages, tools=[SHELL])
    return completion.choices[0].message.model_dump(exclude_none=True)


def streamed(client: InProcessClient, messages: list[Any]) -> dict[str, Any]:
    text, calls = "", dict[int, Any]()
    for chunk in client.chat.completions.create(model="mine", messages=messages, tools=[SHELL], stream=True):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(
                    part.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
                )
                assert part.function is not None
                call["id"] += part.id or ""
                call["function"]["name"] += part.function.name or ""
                call["function"]["arguments"] += part.function.arguments or ""
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls.values())} if calls else {})}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write_notes(tmp_path / "tasks")
    return tmp_path / "tasks" / "notes" / "files"


def small_gateway(clerk: Any = None, **options: Any) -> recompact.GatewayClient:
    return recompact.gateway(
        clerk or Clerk(), compressor=Forgetful(), **{"budget": 450, "counter": "characters", **options}
    )


@pytest.mark.parametrize("stream", [False, True])
def test_a_plain_loop_is_compacted(workspace: Path, stream: bool) -> None:
    longest = 0

    def look(request: Request) -> None:
        nonlocal longest
        longest = max(longest, len(request.messages))

    with small_gateway(Clerk(look)) as client:
        messages = loop("Read the notes.", workspace, client, stream)
        assert len(client.compactions) >= 2
        assert all(each.post.size < each.pre.size > 450 for each in client.compactions)
        assert "The last note read" in client.compactions[0].summary
        assert client.compactions[0].receipt.usage.calls == 1
        assert client.usage["agent"].calls == NOTES + 2
        assert client.usage["compressor"].calls == len(client.compactions)
        assert list(client.trajectories) == []
    assert (workspace / "answer.txt").read_text() == "unknown\n"
    assert len(messages) == 2 * (NOTES + 2) + 1, "the loop keeps its own whole history"
    assert longest < len(messages) - 4, "the model was shown less"
    (trajectory,) = client.trajectories
    assert trajectory.ending == "finished"
    assert len(trajectory.boundaries) == len(client.compactions)
    with small_gateway(budget=100_000) as free:
        loop("Read the notes.", workspace, free)
        assert free.compactions == ()
    assert (workspace / "answer.txt").read_text() == "blue-42\n"


async def test_an_asynchronous_loop(workspace: Path) -> None:
    async with small_gateway() as client:
        messages: list[Any] = [{"role": "user", "content": "Read the notes."}]
        while True:
            completion = await client.asynchronous.chat.completions.create(model="m", messages=messages, tools=[SHELL])
            message = completion.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                assert call.type == "function"
                output = run(json.loads(call.function.arguments)["command"], workspace)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
    assert len(client.compactions) >= 2


def test_the_responses_api(workspace: Path) -> None:
    tool: Any = {"type": "function", **SHELL["function"]}
    with small_gateway() as client:
        items: list[Any] = [{"role": "user", "content": "Read the notes."}]
        while True:
            response = client.responses.create(model="m", input=items, tools=[tool])
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            for item in calls:
                output = run(json.loads(item.arguments)["command"], workspace)
                items.append({"type": "function_call", **item.model_dump(include={"call_id", "name", "arguments"})})
                items.append({"type": "function_call_output", "call_id": item.call_id, "output": output})
        assert "written down" in response.output_text
    assert len(client.compactions) >= 2


def test_a_loop_that_is_started_again_gets_its_answers_from_the_record(workspace: Path, tmp_path: Path) -> None:
    asked = 0

    def count(request: Request) -> None:
        nonlocal asked
        asked += 1

    place = tmp_path / "loop.db"
    digests = []
    for expected in (NOTES + 2, NOTES + 2):
        with small_gateway(Clerk(count), run=place) as client:
            loop("Read the notes.", workspace, client)
        assert asked == expected
        assert len(client.compactions) >= 2
        with Store.read(place) as store:
            digests.append(store.digest())
    assert digests[0] == digests[1]
    (name,) = {each.conversation for each in client.compactions}
    assert name in command("show", place).stdout
    assert "3 boundaries" in command("boundaries", place).stdout
    assert "The last note read" in command("boundary", place, f"{name}#1").stdout
    refused = command("verify", place)
    assert refused.returncode == 2
    assert "no config" in refused.stderr
    with pytest.raises(recompact.RecompactError, match="another config"):
        small_gateway(run=place, budget=451)


def test_conversations_are_told_apart(workspace: Path) -> None:
    def single(text: str) -> str:
        messages: Any = [{"role": "user", "content": text}]
        return str(client.chat.completions.create(model="m", messages=messages).choices[0].message.content)

    with small_gateway(EchoModel()) as client, ThreadPoolExecutor(8) as pool:
        texts = [f"question {n % 5}" for n in range(20)]
        assert list(pool.map(single, texts)) == [f"1: {text}" for text in texts]
        first: Any = [{"role": "user", "content": "a"}]
        first += [{"role": "assistant", "content": single("a")}, {"role": "user", "content": "b"}]
        assert client.chat.completions.create(model="m", messages=first).choices[0].message.content == "3: b"
    assert sorted(each.steps for each in client.trajectories) == [1] * 20 + [2]


class EchoModel:
    """Says how many messages it was shown, and the last one."""

    name = "echo"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(assistant(f"{len(request.messages)}: {request.messages[-1].content}"), Usage(7, 3, 0, 0, 1))


def test_what_the_loop_asks_for_is_what_the_model_gets() -> None:
    model = EchoModel()
    with small_gateway(model) as client:
        completion = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], temperature=0.25, max_tokens=17, stop=["END"]
        )
        assert completion.usage is not None
        assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (7, 3)
        decoding = model.requests[0].decoding
        assert (decoding.temperature, decoding.max_output_tokens, decoding.stop) == (0.25, 17, ("END",))
        with pytest.raises(openai.BadRequestError, match="one answer"):
            client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}], n=2)
        with pytest.raises(openai.BadRequestError, match="chooses by itself"):
            client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "x"}], tools=[SHELL], tool_choice="required"
            )
        with pytest.raises(openai.NotFoundError):
            client.synchronous.embeddings.create(model="m", input="x")


class Failing:
    """Fails at its second call, once."""

    name = "failing"

    def __init__(self, failure: Exception) -> None:
        self.failure: Exception | None = failure
        self.calls = 0

    async def reply(self, request: Request) -> Reply:
        self.calls += 1
        if self.calls == 2 and self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return Reply(assistant(f"answer {self.calls}"), Usage(5, 5, 0, 0, 1))


@pytest.mark.parametrize(
    ("failure", "error"),
    [(RateLimited("slow down"), openai.RateLimitError), (Overloaded("busy"), openai.InternalServerError)],
)
def test_after_a_failure_the_same_request_may_be_made_again(failure: Exception, error: type[Exception]) -> None:
    model = Failing(failure)
    with small_gateway(model) as client:
        messages: list[Any] = [{"role": "user", "content": "a"}]
        for n in range(3):
            if n == 1:
                with pytest.raises(error, match=str(failure)):
                    client.chat.completions.create(model="m", messages=messages)
            text = client.chat.completions.create(model="m", messages=messages).choices[0].message.content
            messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
    assert [message["content"] for message in messages[1::2]] == ["answer 1", "answer 3", "answer 4"]
    assert model.calls == 4, "what was journaled was not asked again"
    assert [each.steps for each in client.trajectories] == [3]


def test_an_overflow_is_told_as_servers_tell_it() -> None:
    with small_gateway(Failing(ContextOverflow("too long"))) as client:
        messages: list[Any] = [{"role": "user", "content": "a"}]
        client.chat.completions.create(model="m", messages=messages)
        messages += [{"role": "assistant", "content": "answer 1"}, {"role": "user", "content": "go on"}]
        with pytest.raises(openai.BadRequestError, match="too long") as caught:
            client.chat.completions.create(model="m", messages=messages)
        assert caught.value.code == "context_length_exceeded"


class Slow:
    name = "slow"

    def __init__(self) -> None:
        self.calls = 0

    async def reply(self, request: Request) -> Reply:
        self.calls += 1
        await asyncio.sleep(0.3)
        return Reply(assistant("at last"), Usage(5, 5, 0, 0, 1))


async def test_whoever_did_not_wait_may_ask_again() -> None:
    model = Slow()
    async with small_gateway(model) as client:
        create = client.asynchronous.chat.completions.create
        messages: Any = [{"role": "user", "content": "x"}]
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(create(model="m", messages=messages), 0.1)
        completion = await create(model="m", messages=messages)
    assert completion.choices[0].message.content == "at last"
    assert model.calls == 1


async def test_a_compaction_that_failed_is_paid_for_too() -> None:
    class Silent:
        async def compress(self, context: Context, budget: int) -> Compaction:
            raise CompactionFailed("nothing came", Usage(7, 0, 0, 0, 2))

    spent: list[Any] = []
    noted: list[object] = []
    with pytest.raises(CompactionFailed, match="nothing came"):
        await _Noted(Silent(), lambda *made: noted.append(made), spent.append).compress(Context(()), 9)
    assert (spent, noted) == ([Usage(7, 0, 0, 0, 2)], [])


def test_a_client_that_is_closed_says_so() -> None:
    client = small_gateway(EchoModel())
    client.close()
    client.close()
    with pytest.raises(openai.OpenAIError, match="closed"):
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    with pytest.raises(InputError, match="budget"):
        recompact.gateway("m", budget=0)


class TwoCalls:
    """Says something and calls twice at once; then ends."""

    name = "two"

    async def reply(self, request: Request) -> Reply:
        if any(message.role == "tool" for message in request.messages):
            return Reply(assistant("Both are done."), Usage(9, 9, 0, 0, 1))
        calls = tuple(ToolCall(f"c{n}", "shell", json.dumps({"command": f"echo {n}"})) for n in range(2))
        return Reply(Message("assistant", "I do both.", calls), Usage(9, 9, 0, 0, 1))


def test_several_calls_are_delivered_one_after_the_other(tmp_path: Path) -> None:
    with small_gateway(TwoCalls()) as client:
        messages = loop("Do it.", tmp_path, client)
    assert [message["content"] for message in messages[3::2]] == ["0\n", "1\n"]
    assert [message.get("content") for message in messages[2::2]] == ["I do both.", None, "Both are done."]
    (trajectory,) = client.trajectories
    assert [result.content for result in trajectory.turns[0].results] == ["0\n", "1\n"]


class Repeating:
    """Says the same again and again, or from some call on something else."""

    name = "repeating"

    def __init__(self, message: Message, calls_before: int = 10**9, after: Message | None = None) -> None:
        self.message, self.calls_before, self.after = message, calls_before, after
        self.calls = 0

    async def reply(self, request: Request) -> Reply:
        self.calls += 1
        said = self.message if self.calls <= self.calls_before or self.after is None else self.after
        return Reply(said, Usage(1, 1, 0, 0, 1))


@pytest.mark.parametrize("tools", [[], [SHELL]])
def test_an_empty_message_is_delivered_as_it_is(tools: list[Any]) -> None:
    model = Repeating(assistant(""))
    with small_gateway(model) as client:
        messages: list[Any] = [{"role": "user", "content": "x"}]
        for calls in (1, 2):
            completion = client.chat.completions.create(model="m", messages=messages, tools=tools or openai.omit)
            assert not completion.choices[0].message.content
            assert model.calls == calls
            messages += [{"role": "assistant", "content": ""}, {"role": "user", "content": "Say something."}]
    assert [each.steps for each in client.trajectories] == [2]


def test_a_message_that_cannot_be_delivered_is_asked_for_three_times_only() -> None:
    unknown = Message("assistant", "", (ToolCall("c", "no_such_tool", "{}"),))
    model = Repeating(unknown, calls_before=4, after=assistant("At last."))
    messages: Any = [{"role": "user", "content": "x"}]
    with small_gateway(model) as client:
        with pytest.raises(openai.OpenAIError, match="3 messages"):
            client.chat.completions.create(model="m", messages=messages, tools=[SHELL])
        assert model.calls == 3
        again = client.chat.completions.create(model="m", messages=messages, tools=[SHELL])
        assert again.choices[0].message.content == "At last."
    assert model.calls == 5
    assert client.usage["agent"].calls == 5


def test_what_is_played_again_after_a_failure_is_counted_once() -> None:
    model = Wordy("word " * 60)
    with recompact.gateway(model, compressor=Forgetful(), budget=100, counter="characters") as client:
        messages: list[Any] = [{"role": "user", "content": "x"}]
        for n in range(5):
            if n == 4:
                before, counts = client.usage["agent"], set()
                model.failures = [Overloaded("busy")] * 2
                for _ in range(2):
                    with pytest.raises(openai.InternalServerError):
                        client.chat.completions.create(model="m", messages=messages)
                    counts.add((client.usage["compressor"].calls, len(client.compactions)))
                assert client.usage["agent"] == before
                assert len(counts) == 1
            answer = client.chat.completions.create(model="m", messages=messages).choices[0].message.content
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": f"LATER {n}"}]
        assert client.usage["agent"].calls == 5
    (trajectory,) = client.trajectories
    assert len(client.compactions) == len(trajectory.boundaries) > 0
    assert client.usage["compressor"] == trajectory.usage["compressor"]


KILLED = """
import os, sys
import recompact
from recompact import Reply, Usage, assistant

class Model:
    name = "model"
    async def reply(self, request):
        with open("asked.txt", "a") as file:
            print(len(request.messages), file=file)
        return Reply(assistant(f"answer to {len(request.messages)}"), Usage(5, 5, 0, 0, 1))

with recompact.gateway(Model(), run="loop.db") as client:
    messages = [{"role": "user", "content": "a"}]
    for n in range(6):
        text = client.chat.completions.create(model="m", messages=messages).choices[0].message.content
        messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
        if n == int(sys.argv[1]):
            os._exit(9)
print(messages[-2]["content"])
"""


def test_a_loop_that_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    ended = [
        subprocess.run([sys.executable, "-c", KILLED, at], cwd=tmp_path, capture_output=True, text=True)
        for at in ("3", "9")
    ]
    assert [each.returncode for each in ended] == [9, 0], ended[-1].stderr
    assert ended[-1].stdout == "answer to 11\n"
    asked = (tmp_path / "asked.txt").read_text().split()
    assert asked == ["1", "3", "5", "7", "9", "11"], "what was journaled was asked again"


# -- a loop as a subject ---------------------------------------------------------------------------------------------


def subject(task: str, workspace: Path, client: InProcessClient) -> None:
    loop(f"{task} You are in {workspace}.", workspace, client)


async def asynchronous_subject(task: str, workspace: Path, client: InProcessClient) -> None:
    messages: list[Any] = [{"role": "user", "content": task}]
    while True:
        completion = await client.asynchronous.chat.completions.create(model="m", messages=messages, tools=[SHELL])
        message = completion.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            assert call.type == "function"
            output = run(json.loads(call.function.arguments)["command"], workspace)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})


@needs("bubblewrap")
@pytest.mark.parametrize(("agent", "times"), [(subject, 2), (asynchronous_subject, 1)])
async def test_a_function_is_a_subject(tmp_path: Path, agent: Any, times: int) -> None:
    write_notes(tmp_path / "tasks", "one", "two")
    config = agent_config(tmp_path / "tasks")
    digests = set()
    for number in range(times):
        suite = recompact.agent_suite(tmp_path / "tasks", agent)
        verification, digest = await verified(config, tmp_path / f"{number}.db", suite=suite)
        assert verification.left_out == {}
        assert {v.id.index for v in verification.retained} == {1}
        digests.add(digest)
    assert len(digests) == 1


@needs("bubblewrap")
async def test_a_function_that_fails_says_why(tmp_path: Path) -> None:
    def broken(task: str, workspace: Path, client: InProcessClient) -> None:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": task}], tools=[SHELL])
        raise RuntimeError("it is broken")

    write_notes(tmp_path / "tasks")
    (trajectory,) = await collected(
        agent_config(tmp_path / "tasks"), tmp_path / "run.db", suite=recompact.agent_suite(tmp_path / "tasks", broken)
    )
    assert trajectory.ending == "environment error"
    assert "RuntimeError: it is broken" in trajectory.error


@pytest.mark.parametrize("budget", [0, -5, True, 0.5, float("nan"), "much", None])
def test_a_budget_is_a_whole_number(budget: Any) -> None:
    with pytest.raises(InputError, match="from 1 on"):
        recompact.gateway("m", budget=budget)


class Wordy(EchoModel):
    """Writes a summary, or an answer, of so many words."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.failures: list[Exception] = []

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.failures:
            raise self.failures.pop()
        return Reply(assistant(self.text), Usage(7, 3, 0, 0, 1))


def test_the_task_is_what_the_user_said_before_the_first_answer() -> None:
    writer = Wordy("All is noted.")
    messages: list[Any] = [
        {"role": "system", "content": "SYSTEM"},
        {"role": "user", "content": "First this."},
        {"role": "user", "content": "Then that."},
    ]
    with recompact.gateway(Wordy("word " * 60), compressor=writer, budget=100, counter="characters") as client:
        for n in range(4):
            answer = client.chat.completions.create(model="m", messages=messages).choices[0].message.content
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": f"LATER {n}"}]
        (first, *_) = client.compactions
    assert first.summary == "All is noted."
    assert str(first).startswith(f"{first.conversation}: ")
    assert numbers_in(str(first))[-2:] == [f"{first.pre.size:,}", f"{first.post.size:,}"]
    prompt = writer.requests[0].messages[-1].content
    assert "First this.\n\nThen that." in prompt
    assert "Then that.\n\nLATER" not in prompt
    assert "SYSTEM" not in prompt


def test_after_as_many_steps_as_there_may_be_a_conversation_says_so() -> None:
    with small_gateway(EchoModel(), step_limit=2) as client:
        messages: list[Any] = [{"role": "user", "content": "a"}]
        for _ in range(2):
            answer = client.chat.completions.create(model="m", messages=messages).choices[0].message.content
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "go on"}]
        with pytest.raises(openai.OpenAIError, match=r"2 steps \(step_limit\)"):
            client.chat.completions.create(model="m", messages=messages)
        conversation = client._conversations[0]
        playing = conversation._playing
        with pytest.raises(openai.OpenAIError, match="2 steps"):
            client.chat.completions.create(model="m", messages=messages)
        assert conversation._playing is playing, "it is not played again, only to end in the same way"


def trajectory_that(ending: Any, error: str = "") -> Trajectory:
    return Trajectory("loop", (), (), ending, Score.of(False), Context(()), error=error)


@pytest.mark.parametrize(
    ("ending", "error", "kind", "text"),
    [
        ("context overflow", "too long", ContextOverflow, "too long"),
        ("refused", "not this", Refused, "not this"),
        ("step limit", "", ModelFailure, "the conversation has had its 0 steps (step_limit)"),
        ("environment error", "no disk", ModelFailure, "no disk"),
        ("finished", "", ModelFailure, "the conversation is over: finished"),
    ],
)
def test_why_a_conversation_is_over(ending: str, error: str, kind: type[Exception], text: str) -> None:
    failure = _failure_of(trajectory_that(ending, error))
    assert type(failure) is kind
    assert str(failure) == text


def test_a_model_of_ones_own_an_endpoint_and_an_id_are_settings() -> None:
    assert _settings_of("m-1").id == "m-1"
    assert _settings_of(EchoModel()).id == EchoModel.name
    endpoint = recompact.Endpoint("m-2", base_url="http://127.0.0.1:9/v1")
    settings = _settings_of(endpoint)
    assert (settings.id, settings.base_url) == ("m-2", "http://127.0.0.1:9/v1")
    assert _settings_of(settings) is settings


@pytest.mark.parametrize("summary", ["All is noted.", None])
def test_a_compaction_without_a_summary_has_an_empty_one(summary: str | None) -> None:
    post = Context((), None if summary is None else Summary(summary, 4))
    assert LoopCompaction("loop", Context(()), post).summary == (summary or "")


async def test_a_loop_has_no_tasks_to_be_played_again() -> None:
    suite = _Loops()
    assert (suite.name, await suite.tasks("train"), await suite.behaviours([]), await suite.literals([])) == (
        "loop",
        [],
        None,
        None,
    )
    with pytest.raises(InputError, match="played again"):
        suite.episode(Task("a", "b"))


def test_a_gateway_that_cannot_begin_says_why_at_once(tmp_path: Path) -> None:
    (tmp_path / "run.db").write_text("this is no run")
    with pytest.raises(RecompactError, match=r"run\.db"):
        small_gateway(EchoModel(), run=tmp_path / "run.db")


def test_the_run_that_nobody_asked_for_lies_where_the_next_process_would_remove_it() -> None:
    with _scratch() as place:
        assert Path(place).parent == own_directory()
