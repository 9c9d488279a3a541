"""How the simulated compressor lays out its summary: what there is room for, under the headings of the prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from recompact.simulation.parameters import Kind
from recompact.values.template import Section


@dataclass(frozen=True)
class Item:
    """One line (or table) of a summary: where it belongs, and how much it is worth when room is short."""

    place: str  # goal, constraint, done, progress, blocked, decision, next, context
    text: str
    worth: float
    kind: Kind | None = None  # of the fact, where guidance can demand it


def fit(items: list[Item], limit: int, rng: Random) -> list[Item]:
    """Give up what is worth least until the rest fits, by the compressor's own rough idea of length."""
    kept = sorted(items, key=lambda item: -(item.worth + rng.gauss(0, 0.7)))
    length = 60 + sum(len(item.text) // 3 for item in kept)
    while len(kept) > 1 and length > limit:
        length -= len(kept.pop().text) // 3
    chosen = set(map(id, kept))
    return [item for item in items if id(item) in chosen]


_PLACES = {
    "goal": r"goal|objective|intent|task|request|mission",
    "constraint": r"constraint|preference|requirement|rule",
    "done": r"done|complete|finished|accomplish|ledger|progress",
    "progress": r"in progress|current|active|ongoing",
    "blocked": r"block|fail|error|issue|problem",
    "decision": r"decision|conclusion|choice",
    "next": r"next|remain|pending|to ?do|open|plan",
    "context": r"context|state|reference|data|fact|artifact|identifier|table|critical",
}


def render(sections: tuple[Section, ...], items: list[Item]) -> str:
    """Put items under the headings that fit them; where there are none, one after the other."""
    if not sections:
        return "\n".join(item.text for item in items)
    parents = {n for n, s in enumerate(sections[:-1]) if sections[n + 1].level > s.level}
    under: dict[int, list[str]] = {n: [] for n in range(len(sections))}
    for item in items:
        under[_place(item.place, sections, parents)].append(item.text)
    out = []
    for number, section in enumerate(sections):
        out.append(section.heading.rstrip())
        if number not in parents:
            out.extend(under[number] or ["(none)"])
    return "\n".join(out)


def _place(place: str, sections: tuple[Section, ...], parents: set[int]) -> int:
    leaves = [n for n in range(len(sections)) if n not in parents]
    for wanted in (place, "context", "done"):
        for number in leaves:
            if re.search(rf"(?i)\b(?:{_PLACES[wanted]})", sections[number].title):
                return number
    return leaves[-1]
