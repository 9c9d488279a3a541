"""Tells which texts in a harness's files are its compaction prompts, and what each is for.

A role is read off the constant's name where the bundle kept it, and otherwise off the structure: the headings that a
summary is to have, and a few words. What a file leaves open is refused, never guessed; where files
differ, the others are named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter

from recompact.errors import InputError
from recompact.harnesses.importing import javascript, python
from recompact.harnesses.importing.packages import SUFFIXES, Constant, Package, PromptPackage
from recompact.harnesses.importing.texts import RenderedText, SourceText
from recompact.values.template import parse_sections, placeholders
from recompact.values.texts import quantity

EXTRAS = ("split-turn", "branch")  # kept beside the template; our compressors do not send them
_ROLES = ("system", "first", "update", *EXTRAS)

_NAMES = {
    "system": re.compile(r"(?i)summari[sz]ation_?system_?prompt"),
    "first": re.compile(r"(?i)(initial_?|first_?)?summari[sz]ation_?prompt"),
    "update": re.compile(r"(?i)update_?summari[sz]ation_?prompt"),
    "split-turn": re.compile(r"(?i)turn_?prefix_?summari[sz]ation_?prompt"),
    "branch": re.compile(r"(?i)branch_?summar(y|i[sz]ation)_?prompt"),
}
_CHECKPOINT = {"goal", "progress", "key decisions", "next steps", "critical context", "blocked", "completed actions"}
_PREVIOUS = re.compile(r"(?i)\b(previous|existing)[ -](\w+ )?summar")


@dataclass(frozen=True)
class Prompt:
    """A compaction prompt as found in a package."""

    role: str
    file: str  # relative to the package
    source: SourceText
    rendered: RenderedText
    named: bool  # its role was read off its name
    same: tuple[str, ...] = ()  # other files with the same text
    other: tuple[str, ...] = ()  # other files with another text for the same role

    @property
    def text(self) -> str:
        return self.rendered.text


def find_prompts(harness: PromptPackage, package: Package) -> dict[str, Prompt]:
    """The prompts of a package by role."""
    if harness.constants:
        return {constant.part: _prompt_by_name(harness, package, constant) for constant in harness.constants}
    by_file: dict[str, list[Prompt]] = {}
    sizes: dict[str, int] = {}
    for path in package.files:
        data = _bytes(path)
        name = path.relative_to(package.root).as_posix()
        prompts = _one_per_role(_prompts(harness, name, data), name)
        if prompts:
            by_file[name], sizes[name] = prompts, len(data)
    # Bundles repeat themselves. The text with the fewest gaps is taken, first from the file that holds most of what is
    # needed, then from the smallest; all others are compared with it.
    complete = {name: sum(p.role in harness.parts for p in prompts) for name, prompts in by_file.items()}
    ranked = sorted(by_file, key=lambda name: (-complete[name], sizes[name], name))
    ranked[1:] = sorted(ranked[1:], key=lambda name: (sizes[name], name))
    chosen = {}
    for role in _ROLES:
        of_role = [prompt for name in ranked for prompt in by_file[name] if prompt.role == role]
        if of_role:
            chosen[role] = _with_others(of_role)
    missing = [role for role in harness.parts if role not in chosen]
    if missing:
        raise InputError(_not_recognised(harness, package, missing, ranked))
    return chosen


def _prompt_by_name(harness: PromptPackage, package: Package, constant: Constant) -> Prompt:
    """The prompt that is bound to a name in a file."""
    for path in package.files:
        name = path.relative_to(package.root).as_posix()
        if name.endswith(constant.file):
            for source in python.texts(_bytes(path)):
                if source.constant == constant.name:
                    rendered = source.render(dict(harness.names))
                    if harness.fields is not None:
                        rendered = replace(rendered, text=undo_format(rendered.text, dict(harness.fields)))
                    return Prompt(constant.part, name, source, rendered, named=True)
    raise InputError(_not_recognised(harness, package, [constant.part], [constant.file]))


def undo_format(text: str, fields: Mapping[str, str]) -> str:
    """A text for `str.format` as one of ours: single braces, and our placeholders in place of its fields.

    >>> undo_format("Sum {messages} up as {{}}.", {"messages": "history"})
    'Sum {{ history }} up as {}.'
    """
    pieces: list[str] = []
    try:
        for literal, name, _, _ in Formatter().parse(text):
            pieces += (literal, "" if name is None else f"{{{{ {fields.get(name, name)} }}}}")
    except ValueError:  # not such a text after all
        return text
    return "".join(pieces)


def role_of(text: str, constant: str) -> tuple[str, bool] | None:
    """The role of a prompt, and whether its name gave it; None if it is not a compaction prompt."""
    for role, pattern in _NAMES.items():
        if pattern.fullmatch(constant):
            return role, True
    sections = parse_sections(text)
    titles = {section.title.lower().removeprefix("historical ") for section in sections if section.level >= 2}
    lead = sections[0].guidance if not sections[0].level else ""
    if len(titles & _CHECKPOINT) >= 3:
        if re.search(r"(?i)\bbranch\b", lead):
            return "branch", False
        updates = "previous_summary" in placeholders(text) or _PREVIOUS.search(lead)
        return ("update" if updates else "first"), False
    if "original request" in titles:
        return "split-turn", False
    words = ("summariz", "conversation", "format")
    if not titles and text.startswith("You are") and all(word in text.lower() for word in words):
        return "system", False
    return None


def _prompts(harness: PromptPackage, file: str, data: bytes) -> list[Prompt]:
    scanner = javascript if harness.language == "javascript" else python
    if not scanner.worth_reading(data):
        return []
    names = dict(harness.names)
    prompts = []
    for source in scanner.texts(data):
        rendered = source.render(names)
        role = role_of(rendered.text, source.constant)
        # Where a harness builds its prompt around the history, a text without the history is only a piece of it.
        built = role is None or role[0] not in ("first", "update") or "history" not in names.values()
        if role and (built or "history" in placeholders(rendered.text)):
            prompts.append(Prompt(role[0], file, source, rendered, role[1]))
    return prompts


def _one_per_role(prompts: Sequence[Prompt], file: str) -> list[Prompt]:
    """One file's prompts without the pieces that they consist of; two that remain for one role are refused.

    A prompt that is known by its name comes first, then the one with the fewest holes.
    """
    kept = []
    for role in _ROLES:
        of_role = [p for p in prompts if p.role == role]
        best = [p for p in of_role if p.named] or of_role
        fewest = min((len(p.rendered.unresolved) for p in best), default=0)
        best = [p for p in best if len(p.rendered.unresolved) == fewest]
        best = [p for p in best if not any(p.text in q.text and p.text != q.text for q in best)]
        if len({p.text for p in best}) > 1:
            places = ", ".join(f"{p.source.constant or 'no name'} at byte {p.source.offset}" for p in best)
            raise InputError(
                f"{file} has more than one text that may be the prompt for `{role}` ({places}), so none was taken."
                " Save the right ones as files and import those: `recompact prompts import --first FILE --update FILE`."
            )
        kept += [_with_container_notes(p, of_role) for p in best[:1]]
    return kept


def _with_container_notes(prompt: Prompt, others: Sequence[Prompt]) -> Prompt:
    """Note longer texts that contain the prompt: only the running code knows which of them is sent."""
    longer = [p for p in others if prompt.text in p.text and prompt.text != p.text]
    notes = tuple(f"the code also puts it into a longer text (byte {p.source.offset})" for p in longer)
    source = replace(prompt.source, notes=(*prompt.source.notes, *notes))
    return replace(prompt, source=source)


def _with_others(prompts: Sequence[Prompt]) -> Prompt:
    """The prompt for a role, the most fully resolved one, with the files that agree and those that do not."""
    first = min(prompts, key=lambda p: len(p.rendered.unresolved))
    same = tuple(p.file for p in prompts if p is not first and p.text == first.text)
    other = tuple(p.file for p in prompts if p.text != first.text)
    return replace(first, same=same, other=other)


def _not_recognised(harness: PromptPackage, package: Package, missing: Iterable[str], near: Sequence[str]) -> str:
    kinds = ", ".join(SUFFIXES[harness.language])
    hint = f" Nearest: {', '.join(near[:5])}." if near else ""
    return (
        f"The prompts for {', '.join(missing)} were not recognised in {package.name} {package.version}: searched"
        f" {quantity(len(package.files), 'file')} ({kinds}) below {package.root}.{hint} Save the prompts as files and"
        " import those: `recompact prompts import --first FILE --update FILE --system FILE --to DIR`."
    )


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
