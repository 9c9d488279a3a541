"""A provider's own compaction, from replies in the form that its documentation gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recompact.compressors.native import ENCRYPTED, is_compaction
from recompact.compressors.protocol import CompactionFailed, CompressorInputs
from recompact.compressors.registry import load_compressor
from recompact.errors import OptionError
from recompact.models.anthropic import messages_body, read_messages
from recompact.models.endpoint import Endpoint
from recompact.models.openai_wire import read_responses, responses_body
from recompact.values.chat import Message, Reply, Request, ToolCall, ToolSpec, system, user
from recompact.values.context import Context, Turn
from recompact.values.template import default_template
from recompact.values.tokens import counter

ANTHROPIC = {
    "model": "claude",
    "stop_reason": "compaction",
    "content": [{"type": "compaction", "content": "Pages 1 to 3 were read."}],
    "usage": {
        "input_tokens": 0,
        "output_tokens": 0,
        "iterations": [{"type": "compaction", "input_tokens": 60_000, "output_tokens": 900}],
    },
}
ITEM = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAAB"}
OPENAI = {
    "object": "response.compaction",
    "output": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Read."}]}, ITEM],
    "usage": {"input_tokens": 5_000, "output_tokens": 400, "total_tokens": 5_400},
}
PLAIN = {"model": "claude", "stop_reason": "end_turn", "content": [{"type": "text", "text": "Next I look."}]}
FORMS: dict[str, Any] = {"messages": (messages_body, read_messages), "responses": (responses_body, read_responses)}


class Recorded:
    """Writes each request as a client would, and answers what was recorded."""

    name = "recorded"

    def __init__(self, form: str, answer: Any) -> None:
        self._write, self._read = FORMS[form]
        self._answer, self.bodies = answer, list[Any]()

    async def reply(self, request: Request) -> Reply:
        self.bodies.append(self._write(Endpoint("http://127.0.0.1:1/v1", "m"), request))
        reply: Reply = self._read(self._answer, 0)
        return reply


def context() -> Context:
    turns = []
    for n in range(4):
        call = ToolCall(f"c{n}", "look", json.dumps({"page": n}))
        turns.append(Turn(Message("assistant", "", (call,)), (Message("tool", f"page {n}", call_id=call.id),), 20))
    return Context((system("Be brief."), user("Read.")), None, tuple(turns))


def native(model: Recorded) -> Any:
    inputs = CompressorInputs(model, default_template(), counter(), tools=(ToolSpec("look", "Look."),))
    return load_compressor("native", {}, Path()).build(inputs)


async def test_a_summary_that_can_be_read() -> None:
    model = Recorded("messages", ANTHROPIC)
    compaction = await native(model).compress(context(), 60_000)
    (edit,) = model.bodies[0]["context_management"]["edits"]
    assert (edit["type"], edit["trigger"]["value"], edit["pause_after_compaction"]) == (
        "compact_20260112",
        50_000,
        True,
    )
    assert compaction.context.summary.text == "Pages 1 to 3 were read."
    assert compaction.context.turns == context().turns[-1:]
    assert (compaction.usage.input, compaction.usage.output, compaction.usage.calls) == (60_000, 900, 1)
    sent = json.dumps(model.bodies[0]["messages"])
    assert "page 2" in sent  # the conversation itself, without any instruction
    assert "page 3" not in sent  # the most recent turn stays


async def test_an_encrypted_one_goes_back_as_it_came() -> None:
    model = Recorded("responses", OPENAI)
    compaction = await native(model).compress(context(), 4_000)
    assert set(model.bodies[0]) == {"model", "input"}
    assert compaction.context.summary.text == ENCRYPTED
    assert compaction.context.summary.tokens == 400
    again = responses_body(Endpoint("http://127.0.0.1:1/v1", "m"), Request(compaction.context.messages))
    assert ITEM in again["input"]
    assert ENCRYPTED not in json.dumps(again)


@pytest.mark.parametrize("form", ["messages"])
async def test_an_answer_that_is_no_compaction_is_none(form: str) -> None:
    """Below its threshold, or without such a feature, an API goes on with the conversation."""
    with pytest.raises(CompactionFailed, match="50,000"):
        await native(Recorded(form, PLAIN)).compress(context(), 4_000)
    empty = read_messages({"content": [{"type": "compaction", "content": None}]}, 0).message
    assert not is_compaction(empty)


def test_a_threshold_that_the_api_refuses_is_refused_here() -> None:
    with pytest.raises(OptionError):
        load_compressor("native", {"over": 1_000}, Path())
