"""A simulated optimizer: it diagnoses a boundary from the evidence text it gets, and revises a template from diagnoses.

It compares the texts as a reader would: what the segment shows and the summary does not, and what the continuation
after the summary did over again. It may name the wrong cause, and two candidates from the same diagnoses differ in what
they take up and how they put it. What a prompt asks for is told by the blocks in it; ACON's prompts are answered with
the same eyes, error rates and clauses.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from recompact.chat import Reply, Request, Usage, assistant
from recompact.embedded.simulation.judgement import (
    CLAUSES,
    MECHANISMS,
    POLICY,
    Judgement,
    block,
    cited_kinds,
    entries_in,
    kind_of,
    labels_of,
    rank,
    suspects,
    take_up,
    unlabelled,
    with_clauses,
)
from recompact.embedded.simulation.optimizer_acon import analyse, compare, rewrite, shorten
from recompact.embedded.simulation.optimizer_gepa import reflect
from recompact.embedded.simulation.usage import count, input_tokens

__all__ = ["CLAUSES", "POLICY", "Judgement", "SimulatedOptimizer", "diagnose", "revise"]


class SimulatedOptimizer:
    """A `ChatModel` that plays the optimizer. Its randomness comes from the request's seed alone."""

    name = "sim-optimizer"

    def __init__(self, judgement: Judgement | None = None) -> None:
        self._judgement = judgement or Judgement()

    async def reply(self, request: Request) -> Reply:
        rng = Random(f"optimizer/{request.decoding.seed}" if request.decoding.seed is not None else request.digest)
        prompt = "\n".join(m.content for m in request.messages)
        answer = _answer_to(prompt)(prompt, rng, self._judgement)
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, indent=1)
        return Reply(assistant(text), Usage(input_tokens(request), count(text), 0, 0, 1), model=self.name)


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
            {"kind": kind, "mechanism": MECHANISMS[kind], "boundaries": sorted(set(ids)), "lesson": CLAUSES[kind][0]}
            for kind, ids in kinds.items()
        ]
    }


def diagnose(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """What the summary lost or made up, most telling first, each with the lines that show it.

    It abstains where it finds nothing that the summary lost.
    """
    segment, previous, summary = (unlabelled(block(prompt, tag)) for tag in ("segment", "previous-summary", "summary"))
    redone = Counter(kind_of(app, api) for app, api in _redone(prompt))
    ranking = rank(suspects(segment, previous, summary), redone, rng, judgement)
    if not ranking:
        return {"findings": [], "abstain": "The summary has what the segment shows; nothing explains the difference."}
    findings = [
        {
            "kind": kind,
            "mechanism": MECHANISMS[kind],
            "lines": _lines(prompt, segment_quote, summary_quote),
            "explanation": f"The continuations after the summary had to do without what it lost ({kind}).",
        }
        for kind, segment_quote, summary_quote in ranking
    ]
    return {"findings": findings, "abstain": ""}


def _lines(prompt: str, segment_quote: str, summary_quote: str) -> list[str]:
    """The labels of what is quoted, and of the first thing that was done again."""
    places = (("segment", segment_quote), ("previous-summary", segment_quote), ("summary", summary_quote))
    labels = [label for tag, quote in places for label in labels_of(prompt, tag, quote)]
    again = re.search(r"(?m)^(C\d+\.\d+)\| \(again\) ", prompt)
    return [*labels, *([again[1]] if again else [])]


def _redone(prompt: str) -> list[tuple[str, str]]:
    """(app, api) of what the continuations after the summary did although it had been done before."""
    again = []
    for continuation in re.findall(r'<continuation [^>]*arm="POST"[^>]*>\n(.*?)\n</continuation>', prompt, re.DOTALL):
        for call in re.findall(r"^\(again\) -> call_api\((\{.*\})\)$", unlabelled(continuation), re.MULTILINE):
            try:
                asked = json.loads(call)
                again.append((str(asked["app"]), str(asked["api"])))
            except (ValueError, KeyError, TypeError):
                continue
    return again


def revise(prompt: str, rng: Random, judgement: Judgement) -> dict[str, Any]:
    """A candidate: the guidance of both parts with clauses against what was diagnosed, each citing its boundaries."""
    rules = take_up(entries_in(prompt, "diagnoses"), "boundary", "boundaries", rng, judgement)
    if rules and rng.random() < judgement.steers_agent:
        rules.append({"clause": POLICY, "section": "Next", "boundaries": rules[0]["boundaries"]})
    parts = {name: with_clauses(block(prompt, name), rules) for name in ("first", "update")}
    return {"rules": rules, **parts}
