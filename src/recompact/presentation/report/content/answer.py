"""What compaction costs, what an adapted prompt changes, and how many compactions did harm, in words and numbers.

No sentence is stronger than the interval behind it, and its figures are computed as those of the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from recompact.attribution.judgement import Verification
from recompact.attribution.registry import describe_allocation
from recompact.attribution.statement import FalseRetention, Statement, statement_of
from recompact.engine.config import VerifyConfig
from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.arms import PROMPTED, PROMPTING, built_in_arms
from recompact.evaluation.metrics import metric
from recompact.evaluation.paired import Comparison, Difference, cannot_exclude, compare_many, enough_tasks, hidden_share
from recompact.evaluation.summary import Evaluation, number, references
from recompact.values.stats import FEWEST
from recompact.values.texts import quantity

MetricVerdict = Literal["better", "worse", "unclear", "same", "few differ", "too few"]
"""`same`: in every task; `few differ` and `too few`: the interval excludes zero, but rests on too few tasks."""


@dataclass(frozen=True)
class MetricChange:
    """One metric of two arms in words. `verdict` takes the reader's side: fewer steps are better."""

    metric: str
    verdict: MetricVerdict
    words: str
    numbers: str


@dataclass(frozen=True)
class ArmContrast:
    """Two arms in words: what is compared, and one change for each metric."""

    title: str
    comparison: Comparison
    changes: tuple[MetricChange, ...]

    def verdict(self, key: str) -> MetricVerdict | None:
        return next((change.verdict for change in self.changes if change.metric == key), None)


@dataclass(frozen=True)
class Claim:
    """A sentence of the answer, and the numbers behind it, one line for each comparison."""

    text: str
    numbers: tuple[str, ...] = ()


@dataclass(frozen=True)
class NextStep:
    """One thing to do, and the command for it where there is one."""

    text: str
    command: str = ""


# --- two arms


def compacting_arms(evaluation: Evaluation) -> tuple[ArmRuns, ...]:
    """The arms that stand for compaction as it is: prompting, or else FIFO."""
    by_name = (tuple(arm for arm in evaluation.arms if arm.base == name) for name in (PROMPTING, "fifo"))
    return next(filter(None, by_name), ())


def adapted_arms(evaluation: Evaluation) -> list[tuple[ArmRuns, ArmRuns]]:
    """The arms with a template of their own, each with the prompting arm that it is measured against. Another strategy
    or another trigger is no other template."""
    return [
        (arm, other)
        for arm, other in references(evaluation)
        if arm.name.partition("@")[0] not in built_in_arms() and arm.settings.get("kind", PROMPTED) == PROMPTED
    ]


def compare_pairs(
    evaluation: Evaluation, pairs: Sequence[tuple[ArmRuns, ArmRuns]], tabled: Sequence[Comparison]
) -> list[Comparison]:
    """Compare the pairs. Those that a table already has are taken from it, reversed if need be."""
    have = {(c.first, c.second): c for c in tabled} | {(c.second, c.first): reverse(c) for c in tabled}
    missing = [pair for pair in pairs if (pair[0].label, pair[1].label) not in have]
    if missing and evaluation.shared.tasks:
        keys = _metrics(evaluation.shared.runs)
        compared = compare_many(missing, evaluation.shared, keys=keys, source=evaluation.source)
        have |= {(c.first, c.second): c for c in compared}
    return [have[first.label, second.label] for first, second in pairs]


def arm_contrasts(
    evaluation: Evaluation, tabled: Sequence[Comparison]
) -> tuple[tuple[ArmContrast, ...], tuple[ArmContrast, ...]]:
    """What compaction costs and what adapted prompts change, each arm against the one that it is measured against."""
    none = evaluation.none
    costs = [(arm, none) for arm in compacting_arms(evaluation)] if none else []
    compared = compare_pairs(evaluation, [*costs, *adapted_arms(evaluation)], tabled)
    contrasts = tuple(map(arm_contrast, compared))
    return contrasts[: len(costs)], contrasts[len(costs) :]


def _metrics(runs: int) -> tuple[str, ...]:
    """The metrics that matter to a reader."""
    return "acc", f"pass^{runs}", "em", "steps", "tokens"


def reverse(comparison: Comparison) -> Comparison:
    """The second arm minus the first."""
    c = comparison
    differences = tuple(
        replace(d, first=d.second, second=d.first, delta=-d.delta, low=-d.high, high=-d.low, relative=None)
        for d in c.differences
    )
    return replace(c, first=c.second, second=c.first, differences=differences, wins=c.losses, losses=c.wins)


# --- words


