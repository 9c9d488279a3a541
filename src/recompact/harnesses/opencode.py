"""OpenCode: a plug-in's hook sets the whole prompt, and restores the previous summary, which is otherwise lost."""

from __future__ import annotations

from recompact.harnesses.exporting import FILL, Export, ExportFile, both_prompts, javascript_module, packaged_code
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

FILE = "recompact-compaction.js"
_CODE = packaged_code("opencode.js")


def export(template: Template, budget: int) -> Export:
    prompts = both_prompts(template, budget, "below")
    texts = {"SYSTEM": prompts.system, "FIRST": prompts.first, "UPDATE": prompts.update}
    module = javascript_module(template, "OpenCode", "", texts, f"{FILL}\n{_CODE}")
    losses = prompts.losses
    if template.system.strip():
        losses += ("system.md stands at the head of the prompt: OpenCode sends a system prompt of its own",)
    return Export(
        (ExportFile(FILE, module, f".opencode/plugin/{FILE}"),),
        steps=(
            f"copy {FILE} to .opencode/plugin/ of your project, or to ~/.config/opencode/plugin/ for all of them"
            " (or export with --install, in the project)",
            "start opencode again",
        ),
        checks=(
            "type /compact: `opencode export` then shows an assistant message of mode compaction with the headings of"
            " your template; after a second /compact, what only the first summary held is still there",
        ),
        traps=(
            "a prompt that is set by the hook loses the previous summary at the second compaction; the plug-in looks it"
            " up and puts it back",
            "the conversation follows the prompt as text, and each tool result in it is cut to 2,000 characters",
        ),
        losses=losses,
    )


HARNESS = Harness("opencode", "OpenCode", export)
