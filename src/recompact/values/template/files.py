"""A template as a directory of texts: `system.md`, `first.md`, `update.md`, and where needed `frame.md` and
`provenance.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from recompact.errors import InputError
from recompact.values.reading import read_small
from recompact.values.template.defects import lint
from recompact.values.template.value import PARTS, Template

SHIPPED = Path(__file__).parent.parent / "templates"
BUILT_IN = {
    "default": "a brief checkpoint, and what adaptation starts from unless told otherwise",
    "checkpoint": "a checkpoint for another model, with the sections of OpenClaw and pi",
    "structured": "a summary in thirteen sections, as in Hermes",
}
"""The templates that ship with Recompact, by name. All are in our own words; `recompact prompts import` makes
templates of others."""


class TemplateError(InputError):
    """A template that cannot be used; the text names the file and the fix."""


def load(directory: Path) -> Template:
    """Read a template directory; a template with errors is refused."""
    template = read(directory)
    refuse_errors(template, directory)
    return template


def refuse_errors(template: Template, where: Path) -> None:
    for defect in lint(template):
        if defect.level == "error":
            raise TemplateError(f"{where / defect.file} {defect.message}: {defect.fix}")


def read(directory: Path) -> Template:
    """Read a template directory, whatever its defects.

    A missing `system.md` is an empty system prompt: some harnesses have none.
    """
    if not directory.is_dir():
        raise TemplateError(
            f"{directory} is not a template directory: it must hold first.md and update.md; built in are"
            f" {', '.join(BUILT_IN)}"
        )
    texts = {part: _read(directory / f"{part}.md", required=part != "system") for part in PARTS}
    frame = _read(directory / "frame.md", required=False)
    return Template(**texts, frame=frame, provenance=_read_provenance(directory / "provenance.json"))


def default_template() -> Template:
    """The template that is used where none is named."""
    return load(SHIPPED / "default")


def directory_of(name: str, relative_to: Path = Path()) -> Path:
    """Where a template is: one that ships with Recompact, or a directory, relative to the file that names it."""
    return SHIPPED / name if name in BUILT_IN else relative_to / name


def resolve(name: str, relative_to: Path) -> Template:
    """A built-in template by its name, or a template directory, given relative to the file that names it."""
    if "\0" in name:
        raise TemplateError(f"{name!r} has a NUL character, which no path can have: name a template directory")
    return load(directory_of(name, relative_to).resolve())


def _read(path: Path, *, required: bool) -> str:
    try:
        return read_small(path)
    except FileNotFoundError:
        if required:
            raise TemplateError(f"{path} is missing: a template needs first.md and update.md") from None
        return ""
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except (OSError, ValueError) as error:
        raise TemplateError(f"{path} cannot be read: {error}") from None


def _read_provenance(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read(path, required=False) or "{}")
    except json.JSONDecodeError as error:
        raise TemplateError(f"{path} is not valid JSON ({error}): mend it or delete it") from None
    if not isinstance(value, dict):
        raise TemplateError(f"{path} must hold a JSON object: mend it or delete it")
    return value
