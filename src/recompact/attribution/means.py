"""Many compactions together: mean effects, of a run or by the phase of work that they fell into, the violations of
rules that they add, and how many hurt (the counts of the paper's section 3.3)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from recompact.attribution.effects import equal_draws, hazard_and_burden
from recompact.attribution.judgement import Verification
from recompact.engine.store.records import read_boundary
from recompact.engine.store.runs import continuation_rows
from recompact.engine.store.store import Store
from recompact.values.call_effects import PHASES, Phase, phase_of
from recompact.values.outcome import PAPER, BoundaryId, Effect, Thresholds
from recompact.values.stats import FEWEST, Estimate, bootstrap_ratios, spearman
from recompact.values.tables import Number, Table, columns, estimate_cell
from recompact.values.texts import quantity
from recompact.values.trajectory import Score


@dataclass(frozen=True)
class MeanEffects:
    """Some compactions of a run: how many there are, how many have draws in both arms, how many were retained, and the
    means of H and B with intervals by resampling trajectories. With fewer than `FEWEST` of those no interval is shown.

    The means rest on as many draws of each arm as every compaction of the run has: where outcomes decide who is drawn
    again, later draws would bias them (`effects.equal_draws`)."""

    boundaries: int
    examined: int
    retained: int
    draws: int
    trajectories: int  # with draws
    hazard: Estimate | None
    burden: Estimate | None

    @property
    def share_retained(self) -> str | None:
        """How many were retained of those that have draws; None where none has any."""
        return f"{self.retained:,} of {self.examined:,}" if self.examined else None

    def cell(self, estimate: Estimate | None, digits: int) -> Number | None:
        """One of the means as a table shows it."""
        if estimate is None or self.trajectories >= FEWEST:
            return estimate_cell(estimate, digits)
        return Number(estimate.value, digits)


def mean_effects(every: Verification, among: Collection[BoundaryId] | None = None) -> MeanEffects:
    """Of all compactions of a verification, or of those among them."""
    chosen = [verdict for verdict in every.verdicts if among is None or verdict.id in among]
    examined = {verdict.id: verdict.outcomes for verdict in every.examined if not verdict.left_out}
    draws, outcomes = equal_draws(examined)
    units = sorted({verdict.id.unit for verdict in every.verdicts})
    sums = {unit: [0.0, 0.0, 0.0] for unit in units}
    for id in (verdict.id for verdict in chosen if verdict.id in outcomes):
        hazard, burden = hazard_and_burden(tuple(outcomes[id].pre.values()), tuple(outcomes[id].post.values()))
        for n, value in enumerate((hazard, burden, 1)):
            sums[id.unit][n] += float(value)
    number = [own[2] for own in sums.values()]
    vectors = [([own[n] for own in sums.values()], number) for n in (0, 1)]
    means = bootstrap_ratios(vectors) if units else (None, None)
    known = sum(verdict.id in examined for verdict in chosen)
    retained, trajectories = sum(verdict.retained for verdict in chosen), sum(map(bool, number))
    return MeanEffects(len(chosen), known, retained, draws, trajectories, *means)


def effects_by_phase(store: Store, every: Verification) -> dict[Phase, MeanEffects]:
    """The phases that compactions fell into, by the last turn before each."""
    by_phase: dict[Phase, set[BoundaryId]] = {}
    for verdict in every.verdicts:
        boundary = read_boundary(store, verdict.id)
        by_phase.setdefault(phase_of(boundary.pre.last), set()).add(verdict.id)
    return {phase: mean_effects(every, by_phase[phase]) for phase in PHASES if phase in by_phase}


def phase_table(phases: Mapping[Phase, MeanEffects], simulated: bool) -> Table:
    draws = max((effects.draws for effects in phases.values()), default=0)
    notes = (
        f"H and B: means over compactions with draws in both arms, by {quantity(draws, 'draw')} of each arm, as many as"
        f" all have; 95 % intervals resample trajectories, from {FEWEST} of them on.",
    )
    simulation = ("Simulated models.",) if simulated else ()
    heads = columns(
        "phase", "boundaries", "examined", "retained", "hazard", "burden", phase="after", hazard="H", burden="B"
    )
    rows = tuple(
        (phase, own.boundaries, own.examined, own.retained, own.cell(own.hazard, 2), own.cell(own.burden, 1))
        for phase, own in phases.items()
    )
    return Table("Effects by phase", heads, rows, (*notes, *simulation))


@dataclass(frozen=True)
class ViolationEffect:
    """Violations per continuation before and after the compactions that have draws in both arms, and how many more
    there are after, with its interval by resampling trajectories. Only draws count that all of them have: where
    outcomes decide who is drawn again, the others would bias it."""

    boundaries: int
    pre: float
    post: float
    added: Estimate
    trajectories: int = FEWEST  # with fewer than that, no interval is shown

    @property
    def sentence(self) -> str:
        e = self.added
        sure = f"95 % interval {e.low:+.2f} to {e.high:+.2f}, " if self.trajectories >= FEWEST else ""
        return (
            f"Rules: {self.post:.2f} violations in a continuation after a compaction, {self.pre:.2f} without it:"
            f" {e.value:+.2f} ({sure}{quantity(self.boundaries, 'compaction')})."
        )

    @property
    def cell(self) -> Number:
        """What is added, as a table shows it."""
        e = self.added
        return Number(e.value, 2, interval=(e.low, e.high) if self.trajectories >= FEWEST else None, signed=True)


def violations_added(store: Store) -> ViolationEffect | None:
    """None where the suite reports no violations, or no boundary has draws with them in both arms."""
    draws: dict[BoundaryId, dict[str, dict[int, int]]] = {}
    for row in continuation_rows(store):
        if (violations := Score(*store.result(row.name)["score"]).violations) is None:
            if row.ending == "finished":
                return None  # a suite reports them always or never
            continue
        draws.setdefault(row.boundary, {}).setdefault(row.arm, {})[row.draw] = len(violations)
    complete = {id: arms for id, arms in draws.items() if len(arms) == 2}
    numbers = [arm.keys() for arms in complete.values() for arm in arms.values()]
    common = set(numbers[0]).intersection(*numbers) if numbers else set()
    if not common:
        return None
    both = {id: {name: [arm[n] for n in common] for name, arm in arms.items()} for id, arms in complete.items()}
    units = sorted({id.unit for id in both})
    added = [_sum_of(both, unit, "POST") - _sum_of(both, unit, "PRE") for unit in units]
    number = [float(sum(id.unit == unit for id in both)) for unit in units]
    [estimate] = bootstrap_ratios([(added, number)])
    assert estimate is not None
    pre, post = (sum(_sum_of(both, unit, arm) for unit in units) / len(both) for arm in ("PRE", "POST"))
    return ViolationEffect(len(both), pre, post, estimate, len(units))


def _sum_of(both: dict[BoundaryId, dict[str, list[int]]], unit: str, arm: str) -> float:
    """Over the boundaries of a trajectory: the mean of each one's draws."""
    means: Sequence[float] = [fmean(arms[arm]) for id, arms in both.items() if id.unit == unit]
    return sum(means)


