"""Ready objects get the prompt that an export would write; the real libraries are run by `make test-harnesses`."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from recompact.errors import InputError
from recompact.harnesses.registry import load_harness
from recompact.integrations.inspect import compaction_summary
from recompact.integrations.langchain import summarization_middleware
from recompact.integrations.pydantic_ai import summarizing_compaction
from recompact.values.template import default_template
from recompact.version import install_command


def stand_in(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    """A module of a library whose class gives back what it was called with."""
    parts = module.split(".")
    for end in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
    monkeypatch.setattr(sys.modules[module], name, lambda *given, **options: (given, options), raising=False)


def test_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "langchain.agents.middleware", "SummarizationMiddleware")
    given, options = summarization_middleware("default", "m", ("tokens", 9), keep=("messages", 3))
    assert given == ("m",)
    prompt = options.pop("summary_prompt")
    assert options == {"trigger": ("tokens", 9), "keep": ("messages", 3), "trim_tokens_to_summarize": None}
    assert repr(prompt.split("\n")[0])[1:-1] in load_harness("langchain").export(default_template(), 4096).files[0].text
    assert "{messages}" in prompt
    assert summarization_middleware("default", "m", 1, trim_tokens_to_summarize=5)[1]["trim_tokens_to_summarize"] == 5


def test_inspect_and_pydantic_ai(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stand_in(monkeypatch, "inspect_ai.model", "CompactionSummary")
    stand_in(monkeypatch, "pydantic_ai_harness.compaction", "SummarizingCompaction")
    default_template().save(tmp_path / "t")
    _, options = compaction_summary(tmp_path / "t", threshold=0.5, budget=77)
    assert options["threshold"] == 0.5
    assert "77 tokens" in options["prompt"]
    assert options["prompt"].endswith("{addendums}")
    _, options = summarizing_compaction(default_template(), max_tokens=5)
    assert options["instructions"] == default_template().system
    assert options["max_tokens"] == 5
    assert default_template().system not in options["summary_prompt"]


@pytest.mark.parametrize(
    ("build", "extra"),
    [
        (lambda: summarization_middleware("default", "m", 1), "langchain"),
        (lambda: compaction_summary("default"), "inspect"),
        (lambda: summarizing_compaction("default"), "pydantic-ai"),
    ],
)
def test_a_library_that_is_not_there_is_named_with_its_extra(
    build: Any, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("langchain", "inspect_ai", "pydantic_ai_harness"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=re.escape(install_command(extra))):
        build()
