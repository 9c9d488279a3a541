"""Google ADK: `LlmEventSummarizer` takes one prompt for `str.format`, with a place for the conversation."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, format_text, one_prompt, python_export
from recompact.harnesses.importing import PromptConstants
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "its first entry, where that sums up what came before it"


def export(template: Template, budget: int) -> Export:
    prompt = one_prompt(template, budget, earlier=EARLIER, conversation="{conversation_history}", escape=format_text)
    code = """
        def summarizer(llm):
            \"\"\"For App(events_compaction_config=EventsCompactionConfig(summarizer=summarizer(llm), …)).\"\"\"
            return LlmEventSummarizer(llm=llm, prompt_template=PROMPT_TEMPLATE)
    """
    return python_export(
        template,
        prompt,
        title="Google ADK",
        module="recompact_adk",
        imports="from google.adk.apps.llm_event_summarizer import LlmEventSummarizer",
        texts={"PROMPT_TEMPLATE": prompt.text},
        code=code,
        steps=(
            "put recompact_adk.py beside your app, and use it: App(…, events_compaction_config="
            "EventsCompactionConfig(summarizer=summarizer(llm), token_threshold=…, event_retention_size=…))",
        ),
        checks=("the summarizing request's only content begins as PROMPT_TEMPLATE does",),
        traps=(
            "the prompt goes through str.format: single braces of your text are doubled in the file,"
            " {conversation_history} is not",
            "arguments and responses of tools are cut to 2,000 characters before any prompt sees them",
        ),
    )


HARNESS = Harness(
    "adk",
    "Google ADK",
    export,
    PromptConstants(
        "google-adk",
        {"first": ("google/adk/apps/llm_event_summarizer.py", "_DEFAULT_PROMPT_TEMPLATE")},
        {"conversation_history": "history"},
    ),
)
