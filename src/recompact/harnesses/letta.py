"""Letta: `compaction_settings.prompt` of an agent, set over its API."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, ExportFile, json_text, one_prompt
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "a summary at its beginning"


def export(template: Template, budget: int) -> Export:
    prompt = one_prompt(template, budget, earlier=EARLIER, conversation="below")
    body = f'{{\n  "compaction_settings": {{\n    "prompt": {json_text(prompt.text)}\n  }}\n}}\n'
    return Export(
        (ExportFile("compaction_settings.json", body),),
        steps=(
            "send it to your server: curl -X PATCH $LETTA_BASE_URL/v1/agents/$AGENT_ID"
            " -H 'Content-Type: application/json'"
            ' -H "Authorization: Bearer $LETTA_API_KEY" -d @compaction_settings.json',
        ),
        checks=("GET /v1/agents/$AGENT_ID shows the prompt under compaction_settings",),
        traps=(
            "this rests on Letta's documentation alone: look at what your server sends before you rely on it",
            "a PATCH may replace the whole of compaction_settings: add the keys that you have set there (model, mode)",
        ),
        losses=prompt.losses,
    )


HARNESS = Harness("letta", "Letta", export)
