"""How often the intervals that we print hold the truth, by simulation: it should be 0.95.

    python benchmarks/interval_coverage.py                   # five minutes of one core
    python benchmarks/interval_coverage.py --trials 2000

Each cell draws runs from a known truth and asks the function that makes the printed interval. Cells below 0.93 are
listed again with what is printed there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from recompact.attribution.controls import COUPLED, _coupling
from recompact.attribution.effects import effect_of, hazard_estimate
from recompact.attribution.posterior import probability_none
from recompact.attribution.prior import learn_priors, pooled_dispersion, published_prior
from recompact.evaluation.adaptations import FEWEST
from recompact.evaluation.paired import MEASURED
from recompact.values.outcome import BoundaryId, Outcome, Outcomes
from recompact.values.stats import Estimate, bootstrap, bootstrap_crossed, mean_of, probable_count, wilson
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


def burdens(draws: int, dispersion: float, limit: int | None = None, retained: bool = False) -> Cell:
    """A boundary of a run with 25 others, which tell how much lengths vary."""

    def boundary(chance: np.random.Generator) -> Outcomes:
        arms = []
        for mean in (12.0, 15.0):
            steps, out = lengths(chance, mean, dispersion, draws), np.zeros(draws, bool)
            if limit is not None:
                out = chance.random(draws) < 0.1
                steps = np.where(out, limit, steps)
            arms.append({n: Outcome(1.0, int(steps[n]), 0, bool(out[n])) for n in range(draws)})
        return Outcomes(*arms)

    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        others = [boundary(chance) for _ in range(25)]
        prior = replace(published_prior(), dispersion=pooled_dispersion(others))
        while True:
            effect = effect_of(boundary(chance), prior=prior)
            if effect is not None and (effect.selected or not retained):
                return effect.burden_estimate, 3.0 if limit is None else 0.9 * 3.0

    ended = "" if limit is None else f", one in ten at the limit of {limit}"
    kept = ", retained" if retained else ""
    caveat = "that effects of retained boundaries are too large and their intervals hold less often (verify)"
    setting = f"{draws} draws, variance / mean {dispersion:g}{ended}{kept}"
    return Cell("B of a boundary", setting, trial, *([caveat] if retained else []))


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


def counts(boundaries: int, harmful: int, hazard: float) -> Cell:
    """How many of those retained are harmful: some lose nearly all their success, the others up to `hazard`."""

    def trial(chance: np.random.Generator) -> tuple[Estimate | None, float]:
        known: dict[BoundaryId, Outcomes] = {}
        truth: set[BoundaryId] = set()
        for n in range(boundaries):
            id, lost = BoundaryId(f"collect/{n // 2}", 1 + n % 2), chance.uniform(0, hazard)
            rate = max(lost, chance.beta(0.39, 0.076))
            if n < harmful:
                truth, rate, lost = {*truth, id}, 0.95, 0.85
            draws = [
                outcomes_of(chance.random(3) < each, lengths(chance, mean, 0.42, 3))
                for each, mean in ((rate, 12.0), (rate - lost, 12.0 + chance.uniform(0, 4)))
            ]
            known[id] = Outcomes(*(dict(enumerate(arm)) for arm in draws))
        priors = learn_priors(known)
        effects = {id: effect_of(own, prior=priors.of(id)) for id, own in known.items()}
        retained = {id: effect.p_harmful for id, effect in effects.items() if effect is not None and effect.selected}
        if not retained:
            return None, 0.0
        estimate = probable_count(retained.values(), none=probability_none(known))
        return estimate, float(len(truth & retained.keys()))

    setting = f"{boundaries} boundaries, {harmful} harmful, the others with H up to {hazard:g} and B up to 4"
    return Cell("number of harmful ones", setting, trial)


def over_adaptations(adaptations: int, spread: float) -> Cell:
    """The gain of a method whose adaptations differ by so much, on 40 tasks."""

    def trial(chance: np.random.Generator) -> tuple[Estimate, float]:
        rates, effects = chance.uniform(0.3, 0.7, 40), chance.normal(0.1, spread, (adaptations, 1))
        gains = (chance.random((adaptations, 40)) < rates + effects).astype(float) - (chance.random(40) < rates)
        return bootstrap_crossed([gains.tolist()], RESAMPLES)[0], 0.1

    none = f"that nothing is marked with fewer than {FEWEST} adaptations"
    return Cell("gain over adaptations", f"{adaptations} adaptations, deviation {spread:g}", trial, none)


def cells() -> Iterator[Cell]:
    for draws in (1, 3, 9):
        for pre, post in ((0.95, 0.95), (0.9, 0.4), (0.5, 0.5)):
            yield hazards(draws, pre, post)
        for dispersion in (0.04, 0.42, 2.0):
            yield burdens(draws, dispersion)
        yield burdens(draws, 0.42, 50)
        yield burdens(draws, 0.42, retained=True)
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
    for boundaries, harmful, hazard in ((20, 0, 0.4), (60, 0, 0.4), (20, 2, 0.0), (60, 6, 0.0), (60, 6, 0.4)):
        yield counts(boundaries, harmful, hazard)
    for adaptations in (2, 3, 6):
        for spread in (0.0, 0.08):
            yield over_adaptations(adaptations, spread)


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
