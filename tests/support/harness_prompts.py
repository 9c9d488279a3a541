"""Where the prompts of a built-in harness are, for tests of the import."""

from __future__ import annotations

from recompact.harnesses.importing.packages import PromptPackage
from recompact.harnesses.registry import load_harness


def prompts_of(name: str) -> PromptPackage:
    prompts = load_harness(name).prompts
    assert isinstance(prompts, PromptPackage)
    return prompts
