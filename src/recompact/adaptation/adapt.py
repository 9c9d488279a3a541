"""The method as the paper tells it: collect, verify, revise, select."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from recompact.adaptation.acon import acon_ut, acon_ut_locked, acon_utco
from recompact.adaptation.pair import pair
from recompact.adaptation.revision import Candidate
from recompact.adaptation.selection import ORIGINAL, Selection, select
from recompact.adaptation.units import Progress, Silent
from recompact.attribution.verify import verify
from recompact.collection import collect
from recompact.execution.schedule import Unfinished
from recompact.study import Study
from recompact.template import Template

Stage = Literal["collect", "verify", "revise", "select"]
STAGES: tuple[Stage, ...] = ("collect", "verify", "revise", "select")

Method = Callable[[Study, Progress], Awaitable[tuple[tuple[Candidate, ...], tuple[Unfinished, ...]]]]
"""Evidence in, candidates out."""

METHODS: dict[str, Method] = {
    "pair": pair,
    "acon-ut": acon_ut,
    "acon-utco": acon_utco,
    "acon-ut-locked": acon_ut_locked,
}
FROM_EFFECTS = frozenset({"pair"})
"""Methods whose evidence is verified boundaries. The others learn from whole trajectories and pay for no draws."""


@dataclass(frozen=True)
class Adapted:
    """What came out: the template to use, who wrote it, and all candidates."""

    template: Template
    winner: str
    candidates: tuple[Candidate, ...]
    selection: Selection | None
    unfinished: tuple[Unfinished, ...] = ()


async def adapt(study: Study, progress: Progress | None = None, until: Stage = "select") -> Adapted:
    """Steps 1 to 4, or up to one of them. Whatever the run has already is not done again."""
    told = progress or Silent()
    upto = STAGES.index(until)
    nothing = Adapted(study.template, ORIGINAL, (), None)

    collected = await collect(study, on_begin=lambda n, d: told.begin("collect", n - d), on_done=told.done)  # step 1
    if collected.unfinished or upto < 1:
        return _left(nothing, collected.unfinished)

    method = study.config.adapt.method
    if method in FROM_EFFECTS:
        told.begin("verify", 0)
        verified = await verify(study, on_done=told.done)  # step 2
        if verified.unfinished:
            return _left(nothing, verified.unfinished)
    if upto < 2:
        return nothing

    candidates, unfinished = await METHODS[method](study, told)  # step 3
    if unfinished or upto < 3 or not any(c.template for c in candidates):
        return Adapted(study.template, ORIGINAL, candidates, None, tuple(unfinished))

    selection, left = await select(  # step 4
        study, candidates, on_begin=lambda n, d: told.begin("select", n - d), on_done=told.done
    )
    chosen = {c.name: c.template for c in candidates}.get(selection.winner) or study.template
    return Adapted(chosen, selection.winner, candidates, selection, left)


def _left(adapted: Adapted, unfinished: tuple[Unfinished, ...]) -> Adapted:
    return Adapted(adapted.template, adapted.winner, adapted.candidates, adapted.selection, tuple(unfinished))
