"""A deep agent that compacts with the exported middleware."""

import sys
from importlib.metadata import version

from deepagents import create_deep_agent
from deepagents.backends import StateBackend
from langchain_openai import ChatOpenAI
from recompact_deepagents import summarization_middleware

url, template, transcript = sys.argv[1:]
model = ChatOpenAI(model="loop", base_url=url, api_key="none", max_retries=0)


def look(page: int) -> str:
    """Read a page."""
    return f"page {page}: " + "word " * 50


backend = StateBackend()
middleware = summarization_middleware(model, backend, trigger=("messages", 6), keep=("messages", 2))
agent = create_deep_agent(model=model, tools=[look], backend=backend, middleware=[middleware])
agent.invoke({"messages": [{"role": "user", "content": "Read all pages."}]}, {"recursion_limit": 200})
print("deepagents", version("deepagents"))
