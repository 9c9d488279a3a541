"""Two arms in words and numbers: what compaction costs, and what an adapted prompt changes.

Comes in: an evaluation with its comparisons. Goes out: sentences as values, none of them stronger than the intervals
behind it. Nothing is computed here that a table does not show too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from recompact.evaluation.arm_runs import ArmRuns
from recompact.evaluation.arms import PROMPTING, built_in_arms
from recompact.evaluation.metrics import metric
from recompact.evaluation.paired import FEWEST, Comparison, Difference, compare_many
from recompact.evaluation.summary import Evaluation, counted, number, references

Verdict = Literal["better", "worse", "unclear", "same", "too few"]


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
    """A sentence of the answer, and the numbers that it stands on, one line for each comparison."""

    said: str
    numbers: tuple[str, ...] = ()


# --- two arms


def compacted(shown: Evaluation) -> tuple[ArmRuns, ...]:
    """The arms that stand for compaction as it is: prompting, or else FIFO."""
    for name in (PROMPTING, "fifo"):
        if found := tuple(arm for arm in shown.arms if arm.base == name):
            return found
    return ()


def adapted(shown: Evaluation) -> list[tuple[ArmRuns, ArmRuns]]:
    """The arms with a template of their own, each with the prompting arm that it is measured against."""
    return [(arm, other) for arm, other in references(shown) if arm.base not in built_in_arms()]


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
    c = comparison
    turned = tuple(
        replace(d, first=d.second, second=d.first, delta=-d.delta, low=-d.high, high=-d.low, relative=None)
        for d in c.differences
    )
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
        change = f"{before} became {after}" if before != after else f"{after} in both arms"
        return Change(d.metric, found, words, f"{change}, on {counted(comparison.tasks, 'task')}.")
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


# --- claims


def cost_claim(found: Contrast, steps: bool = True) -> Claim:
    """What compaction does to the agent; with a word on steps, unless it is not wanted."""
    success, reliable = found.verdict("acc"), found.verdict(_reliability(found))
    if success == "too few":
        return Claim(f"{counted(found.comparison.tasks, 'task')} cannot tell what compaction does to this agent.")
    if success in ("better", "worse"):
        often = "succeed more" if success == "better" else "fail more"
        return _claim(f"Compaction makes this agent {often} often.", found)
    if reliable in ("better", "worse"):
        said = f"Compaction makes this agent {_more(reliable)} reliable: it solves {_fewer(reliable)} tasks every time."
        return _claim(said, found, _reliability(found))
    if success == "same":
        return _claim("Compaction makes no difference to how often this agent succeeds.", found)
    said = "There is no evidence that compaction changes how often this agent succeeds."
    return _claim(_and_steps(said, found) if steps else said, found)


def gain_claim(found: Contrast, steps: bool = True) -> Claim:
    """What the adapted prompt changes, in the same way."""
    success, reliable = found.verdict("acc"), found.verdict(_reliability(found))
    if success == "too few":
        return Claim(f"{counted(found.comparison.tasks, 'task')} cannot tell whether the adapted prompt helps.")
    if success in ("better", "worse"):
        return _claim(f"With the adapted prompt the agent succeeds {_more(success)} often.", found)
    if reliable in ("better", "worse"):
        said = f"With the adapted prompt the agent is {_more(reliable)} reliable: it solves {_fewer(reliable)} tasks"
        return _claim(f"{said} every time.", found, _reliability(found))
    if success == "same":
        return _claim("With the adapted prompt the agent succeeds exactly as often.", found)
    said = "There is no evidence that the adapted prompt changes how often the agent succeeds."
    return _claim(_and_steps(said, found) if steps else said, found)


def _claim(said: str, found: Contrast, key: str = "acc") -> Claim:
    """With the numbers of the metric that decides."""
    name = {"acc": "Accuracy"}.get(key) or metric(key).title
    return Claim(said, (f"{found.title}: {name} {delta_text(found.comparison.of(key))}.",))


def _reliability(found: Contrast) -> str:
    return found.comparison.reliability


def _more(verdict: Verdict) -> str:
    return "more" if verdict == "better" else "less"


def _fewer(verdict: Verdict) -> str:
    return "more" if verdict == "better" else "fewer"


def _and_steps(said: str, found: Contrast) -> str:
    """With a word on steps, where they change for sure though success does not."""
    words = {"worse": "but it takes more steps", "better": "and it takes fewer steps"}.get(str(found.verdict("steps")))
    return f"{said[:-1]}, {words}." if words else said
