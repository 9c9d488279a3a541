"""What all integrations need: a template as people name it, and a library that may not be there."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from recompact.errors import InputError
from recompact.harnesses.exporting import BUDGET as BUDGET
from recompact.values.template import Template, resolve
from recompact.version import install_command

TemplateName = Template | Path | str


def library(module: str, extra: str) -> Any:
    """A module of a library that is an optional extra."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is not installed: {install_command(extra)}") from error


def open_template(template: TemplateName) -> Template:
    return template if isinstance(template, Template) else resolve(str(template), Path.cwd())
