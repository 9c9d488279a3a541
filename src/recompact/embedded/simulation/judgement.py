"""What a simulated optimizer notices in texts and how it words it, the same for every method that asks it.

Error rates and clauses are here so that no method has its own.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from recompact.embedded.simulation.agent import claims
from recompact.embedded.simulation.guidance import KINDS, Kind
from recompact.embedded.simulation.notes import SPECS, Event, events_in, read_notes
from recompact.template import Section, parse_sections, render_sections


@dataclass(frozen=True)
class Judgement:
    """How an optimizer errs."""

    wrong_cause: float = 0.15  # names a cause that is not the first one
    takes_up: float = 0.85  # of the kinds that were diagnosed, per kind
    weak_clause: float = 0.25  # words a clause so that it asks for little
    steers_agent: float = 0.15  # adds a clause that tells the agent how to act; in feedback, a remedy that does
    restructures: float = 0.3  # gives sections other headings, where the prompt leaves that open


MECHANISMS: Mapping[Kind, str] = {
    "predicate": "widened set",
    "set": "omitted state",
    "identifier": "omitted state",
    "token": "omitted state",
    "signature": "omitted state",
    "page": "misrepresented progress",
    "mutation": "misrepresented progress",
    "open": "invented step",
    "error": "omitted state",
}

CLAUSES: Mapping[Kind, tuple[str, str]] = {  # demanded in so many words, and merely mentioned
    "predicate": (
        "Keep every condition of the task exactly: who, since when, which ones. Never widen a restricted set.",
        "Mind the conditions.",
    ),
    "set": (
        "Keep the records that were retrieved, row by row; never replace a qualifying subset by a total.",
        "Mention retrieved records.",
    ),
    "identifier": ("Keep every identifier exactly as it appeared.", "Mention references."),
    "token": ("Keep every usable token and password exactly, with the app it belongs to.", "Say which login was made."),
    "signature": (
        "Keep the exact signature of every API that was looked up, with all its parameters.",
        "Say which documentation was read.",
    ),
    "page": ("Record exactly which pages of a list were read and how many there are.", "Mention pages."),
    "mutation": (
        "Record every change that was made, each exactly once with all its arguments: it must never be made again.",
        "Mention finished work.",
    ),
    "open": (
        "Keep every item that is still unresolved among the next steps, and never present it as done.",
        "Mention what is pending.",
    ),
    "error": ("Keep every error text exactly, with what caused it.", "Mention errors."),
}
SECTIONS: Mapping[Kind, str] = {
    "predicate": "Constraints",
    "set": "Context",
    "identifier": "Context",
    "token": "Context",
    "signature": "Context",
    "page": "Done",
    "mutation": "Done",
    "open": "Next",
    "error": "Blocked",
}
POLICY = "Before finishing, check all results once more and repeat any call that looks doubtful."


Suspect = tuple[Kind, str, str]
"""A kind of fact, a quote from the segment, a quote from the summary."""


def rank(candidates: Sequence[Suspect], redone: Counter[Kind], rng: Random, judgement: Judgement) -> list[Suspect]:
    """The three most telling suspects: what was done again counts, and what makes a run fail outright."""
    fatal = ("predicate", "open", "mutation")
    order = sorted(candidates, key=lambda suspect: -(redone[suspect[0]] + (2 if suspect[0] in fatal else 0)))
    if len(order) > 1 and rng.random() < judgement.wrong_cause:
        order.insert(0, order.pop(rng.randrange(1, len(order))))
    return order[:3]


def suspects(segment: str, previous: str, summary: str) -> list[Suspect]:
    """What did not survive the compaction, and what the summary made up."""
    notes = read_notes(summary)
    before = read_notes(previous)
    losses: list[Suspect] = []
    for event in events_in(segment):
        quote = _quote(segment, event)
        if event.error:
            continue
        if event.api == "login" and event.app not in notes.tokens:
            losses.append(("token", quote, mention(summary, event.app)))
        elif event.name == "documentation.show_api":
            name = f"{event.given.get('app')}.{event.given.get('api')}"
            if name not in notes.signatures:
                losses.append(("signature", quote, mention(summary, name)))
        elif event.changes and not notes.says_done(event.name, event.given):
            losses.append(("mutation", quote, mention(summary, "[x]")))
        elif event.app not in ("documentation", "account") and event.api != "login" and not event.changes:
            kept = notes.results.get((event.name, event.arguments))
            if kept is None:
                losses.append(("set", quote, mention(summary, event.name)))
            elif isinstance(event.result, dict) and kept.get("pages", 0) < event.result.get("pages", 0):
                losses.append(("page", quote, mention(summary, event.name)))
    for app in sorted(before.tokens.keys() - notes.tokens.keys()):
        losses.append(("token", mention(previous, before.tokens[app]), mention(summary, app)))
    losses += [("open", "", mention(summary, claim)) for claim in claims(summary)]
    if "conditions left out" in summary or not goal(summary):
        losses.append(("predicate", "", goal(summary)))
    return losses


def kind_of(app: str, api: str) -> Kind:
    if app == "documentation":
        return "signature"
    if api == "login" or app == "account":
        return "token"
    spec = SPECS.get(f"{app}.{api}")
    return "mutation" if spec is not None and spec.changes else "set"


def _quote(segment: str, event: Event) -> str:
    """The line of the segment that has the call."""
    lines = [line for line in segment.splitlines() if line.startswith("-> ") and f'"{event.api}"' in line]
    return lines[-1] if lines else ""


def mention(summary: str, what: str) -> str:
    return next((line for line in summary.splitlines() if what and what in line), "")


def goal(summary: str) -> str:
    lines = [line for line in summary.splitlines() if line.strip() and not line.startswith("#")]
    return lines[0] if lines else ""


# --- clauses


def entries_in(prompt: str, tag: str) -> list[dict[str, Any]]:
    """The JSON objects of a block, one a line."""
    entries = []
    for line in block(prompt, tag).splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries


def cited_kinds(entries: Sequence[Mapping[str, Any]], name: str) -> dict[Kind, list[str]]:
    """The kinds that the entries' first findings name, most frequent first, each with the entries that name it."""
    cited: dict[Kind, list[str]] = {}
    for entry in entries:
        try:
            kinds = [f["kind"] for f in entry["findings"][:2] if f["kind"] in KINDS]
        except (KeyError, TypeError):
            continue
        for kind in kinds:
            cited.setdefault(kind, []).append(str(entry.get(name, "")))
    return {kind: cited[kind] for kind in sorted(cited, key=lambda k: -len(cited[k]))}


