"""LangChain: `SummarizationMiddleware` takes one prompt for `str.format`, with a place for the messages."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, Prompt, format_text, one_prompt, python_export
from recompact.harnesses.importing import PromptConstants
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = 'a message that begins with "Here is a summary of the conversation to date:"'
TRIM = (
    "trim_tokens_to_summarize is 4,000 by default, so that the summarizer would see only the end of what is dropped;"
    " the file sets it to None"
)


def summary_prompt(template: Template, budget: int) -> Prompt:
    """The template as `summary_prompt`; also what `recompact.integrations.langchain` passes on."""
    return one_prompt(template, budget, earlier=EARLIER, conversation="{messages}", escape=format_text)


def export(template: Template, budget: int) -> Export:
    prompt = summary_prompt(template, budget)
    code = """
        def summarization_middleware(model, trigger, keep=("messages", 20)):
            \"\"\"For create_agent(middleware=[…]); trigger says when, as in ("tokens", 100_000).\"\"\"
            return SummarizationMiddleware(
                model,
                trigger=trigger,
                keep=keep,
                summary_prompt=SUMMARY_PROMPT,
                trim_tokens_to_summarize=None,  # the default is the last 4,000 tokens of what is dropped
            )
    """
    return python_export(
        template,
        prompt,
        title="LangChain",
        module="recompact_langchain",
        imports="from langchain.agents.middleware import SummarizationMiddleware",
        texts={"SUMMARY_PROMPT": prompt.text},
        code=code,
        steps=(
            "put recompact_langchain.py beside your code, and add its middleware:"
            ' create_agent(model, tools, middleware=[summarization_middleware(model, trigger=("tokens", 100_000))])',
            "or, without the file: recompact.integrations.langchain.summarization_middleware(template, model, trigger)",
        ),
        checks=(
            "in a trace, the call marked lc_source=summarization has one message, which begins as SUMMARY_PROMPT does",
            'recompact_langchain.SUMMARY_PROMPT.format(messages="…") prints what is sent',
        ),
        traps=(
            "the prompt goes through str.format: single braces of your text are doubled in the file, {messages} is not",
            TRIM,
            "middleware without a trigger never runs",
        ),
    )


HARNESS = Harness(
    "langchain",
    "LangChain",
    export,
    PromptConstants(
        "langchain",
        {"first": ("langchain/agents/middleware/summarization.py", "DEFAULT_SUMMARY_PROMPT")},
        {"messages": "history"},
    ),
)
