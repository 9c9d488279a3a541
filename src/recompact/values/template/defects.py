"""What is wrong with a template: what would keep it from being used, and what makes it risky."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from recompact.values.template.value import (
    INSTRUCTIONS,
    PARTS,
    PLACEHOLDERS,
    REQUIRED,
    Template,
    frame_blocks,
    headings,
    placeholders,
)

Level = Literal["error", "warning"]

# What other tools write where a conversation or an old summary goes: str.format fields, which nobody fills here.
_FOREIGN = re.compile(
    r"(?<!\{)\{(messages|conversation|conversation_history|history|transcript|previous_summary|existing_summary)\}(?!\})"
)


@dataclass(frozen=True)
class Defect:
    """One thing that is wrong with a template. An error makes it unusable, a warning makes it risky."""

    level: Level
    part: str
    message: str
    fix: str

    @property
    def file(self) -> str:
        return f"{self.part}.md"

    def __str__(self) -> str:
        return f"{self.file} {self.message}: {self.fix}"


def lint(template: Template) -> tuple[Defect, ...]:
    """Everything that is wrong with a template, most severe first."""
    defects: list[Defect] = []
    for part in PARTS:
        if template.part(part).strip():
            defects.extend(_lint_placeholders(template, part))
            defects.extend(_lint_sections(template, part))
        elif part == "system":
            defects.append(
                Defect("warning", part, "is empty", "say what the compressor is, unless your harness sends none")
            )
        else:
            defects.append(Defect("error", part, "is empty", "write the prompt there"))
    defects.extend(_lint_frame(template))
    defects.extend(_lint_agreement(template))
    return tuple(sorted(defects, key=lambda defect: defect.level))


def _lint_placeholders(template: Template, part: str) -> list[Defect]:
    text = template.part(part)
    prompt = template.framed(part) if part in ("first", "update") else text  # type: ignore[arg-type]
    defects = []
    for name in REQUIRED[part]:
        if name not in placeholders(prompt):
            message = f"has no {{{{ {name} }}}}, so the compressor would not see it"
            defects.append(Defect("error", part, message, "add it here or in frame.md"))
    for name in sorted(set(placeholders(text)) - set(PLACEHOLDERS)):
        message = f"has {{{{ {name} }}}}, which is no placeholder and stays as it is"
        defects.append(Defect("warning", part, message, f"use one of {', '.join(PLACEHOLDERS)}, or take it out"))
    if part == "first" and "previous_summary" in placeholders(text):
        message = "has {{ previous_summary }}, but there is none before the first compaction"
        defects.append(Defect("warning", part, message, "take it out"))
    for name in sorted(set(_FOREIGN.findall(text))):
        message = f"has {{{name}}}, the placeholder of another tool, which stays as it is"
        ours = "previous_summary" if "summary" in name else "history"
        defects.append(Defect("warning", part, message, f"write {{{{ {ours} }}}}"))
    return defects


def _lint_sections(template: Template, part: str) -> list[Defect]:
    if part == "system":
        return []
    sections = template.sections(part)
    defects = []
    titles = [(s.level, s.title) for s in sections if s.level]
    if not titles:
        message = "has no headings, so its guidance cannot be adapted section by section"
        defects.append(Defect("warning", part, message, "ask for the summary under headings such as ## Goal"))
    for title in sorted({t for t in titles if titles.count(t) > 1}):
        defects.append(Defect("warning", part, f"has the heading {title[1]!r} more than once", "rename one of them"))
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        parent = following is not None and following.level > section.level
        if section.level and not section.guidance.strip() and not parent:
            message = f"has no guidance under {section.title!r}"
            defects.append(Defect("warning", part, message, "say there what the section should hold"))
    return defects


def _lint_frame(template: Template) -> list[Defect]:
    if not template.frame:
        return []
    defects = []
    if INSTRUCTIONS not in placeholders(template.frame):
        message = f"has no {{{{ {INSTRUCTIONS} }}}}, so the prompt itself would not be sent"
        defects.append(Defect("error", "frame", message, "add it where first or update should stand"))
    for block in frame_blocks(template.frame):
        names = placeholders(block)
        for name in ("history", INSTRUCTIONS):
            if "previous_summary" in names and name in names:
                message = f"has {{{{ previous_summary }}}} and {{{{ {name} }}}} in one block, which first would lose"
                defects.append(Defect("error", "frame", message, "put a blank line between them"))
    for name in sorted(set(placeholders(template.frame)) - {*PLACEHOLDERS, INSTRUCTIONS}):
        message = f"has {{{{ {name} }}}}, which is no placeholder and stays as it is"
        defects.append(Defect("warning", "frame", message, f"use one of {', '.join(PLACEHOLDERS)}, or take it out"))
    return defects


def _lint_agreement(template: Template) -> list[Defect]:
    first, update = headings(template.first), headings(template.update)
    if first != update and first and update:
        message = "has other headings than first.md, so that later summaries change shape"
        return [Defect("warning", "update", message, "use the same headings in the same order")]
    return []
