"""A template as people name it: the value, a directory, or "default"."""

from __future__ import annotations

from pathlib import Path

from recompact.template import Template, resolve

BUDGET = 4096  # tokens that a template's {{ budget }} stands for, unless a caller says otherwise

TemplateName = Template | Path | str


def opened(template: TemplateName) -> Template:
    return template if isinstance(template, Template) else resolve(str(template), Path.cwd())
