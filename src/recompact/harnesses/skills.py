"""Skills for Claude Code and Codex: "audit my compactions" and "preview before you compact".

Both read the same SKILL.md: what its front matter says decides when the agent opens it, and the rest is what it does.
"""

from __future__ import annotations

from collections.abc import Callable

from recompact.harnesses.exporting import Export, ExportFile, one_prompt, origin
from recompact.harnesses.registry import Harness
from recompact.values.template import Template

EARLIER = "a message that hands over a summary of what came before"
AUDIT, PREVIEW = "audit-compactions", "preview-compaction"
_AUDIT = """\
---
name: {name}
description: Audit past context compactions. Use it when the user asks what got lost when the context was compacted or
  summarized, why you forgot something, or why you repeat work.
---
# Audit my compactions

`recompact audit` reads transcripts on this machine. It asks no model and sends nothing anywhere.

1. Run `recompact audit {sessions} --json --no-page`. If the user means one session, name its file instead. If there is
   no command `recompact`, say so, and how to install it: `pip install recompact`.
2. Answer from the JSON, with its figures and nothing else: how many compactions there were, how much text was fetched
   again after them and how much at placebo points, and the worst three with the facts that their summaries lack.
   Repeat every caveat in it. An audit observes; it proves no harm.
3. Offer `recompact audit {sessions} --draft`, which writes clauses for what was missing as a template, and
   `recompact export audit-template --to {harness}`, which puts that to use. Run them only if the user agrees.
"""
_PREVIEW = """\
---
name: {name}
description: Preview a context compaction. Use it when the user asks what would survive compacting now, or wants to see
  the summary before the context is compacted.
---
# Preview before you compact

Write the summary that would replace this conversation, and show what it would lose. Compact nothing yourself.

1. Read `prompt.md` beside this file, and write the summary exactly as it says, from this conversation.
2. Go through the conversation once more. List what is not in the summary although later steps may need it: requirements
   of the user, paths, identifiers, commands that work, errors that were met, values that were looked up. Quote each
   with its exact value, and say why it may matter. If nothing is missing, say that.
3. Add what matters to the summary, show it, and ask the user whether to compact now (`/compact`).
"""


def _exporter(sessions: str, place: str, harness: str, steps: str) -> Callable[[Template, int], Export]:
    def export(template: Template, budget: int) -> Export:
        prompt = one_prompt(template, budget, earlier=EARLIER, conversation="above")
        words = {"sessions": sessions, "harness": harness}
        texts = {
            f"{AUDIT}/SKILL.md": _AUDIT.format(name=AUDIT, **words),
            f"{PREVIEW}/SKILL.md": _PREVIEW.format(name=PREVIEW),
            f"{PREVIEW}/prompt.md": f"<!-- {origin(template)} -->\n{prompt.text}",
        }
        return Export(
            tuple(ExportFile(name, text, f"{place}/{name}") for name, text in texts.items()),
            steps=(f"add --install, or copy both folders to {place}", steps),
            checks=("start a new session and ask which skills there are: it names both",),
            traps=(
                "a skill is what the agent reads, so a model may follow it loosely: figures come from `recompact audit`"
                " itself",
                f"the preview changes no compaction: recompact export TEMPLATE --to {harness} does",
            ),
            losses=prompt.losses,
        )

    return export


CLAUDE_CODE = Harness(
    "claude-code-skill",
    "skills of Claude Code",
    _exporter(
        "~/.claude/projects",
        "~/.claude/skills",
        "claude-code",
        f'ask "audit my compactions", or type /{AUDIT} or /{PREVIEW}',
    ),
)
CODEX = Harness(
    "codex-skill",
    "skills of Codex",
    _exporter(
        "~/.codex/sessions",
        "~/.codex/skills",
        "codex",
        f'ask "audit my compactions", or name one: ${AUDIT}, ${PREVIEW}',
    ),
)
