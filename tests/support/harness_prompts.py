"""The constants in which a built-in harness keeps its prompts, for tests of the import."""

from __future__ import annotations

from recompact.harnesses.importing import PromptConstants
from recompact.harnesses.registry import load_harness


def prompts_of(name: str) -> PromptConstants:
    prompts = load_harness(name).prompts
    assert isinstance(prompts, PromptConstants)
    return prompts
