"""A simulated optimizer: it diagnoses a boundary from the evidence text it gets, and revises a template from diagnoses.

In goes a prompt of adaptation, out comes the JSON that it asks for. The optimizer compares the texts as a reader would:
what the segment shows and the summary does not, and what the continuation after the summary did over again. It may name
the wrong cause, and two candidates from the same diagnoses differ in what they take up and how they put it.

The texts it looks for in a prompt: `<segment>`, `<previous-summary>`, `<summary>` and `<continuation arm="...">` blocks
for a diagnosis; a `<diagnoses>` block with one JSON object a line, and `<first>` and `<update>`, for a revision.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from recompact.chat import Reply, Request, Usage, assistant
from recompact.simulation.agent import claims
from recompact.simulation.guidance import KINDS, Kind
from recompact.simulation.notes import SPECS, Event, events_in, read_notes
from recompact.simulation.usage import count, input_tokens
from recompact.template import Section, parse_sections, render_sections


@dataclass(frozen=True)
class Judgement:
    """How an optimizer errs."""

    wrong_cause: float = 0.15  # names a cause that is not the first one
    takes_up: float = 0.85  # of the kinds that were diagnosed, per kind
    weak_clause: float = 0.25  # puts a clause so that it asks for little
    steers_agent: float = 0.15  # adds a clause that tells the agent how to act


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


class SimulatedOptimizer:
    """A `ChatModel` that plays the optimizer. Its randomness comes from the request's seed alone."""

    name = "sim-optimizer"

    def __init__(self, judgement: Judgement | None = None) -> None:
        self._judgement = judgement or Judgement()

    async def reply(self, request: Request) -> Reply:
        rng = Random(f"optimizer/{request.decoding.seed}" if request.decoding.seed is not None else request.digest)
        prompt = "\n".join(m.content for m in request.messages)
        answer = (
            revise(prompt, rng, self._judgement) if "<diagnoses>" in prompt else diagnose(prompt, rng, self._judgement)
        )
        text = json.dumps(answer, ensure_ascii=False, indent=1)
        return Reply(assistant(text), Usage(input_tokens(request), count(text), 0, 0, 1), model=self.name)


