"""Is the audit's score worth anything? The score beside the true effect of each compaction, in the embedded world.

    python benchmarks/audit_truth.py             # some thirty minutes on two cores the first time, for the true effects
    python benchmarks/audit_truth.py --quick     # fewer tasks and draws
    python benchmarks/audit_truth.py --write     # also record the figures that the audit page and its prior use
    python benchmarks/audit_truth.py --json

Collects the test split of pocket at a budget of 2,048 tokens, audits it as `recompact audit RUN` does, and compares the
score of each compaction with its H and B from many continuations, which the audit does not see. What `prior = "audit"`
uses is learned from runs of the train split alone. Intervals resample tasks. It is a simulation and says nothing about
real models. The runs of the test split are those of benchmarks/allocation.py, and are kept in --cache with them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from operator import mul
from pathlib import Path
from random import Random
from statistics import fmean, pstdev
from textwrap import fill

from allocation import BUDGET, CACHE, collect_run, draw_truth, run_name
from recompact.attribution.posterior import PAPER
from recompact.audit.odds import Features, OddsModel, Weight, features
from recompact.audit.runs import audit_run
from recompact.audit.scoring import assess
from recompact.audit.worth import FILE, STRATA, Stratum, Worth, sentences, stratum_of
from recompact.engine.config import CompressorConfig, Config, RunConfig, SuiteConfig
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId
from recompact.values.stats import Estimate, percentile_estimate, ranks, spearman, wilson

DOCS = Path(__file__).parent.parent / "docs" / "audit.md"
BEGIN, END = "<!-- worth -->", "<!-- /worth -->"
WORLD = "the embedded world (pocket)"
RESAMPLES = 2000


@dataclass(frozen=True)
class Observed:
    """One compaction: its score, if it has one, and the truth."""

    task: str
    score: float | None
    features: Features
    hazard: float
    burden: float

    @property
    def severe(self) -> tuple[bool, bool]:
        return self.hazard >= PAPER.hazard, self.burden >= PAPER.burden

    @property
    def harmful(self) -> bool:
        return any(self.severe)


def observe_compactions(split: str, seeds: range, draws: int, limit: int | None, cache: Path) -> list[Observed]:
    """The compactions of one run of a split for each seed."""
    out = []
    for seed in seeds:
        suite = SuiteConfig(split=split, limit=limit)
        config = Config(suite=suite, compressor=CompressorConfig(budget=BUDGET), run=RunConfig(seed=seed))
        path = collect_run(config, cache / f"{run_name(split, limit, seed)}.db")
        with Store.read(path) as store:
            ranked = {BoundaryId(r.session.member, r.compaction.ordinal): r for r in assess(audit_run(store)).ranked}
        for truth in draw_truth(path, draws):
            each = ranked[BoundaryId(f"collect/{truth.task}", truth.index)]
            out.append(Observed(truth.task, each.score, features(each), truth.hazard, truth.burden))
    return out


def over_tasks(cases: Sequence[Observed], figure: Callable[[Sequence[Observed]], float | None]) -> Estimate | None:
    """A figure with its interval when tasks are drawn with replacement; None where it is not defined."""
    value = figure(cases)
    if value is None:
        return None
    tasks: dict[str, list[Observed]] = {}
    for case in cases:
        tasks.setdefault(case.task, []).append(case)
    chance, names = Random("tasks"), sorted(tasks)
    resampled = (
        figure([case for name in chance.choices(names, k=len(names)) for case in tasks[name]]) for _ in range(RESAMPLES)
    )
    return percentile_estimate(value, [each for each in resampled if each is not None])


def scores(cases: Sequence[Observed]) -> list[float]:
    return [case.score or 0.0 for case in cases]


def auc(cases: Sequence[Observed]) -> float | None:
    """The probability that a harmful compaction has a higher score than a harmless one; a tie counts half."""
    placed = ranks(scores(cases))
    harmful = sum(case.harmful for case in cases)
    if not 0 < harmful < len(cases):
        return None
    total = sum(rank for rank, case in zip(placed, cases, strict=True) if case.harmful)
    return (total - harmful * (harmful + 1) / 2) / (harmful * (len(cases) - harmful))


def share(cases: Sequence[Observed]) -> float | None:
    return sum(case.harmful for case in cases) / len(cases) if cases else None


def strata(cases: Sequence[Observed]) -> tuple[Stratum, ...]:
    out = []
    for name in STRATA:
        inside = [case for case in cases if stratum_of(case.score or 0.0) == name]
        burden = fmean(case.burden for case in inside) if inside else None
        out.append(Stratum(name, len(inside), _with_room(over_tasks(inside, share), len(inside)), burden))
    return tuple(out)


def _with_room(share: Estimate | None, cases: int) -> Estimate | None:
    """The wider of the interval over tasks and Wilson's: where no case is harmful, no resample has one either."""
    if share is None:
        return None
    wilsons = wilson(share.value, cases)
    return Estimate(share.value, min(share.low, wilsons.low), max(share.high, wilsons.high))