def take_up(
    entries: Sequence[Mapping[str, Any]], name: str, cites: str, rng: Random, judgement: Judgement
) -> list[dict[str, Any]]:
    """A clause for each kind that is named, except those that the optimizer passes over."""
    rules: list[dict[str, Any]] = []
    for kind, named_by in cited_kinds(entries, name).items():
        if rng.random() < judgement.takes_up:
            strong, weak = CLAUSES[kind]
            clause = weak if rng.random() < judgement.weak_clause else strong
            rules.append({"clause": clause, "section": SECTIONS[kind], cites: sorted(set(named_by))})
    return rules


def with_clauses(part: str, rules: Sequence[Mapping[str, Any]]) -> str:
    """The part with each clause as a line of the section it belongs to; headings stay as they are."""
    sections = list(parse_sections(part))
    for rule in rules:
        at = next((n for n, s in enumerate(sections) if s.level and rule["section"] in s.title), len(sections) - 1)
        section = sections[at]
        guidance = f"- {rule['clause']}\n{section.guidance}"
        sections[at] = Section(section.heading, section.level, section.title, guidance)
    return render_sections(tuple(sections))


def block(text: str, tag: str) -> str:
    match = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return match[1] if match else ""


_LABEL = re.compile(r"(?m)^([A-Z]\d+(?:\.\d+)?)\| ?")


def unlabelled(text: str) -> str:
    """A text without the labels that its lines begin with."""
    return _LABEL.sub("", text)


def labels_of(prompt: str, tag: str, quote: str) -> list[str]:
    """The labels of the lines of a block that a quote was taken from."""
    matches = [(_LABEL.match(line), line) for line in block(prompt, tag).splitlines()]
    return [match[1] for match, line in matches if match and quote and line[match.end() :] == quote][:1]
