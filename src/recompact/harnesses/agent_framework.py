"""Microsoft Agent Framework: the prompt is the summarizer's system prompt; its user turn is the transcript alone."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, one_prompt, python_export
from recompact.harnesses.importing import PromptConstants
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "an assistant message that sums up what came before it"


def export(template: Template, budget: int) -> Export:
    prompt = one_prompt(template, budget, earlier=EARLIER, conversation="below")
    code = """
        def summarization_strategy(client, **options):
            \"\"\"options say when and what is kept: target_count, threshold.\"\"\"
            # By default the transcript is cut to a budget before any prompt sees it.
            options.setdefault("max_summary_input_tokens", None)
            return SummarizationStrategy(client=client, prompt=PROMPT, **options)
    """
    return python_export(
        template,
        prompt,
        title="Microsoft Agent Framework",
        module="recompact_agent_framework",
        imports="from agent_framework import SummarizationStrategy",
        texts={"PROMPT": prompt.text},
        code=code,
        steps=("put recompact_agent_framework.py beside your code, and use summarization_strategy(client)",),
        checks=("the summarizing request has the prompt as its system message and the transcript as its user message",),
        traps=(
            "the transcript is cut to a token budget unless max_summary_input_tokens is None: the file sets it",
            "an empty summary is skipped without an error: the context then stays as it is",
        ),
    )


HARNESS = Harness(
    "agent-framework",
    "Microsoft Agent Framework",
    export,
    PromptConstants(
        "agent-framework-core",
        {"first": ("agent_framework/_compaction.py", "DEFAULT_SUMMARIZATION_PROMPT")},
    ),
)
