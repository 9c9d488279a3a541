"""The controls and analyses of one run together: what `recompact controls` prints and a report can show.

One of them is the paper's theorem: what compaction costs, by runs with and without it, is the expected sum of hazards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import fmean
from typing import Any

from recompact.attribution.detection import AllocationScore, DrawsPoint, compare_allocations, sensitivity_to_draws
from recompact.attribution.effects import equal_draws, hazard_and_burden
from recompact.attribution.halving import Halving
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.records import outcomes_in
from recompact.attribution.statement import Statement, control_of, statement_of
from recompact.attribution.uniform import Uniform
from recompact.engine.store.adaptations import read_adaptations
from recompact.engine.store.runs import boundary_rows, broken_trajectories, trajectories
from recompact.engine.store.store import Store
from recompact.values.candidate import Candidate
from recompact.values.outcome import BoundaryId, Outcomes
from recompact.values.stats import FEWEST, Estimate, percentile_estimate, spearman
from recompact.values.texts import quantity

RESAMPLES = 1000
COUPLED = 20  # trajectories from which on the interval of a correlation holds (benchmarks/interval_coverage.py)
PAIRS = 3  # of halving and of the fixed-budget evaluation that it is compared with


@dataclass(frozen=True)
class TasksLeftOut:
    """How many tasks of both runs the identity is not checked on, by the reason."""

    broken: int  # an environment broke a trajectory of either run: it says nothing about the agent
    without_verdict: int  # a boundary was left out, or has no draws in both arms

    @property
    def statement(self) -> str:
        """The reasons in words; empty where no task was left out."""
        reasons = [
            f"{quantity(self.broken, 'task')} where the environment broke a trajectory" * bool(self.broken),
            f"{quantity(self.without_verdict, 'task')} with a boundary without a verdict" * bool(self.without_verdict),
        ]
        return " and ".join(filter(None, reasons))


@dataclass(frozen=True)
class Controls:
    """What was checked. A control that the run has no draws for is None or empty.

    The identity and the coupling rest on as many draws of each arm as every boundary has (`equal_draws`).
    """

    statement: Statement
    draws: int  # of each arm, in the identity and the coupling
    identity: IdentityCheck | None
    left_out: TasksLeftOut | None  # of the identity, where there is a run to compare with
    coupling: Estimate | None  # Spearman's correlation of H and B, of different draws; resamples trajectories
    allocations: tuple[AllocationScore, ...]  # against what all draws say
    sensitivity: tuple[DrawsPoint, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "statement": self.statement.to_json(),
            "draws": self.draws,
            "identity": self.identity and {**asdict(self.identity), "agrees": self.identity.agrees},
            "left_out_of_identity": self.left_out and asdict(self.left_out),
            "coupling": self.coupling and asdict(self.coupling),
            "allocations": [asdict(row) for row in self.allocations],
            "sensitivity": [asdict(row) for row in self.sensitivity],
        }


def controls_of(store: Store, uncompacted: Store | None = None) -> Controls:
    """All controls of a verified run; `uncompacted` has the same tasks without compaction."""
    verification = read_verdicts(store)
    outcomes = outcomes_in(store).outcomes
    thresholds = verification.settings.thresholds
    draws = min((min(len(own.pre), len(own.post)) for own in outcomes.values()), default=0)
    enough = draws > PAIRS  # with no more than three pairs, all draws together are no reference for three
    begun = {f.id: f.outcomes for f in verification.verdicts if 0 in f.outcomes.pre and 0 in f.outcomes.post}
    equally, drawn = equal_draws(begun)
    identity, left_out = _identity(store, uncompacted, drawn) if uncompacted else (None, None)
    return Controls(
        statement=statement_of(verification, control_of(store)),
        draws=equally,
        identity=identity,
        left_out=left_out,
        coupling=_coupling(drawn, equally),
        allocations=tuple(
            compare_allocations(
                [Uniform(PAIRS, thresholds), Halving(PAIRS, thresholds)],
                outcomes,
                thresholds=thresholds,
                rules=cited_in_clauses(store),
            )
        )
        if enough
        else (),
        sensitivity=tuple(
            sensitivity_to_draws(outcomes, sorted({1, PAIRS, draws}), subsamples=200, thresholds=thresholds)
        )
        if enough
        else (),
    )


def cited_in_clauses(store: Store) -> list[set[BoundaryId]]:
    """The boundaries that each clause of the adapted templates cites: of all candidates where none was selected."""
    records = read_adaptations(store)
    adapted = [each for record in records for each in ([record.winner] if record.winner else record.candidates)]
    return citations(store, adapted)


def citations(store: Store, candidates: Iterable[Candidate]) -> list[set[BoundaryId]]:
    """The boundaries of a run that each clause of these candidates cites, without clauses that cite none."""
    ids = [row.id for row in boundary_rows(store)]
    answers = [clause.answers for candidate in candidates for clause in candidate.clauses]
    cited = [{id for id in ids if str(id) in places} for places in answers]
    return [own for own in cited if own]


def _identity(
    store: Store, uncompacted: Store, drawn: Mapping[BoundaryId, Outcomes]
) -> tuple[IdentityCheck | None, TasksLeftOut]:
    """Over the tasks that both runs have, whole in both, and whose boundaries all have draws."""
    hazards: dict[str, float] = {row.task: 0.0 for row in trajectories(store)}
    open_tasks = set()
    for row in boundary_rows(store):
        if (own := drawn.get(row.id)) is None:
            open_tasks.add(row.task)
        else:
            hazards[row.task] += float(hazard_and_burden(*own.arms)[0])
    with_compaction, without = _rewards(store), _rewards(uncompacted)
    both = with_compaction.keys() & without.keys()
    broken = {row.task for run in (store, uncompacted) for row in broken_trajectories(run, "collect")}
    runs = [
        TaskRuns(task, tuple(with_compaction[task]), (hazards[task],), tuple(without[task]))
        for task in sorted(both - broken - open_tasks)
    ]
    left_out = TasksLeftOut(len(both & broken), len((both & open_tasks) - broken))
    return check_identity(runs) if runs else None, left_out


def _rewards(store: Store) -> dict[str, list[float]]:
    rewards: dict[str, list[float]] = {}
    for row in trajectories(store):
        rewards.setdefault(row.task, []).append(row.value)
    return rewards


def _coupling(outcomes: Mapping[BoundaryId, Outcomes], draws: int) -> Estimate | None:
    """Spearman's correlation of H and B, each from draws that the other does not see, with an interval that resamples
    trajectories; None where there are too few of either.

    From the same draws they would be correlated by chance alone: a draw that fails is often a long one.
    """
    units: dict[str, list[tuple[float, float, float, float]]] = {}
    if draws < 2:
        return None
    for id in sorted(outcomes):
        own = outcomes[id]
        halves = [tuple(tuple(arm[n] for n in range(half, draws, 2)) for arm in (own.pre, own.post)) for half in (0, 1)]
        (hazard, burden), (other_hazard, other_burden) = (hazard_and_burden(*half) for half in halves)
        pairs = (float(hazard), float(other_burden), float(other_hazard), float(burden))
        units.setdefault(id.unit, []).append(pairs)
    names = sorted(units)
    value = _cross_correlation([pairs for name in names for pairs in units[name]])
    if len(names) < COUPLED or value is None:
        return None
    chance = Random("coupling")
    resampled = (
        _cross_correlation([pairs for name in chance.choices(names, k=len(names)) for pairs in units[name]])
        for _ in range(RESAMPLES)
    )
    return percentile_estimate(value, [each for each in resampled if each is not None])


def _cross_correlation(pairs: Sequence[tuple[float, float, float, float]]) -> float | None:
    """The mean of two correlations: H of one half of the draws with B of the other, and the other way round."""
    hazard, other_burden, other_hazard, burden = zip(*pairs, strict=True)
    both = [spearman(hazard, other_burden), spearman(other_hazard, burden)]
    known = [each for each in both if each is not None]
    return fmean(known) if known else None


@dataclass(frozen=True)
class TaskRuns:
    """The runs of one task: rewards with compaction, the sum of the estimated hazards of each, rewards without.

    A few draws in each arm are enough for the hazards, but as many for every boundary: then their estimates are
    unbiased. Where outcomes decided which boundary was drawn again, they are not (`effects.equal_draws`).
    """

    task: str
    compacted: tuple[float, ...]
    hazards: tuple[float, ...]
    uncompacted: tuple[float, ...]


@dataclass(frozen=True)
class IdentityCheck:
    """J(C) - J(none) beside -E[sum H]."""

    tasks: int
    trajectories: int
    compacted: Estimate  # J(C)
    uncompacted: Estimate  # J(none)
    difference: Estimate
    predicted: Estimate  # -E[sum H]
    gap: Estimate  # difference - predicted: 0 if the theorem holds

    @property
    def agrees(self) -> bool | None:
        """Whether the theorem holds; None where there are too few tasks to tell."""
        return None if self.tasks < FEWEST else self.gap.low <= 0 <= self.gap.high

    @property
    def verdict(self) -> str:
        if self.agrees is None:
            return f"with fewer than {FEWEST} tasks an interval over tasks tells nothing"
        return "they agree" if self.agrees else "they do not agree"


def check_identity(runs: Sequence[TaskRuns], *, resamples: int = 2000) -> IdentityCheck:
    """Each task counts the same; the intervals are percentiles of a bootstrap over tasks."""
    means = [(fmean(r.compacted), fmean(r.uncompacted), -fmean(r.hazards)) for r in runs]
    random = Random(0)
    resampled = [_figures(random.choices(means, k=len(means))) for _ in range(resamples)]
    estimates = [
        percentile_estimate(value, [figures[n] for figures in resampled]) for n, value in enumerate(_figures(means))
    ]
    return IdentityCheck(len(runs), sum(len(r.compacted) for r in runs), *estimates)


def _figures(means: Sequence[tuple[float, float, float]]) -> tuple[float, ...]:
    compacted, uncompacted, predicted = (fmean(column) for column in zip(*means, strict=True))
    difference = compacted - uncompacted
    return compacted, uncompacted, difference, predicted, difference - predicted
