"""A simulated optimizer: it diagnoses a boundary from the evidence text it gets, and revises a template from diagnoses.

It compares the texts as a reader would: what the segment shows and the summary does not, and what the continuations
after the summary did over again or failed at more often than those before it. Without those it can only guess. Two
candidates from the same diagnoses differ in what they take up and how they put it. What a prompt asks for is told by
the blocks in it; ACON's prompts are answered with the same eyes and error rates.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from statistics import fmean
from typing import Any

from recompact.simulation.judgement import (
    MECHANISMS,
    cited_kinds,
    entries_in,
    kind_of,
    labels_of,
    length,
    rank,
    strip_labels,
    suspects,
    take_up,
    with_clauses,
    write_clause,
    write_name,
    write_order,
)
from recompact.simulation.model import SimulatedModel, block
from recompact.simulation.optimizer_baselines import analyse, compare, reflect, rewrite, shorten
from recompact.simulation.parameters import KINDS, Judgement, Kind
from recompact.values.chat import Message, assistant


class SimulatedOptimizer(SimulatedModel):
    """Plays the optimizer."""

    name, part = "sim-optimizer", "judgement"

    def answer(self, messages: tuple[Message, ...], rng: Random) -> Message:
        prompt = "\n".join(message.content for message in messages)
        answer = _answer_to(prompt)(prompt, rng, self.behaviour)
        return assistant(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, indent=1))


def _answer_to(prompt: str) -> Callable[[str, Random, Judgement], dict[str, Any] | str]:
    """What a prompt asks for, by the blocks in it; a diagnosis where none of them is there."""
    asked: dict[str, Callable[[str, Random, Judgement], dict[str, Any] | str]] = {
        "<run success=": reflect,
        "<diagnoses>": revise,
        "<feedback>": rewrite,
        "<analyses>": shorten,
        "<with-compaction": compare,
        "<what-came-next>": analyse,
    }
    answer = next((answer for tag, answer in asked.items() if f"\n{tag}" in f"\n{prompt}"), diagnose)
    return group if answer is revise and "\n<first>" not in prompt else answer


def group(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """Diagnoses by kind of fact, the most frequent first."""
    kinds = cited_kinds(entries_in(prompt, "diagnoses"), "boundary")
    return {
        "groups": [
            {
                "kind": write_name(kind, rng),
                "mechanism": MECHANISMS[kind],
                "boundaries": sorted(set(ids)),
                "lesson": write_clause(kind, True, rng),
            }
            for kind, ids in kinds.items()
        ]
    }


def diagnose(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """What the summary lost or made up, most telling first, each with the lines that show it.

    It abstains where nothing that the summary lost made a difference.
    """
    tags = ("segment", "previous-summary", "summary", "task")
    segment, previous, summary, task = (strip_labels(block(prompt, tag)) for tag in tags)
    arms = {arm: _continuations(prompt, arm) for arm in ("PRE", "POST")}
    redone, failed = _contrast(arms["PRE"], arms["POST"])
    stated = re.search(r"(?m)^success lost \(H\): (-?[\d.]+)", block(prompt, "effect"))
    ranking = rank(
        suspects(segment, previous, summary, task, judgement.reads_previous),
        redone,
        rng,
        judgement,
        failed=float(stated[1]) if stated else failed,
        compared=bool(arms["PRE"]),
        size=length(prompt),
    )
    if not ranking:
        return {"findings": [], "abstain": "Nothing that the summary lost explains a difference between the arms."}
    findings = [
        {
            "kind": write_name(kind, rng),
            "mechanism": MECHANISMS[kind],
            "lines": _lines(prompt, segment_quote, summary_quote),
            "explanation": f"The continuations after the summary had to do without it ({write_name(kind, rng)}).",
        }
        for kind, segment_quote, summary_quote in ranking
    ]
    return {"findings": findings, "abstain": ""}


Continuation = tuple[Counter[Kind], bool]
"""What one continuation did again, by kind, and whether it failed."""


def _continuations(prompt: str, arm: str) -> list[Continuation]:
    """The continuations of an arm, as far as they are shown."""
    pattern = rf'<continuation [^>]*arm="{arm}"[^>]*>\n(.*?)\n</continuation>'
    texts = [strip_labels(text) for text in re.findall(pattern, prompt, re.DOTALL)]
    return [(_count_redone(text), "the task was not done" in text) for text in texts]


def _contrast(pre: Sequence[Continuation], post: Sequence[Continuation]) -> tuple[dict[Kind, float], float]:
    """How much more was done again, by kind, and how much more often the task was missed, after the summary."""

    def mean(arm: Sequence[Continuation], value: Callable[[Continuation], float]) -> float:
        return fmean(map(value, arm)) if arm else 0.0

    def again(kind: Kind) -> float:
        return mean(post, lambda c: c[0][kind]) - mean(pre, lambda c: c[0][kind])

    return {kind: again(kind) for kind in KINDS}, mean(post, lambda c: c[1]) - mean(pre, lambda c: c[1])


def _lines(prompt: str, segment_quote: str, summary_quote: str) -> list[str]:
    """The labels of what is quoted, and of the first thing that was done again."""
    tags = ("task", "segment", "previous-summary")
    places = (*((tag, segment_quote) for tag in tags), ("summary", summary_quote))
    labels = [label for tag, quote in places for label in labels_of(prompt, tag, quote)]
    again = re.search(r"(?m)^(C\d+\.\d+)\| \(again\) ", prompt)
    return [*labels, *([again[1]] if again else [])]


def _count_redone(continuation: str) -> Counter[Kind]:
    """What a continuation did although it had been done before, by kind."""
    again: Counter[Kind] = Counter()
    for call in re.findall(r"^\(again\) -> call_api\((\{.*\})\)$", continuation, re.MULTILINE):
        try:
            asked = json.loads(call)
            again[kind_of(str(asked["app"]), str(asked["api"]))] += 1
        except (ValueError, KeyError, TypeError):
            continue
    return again


def revise(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate: the guidance of both parts with clauses against what was diagnosed, each citing its boundaries."""
    rules = take_up(entries_in(prompt, "diagnoses"), "boundary", "boundaries", rng, judgement)
    if rules and rng.random() < judgement.steers_agent:
        rules.append({"clause": write_order(rng), "section": "Next", "boundaries": rules[0]["boundaries"]})
    parts = {name: with_clauses(block(prompt, name), rules) for name in ("first", "update")}
    return {"rules": rules, **parts}
