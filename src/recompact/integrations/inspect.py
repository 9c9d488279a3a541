"""Inspect: a compaction strategy that summarizes with a template of ours."""

from __future__ import annotations

from typing import Any

from recompact.harnesses.built_in import prompt_of
from recompact.integrations.common import BUDGET, TemplateName, library, open_template


def compaction_summary(template: TemplateName, *, budget: int = BUDGET, **options: Any) -> Any:
    """A `CompactionSummary` for `react(compaction=…)`; the options are Inspect's (`threshold`, `model`, `memory`)."""
    return library("inspect_ai.model", "inspect").CompactionSummary(
        prompt=prompt_of("inspect", open_template(template), budget).text, **options
    )
