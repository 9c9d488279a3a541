"""LangChain: middleware that summarizes with a template of ours."""

from __future__ import annotations

from typing import Any

from recompact.harnesses.built_in import prompt_of
from recompact.integrations.common import BUDGET, TemplateName, library, open_template


def summarization_middleware(
    template: TemplateName, model: Any, trigger: Any, *, budget: int = BUDGET, **options: Any
) -> Any:
    """A `SummarizationMiddleware` for `create_agent(middleware=[…])`.

    `model` and `trigger`, as in `("tokens", 100_000)`, are LangChain's, and so are the options. What is to be
    summarized reaches the model whole, unless `trim_tokens_to_summarize` says otherwise: LangChain's own default is
    the last 4,000 tokens of it.
    """
    prompt = prompt_of("langchain", open_template(template), budget).text
    options = {"trim_tokens_to_summarize": None, **options}
    return library("langchain.agents.middleware", "langchain").SummarizationMiddleware(
        model, trigger=trigger, summary_prompt=prompt, **options
    )