def measure_worth(test: Sequence[Observed], train: Sequence[Observed], draws: int, command: str) -> Worth:
    scored = [case for case in test if case.score is not None]
    return Worth(
        world=WORLD,
        command=command,
        tasks=len({case.task for case in scored}),
        compactions=len(test),
        scored=len(scored),
        harmful=sum(case.harmful for case in scored),
        draws=draws,
        with_hazard=over_tasks(scored, lambda cases: spearman(scores(cases), [case.hazard for case in cases])),
        with_burden=over_tasks(scored, lambda cases: spearman(scores(cases), [case.burden for case in cases])),
        auc=over_tasks(scored, auc),
        strata=strata(scored),
        trained_on=len(train),
        hazard_odds=learned_odds(train, lambda case: case.severe[0]),
        burden_odds=learned_odds(train, lambda case: case.severe[1]),
    )


RIDGES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, math.inf)
FOLDS = 5


def learned_odds(cases: Sequence[Observed], severe: Callable[[Observed], bool]) -> OddsModel:
    """Logistic regression with a ridge, which is chosen on tasks left out: an infinite one says that nothing is gained
    by looking."""
    names = sorted({case.task for case in cases})
    Random("folds").shuffle(names)
    fold = {name: place % FOLDS for place, name in enumerate(names)}

    def loss(ridge: float) -> float:
        total = 0.0
        for out in range(FOLDS):
            inside = [case for case in cases if fold[case.task] != out]
            if not 0 < sum(map(severe, inside)) < len(inside):
                continue
            model, odds = fitted_odds(inside, severe, ridge)
            for case in cases:
                if fold[case.task] == out:
                    chance = odds * model.ratio(case.features)
                    total -= math.log((chance if severe(case) else 1.0) / (1 + chance))
        return total

    if not 0 < sum(map(severe, cases)) < len(cases):
        return OddsModel()
    return fitted_odds(cases, severe, min(reversed(RIDGES), key=loss))[0]


