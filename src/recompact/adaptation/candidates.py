"""Candidates drawn independently, each its own unit of work, whichever method draws them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from recompact.adaptation.method import MethodInputs
from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.questions import Question, answers
from recompact.values.candidate import Candidate
from recompact.values.texts import quantity

Draw = Callable[[Optimizer, str], Awaitable[Candidate]]
"""How one candidate is drawn, given its name."""


async def draw_candidates(inputs: MethodInputs, method: str, draw: Draw, under: str = "") -> tuple[Candidate, ...]:
    """As many candidates as the config asks for; one that never becomes valid is included, with what was wrong.

    `under` distinguishes units that start from a template other than the original.
    """

    def question(name: str) -> Question:
        async def answer(optimizer: Optimizer) -> Any:
            return (await draw(optimizer, name)).to_json()

        return Question(f"revise/{method}/{under}{name}", answer)

    names = [f"{method}-{n}" for n in range(1, inputs.settings.candidates + 1)]
    questions = {name: question(name) for name in names}
    drafts = await answers(inputs, "revise", "candidate", questions, useful=lambda draft: draft["parts"] is not None)
    return tuple(Candidate.from_json(draft, inputs.template.frame) for draft in drafts.values())


def without_usable(candidates: Sequence[Candidate]) -> str:
    """What to say where no candidate became valid; empty where one did."""
    if any(candidate.template for candidate in candidates):
        return ""
    reasons = dict.fromkeys(reason for candidate in candidates for reason in candidate.objections)
    return (
        f"The optimizer gave no usable candidate in {quantity(len(candidates), 'attempt')}; the first reasons:"
        f" {'; '.join(list(reasons)[:3]) or 'none'}"
    )
