"""How the simulated compressor lays out its summary: what there is room for, under the headings of the prompt.

Where a kind of fact is demanded, a line says all there is about it. That is what such a demand asks for in so many
words: whoever reads the summary knows no more and no less by it, and it takes room from the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from recompact.simulation.notes import Event, conditions_in, write_call
from recompact.simulation.parameters import Kind
from recompact.suites.pocket import Spec
from recompact.values.template import Section


def detail_of_conditions(task: str) -> str:
    """The conditions one by one, and the request in its own words."""
    return f"- Conditions: {', '.join(conditions_in(task)) or 'as in the request'}. The request says: {task}"


def detail_of_login(login: Event) -> str:
    return f"\n  obtained as {login.given.get('username')}, by {login.app} login"


def detail_of_signature(spec: Spec) -> str:
    """What the documentation says about each parameter and the result."""
    parameters = "; ".join(f"{p.signature} ({p.description or 'as named'})" for p in spec.parameters)
    return f"\n  documented as: {spec.description} Takes {parameters}. Returns {spec.returns}"


def detail_of_change(event: Event) -> str:
    return f"\n  returned {json.dumps(event.result, ensure_ascii=False)}"


def detail_of_error(event: Event) -> str:
    return f"- {write_call(event.name, event.given)}: {event.error}"


def detail_of_identifiers(pages: Sequence[dict[str, Any]]) -> str:
    """The ids and addresses of a list once more, by themselves."""
    rows = [row for page in pages for row in page["items"]]
    ids = [str(row[name]) for row in rows for name in ("id", "email") if name in row]
    return f"\n- identifiers: {', '.join(ids)}" if ids else ""


def detail_of_pages(pages: Sequence[dict[str, Any]]) -> str:
    read = ", ".join(f"page {number} with {len(page['items'])} records" for number, page in enumerate(pages, 1))
    return f"\n- read so far: {read}; there are {pages[-1]['pages']} pages"


def detail_of_open_work(goal: str) -> str:
    return f"\n- [ ] Not settled yet: {goal}"


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
