"""Makes a template from a harness's installed files, or from the user's files, and writes it whole or not at all.

The template holds the exact texts. Its provenance has no date and no path of this machine, so the same import gives the
same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recompact.errors import InputError
from recompact.harnesses.importing.packages import PromptPackage, find
from recompact.harnesses.importing.recognition import EXTRAS, Prompt, find_prompts
from recompact.harnesses.importing.settings import PromptFile, prompt_in
from recompact.values.chat import sha256
from recompact.values.outputs import check_directory, is_ours, replaced_directory
from recompact.values.template import PARTS, REQUIRED, Template, placeholders, read, refuse_errors
from recompact.values.template.files import write_parts

IMPORT = "imported template"
"""What the manifest of such a directory calls it."""

# Goes around a prompt that has no place for the conversation. The tags are those that update prompts of harnesses refer
# to; there are no words, so that nothing is said that the harness does not say.
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


@dataclass(frozen=True)
class ImportedTemplate:
    """A template, and by name the harness's other prompts, which are not part of a template."""

    template: Template
    extras: Mapping[str, str]


def from_package(harness: PromptPackage, *, package: Path | None, python: str | None, cwd: Path) -> ImportedTemplate:
    """The prompts of an installed harness."""
    installation = find(harness, package=package, python=python, cwd=cwd)
    prompts = find_prompts(harness, installation)
    parts = {role: prompt for role, prompt in prompts.items() if role in PARTS}
    extras = {role: prompt for role, prompt in prompts.items() if role in EXTRAS}
    provenance: dict[str, Any] = {
        "harness": harness.name,
        "package": installation.name,
        "version": installation.version,
    }
    provenance["parts"] = {role: _origin(prompt) for role, prompt in parts.items()}
    if extras:
        provenance["extras"] = {role: _origin(prompt) for role, prompt in extras.items()}
    if harness.notes:
        provenance["notes"] = list(harness.notes)
    texts = {role: parts[role].text if role in parts else "" for role in PARTS}
    frame = FRAME
    if "update" not in parts:  # one prompt for first and later summaries
        texts["update"], frame = texts["first"], MERGING_FRAME
    template = _frame_template(texts, frame, provenance)
    return ImportedTemplate(template, {role: prompt.text for role, prompt in extras.items()})


def from_settings(harness: str, source: PromptFile, path: Path | None) -> ImportedTemplate:
    """The prompt that a user's own file puts in force; it serves for the first summary and for every later one."""
    file, text = prompt_in(source, path)
    texts = {"system": "", "first": text, "update": text}
    origin = {"file": file.name, "constant": source.key, "sha256": sha256(text)}
    provenance = {"harness": harness, "parts": {"first": origin, "update": origin}}
    return ImportedTemplate(_frame_template(texts, MERGING_FRAME, provenance), {})


def from_files(first: Path, update: Path | None, system: Path | None) -> ImportedTemplate:
    """The prompts in files; one file alone serves for the first summary and for every later one."""
    texts = {"system": _text(system) if system else "", "first": _text(first)}
    if update is None and "previous_summary" in placeholders(texts["first"]):
        raise InputError(
            f"{first} has a place for a previous summary, so it is no prompt for the first one:"
            " give both, as --first FILE --update FILE."
        )
    texts["update"] = _text(update) if update else texts["first"]
    files = {"system": system, "first": first, "update": update or first}
    origins = {part: {"file": path.name, "sha256": sha256(texts[part])} for part, path in files.items() if path}
    frame = FRAME if update else MERGING_FRAME
    return ImportedTemplate(_frame_template(texts, frame, {"parts": origins}), {})


def check_target(directory: Path, *, force: bool) -> None:
    """Refuse a target that is not free; with force, an unmodified earlier import may be replaced."""
    check_directory(directory, IMPORT, "--to")
    if not force and is_ours(directory, IMPORT):
        raise InputError(f"{directory} is not empty: name another directory with --to, or replace it with --force.")


def write(imported: ImportedTemplate, directory: Path, *, force: bool) -> None:
    """Write the template directory whole or not at all."""
    refuse_errors(imported.template, directory)
    check_target(directory, force=force)
    with replaced_directory(directory, IMPORT, "--to") as fresh:
        write_parts(imported.template, fresh)
        for name, text in imported.extras.items():
            (fresh / f"{name}.md").write_text(text, encoding="utf-8", newline="")
        if read(fresh) != imported.template:
            raise InputError(f"{directory} was not written: the texts do not survive being written and read again.")


def _frame_template(texts: Mapping[str, str], frame: str, provenance: dict[str, Any]) -> Template:
    """A template of these texts, with a frame only if one of them lacks a place for what it needs."""
    complete = all(set(placeholders(texts[part])).issuperset(REQUIRED[part]) for part in PARTS)
    if not complete:
        provenance = {**provenance, "frame": {"written_by": "recompact", "sha256": sha256(frame)}}
    return Template(texts["system"], texts["first"], texts["update"], "" if complete else frame, provenance)


def _origin(prompt: Prompt) -> dict[str, Any]:
    """Where a prompt was found, as provenance records it, without empty entries."""
    entries = {
        "file": prompt.file,
        "constant": prompt.source.constant,
        "offset": prompt.source.offset,
        "sha256": sha256(prompt.text),
        "placeholders": dict(prompt.rendered.placeholders),
        "unresolved": [{"expression": e, "treated": t} for e, t in prompt.rendered.unresolved.items()],
        "notes": list(prompt.source.notes),
        "also_in": list(prompt.same),
        "another_text_in": list(prompt.other),
    }
    return {key: value for key, value in entries.items() if value not in ("", [], {})}


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
