"""Inspect: `CompactionSummary(prompt=…)` replaces the whole instruction, which comes after the real messages."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, Prompt, format_text, one_prompt, python_export
from recompact.harnesses.importing import PromptConstants
from recompact.harnesses.registry import Harness
from recompact.harnesses.transcripts.inspect import READER
from recompact.values.template import Template, placeholders

EARLIER = "a user message marked [CONTEXT COMPACTION SUMMARY]"
ADDENDUMS = "addendums"  # where Inspect puts the task author's instructions, and the note on its memory tool


def summary_prompt(template: Template, budget: int) -> Prompt:
    """The template as `prompt`; also what `recompact.integrations.inspect` passes on."""
    prompt = one_prompt(
        template,
        budget,
        earlier=EARLIER,
        conversation="above",
        escape=format_text,
        more={ADDENDUMS: f"{{{ADDENDUMS}}}"},
    )
    if ADDENDUMS in placeholders(template.first):
        return prompt
    return Prompt(f"{prompt.text.rstrip()}\n\n{{{ADDENDUMS}}}", prompt.losses)


def export(template: Template, budget: int) -> Export:
    prompt = summary_prompt(template, budget)
    code = """
        def compaction(threshold=0.9, **options):
            \"\"\"For react(compaction=…) or agent_bridge(compaction=…); threshold: share or tokens.\"\"\"
            return CompactionSummary(threshold=threshold, prompt=PROMPT, **options)
    """
    analysis = "<analysis>" in prompt.text
    return python_export(
        template,
        prompt,
        title="Inspect",
        module="recompact_inspect",
        imports="from inspect_ai.model import CompactionSummary",
        texts={"PROMPT": prompt.text},
        code=code,
        steps=(
            "put recompact_inspect.py beside your task, and use it: react(compaction=compaction())",
            "or, without the file: recompact.integrations.inspect.compaction_summary(template)",
        ),
        checks=(
            "in the log (inspect view), the model call before a compaction event ends with a user message that begins"
            " as PROMPT does",
        ),
        traps=(
            "the prompt goes through str.format: single braces of your text are doubled in the file",
            f"{{{ADDENDUMS}}} stands in the prompt, so that instructions= and the memory tool reach the summarizer",
            "no recent messages are kept beside the summary: what the next step needs must be in it",
            "the prompt has <analysis>, so that Inspect cuts such a block out of the reply"
            if analysis
            else "the prompt has no <analysis>, so that the reply is kept whole",
        ),
    )


HARNESS = Harness(
    "inspect",
    "Inspect",
    export,
    PromptConstants(
        "inspect-ai",
        {"first": ("inspect_ai/model/_compaction/summary.py", "DEFAULT_SUMMARY_PROMPT")},
        {},
    ),
    READER,
)
