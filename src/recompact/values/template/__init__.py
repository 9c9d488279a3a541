"""A compaction prompt: its value, its directory of texts, what is wrong with it, and how two of them differ."""

from recompact.values.template.defects import Defect, Level, lint
from recompact.values.template.differences import PartDiff, SectionChange, diff
from recompact.values.template.files import (
    BUILT_IN,
    TemplateError,
    default_template,
    directory_of,
    load,
    read,
    refuse_errors,
    resolve,
)
from recompact.values.template.value import (
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
    "BUILT_IN",
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
    "directory_of",
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
    "without_blocks",
]
