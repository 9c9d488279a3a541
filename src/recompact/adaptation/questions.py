"""Questions to the optimizer as units of work: each is answered once, and read from the run afterwards. Candidates are
drawn like this, each independently of the others.

Where a whole kind of question got no usable answer, the next command asks again, under new names and so with new
seeds; what was answered before stays on record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from recompact.adaptation.method import MethodInputs
from recompact.adaptation.optimizer import Optimizer
from recompact.engine.execution.scheduler import Unit
from recompact.models.journal import UnitCalls
from recompact.values.candidate import Candidate
from recompact.values.chat import canonical
from recompact.values.texts import quantity

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Question:
    """One thing to find out: the name of its unit, and how an optimizer answers it, as JSON."""

    unit: str
    answer: Callable[[Optimizer], Awaitable[Any]]

    def named(self, attempt: int) -> str:
        """The unit of an attempt, from 1."""
        return self.unit if attempt == 1 else f"{self.unit}~{attempt}"


async def answers(
    inputs: MethodInputs,
    stage: str,
    kind: str,
    questions: Mapping[Key, Question],
    *,
    useful: Callable[[Any], bool],
    failed: Callable[[Any], bool] | None = None,
) -> dict[Key, Any]:
    """The answers to all questions of a kind, in their order.

    `useful` answers are what the next step works with. Where there is none, those that `failed` (by default, that are
    not useful) are asked again.
    """
    has_failed = failed or (lambda answer: not useful(answer))
    finished = inputs.records.finished(kind)
    attempts = {key: _attempts(question, finished) for key, question in questions.items()}
    latest = {key: inputs.records.result(questions[key].named(n)) for key, n in attempts.items() if n}
    again = {key for key, answer in latest.items() if has_failed(answer)}
    attempt = max(attempts.values(), default=0) or 1
    pending = {key for key, n in attempts.items() if n < attempt and (n == 0 or key in again)}
    if not pending and again and not any(useful(answer) for answer in latest.values()):
        pending, attempt = again, attempt + 1
    # An attempt that was begun and stopped halfway is finished before anything is judged by it.
    names = {
        key: question.named(attempt if key in pending and attempts[key] else max(1, attempts[key]))
        for key, question in questions.items()
    }
    units = [_unit(inputs, kind, names[key], question) for key, question in questions.items()]
    await inputs.complete(stage, kind, units)
    return {key: inputs.records.result(name) for key, name in names.items()}


def _attempts(question: Question, finished: set[str]) -> int:
    """How often it was answered."""
    number = 0
    while question.named(number + 1) in finished:
        number += 1
    return number


def _unit(inputs: MethodInputs, kind: str, name: str, question: Question) -> Unit[Any]:
    async def play(calls: UnitCalls) -> Any:
        return await question.answer(inputs.optimizer(calls))

    def record(answer: Any, seconds: float) -> None:
        with inputs.records.transaction():
            inputs.records.finish(name, kind, canonical(answer), seconds)

    return Unit(name, play, record)


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
