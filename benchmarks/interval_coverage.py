"""How often the intervals that we print hold the truth, by simulation: it should be 0.95.

    python benchmarks/interval_coverage.py                   # two minutes of one core
    python benchmarks/interval_coverage.py --trials 2000

Each cell draws runs from a known truth and asks the function that makes the printed interval. Cells below 0.93 are
listed again with what is printed there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from recompact.attribution.controls import COUPLED, _coupling
from recompact.attribution.effects import burden_estimate, hazard_estimate
from recompact.evaluation.paired import MEASURED
from recompact.values.outcome import BoundaryId, Outcome, Outcomes
from recompact.values.stats import Estimate, bootstrap, mean_of, probable_count, wilson
from recompact.values.tables import Number, Row, Table, columns, markdown

TRIALS = 400
ENOUGH = 0.93
RESAMPLES = 600

Trial = Callable[[np.random.Generator], tuple[Estimate | None, float]]
"""One run: the interval that is printed, or None where it is withheld, and the truth."""


@dataclass(frozen=True)
class Cell:
    """One interval under one truth; `instead` is what is printed where it is known to be too narrow."""

    interval: str
    setting: str
    trial: Trial
    instead: str = "nothing: the interval is printed as it is"


def outcomes_of(values: np.ndarray, steps: np.ndarray) -> tuple[Outcome, ...]:
    return tuple(Outcome(float(v), steps=int(s)) for v, s in zip(values, steps, strict=True))


def lengths(chance: np.random.Generator, mean: float, dispersion: float, size: int) -> np.ndarray:
    """Whole numbers with this mean, and this variance over the mean."""
    if dispersion > 1:
        return chance.negative_binomial(mean / (dispersion - 1), 1 / dispersion, size)
    return np.maximum(1, np.rint(chance.normal(mean, (dispersion * mean) ** 0.5, size)))


def hazards(draws: int, pre: float, post: float) -> Cell:
    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        arms = [outcomes_of(chance.random(draws) < rate, np.ones(draws)) for rate in (pre, post)]
        return hazard_estimate(arms[0], arms[1]), pre - post

    return Cell("H of a boundary", f"{draws} draws, success {pre:g} and {post:g}", trial)


def burdens(draws: int, dispersion: float, limit: int | None = None) -> Cell:
    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        arms = [lengths(chance, mean, dispersion, draws) for mean in (12.0, 15.0)]
        if limit is not None:
            arms = [np.where(chance.random(draws) < 0.1, limit, arm) for arm in arms]
        truth = 3.0 if limit is None else 0.9 * 3.0
        before, after = (outcomes_of(np.ones(draws), arm) for arm in arms)
        return burden_estimate(before, after), truth

    ended = "" if limit is None else f", one in ten at the limit of {limit}"
    caveat = "docs/attribution.md: the interval assumes lengths that vary as in the published runs"
    return Cell("B of a boundary", f"{draws} draws, variance / mean {dispersion:g}{ended}", trial, caveat)


def mean_hazards(boundaries: int, draws: int) -> Cell:
    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        rates = chance.beta(0.39, 0.076, boundaries)
        kept = np.where(chance.random(boundaries) < 0.1, chance.random(boundaries) * rates, rates)
        estimates, variances = [], []
        for one, other in zip(rates, kept, strict=True):
            drawn = [chance.random(draws) < rate for rate in (one, other)]
            before, after = (outcomes_of(arm, np.ones(draws)) for arm in drawn)
            estimates.append(hazard_estimate(before, after))
            variances.append(float(sum(arm.var(ddof=1) / draws for arm in drawn)))
        return mean_of(estimates, variances), float((rates - kept).mean())

    return Cell("mean H", f"{boundaries} boundaries, {draws} draws", trial)


def shares(tasks: int, runs: int, rate: float) -> Cell:
    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        own = chance.beta(8 * rate, 8 * (1 - rate), tasks)
        return wilson(float(chance.binomial(runs, own).mean() / runs), tasks), rate

    return Cell("accuracy of an arm", f"{tasks} tasks, {runs} runs, truth {rate:g}", trial)


def paired_shares(tasks: int, runs: int, rate: float) -> Cell:
    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        own = chance.beta(8 * rate, 8 * (1 - rate), tasks)
        one, other = (chance.binomial(runs, own) / runs for _ in range(2))
        return bootstrap([(one - other).tolist()], RESAMPLES)[0], 0.0

    none = "a note: no star where fewer than six tasks differ"
    return Cell("difference of accuracies", f"{tasks} tasks, {runs} runs, equal arms at {rate:g}", trial, none)


def paired_steps(tasks: int) -> Cell:
    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        middle = chance.uniform(5, 30, tasks)
        one, other = (middle * np.exp(chance.normal(0, 0.4, tasks)) for _ in range(2))
        return bootstrap([(one - other).tolist()], RESAMPLES)[0], 0.0

    none = f"a warning, and no star with fewer than {MEASURED} tasks"
    return Cell("difference of steps", f"{tasks} tasks, equal arms", trial, none)


def couplings(trajectories: int, draws: int) -> Cell:
    """H and B are independent over boundaries, but a draw that fails is longer."""

    def trial(chance: np.random.Generator) -> tuple[Estimate | None, float]:
        known = {}
        for unit in range(trajectories):
            for index in (1, 2):
                base, added = chance.beta(2, 0.8), chance.normal(0, 2)
                arms = []
                for rate, more in ((base, 0.0), (chance.beta(2, 0.8), added)):
                    won = chance.random(draws) < rate
                    longer = 4 * (rate - won)  # where it fails; on average by nothing
                    arms.append(outcomes_of(won, np.maximum(1, np.rint(chance.normal(14 + more + longer, 2)))))
                known[BoundaryId(f"collect/{unit}", index)] = Outcomes(*(dict(enumerate(arm)) for arm in arms))
        return _coupling(known, draws), 0.0

    none = f"that it cannot be given with fewer than {COUPLED} trajectories or two draws"
    return Cell("correlation of H and B", f"{trajectories} trajectories, {draws} draws", trial, none)


def counts(boundaries: int, mean: float) -> Cell:
    """The expected number of harmful ones among those retained, by probabilities that are right."""

    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        shares = chance.beta(2 * mean, 2 * (1 - mean), boundaries)
        return probable_count(shares.tolist()), float((chance.random(boundaries) < shares).sum())

    return Cell("number of harmful ones", f"{boundaries} retained, P(harmful) {mean:g} on average", trial)


def cells() -> Iterator[Cell]:
    for draws in (1, 3, 9):
        for pre, post in ((0.95, 0.95), (0.9, 0.4), (0.5, 0.5)):
            yield hazards(draws, pre, post)
        for dispersion in (0.04, 0.42, 2.0):
            yield burdens(draws, dispersion)
        yield burdens(draws, 0.42, 50)
    for boundaries, draws in ((20, 3), (100, 3), (100, 9)):
        yield mean_hazards(boundaries, draws)
    for tasks in (12, 20, 45, 168):
        for rate in (0.02, 0.5, 0.98):
            yield shares(tasks, 3, rate)
    for tasks in (12, 20, 40, 168):
        yield paired_shares(tasks, 3, 0.8)
        yield paired_steps(tasks)
    for trajectories, draws in ((8, 1), (20, 1), (20, 3), (20, 9), (40, 9)):
        yield couplings(trajectories, draws)
    for boundaries in (5, 20):
        yield counts(boundaries, 0.7)


def table(trials: int) -> tuple[Table, Table]:
    rows: list[Row] = []
    low: list[Row] = []
    for cell in cells():
        chance = np.random.default_rng(list(f"{cell.interval}/{cell.setting}".encode()))
        results = [cell.trial(chance) for _ in range(trials)]
        kept = [(estimate, truth) for estimate, truth in results if estimate is not None]
        if not kept:
            rows.append((cell.interval, cell.setting, "withheld"))
            low.append((cell.interval, cell.setting, "withheld", cell.instead))
            continue
        share = sum(e.low - 1e-9 <= truth <= e.high + 1e-9 for e, truth in kept) / len(kept)
        rows.append((cell.interval, cell.setting, Number(share, 3)))
        if share < ENOUGH:
            low.append((cell.interval, cell.setting, Number(share, 3), cell.instead))
    heads = columns("interval", "setting", "coverage")
    return (
        Table(f"Coverage of 95 % intervals, {trials} trials a cell", heads, tuple(rows)),
        Table(f"Below {ENOUGH}, and what is printed there", (*heads, *columns("instead")), tuple(low)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=TRIALS)
    for each in table(parser.parse_args().trials):
        print(markdown(each), end="\n\n")


if __name__ == "__main__":
    main()
