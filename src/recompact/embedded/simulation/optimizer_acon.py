"""A simulated optimizer's answers to ACON's prompts: feedback on two runs, analyses, and prompts rewritten from them.

A whole trajectory does not tell which of its summaries did the harm, and what two runs did differently includes the
agent's own doing and chance.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from recompact.embedded.simulation.guidance import KINDS, Kind
from recompact.embedded.simulation.judgement import (
    CLAUSES,
    MECHANISMS,
    POLICY,
    SECTIONS,
    Judgement,
    Suspect,
    block,
    entries_in,
    goal,
    kind_of,
    mention,
    rank,
    suspects,
    take_up,
    with_clauses,
)
from recompact.embedded.simulation.notes import Event, events_in, read_notes
from recompact.template import Section, parse_sections, render_sections

CATEGORIES: Mapping[str, str] = {
    "widened set": "distorted fact",
    "omitted state": "missing fact",
    "misrepresented progress": "inaccurate summary",
    "invented step": "inaccurate summary",
}
OTHER_HEADINGS: Mapping[str, str] = {  # another record of the same state; they mention what the old ones mention
    "Constraints & Preferences": "Task Conditions",
    "Done": "Action Ledger",
    "Next Steps": "Remaining Steps",
    "Critical Context": "State Table",
}
BRIEFER = (
    "Be concise: leave out whatever nothing later depends on.",
    "Prefer short entries: a few words wherever they are enough.",
    "Make the record as short as it can be without losing what the work goes on from.",
)


def compare(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """Feedback on two runs of a task: what any summary lost, ranked by what the run with compaction did in excess."""
    whole, compacted = _tagged(prompt, "without-compaction"), _tagged(prompt, "with-compaction")
    segments, summaries = _numbered(compacted, "segment"), _numbered(compacted, "summary")
    lost: list[Suspect] = []
    for segment, previous, summary in zip(segments, ["", *summaries], summaries, strict=False):
        lost += suspects(segment, previous, summary)
    straight = [event for event in events_in(whole) if not event.error]
    winding = [event for segment in segments for event in events_in(segment) if not event.error]
    excess = Counter(map(_call_of, winding)) - Counter(map(_call_of, straight))
    redone = Counter(kind_of(*name.split(".", 1)) for (name, _), times in excess.items() for _ in range(times))
    ranking = rank(lost, redone, rng, judgement)
    remedies = [CLAUSES[kind][0] for kind in dict.fromkeys(kind for kind, _, _ in ranking)]
    # The runs show what the agent did, so a remedy may be a rule for it, and has to be where no summary is to blame.
    if not remedies or rng.random() < _steering(prompt, judgement):
        remedies.append(POLICY)
    return {
        "divergence": _parting(straight, winding),
        "findings": [
            {
                "category": CATEGORIES[MECHANISMS[kind]],
                "kind": kind,
                "quote": segment_quote or summary_quote,
                "explanation": f"After a compaction the run had to do without it ({kind}).",
            }
            for kind, segment_quote, summary_quote in ranking
        ],
        "remedies": remedies,
        "timeline": [_parting(straight, winding), f"{sum(excess.values())} calls more than the other run."],
        "wasted": [f"{name} was called again." for name, _ in sorted(excess)[:3]],
        "missed": [],
        "mechanism": f"It made {sum(excess.values())} calls that the other run did not make.",
        "reliability": 1.0 if ranking else 0.5,
    }


def _steering(prompt: str, judgement: Judgement) -> float:
    """How likely a remedy is a rule for the agent: as likely as any other that is asked for, where the run was called
    finished too early and verification is asked for in so many words."""
    finished = re.search(r'<with-compaction success="no"[^>]* ending="finished"', prompt) is not None
    return judgement.takes_up if finished and "verification" in prompt else judgement.steers_agent


def _call_of(event: Event) -> tuple[str, str]:
    return event.name, event.arguments


def _parting(straight: Sequence[Event], winding: Sequence[Event]) -> str:
    """Where two runs begin to differ."""
    for number, (one, other) in enumerate(zip(straight, winding, strict=False), 1):
        if _call_of(one) != _call_of(other):
            return f"At call {number}: {other.name} instead of {one.name}."
    return "The calls are the same as far as both runs go."


def rewrite(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate from feedback: clauses as in a revision, and other headings where the prompt leaves them open.

    Nobody confined the remedies to the compressor, so a rule for the agent may be among them.
    """
    entries = entries_in(prompt, "feedback")
    rules = take_up(entries, "task", "entries", rng, judgement)
    steering = [str(entry["task"]) for entry in entries if POLICY in entry.get("remedies", ()) and "task" in entry]
    if steering and rng.random() < judgement.takes_up:
        rules.append({"clause": POLICY, "section": "Next", "entries": steering})
    parts = {name: with_clauses(block(prompt, name), rules) for name in ("first", "update")}
    if "Every heading stays" not in prompt and rng.random() < judgement.restructures:
        parts = {name: _other_headings(part) for name, part in parts.items()}
    return {"rules": rules, **parts}


