"""A compaction prompt: three parts, each with sections; its directory of texts, and what is wrong with it.

Parsing loses nothing: the sections of a part, put together again, are the part. Headings are structure, the text under
a heading is guidance; adaptation may change the latter and never the former. A frame carries what a part has no
place for itself, so that a harness's own prompt can be used without changing a byte. On disk a template is a directory
with `system.md`, `first.md`, `update.md`, and where needed `frame.md` and `provenance.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from recompact.errors import InputError
from recompact.values.chat import canonical, sha256
from recompact.values.outputs import replaced_directory
from recompact.values.reading import read_small

PARTS = ("system", "first", "update")
PLACEHOLDERS = ("history", "previous_summary", "task", "prefix", "budget")
REQUIRED = {"system": (), "first": ("history",), "update": ("history", "previous_summary")}
INSTRUCTIONS = "instructions"  # where a frame puts the part that it frames

_ALIASES = {"prev_summary": "previous_summary"}  # as the paper's harness and ACON's write it
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # Markdown's line ends; str.splitlines knows more
_BLANK = re.compile(r"((?:\r?\n[ \t]*){2,})")
_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?!.*`)|~{3,})")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*")
_BLOCK = re.compile(r" {0,3}(?:[-*+>|<]|\d{1,9}[.)])|\t| {4}")  # begins a list, a quote, a table, HTML or code


@dataclass(frozen=True)
class Section:
    """A heading (empty for what comes before the first one) and the guidance under it."""

    heading: str  # the whole heading with its line end, as written
    level: int
    title: str
    guidance: str

    @property
    def text(self) -> str:
        return self.heading + self.guidance

    @property
    def name(self) -> str:
        """The heading in its normal form: `## Goal`."""
        return f"{'#' * self.level} {self.title}" if self.level else ""


@dataclass(frozen=True)
class Template:
    """Three parts: what the compressor is (system), how it writes the first summary, and how it updates one.

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
        return {name: self.part(name) for name in (*PARTS, "frame")}

    def sections(self, part: str) -> tuple[Section, ...]:
        return parse_sections(self.part(part))

    @property
    def hash(self) -> str:
        """The hash of the texts that a compressor sees; provenance is not part of it."""
        return sha256(canonical([self.system, self.first, self.update, self.frame]))

    def framed(self, part: Literal["first", "update"]) -> str:
        """The part as it is sent: itself if it has all that it needs, or else the frame around it.

        A frame serves both parts. Its blocks (what is between blank lines) are left out where they would show
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
        frame = without_blocks(self.frame, lambda block: not (own | absent).isdisjoint(placeholders(block)))
        return _PLACEHOLDER.sub(lambda m: text if m[1] == INSTRUCTIONS else m[0], frame)

    def save(self, directory: Path | str) -> None:
        """Write a template directory, byte for byte what the value holds: a new one, or over one that this wrote."""
        with replaced_directory(Path(directory), "template") as fresh:
            self.write_parts(fresh)

    def write_parts(self, directory: Path) -> None:
        """Write the files of a template into an empty directory."""
        provenance = json.dumps(self.provenance, indent=2, ensure_ascii=False) + "\n" if self.provenance else ""
        texts = {f"{part}.md": self.part(part) for part in PARTS}
        for name, text in {**texts, "frame.md": self.frame, "provenance.json": provenance}.items():
            if text or name in texts:
                (directory / name).write_text(text, encoding="utf-8", newline="")


def placeholders(text: str) -> tuple[str, ...]:
    """The placeholders of a text in order of appearance."""
    return tuple(_ALIASES.get(name, name) for name in _PLACEHOLDER.findall(text))


def fill(text: str, values: Mapping[str, str], escape: Callable[[str], str] = str) -> str:
    """Put values in place of placeholders, in one pass: a value that contains braces stays as it is.

    `escape` is applied to everything else, as a text in another language may need it.

    >>> fill("{{ task }} in {x} {{ y }}", {"task": "Go {on}"}, str.upper)
    'Go {on} IN {X} {{ Y }}'
    """
    pieces: list[str] = []
    position = 0
    for match in _PLACEHOLDER.finditer(text):
        if (name := _ALIASES.get(match[1], match[1])) in values:
            pieces += (escape(text[position : match.start()]), values[name])
            position = match.end()
    return "".join([*pieces, escape(text[position:])])


def parse_sections(text: str) -> tuple[Section, ...]:
    """Split at Markdown headings outside code fences: `## Goal`, or a line by itself that is underlined. Joining the
    texts again gives the input.

    >>> [(s.level, s.title, s.guidance) for s in parse_sections("Goal\\n====\\naim\\n## Rest\\n- a\\n---\\n")]
    [(1, 'Goal', 'aim\\n'), (2, 'Rest', '- a\\n---\\n')]
    """
    sections: list[Section] = []
    heading, level, title = "", 0, ""
    guidance: list[str] = []
    fence = ""
    alone = fresh = True  # whether the line before is a paragraph by itself, and whether a paragraph could begin here
    for line in _LINE.findall(text):
        if opened := _FENCE.match(line):
            if not fence:
                fence = opened[1]
            elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
        bare = line.rstrip("\r\n")
        match = None if fence or opened else _HEADING.fullmatch(bare)
        underline = None if fence or opened or not alone or not guidance else _UNDERLINE.fullmatch(bare)
        if match or underline:
            above = guidance.pop() if underline else ""
            if heading or guidance:
                sections.append(Section(heading, level, title, "".join(guidance)))
            level = len(match[1]) if match else 1 + line.strip().startswith("-")
            heading, title, guidance = above + line, match[2] if match else above.strip(), []
        else:
            guidance.append(line)
        paragraph = bool(bare.strip()) and not (fence or opened or match or underline or _BLOCK.match(line))
        alone = paragraph and fresh
        fresh = not bare.strip() or bool(match or underline or (opened and not fence))
    if heading or guidance or not sections:
        sections.append(Section(heading, level, title, "".join(guidance)))
    return tuple(sections)


def render_sections(sections: tuple[Section, ...]) -> str:
    """The text that `parse_sections` was given."""
    return "".join(section.text for section in sections)


def without_blocks(text: str, unwanted: Callable[[str], bool]) -> str:
    """The text without its unwanted blocks; each goes with the blank lines after it."""
    pieces = _BLANK.split(text)  # block, blank lines, block, …
    kept: list[str] = []
    for block, blank in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        if not unwanted(block):
            kept += (block, blank)
    dropped_last = kept and unwanted(pieces[-1])
    return "".join(kept[:-1] if dropped_last else kept)


def frame_blocks(frame: str) -> list[str]:
    """What is between the blank lines of a frame."""
    return _BLANK.split(frame)[::2]


def headings(text: str) -> tuple[str, ...]:
    """The headings of a text with their levels, in order: `## Goal`."""
    return tuple(s.name for s in parse_sections(text) if s.level)


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
        message = f"has {{{{ {name} }}}}, which is not a placeholder and stays as it is"
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
        message = f"has {{{{ {name} }}}}, which is not a placeholder and stays as it is"
        defects.append(Defect("warning", "frame", message, f"use one of {', '.join(PLACEHOLDERS)}, or take it out"))
    return defects


def _lint_agreement(template: Template) -> list[Defect]:
    first, update = headings(template.first), headings(template.update)
    if first != update and first and update:
        message = "has other headings than first.md, so that later summaries change shape"
        return [Defect("warning", "update", message, "use the same headings in the same order")]
    return []


SHIPPED = Path(__file__).parent / "templates"
BUILT_IN = {
    "default": "a brief checkpoint, and what adaptation starts from unless told otherwise",
    "checkpoint": "a checkpoint for another model, with the sections of OpenClaw and pi",
    "structured": "a summary in thirteen sections, as in Hermes",
    "observation": 'for [compressor] scope = "observation": one result of a tool, shortened',
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
        raise TemplateError(f"{path} is not valid JSON ({error}): repair it or delete it") from None
    if not isinstance(value, dict):
        raise TemplateError(f"{path} must hold a JSON object: repair it or delete it")
    return value
