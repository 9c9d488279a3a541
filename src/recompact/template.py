"""A compaction prompt as a value: its three parts, their sections, and what is wrong with it.

A template is a directory of texts (`system.md`, `first.md`, `update.md`, optionally `frame.md` and `provenance.json`).
Parsing loses nothing: the sections of a part, put together again, are the part. Headings are structure, the text under
a heading is guidance; adaptation may change the second and never the first. A frame carries what a part has no place
for itself, so that a harness's own prompt can be used with not a byte changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Literal

from recompact.chat import canonical, sha256
from recompact.errors import InputError

Level = Literal["error", "warning"]

PARTS = ("system", "first", "update")
PLACEHOLDERS = ("history", "previous_summary", "task", "prefix", "budget")
REQUIRED = {"system": (), "first": ("history",), "update": ("history", "previous_summary")}
INSTRUCTIONS = "instructions"  # where a frame puts the part that it frames
DEFAULT = Path(__file__).parent / "templates" / "default"

_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # Markdown's line ends; str.splitlines knows more
_BLANK = re.compile(r"((?:\r?\n[ \t]*){2,})")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?!.*`)|~{3,})")
# What other tools write where a conversation or an old summary goes: str.format fields, which nobody fills here.
_FOREIGN = re.compile(
    r"(?<!\{)\{(messages|conversation|conversation_history|history|transcript|previous_summary|existing_summary)\}(?!\})"
)


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

    @property
    def name(self) -> str:
        """The heading without the accidents of its spelling: `## Goal`."""
        return f"{'#' * self.level} {self.title}" if self.level else ""


@dataclass(frozen=True)
class Template:
    """Three parts: what the compressor is (system), how the first summary is made, how a later one is.

    >>> t = Template("You summarize.", "{{ history }}\\n## Goal\\nthe aim", update="...")
    >>> [s.title for s in t.sections("first")], t.sections("first")[1].guidance
    (['', 'Goal'], 'the aim')
    """

    system: str
    first: str
    update: str
    frame: str = ""  # wraps first and update where they have no place for what they need
    provenance: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def part(self, name: str) -> str:
        return {"system": self.system, "first": self.first, "update": self.update, "frame": self.frame}[name]

    def parts(self) -> dict[str, str]:
        return {name: self.part(name) for name in ("system", "first", "update", "frame")}

    def sections(self, part: str) -> tuple[Section, ...]:
        return parse_sections(self.part(part))

    @property
    def hash(self) -> str:
        """Of the texts that a compressor sees; where they came from does not change it."""
        return sha256(canonical([self.system, self.first, self.update, self.frame]))

    def framed(self, part: Literal["first", "update"]) -> str:
        """The part as it is sent: itself if it has all that it needs, or else the frame around it.

        A frame serves both parts. Of its blocks (what stands between blank lines) those are left out that would show
        something absent, which is the previous summary in `first`, or something that the part shows itself.

        >>> frame = "<log>{{ history }}</log>\\n\\n<old>{{ previous_summary }}</old>\\n\\n{{ instructions }}"
        >>> Template("", "Sum up.", "Go on.", frame).framed("first")
        '<log>{{ history }}</log>\\n\\nSum up.'
        """
        text = self.part(part)
        own = set(placeholders(text))
        if not self.frame or own.issuperset(REQUIRED[part]):
            return text
        absent = {"previous_summary"} if part == "first" else set()
        frame = _without_blocks(self.frame, own | absent)
        return _PLACEHOLDER.sub(lambda m: text if m[1] == INSTRUCTIONS else m[0], frame)


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
    for line in _LINE.findall(text):
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


def _without_blocks(frame: str, names: set[str]) -> str:
    """The frame without the blocks that hold one of these placeholders; each goes with the blank lines after it."""
    pieces = _BLANK.split(frame)  # block, blank lines, block, ...
    kept: list[str] = []
    for block, blank in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        if names.isdisjoint(placeholders(block)):
            kept += (block, blank)
    dropped_last = kept and not names.isdisjoint(placeholders(pieces[-1]))
    return "".join(kept[:-1] if dropped_last else kept)


@dataclass(frozen=True)
class Finding:
    """One thing that lint has to say. An error makes the template unusable, a warning makes it risky."""

    level: Level
    part: str
    message: str
    fix: str

    @property
    def file(self) -> str:
        return f"{self.part}.md"

    def __str__(self) -> str:
        return f"{self.file} {self.message}: {self.fix}"


def lint(template: Template) -> tuple[Finding, ...]:
    """Everything that is wrong with a template, most severe first."""
    found: list[Finding] = []
    for part in PARTS:
        if template.part(part).strip():
            found.extend(_lint_placeholders(template, part))
            found.extend(_lint_sections(template, part))
        elif part == "system":
            found.append(
                Finding("warning", part, "is empty", "say what the compressor is, unless your harness sends none")
            )
        else:
            found.append(Finding("error", part, "is empty", "write the prompt there"))
    found.extend(_lint_frame(template))
    found.extend(_lint_agreement(template))
    return tuple(sorted(found, key=lambda f: f.level))


def _lint_placeholders(template: Template, part: str) -> list[Finding]:
    text = template.part(part)
    sent = template.framed(part) if part in ("first", "update") else text  # type: ignore[arg-type]
    found = []
    for name in REQUIRED[part]:
        if name not in placeholders(sent):
            message = f"has no {{{{ {name} }}}}, so the compressor would not see it"
            found.append(Finding("error", part, message, "add it here or in frame.md"))
    for name in sorted(set(placeholders(text)) - set(PLACEHOLDERS)):
        message = f"has {{{{ {name} }}}}, which is no placeholder and stays as it is"
        found.append(Finding("warning", part, message, f"use one of {', '.join(PLACEHOLDERS)}, or take it out"))
    if part == "first" and "previous_summary" in placeholders(text):
        message = "has {{ previous_summary }}, but there is none before the first compaction"
        found.append(Finding("warning", part, message, "take it out"))
    for name in sorted(set(_FOREIGN.findall(text))):
        message = f"has {{{name}}}, the placeholder of another tool, which stays as it is"
        ours = "previous_summary" if "summary" in name else "history"
        found.append(Finding("warning", part, message, f"write {{{{ {ours} }}}}"))
    for treated, expressions in _unresolved(template.provenance, part).items():
        message = f"comes from code that computes {', '.join(expressions)} only when it runs ({treated})"
        found.append(Finding("warning", part, message, "compare it with what your harness really sends"))
    return found


def _unresolved(provenance: Mapping[str, Any], part: str) -> dict[str, list[str]]:
    """What an import could not read off a harness's code, by what it did about it."""
    found: dict[str, list[str]] = {}
    try:
        for hole in provenance["parts"][part]["unresolved"]:
            found.setdefault(str(hole["treated"]), []).append(str(hole["expression"]))
    except (KeyError, TypeError):  # provenance is a file of the user's: any shape may come
        pass
    return found


