"""Clauses as separate lines under the headings of a template, which otherwise stays as it is."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

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
