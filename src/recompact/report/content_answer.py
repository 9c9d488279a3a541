"""The answer in words and numbers: what compaction costs, what an adapted prompt changes, what did harm, what to do.

Comes in: evaluations with their comparisons, and findings about boundaries. Goes out: sentences as values, none of them
stronger than the intervals behind it. Nothing is computed here that a table does not show too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from recompact.attribution.distributions import wilson
from recompact.attribution.findings import Finding, Findings
from recompact.evaluation.arms import BUILT_IN, PROMPTING
from recompact.evaluation.metrics import metric
from recompact.evaluation.paired import Comparison, Difference, compare_many
from recompact.evaluation.records import ArmRuns
from recompact.evaluation.summary import Evaluation, number, references

Verdict = Literal["better", "worse", "unclear", "same", "too few"]

FEWEST = 6  # tasks below which no verdict is given: a sign test could not fall below 0.05 either


@dataclass(frozen=True)
class Change:
    """One metric of two arms in words. `verdict` is from the reader's side: fewer steps are better."""

    metric: str
    verdict: Verdict
    words: str
    numbers: str


@dataclass(frozen=True)
class Contrast:
    """Two arms in words: what is compared, and one change for each metric."""

    title: str
    comparison: Comparison
    changes: tuple[Change, ...]

    def verdict(self, key: str) -> Verdict | None:
        return next((change.verdict for change in self.changes if change.metric == key), None)


@dataclass(frozen=True)
class Claim:
    """A sentence of the answer, and the numbers that it stands on."""

    said: str
    numbers: str = ""


@dataclass(frozen=True)
class Harm:
    """How many compactions of a run were examined and how many of them did harm, by channel."""

    examined: int
    harmful: int
    error: int
    burden: int
    both: int
    neither: int  # harmful by the allocation's own judgement, with estimates below both thresholds
    trajectories: int
    without_verdict: int
    settled: bool
    allocation: str

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.harmful / self.examined, self.examined) if self.examined else (0.0, 1.0)


# --- two arms


def uncompacted(shown: Evaluation) -> ArmRuns | None:
    return next((arm for arm in shown.arms if arm.base == "none"), None)


def compacted(shown: Evaluation) -> tuple[ArmRuns, ...]:
    """The arms that stand for compaction as it is: prompting, or else FIFO."""
    for name in (PROMPTING, "fifo"):
        if found := tuple(arm for arm in shown.arms if arm.base == name):
            return found
    return ()


def adapted(shown: Evaluation) -> list[tuple[ArmRuns, ArmRuns]]:
    """The arms with a template of their own, each with the prompting arm that it is measured against."""
    return [(arm, other) for arm, other in references(shown) if arm.base not in BUILT_IN]


def compared(
    shown: Evaluation, pairs: Sequence[tuple[ArmRuns, ArmRuns]], known: Sequence[Comparison]
) -> list[Comparison]:
    """The pairs compared, taken from those that a table has already, which may stand there the other way round."""
    have = {(c.first, c.second): c for c in known} | {(c.second, c.first): turned(c) for c in known}
    missing = [pair for pair in pairs if (pair[0].label, pair[1].label) not in have]
    if missing and shown.shared.tasks:
        runs = shown.shared.runs
        keys = ("acc", f"pass^{runs}", "em", "steps", "tokens")
        made = compare_many(missing, shown.shared, keys=keys, source=shown.source)
        have |= {(c.first, c.second): c for c in made}
    return [have[first.label, second.label] for first, second in pairs]


def turned(comparison: Comparison) -> Comparison:
    """The second arm minus the first."""
    turned = tuple(
        replace(d, first=d.second, second=d.first, delta=-d.delta, low=-d.high, high=-d.low)
        for d in comparison.differences
    )
    c = comparison
    return replace(c, first=c.second, second=c.first, differences=turned, wins=c.losses, losses=c.wins)


# --- words


