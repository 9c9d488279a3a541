"""Effects of compactions by the phase of work that they fell into: after a read, an edit, an error, a user's word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from recompact.attribution.judgement import Verification
from recompact.engine.store.records import read_boundary
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Verdict
from recompact.values.call_effects import PHASES, Phase, phase_of
from recompact.values.stats import Estimate, bootstrap_ratios
from recompact.values.tables import Table, columns, estimate_cell


@dataclass(frozen=True)
class PhaseEffects:
    """The compactions of one phase: how many there are, how many have draws in both arms, how many were retained, and
    the means of H and B, with intervals by resampling trajectories."""

    phase: Phase
    boundaries: int
    examined: int
    retained: int
    hazard: Estimate | None
    burden: Estimate | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def effects_by_phase(store: Store, every: Verification) -> tuple[PhaseEffects, ...]:
    """The phases that compactions fell into, by the last turn before each."""
    by_phase: dict[Phase, list[Verdict]] = {}
    for verdict in every.verdicts:
        boundary = read_boundary(store, verdict.id.unit, verdict.id.index)
        by_phase.setdefault(phase_of(boundary.pre.last), []).append(verdict)
    units = sorted({verdict.id.unit for verdict in every.verdicts})
    return tuple(_effects(phase, by_phase[phase], units) for phase in PHASES if phase in by_phase)


def _effects(phase: Phase, verdicts: Sequence[Verdict], units: Sequence[str]) -> PhaseEffects:
    known = [(verdict.id.unit, effect) for verdict in verdicts if (effect := verdict.reported_effect) is not None]
    number = [float(sum(unit == each for each, _ in known)) for unit in units]
    hazard = [sum(effect.hazard for each, effect in known if each == unit) for unit in units]
    burden = [sum(effect.burden for each, effect in known if each == unit) for unit in units]
    means = bootstrap_ratios([(hazard, number), (burden, number)])
    return PhaseEffects(phase, len(verdicts), len(known), sum(verdict.retained for verdict in verdicts), *means)


def phase_table(phases: Sequence[PhaseEffects], simulated: bool) -> Table:
    rows = tuple(
        (
            each.phase,
            each.boundaries,
            each.examined,
            each.retained,
            estimate_cell(each.hazard, 2),
            estimate_cell(each.burden, 1),
        )
        for each in phases
    )
    heads = columns(
        "phase", "boundaries", "examined", "retained", "hazard", "burden", phase="after", hazard="H", burden="B"
    )
    notes = ("H and B: means over compactions with draws in both arms; 95 % intervals resample trajectories.",)
    simulation = ("Simulated models.",) if simulated else ()
    return Table("Effects by phase", heads, rows, (*notes, *simulation))
