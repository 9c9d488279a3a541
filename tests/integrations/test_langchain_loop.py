"""The example with LangChain in docs/loops.md, where LangChain is installed: `make test-agents` installs it."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from needs import require

import recompact
from recompact.values.chat import Reply, Request, ToolCall, Usage, assistant

require("langchain")

PAGE = Path(__file__).parents[2] / "docs" / "loops.md"


class Counting:
    """Calls the tool six times; knows how often it did only from what it is shown."""

    name = "counting"

    def __init__(self) -> None:
        self.shown: list[int] = []
        self.calls = 0

    async def reply(self, request: Request) -> Reply:
        if not request.tools:
            return Reply(assistant("## Progress\nSome of the six are done."), Usage(10, 10, 0, 0, 1))
        self.shown.append(len(request.messages))
        self.calls += 1
        if self.calls > 6:
            return Reply(assistant("Done."), Usage(10, 10, 0, 0, 1))
        call = ToolCall(f"c{self.calls}", "numbers", json.dumps({"last": 99}))
        return Reply(assistant("", call), Usage(10, 10, 0, 0, 1))


def test_the_example_runs() -> None:
    (block,) = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    model = Counting()
    names: dict[str, Any] = {"recompact": recompact, "model": model}
    exec(compile(block, "docs/loops.md", "exec"), names)
    messages = names["state"]["messages"]
    assert messages[-1].text == "Done."
    assert len(messages) == 14
    client = names["client"]
    assert len(client.compactions) >= 2
    assert max(model.shown) < 9, "the model was shown less than LangChain keeps"
    assert [each.ending for each in client.trajectories] == ["finished"]


def test_it_streams_and_works_asynchronously() -> None:
    from langchain_openai import ChatOpenAI

    class Echo:
        name = "echo"

        async def reply(self, request: Request) -> Reply:
            return Reply(assistant(f"You said: {request.messages[-1].content}"), Usage(10, 10, 0, 0, 1))

    with recompact.gateway(Echo()) as client:
        chat = ChatOpenAI(
            model="any",
            base_url=client.base_url,
            api_key=client.api_key,
            http_client=client.http_client,
            http_async_client=client.async_http_client,
        )
        assert "".join(chunk.text for chunk in chat.stream("one")) == "You said: one"
        assert asyncio.run(chat.ainvoke("two")).text == "You said: two"
        assert len(client.compactions) == 0
