"""Goose: a prompt file in its config folder, a Jinja template with a place for the messages."""

from __future__ import annotations

import re
from pathlib import Path

from recompact.harnesses.exporting import Export, ExportFile, jinja_text, one_prompt
from recompact.harnesses.importing import PromptFile
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "a message that sums up what came before it"
PLACE = "~/.config/goose/prompts"


def export(template: Template, budget: int) -> Export:
    prompt = one_prompt(template, budget, earlier=EARLIER, conversation="{{ messages }}", escape=jinja_text)
    return Export(
        (ExportFile("compaction.md", prompt.text, f"{PLACE}/compaction.md"),),
        steps=(f"copy compaction.md to {PLACE}/ (or export with --install), and start goose again",),
        checks=("compact a session: the system prompt of that request begins as compaction.md does",),
        traps=(
            "the file is a Jinja template: {{ messages }} is the conversation, and other double braces of your text are"
            " written so that they come out as they were",
            "this rests on Goose's documentation and source of April 2026; it was not run",
        ),
        losses=prompt.losses,
    )


def _read(text: str, path: Path) -> str:
    """The file as one of our prompts: its placeholder becomes ours, and its escapes are undone."""
    escapes = re.compile(r'\{\{ "(\{[{%#])" \}\}|\{\{-?\s*messages\s*-?\}\}')
    return escapes.sub(lambda match: match[1] or "{{ history }}", text)


HARNESS = Harness("goose", "Goose", export, PromptFile("", PLACE, ("compaction.md",), _read))
