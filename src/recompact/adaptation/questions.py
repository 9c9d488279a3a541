"""Questions to the optimizer as units of work: each is answered once, and read from the run afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from recompact.adaptation.optimizer import Optimizer, optimizer_of
from recompact.chat import canonical
from recompact.execution.executor import Unit
from recompact.models.journal import UnitCalls
from recompact.study import Study

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Question:
    """One thing to find out: the name of its unit, and how an optimizer answers it, as JSON."""

    unit: str
    answer: Callable[[Optimizer], Awaitable[Any]]


async def answers(study: Study, stage: str, kind: str, questions: Mapping[Key, Question]) -> dict[Key, Any]:
    """The answers to all questions of a kind, in their order."""
    await study.complete(stage, kind, [_unit(study, kind, question) for question in questions.values()])
    return {key: study.store.result(question.unit) for key, question in questions.items()}


def _unit(study: Study, kind: str, question: Question) -> Unit[Any]:
    async def play(calls: UnitCalls) -> Any:
        return await question.answer(optimizer_of(study, calls))

    def record(answer: Any, seconds: float) -> None:
        with study.store.transaction():
            study.store.finish(question.unit, kind, canonical(answer), seconds)

    return Unit(question.unit, play, record)
