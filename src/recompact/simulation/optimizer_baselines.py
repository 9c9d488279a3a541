"""A simulated optimizer's answers to the prompts of ACON and GEPA: feedback, analyses, and prompts rewritten from runs.

A whole trajectory does not tell which of its summaries did the harm. What two runs did differently includes the agent's
own doing and chance; a single run tells only what a summary lacks of the segment before it, which calls were made again
later, and whether the run failed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from recompact.simulation.guidance import orders_in, read_guidance
from recompact.simulation.judgement import (
    MECHANISMS,
    SECTIONS,
    Suspect,
    entries_in,
    goal,
    kind_meant,
    kind_of,
    length,
    mention,
    rank,
    suspects,
    take_up,
    with_clauses,
    write_clause,
    write_name,
    write_order,
)
from recompact.simulation.model import block, blocks_in
from recompact.simulation.notes import Event, events_in, read_notes
from recompact.simulation.parameters import KINDS, Judgement, Kind
from recompact.values.template import Section, parse_sections, render_sections

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
    tags = ("without-compaction", "with-compaction", "task")
    whole, compacted, task = (block(prompt, tag, " [^>]*") for tag in tags)
    segments, lost = _losses(compacted, task, judgement)
    straight = [event for event in events_in(whole) if not event.error]
    winding = [event for segment in segments for event in events_in(segment) if not event.error]
    excess = Counter(map(_call_of, winding)) - Counter(map(_call_of, straight))
    redone = Counter(kind_of(*name.split(".", 1)) for (name, _), times in excess.items() for _ in range(times))
    outcomes = (re.search(rf'<{arm} success="no"', prompt) for arm in ("without-compaction", "with-compaction"))
    alone_failed, failed = (1.0 if outcome else 0.0 for outcome in outcomes)
    worse = failed - alone_failed
    ranking = rank(lost, redone, rng, judgement, failed=worse, compared=bool(whole), size=length(prompt))
    remedies = [write_clause(kind, True, rng) for kind, _, _ in ranking]
    # The runs show what the agent did, so a remedy may be a rule for it, and has to be where no summary is to blame.
    if not remedies or rng.random() < judgement.steers_agent:
        remedies.append(write_order(rng))
    return {
        "divergence": _first_difference(straight, winding),
        "findings": [
            {
                "category": CATEGORIES[MECHANISMS[kind]],
                "kind": write_name(kind, rng),
                "quote": segment_quote or summary_quote,
                "explanation": f"After a compaction the run had to do without it ({write_name(kind, rng)}).",
            }
            for kind, segment_quote, summary_quote in ranking
        ],
        "remedies": remedies,
        "timeline": [_first_difference(straight, winding), f"{sum(excess.values())} calls more than the other run."],
        "wasted": [f"{name} was called again." for name, _ in sorted(excess)[:3]],
        "missed": [],
        "mechanism": f"It made {sum(excess.values())} calls that the other run did not make.",
        "reliability": 1.0 if ranking else 0.5,
    }


def _call_of(event: Event) -> tuple[str, str]:
    return event.name, event.arguments


def _first_difference(straight: Sequence[Event], winding: Sequence[Event]) -> str:
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
    remedies = [(str(r), str(entry.get("task", ""))) for entry in entries for r in entry.get("remedies", ())]
    steering = [(remedy, task) for remedy, task in remedies if orders_in(remedy)]
    common = min(1.0, len({task for _, task in steering}) / (judgement.rare * len(entries))) if entries else 0.0
    if rng.random() < judgement.takes_up * common:
        tasks = sorted({task for _, task in steering})
        rules.append({"clause": rng.choice(steering)[0], "section": "Next", "entries": tasks})
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
            keep.append(
                {"kind": write_name(kind, rng), "quote": mention(summary, what), "reason": "The next steps went by it."}
            )
        elif facts:
            remove.append(
                {
                    "kind": write_name(kind, rng),
                    "how": "The next steps did without most of it: mention it in a few words.",
                }
            )
    if len(keep) > 1 and rng.random() >= math.exp(-length(prompt) / judgement.attention_span):
        wrong = keep.pop(rng.randrange(len(keep)))
        remove.append({"kind": wrong["kind"], "how": "It seems to be of no use."})
    if not keep and not remove:
        keep.append(
            {"kind": write_name("predicate", rng), "quote": goal(summary), "reason": "It says what is to be done."}
        )
    return {"remove": remove, "keep": keep}


def _is_used(result: Any, given: str) -> bool:
    """Whether something that a result showed went into a later call."""
    values = re.findall(r'"([\w@.:-]{4,})"', json.dumps(result))
    return any(f'"{value}"' in given for value in values)


def shorten(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate from analyses: demands that few runs needed are worded weakly, and brevity is asked for."""
    votes: Counter[Kind] = Counter()
    cited: dict[Kind, list[str]] = {}
    for entry in entries_in(prompt, "analyses"):
        for sign, key in ((1, "remove"), (-1, "keep")):
            for item in entry.get(key, ()):
                if (kind := kind_meant(str(item["kind"]))) is not None:
                    votes[kind] += sign
                    cited.setdefault(kind, []).append(str(entry.get("compaction", "")))
    chosen = rng.sample(BRIEFER, rng.randint(1, len(BRIEFER)))
    rules: list[dict[str, Any]] = [{"clause": clause, "section": "Goal", "entries": []} for clause in chosen]
    parts = {name: block(prompt, name) for name in ("first", "update")}
    for kind in KINDS:
        demanding = {line for part in parts.values() for line in part.splitlines() if _demands(line, kind)}
        if votes[kind] > 0 and demanding and rng.random() < judgement.takes_up:
            weak = write_clause(kind, False, rng)
            for line in demanding:
                parts = {name: part.replace(line, f"- {weak}") for name, part in parts.items()}
            rules.append({"clause": weak, "section": SECTIONS[kind], "entries": sorted(set(cited[kind]))})
    return {"rules": rules, **{name: with_clauses(part, rules[: len(chosen)]) for name, part in parts.items()}}


