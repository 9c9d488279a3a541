"""The first lines of a report: the claims that answer the question, and the numbers that a reader takes home.

Comes in: evaluations and verified runs. Goes out: claims and key figures. Comparisons that say the same make one claim;
where they do not (a small budget does harm, a large one does none), each claim names its arms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.intervals import none_of
from recompact.evaluation.summary import Evaluation, counted
from recompact.report.content.answer import (
    Claim,
    Contrast,
    adapted,
    compacted,
    cost_claim,
    figure,
    gain_claim,
    with_unit,
)
from recompact.report.content.harm import harm_claim
from recompact.report.content.runs import Evaluated, Verified

NAMED = 4  # comparisons whose numbers stand below a claim


@dataclass(frozen=True)
class KeyFigure:
    """A number that a reader takes home."""

    label: str
    value: str
    note: str


def lead(evaluations: Sequence[Evaluated], verified: Sequence[Verified]) -> tuple[Claim, ...]:
    """What there is to say first; where there are several runs of a kind, with their names."""
    several = len(evaluations) > 1
    costs = [(made.name if several else "", found) for made in evaluations for found in made.costs]
    gains = [(made.name if several else "", found) for made in evaluations for found in made.gains]
    alone = [made for made in evaluations if not made.costs and not made.gains]
    return (
        *_claims(costs, cost_claim),
        *_claims(gains, gain_claim),
        *(_named(_accuracies(made), made.name, several) for made in alone),
        *(_named(harm_claim(run.harm), run.name, len(verified) > 1) for run in verified),
    )


def _claims(found: Sequence[tuple[str, Contrast]], claim: Callable[[Contrast, bool], Claim]) -> list[Claim]:
    """One claim for all comparisons that say the same, whatever they say of steps; each is given with its run."""
    alike: dict[str, list[tuple[str, Contrast]]] = {}
    for run, one in found:
        alike.setdefault(claim(one, False).said, []).append((run, one))
    made = []
    for shorter, same in alike.items():
        longer = {claim(one, True).said for _, one in same}
        said = longer.pop() if len(longer) == 1 else shorter
        arms = ", ".join(f"{run} {one.comparison.first}".strip() for run, one in same)
        told = [line for run, one in same for line in _named(claim(one, True), run, bool(run)).numbers]
        more = (f"{len(told) - NAMED} more, below.",) if len(told) > NAMED + 1 else tuple(told[NAMED:])
        made.append(Claim(said if len(alike) == 1 else f"{said[:-1]} ({arms}).", (*told[:NAMED], *more)))
    return made


def _accuracies(made: Evaluated) -> Claim:
    """Where nothing is to be compared: every arm by itself."""
    accs = [f"{arm.label} {with_unit('acc', _accuracy(made.shown, arm))}" for arm in made.shown.arms]
    return Claim(f"Accuracy: {', '.join(accs)}.", (f"{made.shown.title}.",))


def _named(claim: Claim, name: str, several: bool) -> Claim:
    return replace(claim, numbers=tuple(f"{name}: {line}" for line in claim.numbers)) if several else claim


def key_figures(evaluations: Sequence[Evaluated], verified: Sequence[Verified]) -> tuple[tuple[KeyFigure, ...], ...]:
    """Accuracy without compaction, with it, and with adapted prompts; how many compactions did harm. Several
    evaluations have a row each."""
    rows = [_accuracies_of(made, f" of {made.name}" if len(evaluations) > 1 else "") for made in evaluations]
    harms = []
    for run in verified:
        where = f", {run.name}" if len(verified) > 1 else ""
        value = f"{run.harm.harmful:,} of {run.harm.examined:,}"
        harms.append(KeyFigure("Harmful compactions", value, f"{run.harm.rule}{where}"))
    if len(rows) == 1:
        return ((*rows[0], *harms),)
    return (*map(tuple, rows), *([tuple(harms)] if harms else []))


def _accuracies_of(made: Evaluated, where: str) -> list[KeyFigure]:
    none = none_of(made.shown)
    kinds = (
        ("without compaction", [none] if none else []),
        ("with compaction", compacted(made.shown)),
        ("with the adapted prompt", [arm for arm, _ in adapted(made.shown)]),
    )
    return [_accuracy_of(label, made.shown, arms, where) for label, arms in kinds if arms]


def _accuracy_of(label: str, shown: Evaluation, arms: Sequence[ArmRuns], where: str) -> KeyFigure:
    """Of one arm, or from the lowest to the highest of several."""
    ordered = sorted(arms, key=lambda arm: _accuracy(shown, arm))
    low, high = ordered[0], ordered[-1]
    value = with_unit("acc", _accuracy(shown, high))
    if low is high:
        return KeyFigure(f"Accuracy {label}", value, f"arm {low.label}{where}")
    note = f"{counted(len(arms), 'arm')}{where}, {low.label} to {high.label}"
    return KeyFigure(f"Accuracy {label}", f"{figure('acc', _accuracy(shown, low))} to {value}", note)


def _accuracy(shown: Evaluation, arm: ArmRuns) -> float:
    return shown.metrics(arm).means["acc"]
