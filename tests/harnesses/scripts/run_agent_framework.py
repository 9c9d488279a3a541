"""Agent Framework's strategy, with the exported prompt, on a conversation."""

import asyncio
import sys
from importlib.metadata import version

from agent_framework import Message
from agent_framework._compaction import annotate_message_groups
from agent_framework.openai import OpenAIChatCompletionClient
from recompact_agent_framework import summarization_strategy

url, template, transcript = sys.argv[1:]
client = OpenAIChatCompletionClient(model="loop", base_url=url, api_key="none")


async def main() -> None:
    strategy = summarization_strategy(client, target_count=2, threshold=0)
    messages: list[Message] = []
    for number in (1, 2):
        for page in range(4):
            messages.append(Message(role="user", contents=[f"Read page {number}.{page}."]))
            messages.append(Message(role="assistant", contents=["word " * 20]))
        annotate_message_groups(messages)
        assert await strategy(messages)


asyncio.run(main())
print("agent-framework-core", version("agent-framework-core"))
