"""An agent behind the gateway whose model may search what was dropped: its own program hears nothing of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from agent_support import NOTES, Clerk, Forgetful, agent_config, collected, write_notes
from needs import needs

from recompact.values.chat import Message, Reply, Request, ToolCall, Usage
from recompact.values.recall import RECALL

pytestmark = needs("bubblewrap")


class Recaller(Clerk):
    """Looks the code up where its context has lost it, if there is a way to."""

    async def reply(self, request: Request) -> Reply:
        text = "\n".join(message.content for message in request.messages)
        offered = any(tool.name == RECALL.name for tool in request.tools)
        if offered and f"note {NOTES} of {NOTES}" in text and "the code is" not in text:
            call = ToolCall(f"r{len(request.messages)}", RECALL.name, json.dumps({"query": "the code is"}))
            return Reply(Message("assistant", "", (call,)), Usage(10, 5, 0, 0, 1))
        return await super().reply(request)


@pytest.mark.parametrize("kind", ["prompted", "recall+prompted"])
async def test_what_was_dropped_is_found_again_without_the_agents_program(kind: str, tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", agent='sandbox = "off"')
    config = replace(config, compressor=replace(config.compressor, kind=kind))
    models = {"clerk": Recaller(), "forgetful": Forgetful()}
    (trajectory,) = await collected(config, tmp_path / "run.db", models=models)
    calls = [call.name for turn in trajectory.turns for call in turn.message.calls]
    recalls = calls.count(RECALL.name)
    assert trajectory.boundaries
    assert trajectory.score.success == (recalls > 0) == (kind != "prompted")
    assert trajectory.steps == len(trajectory.turns)  # each of its calls is a step
    acted = [action.name for boundary in trajectory.boundaries for action in boundary.actions]
    assert RECALL.name not in acted  # so a replay of the agent does without it
    if recalls:
        (turn,) = [turn for turn in trajectory.turns if any(c.name == RECALL.name for c in turn.message.calls)]
        assert "blue-42" in turn.results[0].content
