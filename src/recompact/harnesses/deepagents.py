"""deepagents: LangChain's middleware with a backend; one passed in replaces the built-in one of the same name."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, format_text, one_prompt, python_export
from recompact.harnesses.langchain import TRIM
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "a human message that holds a <summary> of older messages"


def export(template: Template, budget: int) -> Export:
    prompt = one_prompt(template, budget, earlier=EARLIER, conversation="{messages}", escape=format_text)
    code = """
        def summarization_middleware(model, backend, trigger=("fraction", 0.85), keep=("fraction", 0.10)):
            \"\"\"For create_deep_agent(middleware=[…]), where it replaces the built-in one by its name.\"\"\"
            return SummarizationMiddleware(
                model=model,
                backend=backend,
                trigger=trigger,
                keep=keep,
                summary_prompt=SUMMARY_PROMPT,
                trim_tokens_to_summarize=None,  # the default is the last 4,000 tokens of what is dropped
            )
    """
    return python_export(
        template,
        prompt,
        title="deepagents",
        module="recompact_deepagents",
        imports="from deepagents.middleware.summarization import SummarizationMiddleware",
        texts={"SUMMARY_PROMPT": prompt.text},
        code=code,
        steps=(
            "put recompact_deepagents.py beside your code, and pass its middleware:"
            " create_deep_agent(model=model, backend=backend, middleware=[summarization_middleware(model, backend)])",
            "trigger and keep are shares of the model's window: give tokens or messages where that is not known",
        ),
        checks=("the summarizing call has one user message that begins as SUMMARY_PROMPT does",),
        traps=(
            "the prompt goes through str.format: single braces of your text are doubled in the file, {messages} is not",
            TRIM,
            "the built-in prompt also explains media reference tags to the summarizer; this one does not",
        ),
    )


HARNESS = Harness("deepagents", "deepagents", export)