def _demands(line: str, kind: Kind) -> bool:
    """Whether a line of a template is a clause that demands that kind of fact before any other."""
    clause = re.match(r"- (?!\[|\*\*)(.+)", line)
    return clause is not None and kind_meant(clause[1]) == kind and read_guidance(clause[1]).demands[kind] == 2


def _losses(run: str, task: str, judgement: Judgement) -> tuple[list[str], list[Suspect]]:
    """The segments of a run with compaction, and what any of its summaries lost."""
    segments, summaries = (blocks_in(run, tag, r' number="\d+"') for tag in ("segment", "summary"))
    lost: list[Suspect] = []
    for segment, previous, summary in zip(segments, ["", *summaries], summaries, strict=False):
        lost += suspects(segment, previous, summary, task, judgement.reads_previous)
    return segments, lost


_RUN = re.compile(r'## Task\n(.*?)\n+## Run\n<run success="(yes|no)">\n(.*?)\n</run>', re.DOTALL)


def reflect(prompt: str, rng: Random, judgement: Judgement) -> str:
    """Both parts of the prompt with clauses against what the runs lost, as a block."""
    size = length(prompt)
    entries = [
        {
            "run": str(number),
            "findings": [{"kind": kind} for kind, *_ in _rank_losses(task, success, run, rng, judgement, size)],
        }
        for number, (task, success, run) in enumerate(_RUN.findall(prompt), 1)
    ]
    rules = take_up(entries, "run", "runs", rng, judgement)
    if not rules or rng.random() < judgement.steers_agent:  # runs show what the agent did, so a rule may be for it
        rules.append({"clause": write_order(rng), "section": "Next", "runs": []})
    parts = []
    for name in ("first", "update"):
        part = re.search(rf"(?ms)^<{name}>\n(.*?)</{name}>", prompt)
        text = part[1] if part else ""
        parts.append(f"<{name}>\n{with_clauses(text, [rule for rule in rules if _is_new(rule, text)])}</{name}>")
    return "```\n" + "\n".join(parts) + "\n```"


def _is_new(rule: dict[str, Any], text: str) -> bool:
    """Whether no clause of a part demands the same already."""
    kind = kind_meant(rule["clause"]) if rule["runs"] else None
    if kind is None:
        return rule["clause"] not in text
    clauses = re.findall(r"(?m)^- (?!\[|\*\*)(.+)", text)
    return not any(kind_meant(clause) == kind and read_guidance(clause).demands[kind] == 2 for clause in clauses)


def _rank_losses(task: str, success: str, run: str, rng: Random, judgement: Judgement, size: int) -> list[Suspect]:
    """What the summaries of a run lost, ranked by what was done again in it and by whether it failed."""
    segments, lost = _losses(run, task, judgement)
    events = [event for segment in segments for event in events_in(segment) if not event.error]
    calls = Counter((event.app, event.api, event.arguments) for event in events)
    redone: Counter[Kind] = Counter()
    for (app, api, _), times in calls.items():
        redone[kind_of(app, api)] += times - 1
    return rank(lost, redone, rng, judgement, failed=float(success == "no"), compared=False, size=size)
