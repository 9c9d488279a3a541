"""What a simulated optimizer notices in texts and how it puts it, the same for every method that asks it.

It says the same in many wordings, none of which a compressor has been told of.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from random import Random
from typing import Any

from recompact.simulation.agent import claims
from recompact.simulation.guidance import kinds_in, orders_in
from recompact.simulation.model import block
from recompact.simulation.notes import SPECS, Event, Notes, conditions_in, events_in, read_notes
from recompact.simulation.parameters import KINDS, Judgement, Kind
from recompact.values.template import Section, parse_sections, render_sections

_WORDINGS = tomllib.loads(files("recompact.simulation").joinpath("wordings.toml").read_text(encoding="utf-8"))


def write_clause(kind: Kind, strong: bool, rng: Random) -> str:
    """A clause that demands a kind of fact, or one that merely mentions it."""
    own = _WORDINGS["kinds"][kind]
    if strong:
        return str(rng.choice(_WORDINGS["demands"]).format(rng.choice(own["demanded"])))
    return str(rng.choice(_WORDINGS["mentions"]).format(own["loose"]))


def write_name(kind: Kind, rng: Random) -> str:
    """A kind of fact in a few words."""
    return str(rng.choice(_WORDINGS["kinds"][kind]["names"]))


def write_order(rng: Random) -> str:
    """A rule that is meant for the agent and not for its compressor."""
    return str(rng.choice(_WORDINGS["orders"]))


def kind_meant(text: str) -> Kind | None:
    """The kind of fact that a few words mean, if any."""
    if text in KINDS:
        return next(kind for kind in KINDS if kind == text)
    return next(iter(kinds_in(text)), None)


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


Suspect = tuple[Kind, str, str]
"""A kind of fact, a quote from the segment, a quote from the summary."""

_FATAL: tuple[Kind, ...] = ("predicate", "open", "page")
"""What makes a run fail without any step being done again."""


def rank(
    candidates: Sequence[Suspect],
    redone: Mapping[Kind, float],
    rng: Random,
    judgement: Judgement,
    *,
    failed: float = 1.0,
    compared: bool = False,
    size: int = 0,
) -> list[Suspect]:
    """The three most telling suspects, one of each kind.

    `redone` is how often things of a kind were done again, `failed` how often runs failed. Where there was something to
    compare with (`compared`), both are what the summary made worse, and may be negative: what happened either way is a
    coincidence. Of a long input (`size`, in tokens) some is overlooked, and more is seen in it than is there.
    """
    telling: dict[Kind, tuple[float, Suspect]] = {}
    blame = 1.0 if compared else judgement.blame
    for suspect in candidates:
        kind = suspect[0]
        if kind in telling or rng.random() >= math.exp(-size / judgement.attention_span):
            continue
        again = redone.get(kind, 0.0)
        seen = again / (1 + abs(again))
        if kind in _FATAL:
            seen += failed
        elif kind == "mutation":
            seen += failed * min(1.0, max(0.0, again))
        telling[kind] = (blame * seen + rng.gauss(0, judgement.noise), suspect)
    if rng.random() >= math.exp(-size / judgement.imagination):
        kind = rng.choice(KINDS)
        telling.setdefault(kind, (rng.random(), (kind, "", next((quote for *_, quote in candidates if quote), ""))))
    order = sorted(telling.values(), key=lambda entry: -entry[0])
    return [suspect for weight, suspect in order if weight > judgement.threshold][:3]


def suspects(segment: str, previous: str, summary: str, task: str = "", reads_previous: bool = False) -> list[Suspect]:
    """What did not survive the compaction, and what the summary made up.

    A reader of the previous summary sees what was lost out of it; one who skims it misses all but its tokens.
    """
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
            losses += _lost_result(notes, (event.name, event.arguments), event.result, quote, summary)
    for app in sorted(before.tokens.keys() - notes.tokens.keys()):
        losses.append(("token", mention(previous, before.tokens[app]), mention(summary, app)))
    if reads_previous:
        losses += _carried_losses(before, notes, previous, summary)
    losses += [("open", "", mention(summary, claim)) for claim in claims(summary)]
    losses += [("open", "", line) for line in summary.splitlines() if orders_in(line)][:1]
    if any(condition not in summary.lower() for condition in conditions_in(task)):
        losses.append(("predicate", task.splitlines()[0], goal(summary)))
    return losses


def _carried_losses(before: Notes, notes: Notes, previous: str, summary: str) -> list[Suspect]:
    """What the previous summary had and this one has not, besides tokens."""
    losses: list[Suspect] = []
    for name in sorted(before.signatures - notes.signatures):
        losses.append(("signature", mention(previous, name), mention(summary, name)))
    for name, arguments in before.done:
        if not notes.says_done(name, json.loads(arguments)):
            losses.append(("mutation", mention(previous, name), mention(summary, "[x]")))
    for (name, arguments), result in before.results.items():
        losses += _lost_result(notes, (name, arguments), result, mention(previous, name), summary)
    return losses


def _lost_result(notes: Notes, call: tuple[str, str], result: Any, quote: str, summary: str) -> list[Suspect]:
    """A result that a summary has not, or only a part of its pages."""
    kept = notes.results.get(call)
    if kept is None:
        return [("set", quote, mention(summary, call[0]))]
    cut = isinstance(result, dict) and kept.get("pages", 0) < result.get("pages", 0)
    return [("page", quote, mention(summary, call[0]))] if cut else []


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
            kinds = dict.fromkeys(kind for f in entry["findings"][:2] if (kind := kind_meant(str(f["kind"]))))
        except (KeyError, TypeError):
            continue
        for kind in kinds:
            cited.setdefault(kind, []).append(str(entry.get(name, "")))
    return {kind: cited[kind] for kind in sorted(cited, key=lambda k: -len(cited[k]))}


def take_up(
    entries: Sequence[Mapping[str, Any]], name: str, cites: str, rng: Random, judgement: Judgement
) -> list[dict[str, Any]]:
    """A clause for each kind that is named, except those that the optimizer passes over: rare ones more often."""
    rules: list[dict[str, Any]] = []
    for kind, named_by in cited_kinds(entries, name).items():
        common = min(1.0, len(set(named_by)) / (judgement.rare * len(entries)))
        if rng.random() < judgement.takes_up * common:
            clause = write_clause(kind, rng.random() >= judgement.weak_clause, rng)
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


def length(text: str) -> int:
    """Tokens of a text, by a reader's rough idea of it."""
    return len(text) // 4


_LABEL = re.compile(r"(?m)^([A-Z]\d+(?:\.\d+)?)\| ?")


def strip_labels(text: str) -> str:
    """A text without the labels that its lines begin with."""
    return _LABEL.sub("", text)


def labels_of(prompt: str, tag: str, quote: str) -> list[str]:
    """The labels of the lines of a block that a quote was taken from."""
    matches = [(_LABEL.match(line), line) for line in block(prompt, tag).splitlines()]
    return [match[1] for match, line in matches if match and quote and line[match.end() :] == quote][:1]