def _lint_sections(template: Template, part: str) -> list[Finding]:
    if part == "system":
        return []
    sections = template.sections(part)
    found = []
    titles = [(s.level, s.title) for s in sections if s.level]
    if not titles:
        message = "has no headings, so its guidance cannot be adapted section by section"
        found.append(Finding("warning", part, message, "ask for the summary under headings such as ## Goal"))
    for title in sorted({t for t in titles if titles.count(t) > 1}):
        found.append(Finding("warning", part, f"has the heading {title[1]!r} more than once", "rename one of them"))
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        parent = following is not None and following.level > section.level
        if section.level and not section.guidance.strip() and not parent:
            message = f"has no guidance under {section.title!r}"
            found.append(Finding("warning", part, message, "say there what the section should hold"))
    return found


def _lint_frame(template: Template) -> list[Finding]:
    if not template.frame:
        return []
    found = []
    if INSTRUCTIONS not in placeholders(template.frame):
        message = f"has no {{{{ {INSTRUCTIONS} }}}}, so the prompt itself would not be sent"
        found.append(Finding("error", "frame", message, "add it where first or update should stand"))
    for block in _BLANK.split(template.frame)[::2]:
        names = placeholders(block)
        for name in ("history", INSTRUCTIONS):
            if "previous_summary" in names and name in names:
                message = f"has {{{{ previous_summary }}}} and {{{{ {name} }}}} in one block, which first would lose"
                found.append(Finding("error", "frame", message, "put a blank line between them"))
    for name in sorted(set(placeholders(template.frame)) - {*PLACEHOLDERS, INSTRUCTIONS}):
        message = f"has {{{{ {name} }}}}, which is no placeholder and stays as it is"
        found.append(Finding("warning", "frame", message, f"use one of {', '.join(PLACEHOLDERS)}, or take it out"))
    return found


