"""A pydantic-ai agent that compacts with the exported capability."""

import sys
from importlib.metadata import version

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from recompact_pydantic_ai import INSTRUCTIONS, SUMMARY_PROMPT, summarizing_compaction

from recompact.integrations import pydantic_ai as integration

url, template, transcript = sys.argv[1:]
model = OpenAIChatModel("loop", provider=OpenAIProvider(base_url=url, api_key="none"))
ready = integration.summarizing_compaction(template, max_messages=6)
assert (ready.summary_prompt, ready.instructions) == (SUMMARY_PROMPT, INSTRUCTIONS)
agent = Agent(model, capabilities=[summarizing_compaction(max_messages=6, keep_messages=2)])


@agent.tool_plain
def look(page: int) -> str:
    """Read a page."""
    return f"page {page}: " + "word " * 50


agent.run_sync("Read all pages.")
print("pydantic-ai-harness", version("pydantic-ai-harness"))