def _other_headings(part: str) -> str:
    sections = []
    for section in parse_sections(part):
        title = OTHER_HEADINGS.get(section.title, section.title)
        sections.append(Section(section.heading.replace(section.title, title), section.level, title, section.guidance))
    return render_sections(tuple(sections))


def analyse(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """What the next steps used of a summary and what they did not; later steps are not in the prompt."""
    summary = block(prompt, "summary")
    notes, after = read_notes(summary), events_in(block(prompt, "what-came-next"))
    apps, names = {event.app for event in after}, {event.name for event in after}
    given = " ".join(event.arguments for event in after)
    used: dict[Kind, list[tuple[str, bool]]] = {
        "token": [(token, app in apps) for app, token in notes.tokens.items()],
        "signature": [(name, name in names) for name in sorted(notes.signatures)],
        "set": [(name, _is_used(result, given)) for (name, _), result in notes.results.items()],
        "mutation": [(name, True) for name, _ in notes.done],  # forgetting one is never safe
    }
    keep, remove = [], []
    for kind, facts in used.items():
        needed = [fact for fact, is_used in facts if is_used]
        if 2 * len(needed) >= len(facts) > 0:
            what = needed[0]
            keep.append({"kind": kind, "quote": mention(summary, what), "reason": "The next steps went by it."})
        elif facts:
            remove.append({"kind": kind, "how": "The next steps did without most of it: mention it in a few words."})
    if len(keep) > 1 and rng.random() < judgement.wrong_cause:
        wrong = keep.pop(rng.randrange(len(keep)))
        remove.append({"kind": wrong["kind"], "how": "It seems to be of no use."})
    if not keep and not remove:
        keep.append({"kind": "predicate", "quote": goal(summary), "reason": "It says what is to be done."})
    return {"remove": remove, "keep": keep}


def _is_used(result: Any, given: str) -> bool:
    """Whether something that a result showed went into a later call."""
    values = re.findall(r'"([\w@.:-]{4,})"', json.dumps(result))
    return any(f'"{value}"' in given for value in values)


def shorten(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate from analyses: demands that few runs needed are worded weakly, and brevity is asked for."""
    votes: Counter[str] = Counter()
    cited: dict[str, list[str]] = {}
    for entry in entries_in(prompt, "analyses"):
        for sign, key in ((1, "remove"), (-1, "keep")):
            for item in entry.get(key, ()):
                votes[item["kind"]] += sign
                cited.setdefault(item["kind"], []).append(str(entry.get("compaction", "")))
    chosen = rng.sample(BRIEFER, rng.randint(1, len(BRIEFER)))
    rules: list[dict[str, Any]] = [{"clause": clause, "section": "Goal", "entries": []} for clause in chosen]
    parts = {name: block(prompt, name) for name in ("first", "update")}
    for kind in KINDS:
        strong, weak = CLAUSES[kind]
        if votes[kind] > 0 and any(strong in part for part in parts.values()) and rng.random() < judgement.takes_up:
            parts = {name: part.replace(strong, weak) for name, part in parts.items()}
            rules.append({"clause": weak, "section": SECTIONS[kind], "entries": sorted(set(cited[kind]))})
    return {"rules": rules, **{name: with_clauses(part, rules[: len(chosen)]) for name, part in parts.items()}}


def _tagged(text: str, tag: str) -> str:
    match = re.search(rf"<{tag} [^>]*>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return match[1] if match else ""


def _numbered(text: str, tag: str) -> list[str]:
    return re.findall(rf'<{tag} number="\d+">\n(.*?)\n</{tag}>', text, re.DOTALL)