def metric_verdict(difference: Difference, tasks: int) -> MetricVerdict:
    """What an interval and the tasks behind it allow us to say."""
    if tasks < FEWEST:
        return "too few"
    if not difference.differ:
        return "same"
    if not difference.excludes_zero:
        return "unclear"
    if not enough_tasks(difference.metric, tasks, difference.differ):
        return "few differ" if difference.differ < FEWEST else "too few"
    return "better" if (difference.delta > 0) == (metric(difference.metric).better == "more") else "worse"


def arm_contrast(comparison: Comparison) -> ArmContrast:
    """A comparison in words."""
    differences = {d.metric: d for d in comparison.differences}
    changes = (_change(differences[key], comparison) for key in _metrics(comparison.runs) if key in differences)
    return ArmContrast(f"{comparison.first} against {comparison.second}", comparison, tuple(changes))


def metric_name(key: str, runs: int) -> str:
    """A metric's name for a reader without the glossary."""
    names = {"acc": "Accuracy", "em": "Exact match", "steps": "Steps per task", "tokens": "Tokens per task"}
    return names.get(key) or (f"Tasks solved in all {runs} runs ({metric(key).title})" if runs > 1 else key)


def _change(d: Difference, comparison: Comparison) -> MetricChange:
    verdict = metric_verdict(d, comparison.tasks)
    name = metric_name(d.metric, comparison.runs)
    moves = ("rise" if d.delta > 0 else "fall") + "s" * (d.metric in ("acc", "em"))
    words = {
        "unclear": f"{name}: no evidence of a difference.",
        "same": f"{name}: the same in every task.",
        "few differ": f"{name}: {quantity(d.differ, 'task')} that differ{'s' * (d.differ == 1)}, too few to say.",
        "too few": f"{name}: too few tasks to say.",
    }.get(verdict, f"{name} {moves}.")
    before, after = with_unit(d.metric, d.second), with_unit(d.metric, d.first)
    numbers = f"From {before} to {after}: {delta_text(d)}."
    if verdict == "same":
        numbers = f"{after} in both arms. {_open_question(d.metric, comparison)}"
    elif comparison.tasks < FEWEST:
        change = f"{before} became {after}" if before != after else f"{after} in both arms"
        numbers = f"{change}, on {quantity(comparison.tasks, 'task')}."
    return MetricChange(d.metric, verdict, words, numbers)


def _open_question(key: str, comparison: Comparison) -> str:
    """What tasks that are all alike cannot tell: never that the agent is the same."""
    if comparison.one_arm:
        return "Both are one arm, with the same trajectories."
    tasks = comparison.tasks
    if metric(key).unit == "points":
        return cannot_exclude(tasks)
    return f"{quantity(tasks, 'task')} cannot exclude that up to {100 * hidden_share(tasks):.1f} % of tasks differ."


def delta_text(d: Difference) -> str:
    """A difference with its interval."""
    low, high = metric_text(d.metric, d.low, signed=True), metric_text(d.metric, d.high, signed=True)
    unit = {"points": " points", "thousand tokens": " thousand"}.get(metric(d.metric).unit, "")
    return f"{metric_text(d.metric, d.delta, signed=True)}{unit}, 95 % interval {low} to {high}"


def with_unit(key: str, value: float) -> str:
    """A metric's value with its unit."""
    return metric_text(key, value) + {"points": " %", "thousand tokens": " thousand"}.get(metric(key).unit, "")


def metric_text(key: str, value: float, signed: bool = False) -> str:
    """A metric's value as people read it, with a real minus sign."""
    return replace(number(key, value), signed=signed).text.replace("-", "−")


# --- claims

COST = {
    "uncompacted": "This shows nothing about what compaction does to this agent: {nothing}",
    "too few": "{tasks} cannot tell what compaction does to this agent.",
    "better": "Compaction makes this agent succeed more often.",
    "worse": "Compaction makes this agent fail more often.",
    "reliable": "Compaction makes this agent {more} reliable: it solves {fewer} tasks every time.",
    "same": "Every task {ended} with compaction and without: {cannot}",
    "few differ": "{differ} of {tasks} ended differently with compaction: too few to tell what it does.",
    "unclear": "There is no evidence that compaction changes how often this agent succeeds.",
}
GAIN = {
    "uncompacted": "This shows nothing about what the adapted prompt changes: {nothing}",
    "too few": "{tasks} cannot tell whether the adapted prompt helps.",
    "better": "With the adapted prompt the agent succeeds more often.",
    "worse": "With the adapted prompt the agent succeeds less often.",
    "reliable": "With the adapted prompt the agent is {more} reliable: it solves {fewer} tasks every time.",
    "same": "Every task {ended} with the adapted prompt and with the original: {cannot}",
    "few differ": "{differ} of {tasks} ended differently with the adapted prompt: too few to tell if it helps.",
    "unclear": "There is no evidence that the adapted prompt changes how often the agent succeeds.",
}
_STEPS = {"worse": "but it takes more steps", "better": "and it takes fewer steps"}


