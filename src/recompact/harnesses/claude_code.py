"""Claude Code: a mod answers `session.compact` with the summary from a forked request."""

from __future__ import annotations

import json

from recompact.harnesses.exporting import FILL, Export, ExportFile, both_prompts, javascript_module, packaged_code
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

NAME = "recompact-compaction"
LEAD = "Earlier steps of this task were replaced by the following summary of them."
_CODE = packaged_code("claude-code.js")


def export(template: Template, budget: int) -> Export:
    prompts = both_prompts(template, budget, "above")
    texts = {"LEAD": LEAD, "SYSTEM": prompts.system, "FIRST": prompts.first, "UPDATE": prompts.update}
    module = javascript_module(template, "Claude Code", "", texts, f"{FILL}\n{_CODE}")
    manifest = {"name": NAME, "version": "1.0.0", "description": "Compaction with a template of Recompact's"}
    losses = prompts.losses
    if template.system.strip():
        losses += ("system.md stands at the head of the prompt: the agent's own system prompt stays in force",)
    return Export(
        (
            ExportFile(f"{NAME}/.claude-plugin/plugin.json", json.dumps(manifest, indent=2) + "\n"),
            ExportFile(f"{NAME}/hooks/hooks.json", json.dumps({"modules": ["./compaction.js"]}, indent=2) + "\n"),
            ExportFile(f"{NAME}/hooks/compaction.js", module),
        ),
        steps=(
            f"start Claude Code with the folder: claude --plugin-dir {NAME}",
            "it takes version 2.1.287 or newer; older ones only let you add to the built-in prompt (/compact TEXT, or a"
            " PreCompact hook)",
        ),
        checks=(
            "type /compact: the newest JSONL below ~/.claude/projects then has a user line with isCompactSummary and"
            " the headings of your template",
            "`recompact audit ~/.claude/projects` writes audit.html, which shows the summary of the latest compaction",
        ),
        traps=(
            "CLAUDE.md and PreCompact only add to the built-in prompt; the mod replaces it",
            "the built-in output contract (<analysis>, <summary>) does not apply to a mod: nothing is cut out of the"
            " reply",
            "the built-in prompt is used where the fork gets no answer: at a /compact as the first thing after a"
            " resume, when there is no request to fork yet, and in a context that is already over the window",
            "tools stay in the forked request: where the model calls one instead of writing a summary, the built-in"
            " prompt is used",
        ),
        losses=losses,
    )


HARNESS = Harness("claude-code", "Claude Code", export)
