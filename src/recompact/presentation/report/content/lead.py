"""The first lines of a report: the claims that answer the question, the key figures, and what to do next.

Comparisons that say the same make one claim; where they differ (a small budget does harm, a large one does none), each
claim names its arms. Advice never exceeds what the evidence supports.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from recompact.evaluation.arm_runs import ArmRuns, uncompacted_arms
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.content.answer import (
    COST,
    GAIN,
    ArmContrast,
    Claim,
    Harm,
    MetricVerdict,
    NextStep,
    adapted_arms,
    claim_of,
    compacting_arms,
    harm_claim,
    metric_text,
    rule_of,
    with_unit,
)
from recompact.presentation.report.content.runs import EvaluationReport, VerificationReport
from recompact.presentation.report.document import Fact
from recompact.values.texts import command_line, quantity

NAMED = 4  # comparisons whose numbers are shown below a claim


def lead(evaluations: Sequence[EvaluationReport], verified: Sequence[VerificationReport]) -> tuple[Claim, ...]:
    """What to say first; where there are several runs of a kind, with their names."""
    several = len(evaluations) > 1
    costs = [(run.name if several else "", contrast) for run in evaluations for contrast in run.costs]
    gains = [(run.name if several else "", contrast) for run in evaluations for contrast in run.gains]
    alone = [run for run in evaluations if not run.costs and not run.gains]
    return (
        *_claims(costs, COST),
        *_claims(gains, GAIN),
        *(_name_numbers(_accuracies(run), run.name if several else "") for run in alone),
        *(_name_numbers(harm_claim(run.harm), run.name if len(verified) > 1 else "") for run in verified),
    )


def answer(costs: Sequence[ArmContrast], gains: Sequence[ArmContrast]) -> tuple[Claim, ...]:
    """What to say about one evaluation."""
    return (
        *_claims([("", contrast) for contrast in costs], COST),
        *_claims([("", contrast) for contrast in gains], GAIN),
    )


def _claims(contrasts: Sequence[tuple[str, ArmContrast]], sentences: Mapping[str, str]) -> list[Claim]:
    """One claim for all comparisons that say the same, whatever they say about steps; each comes with its run."""
    alike: dict[str, list[tuple[str, ArmContrast]]] = {}
    for run, contrast in contrasts:
        alike.setdefault(claim_of(contrast, sentences, steps=False).text, []).append((run, contrast))
    claims = []
    for shorter, same in alike.items():
        longer = {claim_of(contrast, sentences).text for _, contrast in same}
        text = longer.pop() if len(longer) == 1 else shorter
        arms = ", ".join(f"{run} {contrast.comparison.first}".strip() for run, contrast in same)
        lines = [line for run, contrast in same for line in _name_numbers(claim_of(contrast, sentences), run).numbers]
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
) -> tuple[tuple[Fact, ...], ...]:
    """Accuracy without compaction, with it, and with adapted prompts; how many compactions are harmful. Several
    evaluations have a row each."""
    rows = [_accuracy_figures(run, f" of {run.name}" if len(evaluations) > 1 else "") for run in evaluations]
    harms = []
    for run in verified:
        where = f", {run.name}" if len(verified) > 1 else ""
        value = f"{run.harm.harmful:,} of {run.harm.statement.examined:,}"
        more = f"; {run.harm.suspected:,} more look{'s' * (run.harm.suspected == 1)} harmful" * bool(run.harm.suspected)
        harms.append(Fact("Harmful compactions", value, f"{rule_of(run.harm.statement.settings)}{more}{where}"))
    if len(rows) == 1:
        return ((*rows[0], *harms),)
    return (*map(tuple, rows), *([tuple(harms)] if harms else []))


def _accuracy_figures(run: EvaluationReport, where: str) -> list[Fact]:
    evaluation, none = run.evaluation, run.evaluation.none
    kinds = (
        ("without compaction", [none] if none else []),
        ("with compaction", compacting_arms(evaluation)),
        ("with the adapted prompt", [arm for arm, _ in adapted_arms(evaluation)]),
    )
    return [_accuracy_figure(label, evaluation, arms, where) for label, arms in kinds if arms]


def _accuracy_figure(label: str, evaluation: Evaluation, arms: Sequence[ArmRuns], where: str) -> Fact:
    """The accuracy of one arm, or from the lowest to the highest of several."""
    ordered = sorted(arms, key=lambda arm: _accuracy(evaluation, arm))
    low, high = ordered[0], ordered[-1]
    value = with_unit("acc", _accuracy(evaluation, high))
    if low is high:
        return Fact(f"Accuracy {label}", value, f"arm {low.label}{where}{_nothing_compacted(evaluation, arms)}")
    note = f"{quantity(len(arms), 'arm')}{where}, {low.label} to {high.label}{_nothing_compacted(evaluation, arms)}"
    return Fact(f"Accuracy {label}", f"{metric_text('acc', _accuracy(evaluation, low))} to {value}", note)


def _nothing_compacted(evaluation: Evaluation, arms: Sequence[ArmRuns]) -> str:
    """What must be known of a figure with compaction: that there was none."""
    labels = [each.arm for each in uncompacted_arms(arms, evaluation.shared)]
    return f"; nothing was compacted in {', '.join(labels)}" if labels else ""


def _accuracy(evaluation: Evaluation, arm: ArmRuns) -> float:
    return evaluation.metrics(arm).means["acc"]


ENOUGH = 100  # tasks at which a size warning is no longer given


def next_steps(
    costs: Sequence[ArmContrast],
    gains: Sequence[ArmContrast],
    harms: Sequence[tuple[str, Harm]],
    *,
    simulated: bool,
    adapted: bool = False,
    places: Mapping[str, str] = MappingProxyType({}),
) -> tuple[NextStep, ...]:
    """`harms` come with the run's name as a command takes it; `adapted` says that a template was made from one;
    `places` are the directories of templates, by arm, and under "" that of the adaptation."""
    steps = _where_nothing_was_compacted([*costs, *gains])
    costs, gains = (
        [contrast for contrast in contrasts if not contrast.comparison.uncompacted] for contrasts in (costs, gains)
    )
    steps += _after_gains(gains, places)
    steps += [step for run, harm in harms for step in _after_harm(run, harm, adapted or bool(gains))]
    contrasts = [*costs, *gains]
    if not harms and costs:
        steps.append(
            NextStep("Find out which compactions do harm.", "recompact collect CONFIG && recompact verify CONFIG")
        )
    if adapted and not gains:
        both = f"{_EVALUATE} --arm {shlex.quote('adapted=' + places.get('', UNKNOWN))}"
        steps.append(NextStep("Measure what the adapted template changes on tasks that it has not seen.", both))
    elif harms and not contrasts:
        steps.append(NextStep("Measure what compaction costs end to end.", _EVALUATE))
    if contrasts and (few := _few(contrasts[0])):
        steps.append(few)
    if simulated:
        steps.append(
            NextStep("These models are simulated. Describe your own agent in a config.", "recompact check CONFIG")
        )
    return tuple(steps)


_EVALUATE = "recompact evaluate CONFIG --arm none --arm prompting --runs 3"
UNKNOWN = "DIRECTORY"  # where no record says where a template is


def _where_nothing_was_compacted(contrasts: Sequence[ArmContrast]) -> list[NextStep]:
    """Before anything else, arms that compress have to have something compacted."""
    nothing = {each.arm: each for contrast in contrasts for each in contrast.comparison.uncompacted}
    failed = [each.arm for each in nothing.values() if each.failed]
    idle = [each.arm for each in nothing.values() if not each.failed]
    steps = []
    if failed:
        text = f"Fix the compressor: every compaction of {', '.join(failed)} failed. Then evaluate in another run."
        steps.append(NextStep(text, "recompact check CONFIG --play"))
    if idle:
        text = f"Evaluate under a smaller budget or on longer tasks: nothing was compacted in {', '.join(idle)}."
        steps.append(NextStep(text, "recompact evaluate CONFIG --arm … --budget SMALLER"))
    return steps


def _after_gains(gains: Sequence[ArmContrast], places: Mapping[str, str]) -> list[NextStep]:
    """The arm that gains most, if one does; a template that does worse is not to be used."""
    if not gains:
        return []
    worse = [gain for gain in gains if "worse" in _success(gain)]
    sound = [gain for gain in gains if gain not in worse]
    if not sound:
        return [NextStep("Keep the original template: every other does worse.")]
    if won := [gain for gain in sound if "better" in _success(gain)]:
        name = max(won, key=lambda gain: gain.comparison.of("acc").delta).comparison.first
        but = f" But {', '.join(gain.comparison.first for gain in worse)} did worse." if worse else ""
        return [NextStep(f"Use the template of {name}: {_use(name, places)}{but}")]
    if cheaper := [gain for gain in sound if "better" in _effort(gain) and "worse" not in _effort(gain)]:
        name = cheaper[0].comparison.first
        text = f"The template of {name} saves work; whether the agent succeeds more often is open."
        return [NextStep(f"{text} To try it, {_use(name, places)}")]
    text = "No template has shown a gain yet. Adapt on more training tasks before you change anything."
    return [NextStep(text, "recompact adapt CONFIG")]


def _use(name: str, places: Mapping[str, str]) -> str:
    return f'set template = "{places.get(name, UNKNOWN)}" under [compressor] in your config.'


def _success(gain: ArmContrast) -> tuple[MetricVerdict | None, ...]:
    return gain.verdict("acc"), gain.verdict(f"pass^{gain.comparison.runs}")


def _effort(gain: ArmContrast) -> tuple[MetricVerdict | None, ...]:
    return gain.verdict("steps"), gain.verdict("tokens")


def _after_harm(run: str, harm: Harm, adapted: bool) -> list[NextStep]:
    if not harm.statement.settled:
        return [NextStep("Finish the verification: it resumes where it stopped.", command_line("verify", run))]
    if harm.harmful and not adapted:
        return [NextStep("Adapt the prompt from the harmful compactions.", "recompact adapt CONFIG")]
    if not harm.harmful and harm.suspected:
        text = "The compactions that look harmful have too few draws to be retained: give every compaction more."
        return [NextStep(text, command_line("verify", run, options=["--draws", 9]))]
    if not harm.harmful:
        return [NextStep("No compaction showed harm: try more tasks or a smaller budget, or leave the prompt alone.")]
    return []


def _few(contrast: ArmContrast) -> NextStep | None:
    tasks, runs = contrast.comparison.tasks, contrast.comparison.runs
    unclear = contrast.verdict("acc") in ("unclear", "same", "few differ", "too few")
    if runs == 1:
        text = "Run every task three times with the same arms, to see how reliable the agent is."
        return NextStep(text, "recompact evaluate CONFIG --arm … --runs 3")
    if unclear and tasks < ENOUGH:
        text = f"Evaluate the same arms on more than {quantity(tasks, 'task')}: so few leave too much open."
        return NextStep(text, "recompact evaluate CONFIG --arm … --limit MORE")
    return None