@dataclass(frozen=True)
class Counts:
    """The counts of one group of trajectories."""

    group: str
    trajectories: int
    boundaries: int
    unchanged: int  # H = 0
    reduced: int  # H > 0: less success after the compaction
    improved: int  # H < 0
    severe_hazard: int  # H >= tau_H
    longer: int  # B > 0
    severe_burden: int  # B >= tau_B
    twice_severe_burden: int  # B >= 2 tau_B
    harmful: int  # either of the two, unless the compaction clearly helped
    trajectories_with_reduced: int
    trajectories_with_harmful: int


def counts(
    effects: Mapping[BoundaryId, Effect], success: Mapping[str, bool], thresholds: Thresholds = PAPER
) -> list[Counts]:
    """For all trajectories, the failed and the successful ones; `success` is by unit."""
    groups = {
        "all": set(success),
        "failed": {unit for unit, passed in success.items() if not passed},
        "successful": {unit for unit, passed in success.items() if passed},
    }
    return [_group_counts(name, units, effects, thresholds) for name, units in groups.items()]


def _group_counts(
    group: str, units: Collection[str], every: Mapping[BoundaryId, Effect], thresholds: Thresholds
) -> Counts:
    effects = {boundary: effect for boundary, effect in every.items() if boundary.unit in units}
    hazards, burdens = [e.hazard for e in effects.values()], [e.burden for e in effects.values()]
    harmful = [b for b, e in effects.items() if e.selected]
    return Counts(
        group=group,
        trajectories=len(units),
        boundaries=len(effects),
        unchanged=sum(h == 0 for h in hazards),
        reduced=sum(h > 0 for h in hazards),
        improved=sum(h < 0 for h in hazards),
        severe_hazard=sum(h >= thresholds.hazard for h in hazards),
        longer=sum(b > 0 for b in burdens),
        severe_burden=sum(b >= thresholds.burden for b in burdens),
        twice_severe_burden=sum(b >= 2 * thresholds.burden for b in burdens),
        harmful=len(harmful),
        trajectories_with_reduced=len({boundary.unit for boundary, effect in effects.items() if effect.hazard > 0}),
        trajectories_with_harmful=len({boundary.unit for boundary in harmful}),
    )


def unequal_note(effects: Iterable[Effect]) -> str:
    """What to say beside counts of boundaries that do not have equally many draws; empty where they do.

    The counts themselves go by all draws, which tell most about each boundary: with one pair for each, every failure
    would be a severe H.
    """
    draws = sorted({number for effect in effects for number in (effect.pre, effect.post)})
    if not draws or draws[0] == draws[-1]:
        return ""
    return (
        f"Boundaries have {draws[0]} to {draws[-1]} draws in an arm. Where outcomes decide which get more (halving,"
        " racing), chance leaves more estimates below 0 than above it: the counts describe this list, and are biased as"
        " shares of all compactions."
    )


def coupling(effects: Iterable[Effect]) -> float | None:
    """Spearman's correlation of H and B over boundaries."""
    pairs = [(e.hazard, e.burden) for e in effects]
    return spearman([h for h, _ in pairs], [b for _, b in pairs])
