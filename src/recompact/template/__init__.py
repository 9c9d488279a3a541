"""A compaction prompt: its value, its directory of texts, what is wrong with it, and how two of them differ."""

from recompact.template.defects import Defect, Level, lint
from recompact.template.differences import PartDiff, SectionChange, diff
from recompact.template.files import DEFAULT, TemplateError, default_template, load, read, refuse_errors, resolve, save
from recompact.template.value import (
    INSTRUCTIONS,
    PARTS,
    PLACEHOLDERS,
    REQUIRED,
    Section,
    Template,
    fill,
    headings,
    parse_sections,
    placeholders,
    render_sections,
    without_blocks,
)

__all__ = [
    "DEFAULT",
    "INSTRUCTIONS",
    "PARTS",
    "PLACEHOLDERS",
    "REQUIRED",
    "Defect",
    "Level",
    "PartDiff",
    "Section",
    "SectionChange",
    "Template",
    "TemplateError",
    "default_template",
    "diff",
    "fill",
    "headings",
    "lint",
    "load",
    "parse_sections",
    "placeholders",
    "read",
    "refuse_errors",
    "render_sections",
    "resolve",
    "save",
    "without_blocks",
]
