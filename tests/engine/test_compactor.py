"""A conversation of plain dicts is compacted without breaking it, whatever it looks like."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given, strategies as st
from loopback import served_app

from recompact import CompactionFailed, Compactor, Endpoint, InputError, Receipt, Template, default_template
from recompact.engine.compactor import MessageDict, _Conversation
from recompact.values.chat import Reply, Request, assistant

SYSTEM = {"role": "system", "content": "You work."}
TASK = {"role": "user", "content": "Read all the pages."}


@dataclass
class Writer:
    """A model that writes the same summary each time, and keeps what it was asked."""

    text: str = "pages 1 to 3 are read"
    requests: list[Request] = field(default_factory=list)
    name: str = "writer"

    async def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        return Reply(assistant(self.text))


def compactor(model: Any, budget: int = 60, **options: Any) -> Compactor:
    return Compactor(default_template(), model, budget, **options)


def compacted(messages: Sequence[MessageDict], model: Any | None = None, budget: int = 60) -> list[MessageDict]:
    return asyncio.run(compactor(model or Writer(), budget).compact(messages))


def openai_turn(page: int, text: str = "") -> list[MessageDict]:
    call = {"id": f"call_{page}", "type": "function", "function": {"name": "read", "arguments": f'{{"page": {page}}}'}}
    return [
        {"role": "assistant", "content": text or None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{page}", "content": f"page {page}: " + "word " * 20},
    ]


def anthropic_turn(page: int) -> list[MessageDict]:
    thought = {"type": "thinking", "thinking": "SECRET", "signature": "s"}
    call = {"type": "tool_use", "id": f"toolu_{page}", "name": "read", "input": {"page": page}}
    result = {
        "type": "tool_result",
        "tool_use_id": f"toolu_{page}",
        "content": [{"type": "text", "text": "word " * 20}],
    }
    picture = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}
    return [{"role": "assistant", "content": [thought, call]}, {"role": "user", "content": [result, picture]}]


@pytest.mark.parametrize("turn", [openai_turn, anthropic_turn])
def test_the_older_part_becomes_a_summary(turn: Any) -> None:
    model = Writer()
    messages = [SYSTEM, TASK, *turn(1), *turn(2), *turn(3)]
    assert compactor(model).should_compact(messages)
    shorter = compacted(messages, model)
    assert shorter[:2] == [SYSTEM, TASK]
    assert shorter[3:] == turn(3)
    assert shorter[2]["role"] == "user"
    assert "pages 1 to 3 are read" in shorter[2]["content"]
    [request] = model.requests
    prompt = request.messages[-1].content
    assert "read(" in prompt
    assert '"page": 2' in prompt
    assert "[result of read]" in prompt
    assert '"page": 3' not in prompt  # it stays verbatim
    assert "Read all the pages." in prompt  # the task, as a block of its own
    assert "SECRET" not in prompt
    assert ("[image]" in prompt) == (turn is anthropic_turn)
    assert not compactor(model).should_compact(shorter)


def test_a_later_compaction_updates_the_summary() -> None:
    model = Writer()
    shorter = compacted([SYSTEM, TASK, *openai_turn(1), *openai_turn(2), *openai_turn(3)], model)
    again = compacted([*shorter, *openai_turn(4), *openai_turn(5)], model)
    assert "<previous-summary>\npages 1 to 3 are read\n</previous-summary>" in model.requests[-1].messages[-1].content
    assert [message["role"] for message in again] == ["system", "user", "user", "assistant", "tool"]
    assert sum("<summary>" in str(message["content"]) for message in again) == 1


def test_with_scope_prefix_the_compressor_sees_the_system_prompt() -> None:
    model = Writer()
    messages = [SYSTEM, TASK, *openai_turn(1), *openai_turn(2)]
    asyncio.run(compactor(model, scope="prefix").compact(messages))
    assert "You work." in model.requests[-1].messages[-1].content


def test_a_last_turn_over_the_budget_ends_in_no_loop() -> None:
    model = Writer()
    messages = [TASK, *openai_turn(1), *openai_turn(2, "long " * 200)]
    shorter = compacted(messages, model)
    assert not compactor(model).should_compact(shorter)
    assert compacted(shorter, model) == shorter


def test_objects_of_a_client_library_are_read() -> None:
    class Answer:
        def model_dump(self) -> dict[str, Any]:
            return dict(openai_turn(2)[0])

    answer: Any = Answer()
    messages = [TASK, *openai_turn(1), answer, openai_turn(2)[1]]
    assert compacted(messages)[-2] is answer


def test_what_is_no_message_is_refused_by_its_place() -> None:
    for wrong in ({"content": "x"}, {"role": "robot", "content": "x"}, "text", None):
        with pytest.raises(InputError, match=r"messages\[1\]"):
            compactor(Writer()).should_compact([TASK, wrong])  # type: ignore[list-item]
    with pytest.raises(InputError, match="scope"):
        Compactor("default", Writer(), 10, scope="all")  # type: ignore[arg-type]
    for budget in (0, 1.5, True, float("nan"), "9"):
        with pytest.raises(InputError, match="budget"):
            Compactor("default", Writer(), budget)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="otherwise"):
        Compactor("default", Writer(), 10, otherwise="no")  # type: ignore[arg-type]


def test_a_model_without_words_changes_nothing() -> None:
    messages = [TASK, *openai_turn(1), *openai_turn(2)]
    before = copy.deepcopy(messages)
    with pytest.raises(CompactionFailed):
        compacted(messages, Writer(""))
    assert messages == before


def test_a_template_directory_and_a_server_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiohttp import web

    bodies: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        message = {"role": "assistant", "content": "all that counts"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"id": "1", "object": "chat.completion", "model": "m", "choices": [choice]})

    Template("S", "{{ history }}\n## A\nfirst", "{{ history }}{{ previous_summary }}\n## A\nmore").save(tmp_path / "t")
    messages = [TASK, *openai_turn(1), *openai_turn(2)]
    with served_app(answer) as url:
        shorter = asyncio.run(Compactor(tmp_path / "t", Endpoint("m", base_url=url), 60).compact(messages))
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        assert asyncio.run(Compactor(str(tmp_path / "t"), "m", 60).compact(messages)) == shorter
    assert "all that counts" in shorter[1]["content"]
    assert [body["model"] for body in bodies] == ["m", "m"]
    assert bodies[0]["messages"][1]["content"].endswith("## A\nfirst")


def test_an_endpoint_may_speak_anthropics_api(tmp_path: Path) -> None:
    from aiohttp import web

    paths: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        paths.append(request.path)
        content = [{"type": "text", "text": "all that counts"}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "1", "type": "message", "role": "assistant", "model": "m", "content": content}
        return web.json_response({**message, "stop_reason": "end_turn", "usage": usage})

    messages = [TASK, *openai_turn(1), *openai_turn(2)]
    with served_app(answer) as url:
        shorter = compacted(messages, Endpoint("m", base_url=url, api="anthropic"))
    assert "all that counts" in shorter[1]["content"]
    assert [path.rpartition("/")[2] for path in paths] == ["messages"]


# -- any conversation -------------------------------------------------------------------------------------------------

WORDS = st.text(alphabet="ab {}<>\n", max_size=60)


@st.composite
def conversations(draw: st.DrawFn) -> list[MessageDict]:
    """A valid conversation of either form: every result comes after its call, perhaps late, perhaps never."""
    anthropic = draw(st.booleans())
    messages: list[MessageDict] = []
    if not anthropic and draw(st.booleans()):
        messages.append({"role": draw(st.sampled_from(["system", "developer"])), "content": draw(WORDS)})
    pending: list[str] = []
    names = iter(range(1000))
    for _ in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(["user", "assistant", "calls", "results", "system"]))
        if kind == "system" and not anthropic:
            messages.append({"role": "system", "content": draw(WORDS)})
        elif kind == "calls":
            ids = [f"c{next(names)}" for _ in range(draw(st.integers(1, 3)))]
            pending += ids
            messages.append(_calling(ids, anthropic, draw(WORDS)))
        elif kind == "results" and pending:
            answered = draw(st.lists(st.sampled_from(pending), min_size=1, unique=True))
            pending = [each for each in pending if each not in answered]
            messages += _answering(answered, anthropic, draw(WORDS))
        else:
            role = "assistant" if kind == "assistant" else "user"
            messages.append({"role": role, "content": draw(WORDS)})
    return messages


def _calling(ids: list[str], anthropic: bool, text: str) -> MessageDict:
    if anthropic:
        calls = [{"type": "tool_use", "id": each, "name": "f", "input": {"x": text}} for each in ids]
        return {"role": "assistant", "content": [{"type": "text", "text": text}, *calls]}
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {"id": each, "type": "function", "function": {"name": "f", "arguments": json.dumps(text)}} for each in ids
        ],
    }


def _answering(ids: list[str], anthropic: bool, text: str) -> list[MessageDict]:
    if anthropic:
        results = [{"type": "tool_result", "tool_use_id": each, "content": text} for each in ids]
        return [{"role": "user", "content": results}]
    return [{"role": "tool", "tool_call_id": each, "content": text} for each in ids]


def called(message: MessageDict) -> list[str]:
    blocks = message["content"] if isinstance(message["content"], list) else []
    used = [block["id"] for block in blocks if block.get("type") == "tool_use"]
    return [*used, *(call["id"] for call in message.get("tool_calls", ()))]


def answered_in(message: MessageDict) -> list[str]:
    blocks = message["content"] if isinstance(message["content"], list) else []
    used = [block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"]
    return [*used, *([message["tool_call_id"]] if message["role"] == "tool" else [])]


@pytest.mark.parametrize("turn", [openai_turn, anthropic_turn])
def test_masking_asks_no_model_and_leaves_every_call_with_its_result(turn: Any) -> None:
    messages = [SYSTEM, TASK, *turn(1), *turn(2), *turn(3)]
    shorter = asyncio.run(compactor(None, kind="masking", options={"turns": 1}).compact(messages))
    assert [m["role"] for m in shorter] == [m["role"] for m in messages]
    assert [m for m in shorter if m["role"] == "assistant"] == [m for m in messages if m["role"] == "assistant"]
    assert [answered_in(m) for m in shorter] == [answered_in(m) for m in messages]
    assert str(shorter).count("was left out") == 2
    assert shorter[-2:] == turn(3)
    assert ("image" in str(shorter[3])) == (turn is anthropic_turn)  # what is no result stays


@examples(100)
@given(conversations(), st.integers(1, 60), st.sampled_from(["masking", "fifo", "clear_tool_results", "prompted"]))
def test_no_kind_enlarges_a_conversation(messages: list[MessageDict], budget: int, kind: str) -> None:
    one = compactor(Writer("a summary that may well be longer than what it stands for"), budget, kind=kind)
    shorter = asyncio.run(one.compact(messages))
    sizes = [_Conversation.of(each, one.count).context.size for each in (messages, shorter)]
    assert shorter == messages or sizes[1] < sizes[0]


def test_a_trigger_and_a_kind_are_checked_at_once() -> None:
    messages = [SYSTEM, TASK, *openai_turn(1), *openai_turn(2)]
    assert compactor(Writer(), 10_000, trigger="interval:2").should_compact(messages)
    for wrong in ({"trigger": "sometimes"}, {"kind": "unknown"}, {"options": {"turns": 3}}):
        with pytest.raises(InputError):
            compactor(Writer(), **wrong)
    with pytest.raises(InputError, match="model"):
        compactor(None)


@examples(300)
@given(conversations(), st.integers(1, 60))
def test_a_compaction_breaks_no_conversation(messages: list[MessageDict], budget: int) -> None:
    before = copy.deepcopy(messages)
    model = Writer("short")
    due = compactor(model, budget).should_compact(messages)
    shorter = compacted(messages, model, budget)
    assert messages == before  # never changed

    if not due:
        assert shorter == messages
        assert not model.requests
        return
    seen: set[str] = set()
    for message in shorter:
        assert set(answered_in(message)) <= seen
        seen.update(called(message))
    standing = [m for m in messages if m["role"] in ("system", "developer")]
    assert [m for m in shorter if m["role"] in ("system", "developer")] == standing
    last = max(n for n, m in enumerate(messages) if m["role"] == "assistant")
    assert shorter[-len(messages[last:]) :] == messages[last:]  # the last turn, verbatim
    assert shorter == messages or not compactor(model, budget).should_compact(shorter)  # no gain, no compaction
    assert compacted(shorter, model, budget) == shorter


@given(conversations(), conversations())
def test_a_second_compaction_replaces_the_first_summary(one: list[MessageDict], two: list[MessageDict]) -> None:
    shorter = compacted(one, Writer("FIRST"), 20)
    longer = [*shorter, *two]
    model = Writer("SECOND")
    again = compacted(longer, model, 20)
    summaries = [m for m in again if str(m["content"]).startswith("Earlier steps of this task")]
    assert len(summaries) <= 1
    if model.requests and shorter != one:
        assert "SECOND" in summaries[0]["content"]
        assert "FIRST" in model.requests[0].messages[-1].content


def test_the_value_is_frozen_and_the_template_is_read_once(tmp_path: Path) -> None:
    value = compactor(Writer())
    assert replace(value, budget=7).budget == 7
    assert Compactor("default", Writer(), 5).template == default_template()


def seen(messages: Sequence[MessageDict], scope: str = "history") -> str:
    """What the compressor is shown of a conversation in which another turn follows."""
    model = Writer()
    end = [{"role": "assistant", "content": "so much " * 60}, {"role": "user", "content": "go on"}]
    asyncio.run(compactor(model, 10, scope=scope).compact([*messages, *end]))
    return model.requests[0].messages[-1].content


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        (["a text", {"type": "text", "text": "and another"}], "a text\nand another"),
        ({"type": "text", "text": "one block"}, "one block"),
        ([{"type": "refusal", "refusal": "I will not"}], "I will not"),
        ([{"type": "input_audio"}], "[input_audio]"),
        ([{"source": 1}], "[something]"),
        ([{"type": "reasoning"}, {"type": "thinking"}, {"type": "redacted_thinking"}, "said"], "[assistant]\nsaid"),
        ([3, "kept"], "[assistant]\nkept"),
    ],
)
def test_contents_of_any_form_are_read(content: Any, text: str) -> None:
    prompt = seen([TASK, {"role": "assistant", "content": content}])
    assert text in prompt
    assert "[reasoning]" not in prompt
    assert "[thinking]" not in prompt
    assert "[redacted_thinking]" not in prompt


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ({"tool_calls": [{"id": "c", "custom": {"name": "shell", "input": "ls"}}]}, "-> shell(ls)"),
        ({"tool_calls": [{"id": "c", "function": {"name": "look", "arguments": {"ä": 1}}}]}, '-> look({"ä": 1})'),
        ({"tool_calls": [{"id": None, "function": "odd"}]}, "-> ()"),
        ({"function_call": {"name": "look", "arguments": "{}"}}, "-> look({})"),
        ({"function_call": {"name": None}}, "-> ()"),
        ({"content": [{"type": "server_tool_use", "id": "s", "name": "search", "input": {}}]}, "-> search({})"),
    ],
)
def test_calls_of_any_form_are_read(message: dict[str, Any], line: str) -> None:
    assert line in seen([TASK, {"role": "assistant", "content": None, **message}])


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (
            {"tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "page 1"},
        ),
        (
            {"function_call": {"name": "look", "arguments": "{}"}},
            {"role": "function", "name": "look", "content": "page 1"},
        ),
        (
            {"content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "page 1"}]},
        ),
    ],
)
def test_a_result_is_known_by_the_call_that_it_answers(call: dict[str, Any], result: dict[str, Any]) -> None:
    prompt = seen([TASK, {"role": "assistant", "content": None, **call}, result])
    assert "[result of look]\npage 1" in prompt


def test_what_stands_beside_a_result_is_a_message_of_its_own() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "page 1"}
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    with_words = {"role": "user", "content": [result, {"type": "text", "text": "and hurry"}]}
    prompt = seen([TASK, {"role": "assistant", "content": [call]}, with_words])
    assert "[result of look]\npage 1\n[user]\nand hurry" in prompt


def test_what_the_agent_says_twice_in_a_turn_is_put_together() -> None:
    call = {"id": "c", "function": {"name": "look", "arguments": "{}"}}
    late: list[MessageDict] = [
        {"role": "assistant", "content": "first", "tool_calls": [call]},
        {"role": "assistant", "content": "second"},
        {"role": "tool", "tool_call_id": "c", "content": "page 1"},
    ]
    prompt = seen([TASK, *late])
    assert "[assistant]\nfirst\nsecond\n-> look({})\n[result of look]\npage 1" in prompt


def test_system_messages_among_older_turns_stay_and_are_not_shown_to_the_compressor() -> None:
    rule = {"role": "developer", "content": "NEVER SHOUT"}
    model = Writer()
    messages = [SYSTEM, TASK, *openai_turn(1), rule, *openai_turn(2), *openai_turn(3)]
    shorter = compacted(messages, model)
    assert [m.get("role") for m in shorter] == ["system", "user", "developer", "user", "assistant", "tool"]
    assert shorter[2] is rule
    assert "NEVER SHOUT" not in model.requests[-1].messages[-1].content


def test_all_that_the_user_said_before_the_first_answer_is_the_task() -> None:
    more = {"role": "user", "content": "And the notes."}
    prompt = seen([SYSTEM, TASK, more, *openai_turn(1)])
    assert "Read all the pages.\n\nAnd the notes." in prompt
    assert "You work." not in prompt


def test_what_is_within_the_budget_comes_back_as_a_list_of_its_own() -> None:
    messages = [SYSTEM, TASK, *openai_turn(1)]
    same = compacted(messages, budget=10_000)
    assert same == messages
    assert same is not messages
    assert compacted([]) == []
    assert compacted([TASK]) == [TASK]


def test_a_budget_of_one_token_is_one() -> None:
    assert compactor(Writer(), 1).budget == 1
    with pytest.raises(InputError, match=r"budget\b.*\b0\b"):
        compactor(Writer(), 0)
    with pytest.raises(InputError, match=r"'all'.*history, prefix"):
        compactor(Writer(), scope="all")


def test_whoever_asks_gets_a_receipt_and_cannot_stop_the_work() -> None:
    receipts: list[Receipt] = []
    messages = [SYSTEM, TASK, *openai_turn(1), *openai_turn(2), *openai_turn(3)]
    short = asyncio.run(compactor(Writer(), on_receipt=receipts.append).compact(messages))
    assert [(each.dropped, each.kept) for each in receipts] == [(2, 1)]
    assert receipts[0].before > receipts[0].after

    def fail(receipt: Receipt) -> None:
        raise ValueError("no paper")

    assert asyncio.run(compactor(Writer(), on_receipt=fail).compact(messages)) == short


@pytest.mark.parametrize("otherwise", ["accept", "keep"])
def test_a_check_repairs_once_or_keeps_the_messages_for_one_more_turn(otherwise: str) -> None:
    messages = [SYSTEM, TASK, *openai_turn(1), *openai_turn(2), *openai_turn(3)]
    receipts: list[Receipt] = []
    lines = [f"fact {n} " + "of a list " * 3 for n in range(9)]
    checking = compactor(Writer(), check=lambda pre, post: lines, otherwise=otherwise, on_receipt=receipts.append)
    after = asyncio.run(checking.compact(messages))
    if otherwise == "keep":
        assert (after, receipts) == (messages, [])
    else:
        assert receipts[0].repaired == ()  # not even the first fits into a quarter of this budget
    roomy = compactor(Writer(), 90, check=lambda pre, post: ["fact 0"], otherwise=otherwise, on_receipt=receipts.append)
    assert "fact 0" in str(asyncio.run(roomy.compact(messages))[2])
    assert receipts[-1].repaired == ("fact 0",)