def verdict(difference: Difference, tasks: int) -> Verdict:
    """What an interval allows to say."""
    if tasks < FEWEST:
        return "too few"
    if difference.delta == difference.low == difference.high == 0:
        return "same"
    if not difference.excludes_zero:
        return "unclear"
    return "better" if (difference.delta > 0) == (metric(difference.metric).better == "more") else "worse"


def contrast(title: str, comparison: Comparison) -> Contrast:
    """The metrics that matter to a reader, each in words."""
    runs = comparison.runs
    keys = ("acc", f"pass^{runs}", "em", "steps", "tokens")
    found = {d.metric: d for d in comparison.differences}
    return Contrast(title, comparison, tuple(_change(found[key], comparison) for key in keys if key in found))


def name_of(key: str, runs: int) -> str:
    """A metric as a reader without the glossary understands it."""
    names = {"acc": "Accuracy", "em": "Exact match", "steps": "Steps per task", "tokens": "Tokens per task"}
    return names.get(key) or (f"Tasks solved in all {runs} runs ({metric(key).title})" if runs > 1 else key)


def _change(d: Difference, comparison: Comparison) -> Change:
    found = verdict(d, comparison.tasks)
    name = name_of(d.metric, comparison.runs)
    many = d.metric not in ("acc", "em")
    moves = ("rise" if d.delta > 0 else "fall") + "s" * (not many)
    words = {
        "better": f"{name} {moves}.",
        "worse": f"{name} {moves}.",
        "unclear": f"{name}: no evidence of a difference.",
        "same": f"{name}: the same.",
        "too few": f"{name}: too few tasks to say.",
    }[found]
    before, after = with_unit(d.metric, d.second), with_unit(d.metric, d.first)
    if found == "same":
        return Change(d.metric, found, words, f"{after} in both arms.")
    if found == "too few":
        return Change(d.metric, found, words, f"{before} became {after}, on {counted(comparison.tasks, 'task')}.")
    return Change(d.metric, found, words, f"From {before} to {after}: {delta_text(d)}.")


def delta_text(d: Difference) -> str:
    """A difference with its interval."""
    low, high = figure(d.metric, d.low, signed=True), figure(d.metric, d.high, signed=True)
    unit = {"points": " points", "thousand tokens": " thousand"}.get(metric(d.metric).unit, "")
    return f"{figure(d.metric, d.delta, signed=True)}{unit}, 95 % interval {low} to {high}"


def with_unit(key: str, value: float) -> str:
    """A metric's value with what it is counted in."""
    return figure(key, value) + {"points": " %", "thousand tokens": " thousand"}.get(metric(key).unit, "")


def figure(key: str, value: float, signed: bool = False) -> str:
    """A metric's value as people read it, with a real minus."""
    return replace(number(key, value), signed=signed).text.replace("-", "−")


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "boundary"), counted(1200, "boundary"), counted(2, "task")
    ('1 boundary', '1,200 boundaries', '2 tasks')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def cost_claim(found: Contrast) -> Claim:
    """What compaction does to the agent."""
    success, reliable = found.verdict("acc"), found.verdict(f"pass^{found.comparison.runs}")
    if success == "too few":
        return Claim(f"{counted(found.comparison.tasks, 'task')} cannot tell what compaction does to this agent.")
    if success == "worse":
        said = "Compaction makes this agent fail more often."
    elif success == "better":
        said = "This agent succeeds more often with compaction than without."
    elif reliable == "worse":
        said = "Compaction makes this agent less reliable: it solves fewer tasks in every one of its runs."
    elif success == "same":
        said = "Compaction makes no difference to how often this agent succeeds."
    else:
        said = _and_steps("There is no evidence that compaction changes how often this agent succeeds.", found)
    return Claim(said, f"Accuracy {delta_text(found.comparison.of('acc'))} ({found.title}).")


