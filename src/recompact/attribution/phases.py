"""Effects of compactions by the phase of work that they fell into: after a read, an edit, an error, a user's word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recompact.attribution.judgement import Verification
from recompact.attribution.means import MeanEffects, mean_effects
from recompact.engine.store.records import read_boundary
from recompact.engine.store.store import Store
from recompact.values.call_effects import PHASES, Phase, phase_of
from recompact.values.outcome import BoundaryId
from recompact.values.stats import FEWEST
from recompact.values.tables import Table, columns
from recompact.values.texts import quantity


@dataclass(frozen=True)
class PhaseEffects:
    """The compactions of one phase."""

    phase: Phase
    effects: MeanEffects

    def to_json(self) -> dict[str, Any]:
        return {"phase": self.phase, **self.effects.to_json()}


def effects_by_phase(store: Store, every: Verification) -> tuple[PhaseEffects, ...]:
    """The phases that compactions fell into, by the last turn before each."""
    by_phase: dict[Phase, set[BoundaryId]] = {}
    for verdict in every.verdicts:
        boundary = read_boundary(store, verdict.id.unit, verdict.id.index)
        by_phase.setdefault(phase_of(boundary.pre.last), set()).add(verdict.id)
    return tuple(PhaseEffects(phase, mean_effects(every, by_phase[phase])) for phase in PHASES if phase in by_phase)


def phase_table(phases: Sequence[PhaseEffects], simulated: bool) -> Table:
    rows = tuple(
        (
            each.phase,
            each.effects.boundaries,
            each.effects.examined,
            each.effects.retained,
            each.effects.cell(each.effects.hazard, 2),
            each.effects.cell(each.effects.burden, 1),
        )
        for each in phases
    )
    heads = columns(
        "phase", "boundaries", "examined", "retained", "hazard", "burden", phase="after", hazard="H", burden="B"
    )
    draws = max((each.effects.draws for each in phases), default=0)
    notes = (
        f"H and B: means over compactions with draws in both arms, by {quantity(draws, 'draw')} of each arm, as many as"
        f" all have; 95 % intervals resample trajectories, from {FEWEST} of them on.",
    )
    simulation = ("Simulated models.",) if simulated else ()
    return Table("Effects by phase", heads, rows, (*notes, *simulation))