def fitted_odds(cases: Sequence[Observed], severe: Callable[[Observed], bool], ridge: float) -> tuple[OddsModel, float]:
    """The weights by Newton's method, and the odds without any observation."""
    truth = [float(severe(case)) for case in cases]
    base = fmean(truth) / (1 - fmean(truth))
    names = [name for name in cases[0].features if len({case.features[name] for case in cases}) > 1]
    if math.isinf(ridge):
        return OddsModel(), base
    means = [fmean(case.features[name] for case in cases) for name in names]
    deviations = [pstdev([case.features[name] for case in cases]) for name in names]
    rows = [
        [1.0, *((case.features[n] - m) / d for n, m, d in zip(names, means, deviations, strict=True))] for case in cases
    ]
    beta = [math.log(base), *(0.0 for _ in names)]
    penalties = [0.0, *(ridge for _ in names)]
    for _ in range(25):
        chances = [1 / (1 + math.exp(-sum(map(mul, beta, row)))) for row in rows]
        slope = [
            sum(row[i] * (y - p) for row, y, p in zip(rows, truth, chances, strict=True)) - penalties[i] * beta[i]
            for i in range(len(beta))
        ]
        bend = [
            [
                sum(row[i] * row[j] * p * (1 - p) for row, p in zip(rows, chances, strict=True))
                + (penalties[i] if i == j else 0.0)
                for j in range(len(beta))
            ]
            for i in range(len(beta))
        ]
        beta = [b + step for b, step in zip(beta, solve(bend, slope), strict=True)]
    weights = {n: Weight(m, d, b) for n, m, d, b in zip(names, means, deviations, beta[1:], strict=True)}
    return OddsModel(beta[0] - math.log(base), weights), base


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve linear equations by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        best = max(range(at, size), key=lambda r: abs(rows[r][at]))
        rows[at], rows[best] = rows[best], rows[at]
        for below in range(at + 1, size):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [x - factor * y for x, y in zip(rows[below], rows[at], strict=True)]
    out = [0.0] * size
    for at in reversed(range(size)):
        rest = sum(rows[at][n] * out[n] for n in range(at + 1, size))
        out[at] = (rows[at][size] - rest) / rows[at][at]
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where runs and true effects are kept")
    parser.add_argument("--runs", type=int, default=2, help="collected runs of each split (default: 2)")
    parser.add_argument("--draws", type=int, default=64, help="continuations in each arm (default: 64)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first run (default: 0)")
    parser.add_argument("--limit", type=int, help="only so many tasks of each split")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--write", action="store_true", help=f"record the figures in src/recompact/audit/{FILE} and docs"
    )
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs, draws, limit = (1, 40, 45) if args.quick else (args.runs, args.draws, args.limit)
    seeds = range(args.first, args.first + runs)
    given = [word for word in sys.argv[1:] if word not in ("--write", "--json")]
    worth = measure_worth(
        observe_compactions("test", seeds, draws, limit, args.cache),
        observe_compactions("train", seeds, draws, limit, args.cache),
        draws,
        " ".join(["python benchmarks/audit_truth.py", *_without_cache(given)]),
    )
    text = json.dumps(worth.to_json(), indent=2) + "\n"
    if args.write:
        Path(str(files("recompact.audit") / FILE)).write_text(text, encoding="utf-8")
        DOCS.write_text(document_figures(DOCS.read_text(encoding="utf-8"), worth), encoding="utf-8")
    print(text) if args.json else show(worth)


def document_figures(page: str, worth: Worth) -> str:
    """The page with these figures in the place reserved for them."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    said = [fill(text.replace(worth.command, f"`{worth.command}`"), 120) for text in sentences(worth)]
    return "\n".join([f"{before}{BEGIN}", *said, f"{END}{after}"])


def _without_cache(given: Sequence[str]) -> list[str]:
    """The options without where files are kept, which is specific to this machine."""
    kept = [word for word in given if not word.startswith("--cache=")]
    while "--cache" in kept:
        del kept[kept.index("--cache") : kept.index("--cache") + 2]
    return kept


def show(worth: Worth) -> None:
    print(
        f"{worth.compactions} compactions, {worth.scored} with a score (the others have too few calls after them), "
        f"{worth.harmful} of those harmful (H >= {PAPER.hazard:g} or B >= {PAPER.burden:g})"
    )
    for text in sentences(worth):
        print(text)
    print("score        compactions  harmful               mean B")
    for each in worth.strata:
        found = each.harmful
        cell = f"{found.value:.3f} ({found.low:.3f}-{found.high:.3f})" if found else "-"
        burden = f"{each.mean_burden:.2f}" if each.mean_burden is not None else "-"
        print(f"{each.name:12} {each.compactions:11}  {cell:20}  {burden}")
    for channel, odds in ((f"H >= {PAPER.hazard:g}", worth.hazard_odds), (f"B >= {PAPER.burden:g}", worth.burden_odds)):
        listed = ", ".join(f"{name} {weight.weight:+.2f}" for name, weight in (odds.weights or {}).items())
        print(
            f"log odds of {channel}, learned from {worth.trained_on} compactions of the train split: "
            f"{listed or 'nothing is gained by looking'}"
        )


if __name__ == "__main__":
    main()
