"""pi: an extension answers `session_before_compact` with a finished summary, so it asks the model itself."""

from __future__ import annotations

from recompact.harnesses.exporting import (
    FILL,
    RENDER,
    Export,
    ExportFile,
    both_prompts,
    javascript_module,
    packaged_code,
)
from recompact.harnesses.registry import Harness
from recompact.harnesses.transcripts.pi import READER
from recompact.values.template import Template

FILE = "recompact-compaction.js"
_CODE = packaged_code("pi.js")


def export(template: Template, budget: int) -> Export:
    prompts = both_prompts(template, budget)
    texts = {"SYSTEM": prompts.system, "FIRST": prompts.first, "UPDATE": prompts.update}
    module = javascript_module(template, "pi", "", texts, f"{FILL}\n{RENDER}\n{_CODE}")
    return Export(
        (ExportFile(FILE, module, f"~/.pi/agent/extensions/{FILE}"),),
        steps=(
            f"copy {FILE} to ~/.pi/agent/extensions/, or to .pi/extensions/ of one project (or export with --install)",
            "restart pi, or type /reload",
        ),
        checks=(
            "type /compact: the `compaction` record in the newest session file then has fromHook true and the headings"
            " of your template; a warning says when the prompt was not used",
        ),
        traps=(
            "pi has no key for the prompt: the extension asks the session's own model and returns the finished summary",
            "pi's own text of the conversation cuts each tool result to 2,000 characters; the extension's does not, so"
            " its requests are larger",
            "where a turn is split, its head is summarized with the rest; pi's lists of read and modified files are not"
            " added",
        ),
        losses=prompts.losses,
    )


HARNESS = Harness("pi", "pi", export, reader=READER)
