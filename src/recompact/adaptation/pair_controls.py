"""Negative controls: PAIR with uninformative evidence, all else the same. What they gain is not due to evidence.

`pair-random` diagnoses as many boundaries as were retained, drawn at random; `pair-swapped` shows the two arms of
the retained ones under each other's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from random import Random

from recompact.adaptation.evidence import retained_evidence
from recompact.adaptation.method import Method, MethodInputs
from recompact.adaptation.pair import DIAGNOSIS, boundary_evidence, propose_from, reasons
from recompact.attribution.boundary_view import BoundaryView, boundary_view
from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.posterior import Thresholds
from recompact.attribution.records import settings_of
from recompact.engine.store.store import Store
from recompact.values.candidate import Proposal
from recompact.values.outcome import Outcomes

OTHER = {"PRE": "POST", "POST": "PRE"}


def random_boundaries(store: Store) -> tuple[BoundaryView, ...]:
    """As many boundaries as were retained, drawn at random from all that were continued in both arms."""
    verification = read_verdicts(store)
    continued = sorted(verification.examined, key=lambda verdict: verdict.id)
    number = len(verification.retained)
    drawn_by_lot = Random(f"pair-random/{store.metadata.seed}").sample(continued, number)
    return tuple(boundary_view(store, verdict) for verdict in drawn_by_lot)


def swapped_arms(store: Store) -> tuple[BoundaryView, ...]:
    """The retained boundaries, each continuation under the name of the other arm."""
    settings = settings_of(store)
    thresholds = Thresholds(settings.hazard, settings.burden)
    return tuple(swap_arms(view, thresholds) for view in retained_evidence(store))


def swap_arms(view: BoundaryView, thresholds: Thresholds) -> BoundaryView:
    """The boundary as if each continuation had come from the other arm: effect and missing facts follow from that."""
    continuations = tuple(
        sorted(
            (replace(c, row=replace(c.row, arm=OTHER[c.row.arm])) for c in view.continuations),
            key=lambda c: (c.row.draw, c.row.arm == "POST"),
        )
    )
    outcomes = Outcomes(view.verdict.outcomes.post, view.verdict.outcomes.pre)
    verdict = replace(view.verdict, outcomes=outcomes, effect=effect_of(outcomes, thresholds), confirmed=None)
    return replace(view, verdict=verdict, continuations=continuations)


def _control(name: str, choose: Callable[[Store], Iterable[BoundaryView]]) -> Method:
    kind = f"{name} {DIAGNOSIS}"  # a report shows no diagnosis of a control

    async def propose(inputs: MethodInputs) -> Proposal:
        return await propose_from(inputs, boundary_evidence(inputs, choose), name, kind, f"{name}/")

    return Method(
        name,
        propose,
        needs_effects=True,
        phases=(f"diagnose/{name}/", f"revise/{name}/"),
        cites="compaction",
        reasons=partial(reasons, kind=kind),
    )


PAIR_RANDOM = _control("pair-random", random_boundaries)
PAIR_SWAPPED = _control("pair-swapped", swapped_arms)