def _and_steps(said: str, found: Contrast) -> str:
    """With a word on steps, where they change for sure though success does not."""
    more, fewer = "but the agent takes more steps", "and the agent takes fewer steps"
    words = {"worse": more, "better": fewer}.get(str(found.verdict("steps")))
    return f"{said[:-1]}, {words}." if words else said


def gain_claim(found: Contrast) -> Claim:
    """What the adapted prompt changes."""
    success, reliable = found.verdict("acc"), found.verdict(f"pass^{found.comparison.runs}")
    if success == "too few":
        return Claim(f"{counted(found.comparison.tasks, 'task')} cannot tell whether the adapted prompt helps.")
    if success in ("better", "worse"):
        said = f"With the adapted prompt it succeeds {'more' if success == 'better' else 'less'} often."
    elif reliable in ("better", "worse"):
        said = f"With the adapted prompt it is {'more' if reliable == 'better' else 'less'} reliable from run to run."
    elif success == "same":
        said = "With the adapted prompt it succeeds exactly as often."
    else:
        said = _and_steps("There is no evidence that the adapted prompt changes how often it succeeds.", found)
    return Claim(said, f"Accuracy {delta_text(found.comparison.of('acc'))} ({found.title}).")


# --- boundaries


def harm_of(found: Findings, trajectories: int) -> Harm:
    """The counts. Until a verification is finished, those count whose estimates reach a threshold."""
    known = [finding for finding in found.boundaries if finding.effect is not None]
    bad = [finding for finding in known if harmful(found, finding)]
    channels = [finding.effect.channel for finding in bad if finding.effect]
    return Harm(
        examined=len(known),
        harmful=len(bad),
        error=channels.count("error"),
        burden=channels.count("burden"),
        both=channels.count("both"),
        neither=channels.count("none"),
        trajectories=trajectories,
        without_verdict=len(found.boundaries) - len(known),
        settled=found.settled,
        allocation=found.settings.allocation,
    )


def harmful(found: Findings, finding: Finding) -> bool:
    """Whether a boundary counts as harmful: by the allocation, or by its estimate as long as draws are missing."""
    return finding.retained if found.settled else finding.effect is not None and finding.effect.selected


def harm_claim(harm: Harm) -> Claim:
    """How many compactions did harm."""
    if not harm.examined:
        return Claim("No compaction has been examined yet.")
    low, high = harm.interval
    did = "did" if harm.settled else "so far seem to have done"
    share = f"{100 * harm.harmful / harm.examined:.1f} %, 95 % interval {100 * low:.1f} to {100 * high:.1f} %."
    return Claim(f"{harm.harmful:,} of {counted(harm.examined, 'examined compaction')} {did} harm.", share)


def harm_details(harm: Harm) -> tuple[str, ...]:
    """What else belongs to the counts."""
    said = [
        "From each boundary the same agent was continued with the context before the compaction (PRE) and with the one"
        f" after it (POST): {counted(harm.examined, 'boundary')} of {counted(harm.trajectories, 'trajectory')}."
    ]
    if harm.harmful:
        kinds = [
            f"{harm.error} lost success (error)" * bool(harm.error),
            f"{harm.burden} added steps (burden)" * bool(harm.burden),
            f"{harm.both} did both" * bool(harm.both),
            f"{harm.neither} by the posterior alone, below both thresholds" * bool(harm.neither),
        ]
        said.append(f"Of the harmful ones, {', '.join(filter(None, kinds))}. The others did no harm that shows.")
    if not harm.settled:
        said.append(f"The verification ({harm.allocation}) is not finished: these counts may still change.")
    if harm.without_verdict:
        are = "boundary has" if harm.without_verdict == 1 else "boundaries have"
        said.append(f"{harm.without_verdict:,} more {are} no verdict: an arm without a draw, or left out.")
    said.append(
        "The interval of the share is Wilson's: it takes boundaries as independent, also those of one trajectory."
    )
    return tuple(said)