def _lint_agreement(template: Template) -> list[Finding]:
    first, update = headings(template.first), headings(template.update)
    if first != update and first and update:
        message = "has other headings than first.md, so that later summaries change shape"
        return [Finding("warning", "update", message, "use the same headings in the same order")]
    return []


def headings(text: str) -> tuple[str, ...]:
    """The headings of a text with their levels, in order: `## Goal`."""
    return tuple(s.name for s in parse_sections(text) if s.level)


@dataclass(frozen=True)
class SectionChange:
    """A section whose text is not the same in two templates; None where it is missing."""

    heading: str  # empty for what stands before the first one
    before: str | None
    after: str | None


@dataclass(frozen=True)
class PartDiff:
    """What differs in one part: its structure (headings, placeholders) and its sections."""

    part: str
    headings: tuple[tuple[str, ...], tuple[str, ...]]
    placeholders: tuple[tuple[str, ...], tuple[str, ...]]
    changes: tuple[SectionChange, ...]

    @property
    def structure_changed(self) -> bool:
        return self.headings[0] != self.headings[1] or self.placeholders[0] != self.placeholders[1]


def diff(before: Template, after: Template) -> tuple[PartDiff, ...]:
    """The parts that differ, section by section; nothing at all for equal templates."""
    found = []
    for part in (*PARTS, "frame"):
        a, b = before.part(part), after.part(part)
        if a != b:
            used = placeholders(a), placeholders(b)
            found.append(PartDiff(part, (headings(a), headings(b)), used, _section_changes(a, b)))
    return tuple(found)


def _section_changes(before: str, after: str) -> tuple[SectionChange, ...]:
    a, b = parse_sections(before), parse_sections(after)
    matcher = SequenceMatcher(None, [s.name for s in a], [s.name for s in b], autojunk=False)
    changes = []
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(a[i:i_end], b[j:j_end], strict=True)
            changes += [SectionChange(x.name, x.text, y.text) for x, y in pairs if x.text != y.text]
        else:
            changes += [SectionChange(x.name, x.text, None) for x in a[i:i_end] if x.text]
            changes += [SectionChange(y.name, None, y.text) for y in b[j:j_end] if y.text]
    return tuple(changes)


def load(directory: Path) -> Template:
    """Read a template directory; a template with errors is refused."""
    template = read(directory)
    refuse_errors(template, directory)
    return template


def refuse_errors(template: Template, where: Path) -> None:
    for finding in lint(template):
        if finding.level == "error":
            raise TemplateError(f"{where / finding.file} {finding.message}: {finding.fix}")


def read(directory: Path) -> Template:
    """Read a template directory, whatever lint would say about it.

    A missing `system.md` is an empty system prompt: some harnesses have none.
    """
    if not directory.is_dir():
        raise TemplateError(f"{directory} is no template directory: it must hold first.md and update.md")
    texts = {part: _read(directory / f"{part}.md", required=part != "system") for part in PARTS}
    frame = _read(directory / "frame.md", required=False)
    return Template(**texts, frame=frame, provenance=_read_provenance(directory / "provenance.json"))


def save(template: Template, directory: Path) -> None:
    """Write a template directory, byte for byte what the value holds."""
    directory.mkdir(parents=True, exist_ok=True)
    provenance = json.dumps(template.provenance, indent=2, ensure_ascii=False) + "\n" if template.provenance else ""
    texts = {f"{part}.md": template.part(part) for part in PARTS}
    for name, text in {**texts, "frame.md": template.frame, "provenance.json": provenance}.items():
        if text or name in texts:
            (directory / name).write_text(text, encoding="utf-8", newline="")
        else:  # what an earlier template left there would be read as this one's
            (directory / name).unlink(missing_ok=True)


def default_template() -> Template:
    """The template that ships with Recompact."""
    return load(DEFAULT)


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


def _read_provenance(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_read(path, required=False) or "{}")
    except json.JSONDecodeError as error:
        raise TemplateError(f"{path} is not valid JSON ({error}): mend it or delete it") from None
    if not isinstance(value, dict):
        raise TemplateError(f"{path} must hold a JSON object: mend it or delete it")
    return value
