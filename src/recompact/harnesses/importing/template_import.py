"""Makes a template from a package's constants, from settings or from files, and writes it whole or not at all.

The template holds the exact texts. Its provenance has no date and no path of this machine, so the same import gives the
same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from recompact.errors import InputError
from recompact.harnesses.importing.constants import PromptConstants, find_installation, read_prompts
from recompact.harnesses.importing.settings import PromptFile, prompt_in
from recompact.values.chat import sha256
from recompact.values.outputs import check_directory, is_ours, replaced_directory
from recompact.values.template import PARTS, REQUIRED, Template, placeholders, read, refuse_errors

IMPORT = "imported template"
"""What the manifest of such a directory calls it."""

# Goes around a prompt that has no place for the conversation. The tags are those that update prompts of harnesses refer
# to; there are no words beside them, so that the compressor reads only what the harness wrote.
FRAME = """\
<conversation>
{{ history }}
</conversation>

<previous-summary>
{{ previous_summary }}
</previous-summary>

{{ instructions }}"""
# A single prompt that serves as first and as update does not mention the previous summary, so the frame has to.
MERGING_FRAME = FRAME.replace(
    "</previous-summary>",
    "</previous-summary>\n"
    "The previous summary stands for all that came before the conversation. What you write replaces both: carry over"
    " what still holds.",
)


def from_package(harness: str, source: PromptConstants, *, package: Path | None, python: str | None) -> Template:
    """The prompts of an installed Python package."""
    installation = find_installation(source, package, python)
    prompts = read_prompts(source, installation)
    origins = {
        part: {"file": source.constants[part][0], "constant": source.constants[part][1], "sha256": sha256(text)}
        for part, text in prompts.items()
    }
    provenance = {
        "harness": harness,
        "package": source.package,
        "version": installation.version,
        "parts": origins,
    }
    # Each of these packages has one prompt for first and later summaries.
    texts = {"system": "", **prompts, "update": prompts["first"]}
    return _frame_template(texts, MERGING_FRAME, provenance)


def from_settings(harness: str, source: PromptFile, path: Path | None) -> Template:
    """The prompt that a user's own file puts in force; it serves for the first summary and for every later one."""
    file, text = prompt_in(source, path)
    texts = {"system": "", "first": text, "update": text}
    origin = {"file": file.name, "constant": source.key, "sha256": sha256(text)}
    provenance = {"harness": harness, "parts": {"first": origin, "update": origin}}
    return _frame_template(texts, MERGING_FRAME, provenance)


def from_files(first: Path, update: Path | None, system: Path | None) -> Template:
    """The prompts in files; one file alone serves for the first summary and for every later one."""
    texts = {"system": _text(system) if system else "", "first": _text(first)}
    if update is None and "previous_summary" in placeholders(texts["first"]):
        raise InputError(
            f"{first} has a place for a previous summary, so it cannot be the prompt for the first one:"
            " give both, as --first FILE --update FILE."
        )
    texts["update"] = _text(update) if update else texts["first"]
    files = {"system": system, "first": first, "update": update or first}
    origins = {part: {"file": path.name, "sha256": sha256(texts[part])} for part, path in files.items() if path}
    frame = FRAME if update else MERGING_FRAME
    return _frame_template(texts, frame, {"parts": origins})


def check_target(directory: Path, *, force: bool) -> None:
    """Refuse a target that is not free; with force, an unmodified earlier import may be replaced."""
    check_directory(directory, IMPORT, "--to")
    if not force and is_ours(directory, IMPORT):
        raise InputError(f"{directory} is not empty: name another directory with --to, or replace it with --force.")


def write(template: Template, directory: Path, *, force: bool) -> None:
    """Write the template directory whole or not at all."""
    refuse_errors(template, directory)
    check_target(directory, force=force)
    with replaced_directory(directory, IMPORT, "--to") as fresh:
        template.write_parts(fresh)
        if read(fresh) != template:
            raise InputError(f"{directory} was not written: the texts do not survive being written and read again.")


def _frame_template(texts: Mapping[str, str], frame: str, provenance: dict[str, Any]) -> Template:
    """A template of these texts, with a frame only if one of them lacks a place for what it needs."""
    complete = all(set(placeholders(texts[part])).issuperset(REQUIRED[part]) for part in PARTS)
    if not complete:
        provenance = {**provenance, "frame": {"written_by": "recompact", "sha256": sha256(frame)}}
    return Template(texts["system"], texts["first"], texts["update"], "" if complete else frame, provenance)


def _text(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}).") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    if not text.strip():
        raise InputError(f"{path} is empty: it must hold a prompt.")
    return text
