"""Is the audit's score worth anything? The score beside the true effect of each compaction, in the embedded world.

    python benchmarks/audit_truth.py             # some thirty minutes on two cores the first time, for the true effects
    python benchmarks/audit_truth.py --quick     # fewer tasks and draws
    python benchmarks/audit_truth.py --write     # also record the figures that the audit page has
    python benchmarks/audit_truth.py --json

Collects the test split of pocket at a budget of 2,048 tokens, audits it as `recompact audit RUN` does, and compares the
score of each compaction with its H and B from many continuations, which the audit does not see. Intervals resample
tasks. It is a simulation and says nothing about real models. The runs are those of benchmarks/allocation.py, and are
kept in --cache with them.
"""

from __future__ import annotations

import argparse
import json
import sys
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from statistics import fmean
from textwrap import fill

from allocation import BUDGET, CACHE, collect_run, draw_truth, run_name
from recompact.audit.auditing import audit_run
from recompact.audit.scoring import assess
from recompact.audit.worth import FILE
from recompact.engine.config import CompressorConfig, Config, RunConfig, SuiteConfig
from recompact.engine.store.store import Store
from recompact.values.outcome import PAPER, BoundaryId
from recompact.values.stats import Estimate, percentile_estimate, ranks, spearman, wilson

DOCS = Path(__file__).parent.parent / "docs" / "audit.md"
BEGIN, END = "<!-- worth -->", "<!-- /worth -->"
WORLD = "the embedded world (pocket)"
RESAMPLES = 2000
EDGES = (1e-9, 1.0)
"""Scores fall into three strata: nothing beyond placebo, rarer than that, and at most one in ten."""
STRATA = ("0", "below 1", "1 and above")


@dataclass(frozen=True)
class Observed:
    """One compaction: its score, if it has one, and the truth."""

    task: str
    score: float | None
    hazard: float
    burden: float

    @property
    def harmful(self) -> bool:
        return self.hazard >= PAPER.hazard or self.burden >= PAPER.burden


@dataclass(frozen=True)
class Stratum:
    """The compactions with a score in one range: how many of them were really harmful, by either effect."""

    name: str
    compactions: int
    harmful: Estimate | None  # the share; None without any
    mean_burden: float | None


@dataclass(frozen=True)
class Worth:
    """The score beside the truth. `with_hazard` and `with_burden` are rank correlations with true H and B."""

    world: str
    command: str
    tasks: int
    compactions: int
    scored: int
    harmful: int
    draws: int
    with_hazard: Estimate | None
    with_burden: Estimate | None
    auc: Estimate | None  # of harmful against harmless
    strata: tuple[Stratum, ...]


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
            out.append(Observed(truth.task, each.score, truth.hazard, truth.burden))
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


def stratum_of(score: float) -> str:
    """
    >>> [stratum_of(score) for score in (0.0, 0.4, 2.0)]
    ['0', 'below 1', '1 and above']
    """
    return STRATA[bisect_right(EDGES, score)]


def _with_room(share: Estimate | None, cases: int) -> Estimate | None:
    """The wider of the interval over tasks and Wilson's: where no case is harmful, no resample has one either."""
    if share is None:
        return None
    wilsons = wilson(share.value, cases)
    return Estimate(share.value, min(share.low, wilsons.low), max(share.high, wilsons.high))


def measure_worth(test: Sequence[Observed], draws: int, command: str) -> Worth:
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
    )


def sentences(worth: Worth) -> tuple[str, ...]:
    """What the score is worth, in words that its figures support."""
    first = (
        f"What this score is worth was measured where the truth is known: {worth.scored:,} compactions of "
        f"{worth.tasks} tasks in {worth.world}, each continued {worth.draws} times with and {worth.draws} "
        f"times without it ({worth.command}). A simulation: real agents may differ."
    )
    return (
        first,
        f"Rank correlation of the score with the steps that a compaction added: {_figure(worth.with_burden)}"
        f"{_reading(worth.with_burden)}; with the success that it cost: {_figure(worth.with_hazard)}"
        f"{_reading(worth.with_hazard)}. Of a harmful and a harmless compaction the harmful one had the higher score "
        f"with probability {_figure(worth.auc)}; 0.5 is chance{_chance(worth.auc)}.",
        f"Really harmful, by score: {'; '.join(_share(each) for each in worth.strata)}.",
        f"So a high score {_says(worth.with_burden)} that a compaction cost steps, and {_says(worth.with_hazard)} that "
        "it cost success: what was lost without a trace is not fetched again, and only verifying finds it.",
    )


def _says(estimate: Estimate | None) -> str:
    return "is a sign" if estimate is not None and estimate.low > 0 else "is no sign"


def _figure(estimate: Estimate | None) -> str:
    if estimate is None:
        return "not defined"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]".replace("-", "−")


def _reading(estimate: Estimate | None) -> str:
    return " (not distinguishable from zero)" if estimate is not None and estimate.low <= 0 <= estimate.high else ""


def _chance(estimate: Estimate | None) -> str:
    return (
        ", and this is not distinguishable from it"
        if estimate is not None and estimate.low <= 0.5 <= estimate.high
        else ""
    )


def _share(stratum: Stratum) -> str:
    if stratum.harmful is None:
        return f"score {stratum.name}, none"
    share = stratum.harmful
    return f"score {stratum.name}, {share.value:.0%} [{share.low:.0%}, {share.high:.0%}] of {stratum.compactions:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, default=CACHE, help="where runs and true effects are kept")
    parser.add_argument("--runs", type=int, default=2, help="collected runs of the split (default: 2)")
    parser.add_argument("--draws", type=int, default=64, help="continuations in each arm (default: 64)")
    parser.add_argument("--first", type=int, default=0, help="seed of the first run (default: 0)")
    parser.add_argument("--limit", type=int, help="only so many tasks")
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
        draws,
        " ".join(["python benchmarks/audit_truth.py", *_without_cache(given)]),
    )
    text = json.dumps({**asdict(worth), "sentences": sentences(worth)}, indent=2, ensure_ascii=False) + "\n"
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


if __name__ == "__main__":
    main()
