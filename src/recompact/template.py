"""A compaction prompt as a value: its three parts, their sections, and what is wrong with it.

A template is a directory of texts (`system.md`, `first.md`, `update.md`, optionally `frame.md` and `provenance.json`).
Parsing loses nothing: the sections of a part, put together again, are the part. Headings are structure, the text under
a heading is guidance; adaptation may change the second and never the first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from recompact.chat import canonical, sha256
from recompact.errors import InputError

PARTS = ("system", "first", "update")
PLACEHOLDERS = ("history", "previous_summary", "task", "prefix", "budget")
REQUIRED = {"system": (), "first": ("history",), "update": ("history", "previous_summary")}
INSTRUCTIONS = "instructions"  # where a frame puts the part that it frames

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class TemplateError(InputError):
    """A template that cannot be used; the text names the file and the fix."""


@dataclass(frozen=True)
class Section:
    """A heading (empty for what stands before the first one) and the guidance under it."""

    heading: str  # the whole heading line with its line end, as written
    level: int
    title: str
    guidance: str

    @property
    def text(self) -> str:
        return self.heading + self.guidance


@dataclass(frozen=True)
class Template:
    """Three parts: what the compressor is (system), how the first summary is made, how a later one is.

    >>> t = Template("You summarize.", "{{ history }}\\n## Goal\\nthe aim", "{{ previous_summary }}{{ history }}\\n## Goal\\n")
    >>> [s.title for s in t.sections("first")], t.sections("first")[1].guidance
    (['', 'Goal'], 'the aim')
    """

    system: str
    first: str
    update: str
    frame: str = ""  # wraps first and update where they have no place for the history themselves
    provenance: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def part(self, name: str) -> str:
        return {"system": self.system, "first": self.first, "update": self.update}[name]

    def sections(self, part: str) -> tuple[Section, ...]:
        return parse_sections(self.part(part))

    @property
    def hash(self) -> str:
        """Of the texts that a compressor sees; where they came from does not change it."""
        return sha256(canonical([self.system, self.first, self.update, self.frame]))

    def framed(self, part: Literal["first", "update"]) -> str:
        """The part as it is sent: itself, or the frame around it where it has no place for the history."""
        text = self.part(part)
        if "history" in placeholders(text) or not self.frame:
            return text
        return _PLACEHOLDER.sub(lambda m: text if m[1] == INSTRUCTIONS else m[0], self.frame)


def placeholders(text: str) -> tuple[str, ...]:
    """The placeholders of a text in order of appearance."""
    return tuple(_PLACEHOLDER.findall(text))


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put values in place of placeholders, in one pass: a value that contains braces stays as it is."""
    return _PLACEHOLDER.sub(lambda m: values.get(m[1], m[0]), text)


def parse_sections(text: str) -> tuple[Section, ...]:
    """Split at Markdown headings that stand outside code fences. Joining the texts again gives the input."""
    sections: list[Section] = []
    heading, level, title = "", 0, ""
    guidance: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        if opened := _FENCE.match(line):
            if not fence:
                fence = opened[1]
            elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        found = None if fence or opened else _HEADING.fullmatch(line.rstrip("\r\n"))
        if found:
            if heading or guidance:
                sections.append(Section(heading, level, title, "".join(guidance)))
            heading, level, title, guidance = line, len(found[1]), found[2], []
        else:
            guidance.append(line)
    if heading or guidance or not sections:
        sections.append(Section(heading, level, title, "".join(guidance)))
    return tuple(sections)


def render_sections(sections: tuple[Section, ...]) -> str:
    return "".join(section.text for section in sections)


@dataclass(frozen=True)
class Finding:
    """One thing that lint has to say. An error makes the template unusable, a warning makes it risky."""

    level: Literal["error", "warning"]
    part: str
    message: str

    def __str__(self) -> str:
        return f"{self.part}: {self.message}"


