"""The Anthropic API: `instructions` of the compaction edit replace the server's own summarization prompt."""

from __future__ import annotations

from recompact.harnesses.exporting import Export, ExportFile, json_text, one_prompt
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "a compaction block at its beginning"
CONTRACT = "\n\nPut all that you write between <summary> and </summary>."


def export(template: Template, budget: int) -> Export:
    prompt = one_prompt(template, budget, earlier=EARLIER, conversation="above")
    text = prompt.text if "<summary>" in prompt.text else prompt.text.rstrip() + CONTRACT
    edit = f'{{\n      "type": "compact_20260112",\n      "instructions": {json_text(text)}\n    }}'
    body = f'{{\n  "context_management": {{\n    "edits": [{edit}]\n  }}\n}}\n'
    return Export(
        (ExportFile("context_management.json", body),),
        steps=(
            "merge context_management.json into the body of your Messages requests, with the header"
            " anthropic-beta: compact-2026-01-12",
            "append each reply with its compaction block to the messages, as the API asks for",
        ),
        checks=("a reply after the trigger begins with a compaction block that has the headings of your template",),
        traps=(
            "the API looks for <summary> … </summary>: the prompt ends with a sentence that asks for them",
            'trigger defaults to 150,000 input tokens and takes no less than 50,000: "trigger": {"type":'
            ' "input_tokens", "value": 100000}',
        ),
        losses=prompt.losses,
    )


HARNESS = Harness("anthropic", "the Anthropic API", export)
