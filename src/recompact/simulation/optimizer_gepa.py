"""A simulated optimizer's answer to GEPA's reflection prompt: a prompt rewritten from a few whole runs.

There is no run without compaction beside them and no continuation, so all that can be told is what a summary lacks of
the segment before it, which calls were made again later in the same run, and whether the run failed.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

from recompact.simulation.clauses import kind_meant, write_order
from recompact.simulation.guidance import read_guidance
from recompact.simulation.judgement import Suspect, kind_of, length, rank, suspects, take_up, with_clauses
from recompact.simulation.notes import events_in
from recompact.simulation.parameters import Judgement, Kind

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
    segments = re.findall(r'<segment number="\d+">\n(.*?)\n</segment>', run, re.DOTALL)
    summaries = re.findall(r'<summary number="\d+">\n(.*?)\n</summary>', run, re.DOTALL)
    lost: list[Suspect] = []
    for segment, previous, summary in zip(segments, ["", *summaries], summaries, strict=False):
        lost += suspects(segment, previous, summary, task, judgement.reads_previous)
    events = [event for segment in segments for event in events_in(segment) if not event.error]
    calls = Counter((event.app, event.api, event.arguments) for event in events)
    redone: Counter[Kind] = Counter()
    for (app, api, _), times in calls.items():
        redone[kind_of(app, api)] += times - 1
    return rank(lost, redone, rng, judgement, failed=float(success == "no"), compared=False, size=size)