def lint(template: Template) -> tuple[Finding, ...]:
    """Everything that is wrong with a template, most severe first."""
    found: list[Finding] = []
    for part in PARTS:
        text = template.part(part)
        if not text.strip():
            level: Literal["error", "warning"] = "warning" if part == "system" else "error"
            found.append(Finding(level, part, "is empty"))
            continue
        found.extend(_lint_placeholders(template, part))
        found.extend(_lint_sections(template, part))
    found.extend(_lint_frame(template))
    found.extend(_lint_agreement(template))
    return tuple(sorted(found, key=lambda f: f.level))


def _lint_placeholders(template: Template, part: str) -> list[Finding]:
    sent = template.framed(part) if part in ("first", "update") else template.system  # type: ignore[arg-type]
    used = placeholders(sent)
    found = []
    for name in REQUIRED[part]:
        if name not in used:
            found.append(
                Finding(
                    "error",
                    part,
                    f"has no {{{{ {name} }}}}, so the compressor would not see it: add it here or in frame.md",
                )
            )
    for name in sorted(set(placeholders(template.part(part))) - set(PLACEHOLDERS)):
        known = ", ".join(PLACEHOLDERS)
        found.append(Finding("warning", part, f"{{{{ {name} }}}} is no placeholder and stays as it is; known: {known}"))
    return found


def _lint_sections(template: Template, part: str) -> list[Finding]:
    if part == "system":
        return []
    sections = template.sections(part)
    found = []
    titles = [(s.level, s.title) for s in sections if s.level]
    if not titles:
        found.append(Finding("warning", part, "has no headings, so its guidance cannot be adapted section by section"))
    for title in sorted({t for t in titles if titles.count(t) > 1}):
        found.append(Finding("warning", part, f"heading {title[1]!r} stands there more than once"))
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        parent = following is not None and following.level > section.level
        if section.level and not section.guidance.strip() and not parent:
            found.append(Finding("warning", part, f"section {section.title!r} has no guidance"))
    return found


def _lint_frame(template: Template) -> list[Finding]:
    if template.frame and INSTRUCTIONS not in placeholders(template.frame):
        return [Finding("error", "frame", f"has no {{{{ {INSTRUCTIONS} }}}}, so the prompt itself would not be sent")]
    return []


def _lint_agreement(template: Template) -> list[Finding]:
    first = [(s.level, s.title) for s in template.sections("first") if s.level]
    update = [(s.level, s.title) for s in template.sections("update") if s.level]
    if first != update and first and update:
        return [Finding("warning", "update", "its headings differ from those of first: later summaries change shape")]
    return []


def load(directory: Path) -> Template:
    """Read a template directory; a template with errors is refused.

    A missing `system.md` is an empty system prompt: some harnesses have none.
    """
    if not directory.is_dir():
        raise TemplateError(f"{directory} is no template directory: it must hold first.md and update.md")
    texts = {part: _read(directory / f"{part}.md", required=part != "system") for part in PARTS}
    provenance = directory / "provenance.json"
    template = Template(
        **texts,
        frame=_read(directory / "frame.md", required=False),
        provenance=json.loads(_read(provenance, required=False) or "{}"),
    )
    for finding in lint(template):
        if finding.level == "error":
            raise TemplateError(f"{directory / (finding.part + '.md')} {finding.message}")
    return template


def save(template: Template, directory: Path) -> None:
    """Write a template directory, byte for byte what the value holds."""
    directory.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        (directory / f"{part}.md").write_text(template.part(part), encoding="utf-8", newline="")
    if template.frame:
        (directory / "frame.md").write_text(template.frame, encoding="utf-8", newline="")
    if template.provenance:
        text = json.dumps(template.provenance, indent=2, ensure_ascii=False) + "\n"
        (directory / "provenance.json").write_text(text, encoding="utf-8", newline="")


def default_template() -> Template:
    """The template that ships with Recompact."""
    return load(Path(__file__).parent / "templates" / "default")


def resolve(name: str, relative_to: Path) -> Template:
    """`default`, or a template directory, given relative to the file that names it."""
    return default_template() if name == "default" else load((relative_to / name).resolve())


def _read(path: Path, *, required: bool) -> str:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except FileNotFoundError:
        if required:
            raise TemplateError(f"{path} is missing: a template needs first.md and update.md") from None
        return ""
    except UnicodeDecodeError as error:
        raise TemplateError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start})") from None
