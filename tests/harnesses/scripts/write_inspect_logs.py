"""Inspect logs with compactions, written by a mock model: as archive, as JSON, and with a sample in chunks."""

import sys
from importlib.metadata import version
from pathlib import Path

from inspect_ai import Task, eval as evaluate
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.log._recorders.chunked.convert import convert_eval_logs_to_chunked
from inspect_ai.model import CompactionEdit, CompactionSummary, ModelOutput, get_model
from inspect_ai.scorer import includes
from inspect_ai.tool import tool

PAGES = 12


@tool
def look():
    async def execute(page: int) -> str:
        """Read a page.

        Args:
            page: its number
        """
        return f"page {page}: " + f"word{page} " * 60

    return execute


def write_log(folder, log_format, strategy):
    answers = 0

    def answer(messages, tools, choice, config):
        nonlocal answers
        if not tools:
            return ModelOutput.from_content("mockllm/model", f"MARK-SUMMARY {answers}: the code is amber-42.")
        answers += 1
        if answers > PAGES:
            return ModelOutput.from_content("mockllm/model", "amber-42")
        return ModelOutput.for_tool_call("mockllm/model", "look", {"page": answers})

    async def count_text_tokens(text):
        """In place of a vocabulary that would have to be downloaded."""
        return len(text) // 4

    model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
    model.api.count_text_tokens = count_text_tokens
    task = Task(
        dataset=[Sample(id="s1", input="MARK-TASK " + "Read every page of the book. " * 10, target="amber-42")],
        solver=react(tools=[look()], compaction=strategy, submit=False),
        scorer=includes(),
        message_limit=80,
    )
    [log] = evaluate(task, model=model, log_dir=str(folder), log_format=log_format, display="none")
    assert log.status == "success", log.error
    return log.location


if __name__ == "__main__":
    target = Path(sys.argv[1])
    summary = CompactionSummary(threshold=900)
    archive = write_log(target / "archive", "eval", summary)
    write_log(target / "json", "json", summary)
    write_log(target / "edit", "eval", CompactionEdit(threshold=900, keep_tool_uses=1))
    convert_eval_logs_to_chunked(archive, str(target / "chunked"), chunk_size=5)
    print("inspect-ai", version("inspect_ai"))
