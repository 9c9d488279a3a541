"""pydantic-ai: `SummarizingCompaction` of pydantic-ai-harness takes a prompt for `str.format`, and a system prompt."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, Prompt, format_text, one_prompt, python_export
from recompact.harnesses.importing import PromptConstants
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "a <previous-summary> block at the end of this message"
_FILE = "pydantic_ai_harness/compaction/_summarizing_compaction.py"


def summary_prompt(template: Template, budget: int) -> Prompt:
    """The template as `summary_prompt`; also what `recompact.integrations.pydantic_ai` passes on."""
    return one_prompt(
        template, budget, earlier=EARLIER, conversation="{messages}", escape=format_text, with_system=False
    )


def export(template: Template, budget: int) -> Export:
    prompt = summary_prompt(template, budget)
    code = """
        def summarizing_compaction(**options):
            \"\"\"For Agent(capabilities=[…]); options say when, and what is kept: max_fraction, keep_messages.\"\"\"
            return SummarizingCompaction(summary_prompt=SUMMARY_PROMPT, instructions=INSTRUCTIONS, **options)
    """
    return python_export(
        template,
        prompt,
        title="pydantic-ai",
        module="recompact_pydantic_ai",
        imports="from pydantic_ai_harness.compaction import SummarizingCompaction",
        texts={"INSTRUCTIONS": template.system, "SUMMARY_PROMPT": prompt.text},
        code=code,
        steps=(
            "put recompact_pydantic_ai.py beside your code, and use it:"
            " Agent(model, capabilities=[summarizing_compaction(max_fraction=0.8)])",
            "or, without the file: recompact.integrations.pydantic_ai.summarizing_compaction(template, max_tokens=…)",
        ),
        checks=("the summarizing request has INSTRUCTIONS as its system prompt, and a user turn that begins as yours",),
        traps=(
            "the prompt goes through str.format, and any field but {messages} is refused: other braces are doubled",
            "what a tool returned is cut to 500 characters before any prompt sees it",
            "with an earlier summary, pydantic-ai-harness adds update instructions of its own below the prompt",
        ),
    )


HARNESS = Harness(
    "pydantic-ai",
    "pydantic-ai",
    export,
    PromptConstants(
        "pydantic-ai-harness",
        {"system": (_FILE, "_DEFAULT_INSTRUCTIONS"), "first": (_FILE, "_DEFAULT_SUMMARY_PROMPT")},
        {"messages": "history"},
    ),
)
