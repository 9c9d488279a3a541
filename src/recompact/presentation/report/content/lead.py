"""The first lines of a report: the claims that answer the question, and the key figures.

Comparisons that say the same make one claim; where they differ (a small budget does harm, a large one does none), each
claim names its arms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.caveats import uncompacted_arms
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.content.answer import (
    ArmContrast,
    Claim,
    adapted_arms,
    compacting_arms,
    cost_claim,
    gain_claim,
    harm_claim,
    metric_text,
    rule_of,
    with_unit,
)
from recompact.presentation.report.content.runs import EvaluationReport, VerificationReport
from recompact.values.texts import quantity

NAMED = 4  # comparisons whose numbers are shown below a claim


@dataclass(frozen=True)
class KeyFigure:
    """A number for the reader to remember."""

    label: str
    value: str
    note: str


def lead(evaluations: Sequence[EvaluationReport], verified: Sequence[VerificationReport]) -> tuple[Claim, ...]:
    """What to say first; where there are several runs of a kind, with their names."""
    several = len(evaluations) > 1
    costs = [(run.name if several else "", contrast) for run in evaluations for contrast in run.costs]
    gains = [(run.name if several else "", contrast) for run in evaluations for contrast in run.gains]
    alone = [run for run in evaluations if not run.costs and not run.gains]
    return (
        *_claims(costs, cost_claim),
        *_claims(gains, gain_claim),
        *(_name_numbers(_accuracies(run), run.name if several else "") for run in alone),
        *(_name_numbers(harm_claim(run.harm), run.name if len(verified) > 1 else "") for run in verified),
    )


def answer(costs: Sequence[ArmContrast], gains: Sequence[ArmContrast]) -> tuple[Claim, ...]:
    """What to say about one evaluation."""
    return (
        *_claims([("", contrast) for contrast in costs], cost_claim),
        *_claims([("", contrast) for contrast in gains], gain_claim),
    )


def _claims(contrasts: Sequence[tuple[str, ArmContrast]], claim: Callable[[ArmContrast, bool], Claim]) -> list[Claim]:
    """One claim for all comparisons that say the same, whatever they say about steps; each comes with its run."""
    alike: dict[str, list[tuple[str, ArmContrast]]] = {}
    for run, contrast in contrasts:
        alike.setdefault(claim(contrast, False).text, []).append((run, contrast))
    claims = []
    for shorter, same in alike.items():
        longer = {claim(contrast, True).text for _, contrast in same}
        text = longer.pop() if len(longer) == 1 else shorter
        arms = ", ".join(f"{run} {contrast.comparison.first}".strip() for run, contrast in same)
        lines = [line for run, contrast in same for line in _name_numbers(claim(contrast, True), run).numbers]
        more = (f"{len(lines) - NAMED} more, below.",) if len(lines) > NAMED + 1 else tuple(lines[NAMED:])
        claims.append(Claim(text if len(alike) == 1 else f"{text[:-1]} ({arms}).", (*lines[:NAMED], *more)))
    return claims


def _accuracies(run: EvaluationReport) -> Claim:
    """Where there is nothing to compare: every arm by itself."""
    accuracies = [f"{arm.label} {with_unit('acc', _accuracy(run.evaluation, arm))}" for arm in run.evaluation.arms]
    return Claim(f"Accuracy: {', '.join(accuracies)}.", (f"{run.evaluation.title}.",))


def _name_numbers(claim: Claim, name: str) -> Claim:
    return replace(claim, numbers=tuple(f"{name}: {line}" for line in claim.numbers)) if name else claim


def key_figures(
    evaluations: Sequence[EvaluationReport], verified: Sequence[VerificationReport]
) -> tuple[tuple[KeyFigure, ...], ...]:
    """Accuracy without compaction, with it, and with adapted prompts; how many compactions are harmful. Several
    evaluations have a row each."""
    rows = [_accuracy_figures(run, f" of {run.name}" if len(evaluations) > 1 else "") for run in evaluations]
    harms = []
    for run in verified:
        where = f", {run.name}" if len(verified) > 1 else ""
        value = f"{run.harm.harmful:,} of {run.harm.statement.examined:,}"
        more = f"; {run.harm.suspected:,} more look{'s' * (run.harm.suspected == 1)} harmful" * bool(run.harm.suspected)
        harms.append(KeyFigure("Harmful compactions", value, f"{rule_of(run.harm.statement.settings)}{more}{where}"))
    if len(rows) == 1:
        return ((*rows[0], *harms),)
    return (*map(tuple, rows), *([tuple(harms)] if harms else []))


def _accuracy_figures(run: EvaluationReport, where: str) -> list[KeyFigure]:
    evaluation, none = run.evaluation, run.evaluation.none
    kinds = (
        ("without compaction", [none] if none else []),
        ("with compaction", compacting_arms(evaluation)),
        ("with the adapted prompt", [arm for arm, _ in adapted_arms(evaluation)]),
    )
    return [_accuracy_figure(label, evaluation, arms, where) for label, arms in kinds if arms]


def _accuracy_figure(label: str, evaluation: Evaluation, arms: Sequence[ArmRuns], where: str) -> KeyFigure:
    """The accuracy of one arm, or from the lowest to the highest of several."""
    ordered = sorted(arms, key=lambda arm: _accuracy(evaluation, arm))
    low, high = ordered[0], ordered[-1]
    value = with_unit("acc", _accuracy(evaluation, high))
    if low is high:
        return KeyFigure(f"Accuracy {label}", value, f"arm {low.label}{where}{_nothing_compacted(evaluation, arms)}")
    note = f"{quantity(len(arms), 'arm')}{where}, {low.label} to {high.label}{_nothing_compacted(evaluation, arms)}"
    return KeyFigure(f"Accuracy {label}", f"{metric_text('acc', _accuracy(evaluation, low))} to {value}", note)


def _nothing_compacted(evaluation: Evaluation, arms: Sequence[ArmRuns]) -> str:
    """What must be known of a figure with compaction: that there was none."""
    labels = [each.arm for each in uncompacted_arms(arms, evaluation.shared)]
    return f"; nothing was compacted in {', '.join(labels)}" if labels else ""


def _accuracy(evaluation: Evaluation, arm: ArmRuns) -> float:
    return evaluation.metrics(arm).means["acc"]
