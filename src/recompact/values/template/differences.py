"""In which parts and sections two templates differ."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import SequenceMatcher

from recompact.values.template.value import PARTS, Template, headings, parse_sections, placeholders


@dataclass(frozen=True)
class SectionChange:
    """A section whose text is not the same in two templates; None where it is missing."""

    heading: str  # empty for what comes before the first one
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
    parts = []
    for part in (*PARTS, "frame"):
        a, b = before.part(part), after.part(part)
        if a != b:
            used = placeholders(a), placeholders(b)
            parts.append(PartDiff(part, (headings(a), headings(b)), used, _section_changes(a, b)))
    return tuple(parts)


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
