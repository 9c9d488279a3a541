"""Codex CLI: `compact_prompt` in config.toml, which takes effect only where compaction is local."""

from __future__ import annotations

import tomllib
from pathlib import Path

from recompact.harnesses.exporting import Export, ExportFile, one_prompt, origin, toml_text
from recompact.harnesses.importing import PromptFile
from recompact.harnesses.registry import Harness
from recompact.harnesses.transcripts.codex import READER
from recompact.values.reading import read_small
from recompact.values.template import Template

EARLIER = "a user message that hands over a summary of the work so far"
KEY, FILE_KEY = "compact_prompt", "experimental_compact_prompt_file"


def export(template: Template, budget: int) -> Export:
    prompt = one_prompt(template, budget, earlier=EARLIER, conversation="above")
    snippet = (
        f"# For ~/.codex/config.toml, above its first [table]. {origin(template)}\n"
        f"{KEY} = {toml_text(prompt.text)}\n\n"
        "# The built-in OpenAI provider compacts on the server and silently ignores the prompt. A provider of\n"
        "# your own, even one with the same address, compacts locally:\n"
        '# model_provider = "local-compaction"\n'
        "#\n"
        "# [model_providers.local-compaction]\n"
        '# name = "OpenAI, compacting locally"\n'
        '# base_url = "https://api.openai.com/v1"\n'
        '# env_key = "OPENAI_API_KEY"\n'
        '# wire_api = "responses"\n'
    )
    return Export(
        (ExportFile("config.toml", snippet),),
        steps=(
            "copy the key into ~/.codex/config.toml (or $CODEX_HOME), above the first [table]: below one it would"
            " belong to that table",
            "set your own model_provider, unless you have one: the snippet shows how",
        ),
        checks=(
            "run /compact: the newest rollout-*.jsonl below ~/.codex/sessions then has a `compacted` record with a"
            " readable message; an empty message means that the server compacted and the prompt was ignored",
            "`recompact audit ~/.codex/sessions` writes audit.html, which shows the summary of the latest compaction",
        ),
        traps=(
            "the built-in OpenAI provider silently ignores the prompt",
            "user messages stay beside the summary, up to 20,000 tokens, newest first; tool results do not",
        ),
        losses=prompt.losses,
    )


def _read(text: str, path: Path) -> str | None:
    settings = tomllib.loads(text)
    if isinstance(named := settings.get(FILE_KEY), str):
        return read_small(Path(path.parent, Path(named).expanduser()))
    prompt = settings.get(KEY)
    return prompt if isinstance(prompt, str) else None


HARNESS = Harness(
    "codex", "Codex CLI", export, PromptFile(KEY, "~/.codex", ("config.toml",), _read, "CODEX_HOME"), READER
)