def claim_of(contrast: ArmContrast, sentences: Mapping[str, str], *, steps: bool = True) -> Claim:
    """The sentence for the metric that decides, with its numbers; where success is unclear, with a word on steps."""
    comparison = contrast.comparison
    if comparison.one_arm:
        return Claim(f"{comparison.first} is {comparison.second} under another name: they share their trajectories.")
    if nothing := [f"{each.sentence[0].lower()}{each.sentence[1:]}" for each in comparison.uncompacted]:
        return Claim(sentences["uncompacted"].format(nothing=" And ".join(nothing)))
    success, reliable = contrast.verdict("acc") or "unclear", contrast.verdict(comparison.reliability)
    accuracy, tasks = comparison.of("acc"), quantity(comparison.tasks, "task")
    if success == "too few":
        return Claim(sentences[success].format(tasks=tasks))
    if success == "same":
        ended = "ended the same way" if comparison.runs == 1 else "succeeded in as many runs"
        text = sentences[success].format(ended=ended, cannot=cannot_exclude(comparison.tasks))
        both = f"Accuracy {with_unit('acc', accuracy.first)} in both arms, the same in every task"
        return Claim(text, (f"{contrast.title}: {both}.",))
    key, more, text = "acc", "", sentences[success].format(differ=accuracy.differ, tasks=tasks)
    if success == "unclear" and reliable in ("better", "worse"):
        more, fewer = ("more", "more") if reliable == "better" else ("less", "fewer")
        key, text = comparison.reliability, sentences["reliable"].format(more=more, fewer=fewer)
    elif success == "unclear" and steps and (words := _STEPS.get(str(contrast.verdict("steps")))):
        text, more = f"{text[:-1]}, {words}.", f"; Steps {delta_text(comparison.of('steps'))}"
    name = "Accuracy" if key == "acc" else metric(key).title
    return Claim(text, (f"{contrast.title}: {name} {delta_text(comparison.of(key))}{more}.",))


CHANNELS = {
    "error": "lost success (error)",
    "burden": "added steps (burden)",
    "both": "did both",
    "none": "reached neither threshold",  # retained by the allocation's own judgement
}


@dataclass(frozen=True)
class Harm:
    """What a verified run says about harm, and in which way compactions did it."""

    statement: Statement
    channels: Mapping[str, int]  # of the harmful ones, or of those that look so where none is
    trajectories: int
    compacted: int  # trajectories with a boundary that was examined

    @property
    def harmful(self) -> int:
        return self.statement.kinds.get("harmful", 0)

    @property
    def suspected(self) -> int:
        """How many look harmful, but were not retained."""
        return self.statement.kinds.get("suspected", 0)


def rule_of(settings: VerifyConfig) -> str:
    """
    >>> rule_of(VerifyConfig())
    'H ≥ 0.5 or B ≥ 5'
    """
    return f"H ≥ {settings.hazard:g} or B ≥ {settings.burden:g}"


def harm_of(verification: Verification, trajectories: int, control: FalseRetention | None = None) -> Harm:
    """The counts. Until a verification is finished, channels are those of what looks harmful so far."""
    return Harm(
        statement_of(verification, control),
        Counter(verdict.effect.channel for verdict in verification.most_harmful if verdict.effect),
        trajectories,
        len({verdict.id.unit for verdict in verification.examined}),
    )


def harm_claim(harm: Harm) -> Claim:
    """What became of every compaction, and how many are probably harmful: in the words of `verify`."""
    first, *others = harm.statement.sentences()
    return Claim(first, tuple(others))


def harm_details(harm: Harm) -> tuple[str, ...]:
    """What else belongs to the counts."""
    examined = quantity(harm.statement.examined, "boundary")
    sentences = [
        "A boundary is the moment of a compaction. From each, the same agent went on with the context before it (PRE)"
        f" and with the context after it (POST); each such continuation is a draw. {examined} in {harm.compacted:,} of"
        f" {quantity(harm.trajectories, 'trajectory')} have draws in both arms.",
        _define_terms(harm),
    ]
    if harm.channels:
        kinds = [f"{harm.channels[key]} {words}" for key, words in CHANNELS.items() if harm.channels.get(key)]
        which = "harmful ones" if harm.harmful else "ones that look harmful"
        sentences.append(f"Of the {which}, {', '.join(kinds)}.")
    sentences.append(
        "The interval of the expected number treats boundaries as independent, even those of one trajectory."
    )
    return tuple(sentences)


def _define_terms(harm: Harm) -> str:
    """What H, B and harmful are, and how draws were spent."""
    allocation = describe_allocation(harm.statement.settings)
    how = f": {allocation.description}" * bool(allocation.description)
    return (
        f"H is the success lost with POST, B the steps added. A boundary is retained as harmful if"
        f" {harm.statement.rule}. {allocation.name} spent the draws{how}."
    )