def diagnose(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """What the summary lost or made up, most telling first, each with quotes from the texts it is about."""
    segment, summary = _block(prompt, "segment"), _block(prompt, "summary")
    found = _suspects(segment, _block(prompt, "previous-summary"), summary)
    redone = Counter(_kind_of(app, api) for app, api in _redone(prompt))
    found.sort(
        key=lambda suspect: -(redone[suspect[0]] + (2 if suspect[0] in ("predicate", "open", "mutation") else 0))
    )
    if len(found) > 1 and rng.random() < judgement.wrong_cause:
        found.insert(0, found.pop(rng.randrange(1, len(found))))
    findings = [
        {
            "kind": kind,
            "mechanism": MECHANISMS[kind],
            "segment_quote": seen,
            "summary_quote": said,
            "explanation": f"The continuations after the summary had to do without what it lost ({kind}).",
        }
        for kind, seen, said in found[:3]
    ]
    return {"findings": findings}


def _suspects(segment: str, previous: str, summary: str) -> list[tuple[Kind, str, str]]:
    """(kind, quote from the segment, quote from the summary) for everything that did not survive."""
    notes = read_notes(summary)
    before = read_notes(previous)
    found: list[tuple[Kind, str, str]] = []
    for event in events_in(segment):
        quote = _quote(segment, event)
        if event.error:
            continue
        if event.api == "login" and event.app not in notes.tokens:
            found.append(("token", quote, _mention(summary, event.app)))
        elif event.name == "documentation.show_api":
            name = f"{event.given.get('app')}.{event.given.get('api')}"
            if name not in notes.signatures:
                found.append(("signature", quote, _mention(summary, name)))
        elif event.changes and not notes.says_done(event.name, event.given):
            found.append(("mutation", quote, _mention(summary, "[x]")))
        elif event.app not in ("documentation", "account") and event.api != "login" and not event.changes:
            kept = notes.results.get((event.name, event.arguments))
            if kept is None:
                found.append(("set", quote, _mention(summary, event.name)))
            elif isinstance(event.result, dict) and kept.get("pages", 0) < event.result.get("pages", 0):
                found.append(("page", quote, _mention(summary, event.name)))
    for app in sorted(before.tokens.keys() - notes.tokens.keys()):
        found.append(("token", _mention(previous, before.tokens[app]), _mention(summary, app)))
    found += [("open", "", _mention(summary, claim)) for claim in claims(summary)]
    if "conditions left out" in summary or not _goal(summary):
        found.append(("predicate", "", _goal(summary)))
    return found


def _redone(prompt: str) -> list[tuple[str, str]]:
    """(app, api) of what the continuations after the summary did although it had been done before."""
    again = []
    for block in re.findall(r'<continuation arm="POST"[^>]*>\n(.*?)\n</continuation>', prompt, re.DOTALL):
        for call in re.findall(r"^\(again\) -> call_api\((\{.*\})\)$", block, re.MULTILINE):
            try:
                asked = json.loads(call)
                again.append((str(asked["app"]), str(asked["api"])))
            except (ValueError, KeyError, TypeError):
                continue
    return again


def _kind_of(app: str, api: str) -> Kind:
    if app == "documentation":
        return "signature"
    if api == "login" or app == "account":
        return "token"
    spec = SPECS.get(f"{app}.{api}")
    return "mutation" if spec is not None and spec.changes else "set"


def _quote(segment: str, event: Event) -> str:
    """The line of the segment in which a call stands."""
    lines = [line for line in segment.splitlines() if line.startswith("-> ") and f'"{event.api}"' in line]
    return lines[-1] if lines else ""


def _mention(summary: str, what: str) -> str:
    return next((line for line in summary.splitlines() if what and what in line), "")


def _goal(summary: str) -> str:
    lines = [line for line in summary.splitlines() if line.strip() and not line.startswith("#")]
    return lines[0] if lines else ""


# --- revision


def revise(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate: the guidance of both parts with clauses against what was diagnosed, each citing its boundaries."""
    cited: dict[Kind, list[str]] = {}
    for line in _block(prompt, "diagnoses").splitlines():
        try:
            entry = json.loads(line)
            kinds = [f["kind"] for f in entry["findings"][:2] if f["kind"] in KINDS]
        except (ValueError, KeyError, TypeError):
            continue
        for kind in kinds:
            cited.setdefault(kind, []).append(str(entry.get("boundary", "")))
    rules = []
    for kind in sorted(cited, key=lambda k: -len(cited[k])):
        if rng.random() < judgement.takes_up:
            strong, weak = CLAUSES[kind]
            clause = weak if rng.random() < judgement.weak_clause else strong
            rules.append({"clause": clause, "section": SECTIONS[kind], "boundaries": sorted(set(cited[kind]))})
    if rules and rng.random() < judgement.steers_agent:
        rules.append({"clause": POLICY, "section": "Next", "boundaries": rules[0]["boundaries"]})
    parts = {name: _with_clauses(_block(prompt, name), rules) for name in ("first", "update")}
    return {"rules": rules, **parts}


def _with_clauses(part: str, rules: Sequence[Mapping[str, Any]]) -> str:
    """The part with each clause as a line of the section it belongs to; headings stay as they are."""
    sections = list(parse_sections(part))
    for rule in rules:
        at = next((n for n, s in enumerate(sections) if s.level and rule["section"] in s.title), len(sections) - 1)
        section = sections[at]
        guidance = f"- {rule['clause']}\n{section.guidance}"
        sections[at] = Section(section.heading, section.level, section.title, guidance)
    return render_sections(tuple(sections))


def _block(text: str, tag: str) -> str:
    match = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return match[1] if match else ""
