"""A simulated optimizer's answer to GEPA's reflection prompt: a prompt rewritten from a few whole runs.

There is no run without compaction beside them and no continuation, so all that can be told is what a summary lacks of
the segment before it, and which calls were made again later in the same run.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

from recompact.embedded.simulation.clauses import write_order
from recompact.embedded.simulation.judgement import Suspect, kind_of, length, rank, suspects, take_up, with_clauses
from recompact.embedded.simulation.notes import events_in
from recompact.embedded.simulation.parameters import Judgement


def reflect(prompt: str, rng: Random, judgement: Judgement) -> str:
    """Both parts of the prompt with clauses against what the failed runs lost, as a block."""
    runs = re.findall(r'<run success="(yes|no)">\n(.*?)\n</run>', prompt, re.DOTALL)
    failed = [text for success, text in runs if success == "no"] or [text for _, text in runs]
    entries = [
        {"run": str(number), "findings": [{"kind": kind} for kind, *_ in _lost(text, rng, judgement, length(prompt))]}
        for number, text in enumerate(failed, 1)
    ]
    rules = take_up(entries, "run", "runs", rng, judgement)
    if not rules or rng.random() < judgement.steers_agent:  # runs show what the agent did, so a rule may be for it
        rules.append({"clause": write_order(rng), "section": "Next", "runs": []})
    parts = []
    for name in ("first", "update"):
        part = re.search(rf"(?m)^<{name}>\n(.*?)</{name}>", prompt, re.DOTALL)
        text = part[1] if part else ""
        new: list[dict[str, Any]] = [rule for rule in rules if rule["clause"] not in text]
        parts.append(f"<{name}>\n{with_clauses(text, new)}</{name}>")
    return "```\n" + "\n".join(parts) + "\n```"


def _lost(run: str, rng: Random, judgement: Judgement, size: int) -> list[Suspect]:
    """What the summaries of a run lost, ranked by what was done again in it."""
    segments = re.findall(r'<segment number="\d+">\n(.*?)\n</segment>', run, re.DOTALL)
    summaries = re.findall(r'<summary number="\d+">\n(.*?)\n</summary>', run, re.DOTALL)
    lost: list[Suspect] = []
    for segment, previous, summary in zip(segments, ["", *summaries], summaries, strict=False):
        lost += suspects(segment, previous, summary)
    events = [event for segment in segments for event in events_in(segment) if not event.error]
    calls = Counter((event.app, event.api, event.arguments) for event in events)
    redone = Counter(kind_of(app, api) for (app, api, _), times in calls.items() for _ in range(times - 1))
    return rank(lost, redone, rng, judgement, size=size)
