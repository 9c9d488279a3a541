"""Which of a method's candidates is taken, by the rule that the config names."""

from __future__ import annotations

from collections.abc import Sequence

from recompact.adaptation.method import Method
from recompact.adaptation.race import race
from recompact.adaptation.selection import select
from recompact.engine.study import Study
from recompact.values.candidate import Candidate, Selection


async def choose(
    study: Study, candidates: Sequence[Candidate], method: Method | None = None
) -> tuple[tuple[Candidate, ...], Selection]:
    """The candidates as they took part in the selection, and the selection.

    A method that already selected along the way gets fresh runs: those that made a winner win would flatter it.
    """
    under = f"{method.name}/" if method and method.reselects else ""
    if study.config.adapt.selection == "racing":
        return await race(study, candidates, under)
    return tuple(candidates), await select(study, candidates, under)
