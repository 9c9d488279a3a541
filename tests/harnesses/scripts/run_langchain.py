"""A LangChain agent that compacts with the exported middleware; leaves its messages as JSON lines."""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.messages.utils import convert_to_openai_messages
from langchain_openai import ChatOpenAI
from recompact_langchain import SUMMARY_PROMPT, summarization_middleware

from recompact.integrations import langchain as integration

url, template, transcript = sys.argv[1:]
model = ChatOpenAI(model="loop", base_url=url, api_key="none", max_retries=0)


def look(page: int) -> str:
    """Read a page."""
    return f"page {page}: " + "word " * 50


assert integration.summarization_middleware(template, model, ("messages", 6)).summary_prompt == SUMMARY_PROMPT
middleware = summarization_middleware(model, trigger=("messages", 6), keep=("messages", 2))
assert middleware.trim_tokens_to_summarize is None
agent = create_agent(model, [look], middleware=[middleware])
# Every message once, in the order in which it came to be; a summary says that it is one.
task = {"role": "user", "content": "Read all pages."}
lines, seen = [task], set()
for update in agent.stream({"messages": [task]}, {"recursion_limit": 100}, stream_mode="updates"):
    for message in [m for change in update.values() if change for m in change.get("messages", [])]:
        if message.type == "remove" or message.id in seen:
            continue
        seen.add(message.id)
        summary = message.additional_kwargs.get("lc_source") == "summarization"
        lines.append({**convert_to_openai_messages(message), **({"compaction": True} if summary else {})})
Path(transcript).mkdir()
Path(transcript, "messages.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
print("langchain", version("langchain"))
