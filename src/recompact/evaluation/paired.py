"""Paired comparisons: is one arm better than another on the same tasks?

Every metric gets its difference with a bootstrap interval over tasks, the tasks solved in all runs get the exact sign
test, and warnings say what so few tasks cannot show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, Common, Uncompacted, common, uncompacted_arms, with_all_questions
from recompact.evaluation.metrics import PeakSource, is_share, metric, peak_source, per_task, reliability
from recompact.values.stats import CONFIDENCE, FEWEST, RESAMPLES, Estimate, bootstrap, bootstrap_ratios, sign_test
from recompact.values.texts import quantity

Values = Mapping[str, tuple[float, ...]]
"""For each metric, the value of each task."""

MEASURED = 30
"""Tasks that a difference in what is measured and not counted (steps, tokens, F1) has to rest on to be marked. With
fewer, the bootstrap's intervals are too narrow: `benchmarks/false_marks.py` counts those that exclude zero between
equal arms."""


@dataclass(frozen=True)
class Difference:
    """One metric of two arms, and the first minus the second with its interval. Units are those of `Metrics.means`.

    `relative` is the difference as a share of the second arm's figure, for what is not in points, if it was asked for.
    `differ` is the number of tasks in which the arms have another value.
    """

    metric: str
    first: float
    second: float
    delta: float
    low: float
    high: float
    relative: Estimate | None = None
    differ: int = 0

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def enough_tasks(key: str, tasks: int, differ: int) -> bool:
    """Whether a difference in this metric, over so many tasks of which so many differ, may be marked and spoken of.

    This is the one rule for tables, sentences, reports, the view and JSON. With fewer than six tasks that differ even
    the sign test stays above 0.05, whoever wins; `MEASURED` is for what takes many values.

    >>> enough_tasks("acc", tasks=168, differ=5), enough_tasks("acc", tasks=6, differ=6)
    (False, True)
    >>> enough_tasks("steps", tasks=29, differ=29), enough_tasks("steps", tasks=30, differ=6)
    (False, True)
    """
    counted = metric(key).unit == "points" and key != "f1"
    return differ >= FEWEST and (counted or tasks >= MEASURED)


@dataclass(frozen=True)
class Comparison:
    """The first arm minus the second, over the tasks that both have done."""

    first: str
    second: str
    tasks: int
    runs: int
    differences: tuple[Difference, ...]
    wins: int  # tasks that only the first solved in all runs
    losses: int
    p: float
    one_arm: bool = False  # both are the same trajectories, so there is nothing to find out
    uncompacted: tuple[Uncompacted, ...] = ()  # those of the two that compress, but in which nothing was compacted

    def of(self, key: str) -> Difference:
        return next(d for d in self.differences if d.metric == key)

    @property
    def reliability(self) -> str:
        """The metric that the sign test is about."""
        return reliability(self.runs)

    def marks(self, difference: Difference) -> bool:
        """Whether one of its differences gets a star and is spoken of: the interval excludes zero, on enough tasks."""
        return difference.excludes_zero and enough_tasks(difference.metric, self.tasks, difference.differ)

    def to_json(self) -> dict[str, Any]:
        differences = [{**asdict(d), "excludes_zero": self.marks(d)} for d in self.differences]
        return {**asdict(self), "differences": differences, "warnings": list(warnings(self))}


def compare(
    first: ArmRuns,
    second: ArmRuns,
    *,
    tasks: Iterable[str] | None = None,
    runs: int | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Comparison:
    """Two arms on the tasks that both have done in all runs, in every metric."""
    shared = common([first, second], tasks, runs)
    return compare_many([(first, second)], shared, resamples=resamples, seed=seed)[0]


def compare_many(
    pairs: Sequence[tuple[ArmRuns, ArmRuns]],
    shared: Common,
    *,
    keys: Collection[str] | None = None,
    source: PeakSource | None = None,
    relative: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Comparison]:
    """Several pairs over the same tasks, with the same resamples; `keys` limits the metrics.

    With `relative`, differences that are not in points are also given as a share of the second arm's.
    """
    arms = with_all_questions([arm for pair in pairs for arm in pair])
    pairs = list(zip(arms[::2], arms[1::2], strict=True))
    if not shared.tasks:
        labels = ", ".join(dict.fromkeys(arm.label for arm in arms))
        raise InputError(
            f"there is no task that {labels} have all done in {quantity(max(1, shared.runs), 'run')}"
            f"{shared.broken_words}, so nothing can be compared: finish them with recompact evaluate, or compare fewer"
            " --runs"
        )
    source = source or peak_source(arms)
    values = {id(arm): per_task(arm, shared.tasks, shared.runs, source) for arm in arms}
    entries = [
        (number, key, a, b)
        for number, (first, second) in enumerate(pairs)
        for key, a, b in _both(values[id(first)], values[id(second)])
        if keys is None or key in keys
    ]
    differences = [[x - y for x, y in zip(a, b, strict=True)] for *_, a, b in entries]
    deltas = [
        constant_share(each, len(own)) if is_share(key) else each
        for (_, key, *_), own, each in zip(entries, differences, bootstrap(differences, resamples, seed), strict=True)
    ]
    shares = bootstrap_ratios([(a, b) for *_, a, b in entries], resamples, seed) if relative else [None] * len(entries)
    by_pair: list[list[Difference]] = [[] for _ in pairs]
    for (number, key, a, b), delta, share in zip(entries, deltas, shares, strict=True):
        in_points = metric(key).unit == "points"
        excess = Estimate(share.value - 1, share.low - 1, share.high - 1) if share and not in_points else None
        differ = sum(x != y for x, y in zip(a, b, strict=True))
        by_pair[number].append(Difference(key, fmean(a), fmean(b), delta.value, delta.low, delta.high, excess, differ))
    return [
        _comparison(first, second, shared, own, *(values[id(arm)][reliability(shared.runs)] for arm in (first, second)))
        for (first, second), own in zip(pairs, by_pair, strict=True)
    ]


def constant_share(estimate: Estimate, tasks: int) -> Estimate:
    """A difference of shares that is the same in every task has no spread to resample. How far it can be from the truth
    follows from the number of tasks alone: others that occur in a share q of all would have been seen with 95 %.

    >>> constant_share(Estimate(-1.0, -1.0, -1.0), 6).high < 0
    True
    """
    value = estimate.value
    if not value or estimate.low != estimate.high or not tasks:
        return estimate
    unseen = hidden_share(tasks)
    return Estimate(value, value - unseen * (1 + value), value + unseen * (1 - value))


def _both(a: Values, b: Values) -> Iterator[tuple[str, tuple[float, ...], tuple[float, ...]]]:
    """The metrics that two arms have in common. A role that an arm never called has used no tokens, provided that its
    tokens were counted at all: records from elsewhere may lack them."""
    counted = "tokens" in a and "tokens" in b
    for key in dict.fromkeys([*a, *b]):
        if (key in a and key in b) or (counted and key.startswith("tokens.")):
            nothing = (0.0,) * len(a["acc"])
            x, y = a.get(key, nothing), b.get(key, nothing)
            if key != "cached" or any(x) or any(y):
                yield key, x, y


def _comparison(
    first: ArmRuns,
    second: ArmRuns,
    shared: Common,
    differences: Sequence[Difference],
    a: Sequence[float],
    b: Sequence[float],
) -> Comparison:
    """`a` and `b` are how reliably each task was solved."""
    wins, losses = (sum(x > y for x, y in zip(*both, strict=True)) for both in ((a, b), (b, a)))
    arm = first.settings.get("key")
    return Comparison(
        first=first.label,
        second=second.label,
        tasks=len(shared.tasks),
        runs=shared.runs,
        differences=tuple(differences),
        wins=wins,
        losses=losses,
        p=sign_test(wins, losses),
        one_arm=arm is not None and arm == second.settings.get("key") and first.rows == second.rows,
        uncompacted=uncompacted_arms((first, second), shared),
    )


def warnings(comparison: Comparison) -> tuple[str, ...]:
    """What a reader should know before believing the figures."""
    return (*size_warnings(comparison.tasks, comparison.runs), *difference_warnings([comparison]))


def difference_warnings(comparisons: Sequence[Comparison]) -> tuple[str, ...]:
    """What a reader should know before believing the differences of a table; where it has several comparisons, lines
    that are not about all of them name theirs."""
    about: dict[str, list[str]] = {}
    for comparison in comparisons:
        if line := _sign_test_warning(comparison):
            about.setdefault(line, []).append(comparison.first)
    lines = [
        line if len(labels) == len(comparisons) else f"{', '.join(labels)}: {line[0].lower()}{line[1:]}"
        for line, labels in about.items()
    ]
    every = [(c, difference) for c in comparisons if not c.one_arm for difference in c.differences]
    unmarked = sum(
        comparison.tasks >= FEWEST and d.excludes_zero and not comparison.marks(d) for comparison, d in every
    )
    if unmarked:
        lines.append(
            f"{quantity(unmarked, 'interval')} {'excludes' if unmarked == 1 else 'exclude'} zero without a star: fewer"
            f" than {FEWEST} tasks differ, or, in anything but success and EM, there are fewer than {MEASURED} tasks."
        )
    if len(every) > 10:
        lines.append(f"{len(every)} intervals: one in twenty excludes zero by chance, even where nothing differs.")
    return tuple(lines)


def _sign_test_warning(comparison: Comparison) -> str:
    """What the sign test cannot show where too few tasks differ; empty where enough do."""
    differ, name = comparison.wins + comparison.losses, metric(comparison.reliability).title
    if comparison.one_arm:
        return f"Nothing can differ from {comparison.second}: both are one arm, with the same trajectories."
    if not differ:
        return f"In {name} no task differs: {cannot_exclude(comparison.tasks)}"
    if differ >= FEWEST:
        return ""
    what = f"only {differ} {'task differs' if differ == 1 else 'tasks differ'}"
    return f"In {name} {what}: with fewer than {FEWEST} the sign test cannot fall below 0.05, whoever wins."


def hidden_share(tasks: int) -> float:
    """The share of tasks that may differ although none of so many did: a larger one would have shown in at least one of
    them with a probability of 95 %.

    >>> round(hidden_share(6), 3), round(hidden_share(168), 3)
    (0.393, 0.018)
    """
    return float(1 - (1 - CONFIDENCE) ** (1 / tasks))


def cannot_exclude(tasks: int) -> str:
    """What tasks that all came out alike leave open about success.

    >>> cannot_exclude(30)
    '30 tasks cannot exclude a difference of up to 9.5 points.'
    """
    return f"{quantity(tasks, 'task')} cannot exclude a difference of up to {100 * hidden_share(tasks):.1f} points."


def size_warnings(tasks: int, runs: int) -> tuple[str, ...]:
    """What few tasks or few runs mean.

    >>> size_warnings(40, 3)
    ('40 tasks: one task is 2.5 points of Pass^3, so small differences are within noise.',)
    """
    messages = []
    if 0 < tasks < 100:
        name = f"Pass^{runs}" if runs > 1 else "Acc"
        weight = f"{tasks} tasks: one task is {100 / tasks:.2g}" if tasks > 1 else "1 task: it is 100"
        messages.append(f"{weight} points of {name}, so small differences are within noise.")
    if 0 < tasks < FEWEST:
        messages.append(
            f"With fewer than {FEWEST} tasks an interval over tasks tells nothing: no difference is marked."
        )
    elif tasks < MEASURED:
        messages.append(
            f"With fewer than {MEASURED} tasks bootstrap intervals come out too narrow: no difference in steps or"
            " tokens is marked."
        )
    if runs == 1:
        messages.append(
            "One run each: how much results change from run to run is not known, so Pass^k says nothing yet."
        )
    return tuple(messages)
