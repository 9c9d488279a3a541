"""An Inspect task whose agent compacts with the exported strategy; leaves a log."""

import sys
from importlib.metadata import version

from inspect_ai import Task, eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.tool import tool
from recompact_inspect import PROMPT, compaction

from recompact.integrations import inspect as integration

url, template, transcript = sys.argv[1:]
model = get_model("openai-api/loop/loop", base_url=url, api_key="none")


async def count_text_tokens(text: str) -> int:
    """In place of a vocabulary that would have to be downloaded."""
    return len(text) // 4


model.api.count_text_tokens = count_text_tokens


@tool
def look():
    async def execute(page: int) -> str:
        """Read a page.

        Args:
            page: its number
        """
        return f"page {page}: " + "word " * 50

    return execute


assert integration.compaction_summary(template).prompt == PROMPT
agent = react(tools=[look()], compaction=compaction(threshold=900), submit=False)
task = Task(dataset=[Sample(input="Read all pages.", target="x")], solver=agent, message_limit=80)
[log] = evaluate(task, model=model, log_dir=transcript, log_format="json", display="none")
assert log.status == "success", log.error
print("inspect", version("inspect_ai"))
