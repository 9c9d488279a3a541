"""A template's own guidance, edited by rule: clauses put in as lines under its headings, and absolutes taken out.

"Exactly" makes a compressor write so much of one kind that others must go. A sentence keeps what it asks for and loses
only the absolute, and only where no tested cause is of a kind that it names.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from recompact.adaptation.missing_facts import Kind, kinds_named
from recompact.values.candidate import Clause
from recompact.values.template import Section, Template, parse_sections, render_sections


def with_lines(template: Template, chosen: Callable[[Sequence[Section]], Iterable[tuple[int, str]]]) -> Template:
    """The template with lines put in, in both parts; `chosen` says which line goes under which section."""
    parts = {part: _insert_lines(template.part(part), chosen) for part in ("first", "update")}
    return replace(template, first=parts["first"], update=parts["update"], provenance={})


def with_clauses_in_place(template: Template, clauses: Sequence[Clause]) -> Template:
    """The template with each clause under the section that it names."""
    return with_lines(
        template, lambda sections: [(place_of(c.section, sections), " ".join(c.text.split())) for c in clauses]
    )


def leaves(sections: Sequence[Section]) -> list[int]:
    """The sections that hold text: those with a heading and no deeper heading right below."""
    return [
        at
        for at, section in enumerate(sections)
        if section.level and (at + 1 == len(sections) or sections[at + 1].level <= section.level)
    ]


def place_of(title: str, sections: Sequence[Section]) -> int:
    """The section with this title, or the nearest one; below a title without text of its own, the first that has some;
    the last one where nothing is near."""
    holding = leaves(sections)
    if not holding:
        return len(sections) - 1
    titles = {section.title.casefold(): at for at, section in enumerate(sections) if section.level}
    near = difflib.get_close_matches(title.strip("# \t").casefold(), titles, 1)
    return next(leaf for leaf in holding if leaf >= titles[near[0]]) if near else holding[-1]


def _insert_lines(text: str, chosen: Callable[[Sequence[Section]], Iterable[tuple[int, str]]]) -> str:
    sections = list(parse_sections(text))
    places: dict[int, list[str]] = {}
    for at, line in chosen(sections):
        places.setdefault(at, []).append(line)
    for at, lines in places.items():
        sections[at] = _under(sections[at], lines)
    return render_sections(tuple(sections))


def _under(section: Section, lines: Sequence[str]) -> Section:
    """A section with lines below its heading, or at its end where it has no heading."""
    end = "\r\n" if "\r\n" in section.text else "\n"
    listed = "".join(f"- {line}{end}" for line in lines)
    if not section.level:
        gap = "" if not section.guidance or section.guidance.endswith("\n") else end
        return replace(section, guidance=f"{section.guidance}{gap}{listed}")
    gap = "" if section.heading.endswith(("\n", "\r")) else end
    return replace(section, heading=section.heading + gap, guidance=listed + section.guidance)


_SENTENCE = re.compile(r"[^.;:!?\n]+[.;:!?]*")
_ABSOLUTE = re.compile(
    r"(?i)[ ,]*\b(?:exactly|precisely|verbatim|literally|word for word|character for character|in full"
    r"|without exception)\b"
)


def without_absolutes(
    template: Template, tested: Collection[Kind] = ()
) -> tuple[Template, tuple[tuple[str, str], ...]]:
    """The template without absolutes for kinds that no tested cause has, and the changed sentences by section.

    >>> soften_sentence("Write paths and error texts exactly as they appeared.", ())
    'Write paths and error texts as they appeared.'
    >>> soften_sentence("Write paths and error texts exactly as they appeared.", ("path",))
    'Write paths and error texts exactly as they appeared.'
    """
    changed: dict[tuple[str, str], None] = {}
    parts = {part: _soften(template.part(part), tested, changed) for part in ("first", "update")}
    if not changed:
        return template, ()
    return replace(template, first=parts["first"], update=parts["update"], provenance={}), tuple(changed)


def soften_sentence(sentence: str, tested: Collection[Kind]) -> str:
    """The sentence without its absolutes, unless it names no kind, or one that a tested cause has."""
    named = kinds_named(sentence)
    return _ABSOLUTE.sub("", sentence) if named and not set(named) & set(tested) else sentence


def _soften(text: str, tested: Collection[Kind], changed: dict[tuple[str, str], None]) -> str:
    sections = []
    for section in parse_sections(text):

        def soften(match: re.Match[str], title: str = section.title) -> str:
            softer = soften_sentence(match[0], tested)
            if softer != match[0]:
                changed[title, softer.strip()] = None
            return softer

        own = _SENTENCE.sub(soften, section.guidance) if section.level else section.guidance
        sections.append(replace(section, guidance=own))
    return render_sections(tuple(sections))
