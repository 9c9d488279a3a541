"""pydantic-ai: a capability that summarizes with a template of ours."""

from __future__ import annotations

from typing import Any

from recompact.harnesses.built_in import prompt_of
from recompact.integrations.common import BUDGET, TemplateName, library, open_template


def summarizing_compaction(template: TemplateName, *, budget: int = BUDGET, **options: Any) -> Any:
    """A `SummarizingCompaction` for `Agent(capabilities=[…])`; the options are its own (`max_tokens`, …)."""
    value = open_template(template)
    prompt = prompt_of("pydantic-ai", value, budget).text
    return library("pydantic_ai_harness.compaction", "pydantic-ai").SummarizingCompaction(
        summary_prompt=prompt, instructions=value.system, **options
    )
