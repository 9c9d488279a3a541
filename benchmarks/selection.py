"""The two rules of selection on the embedded world: the paper's, and pruning, racing and fresh runs.

    python benchmarks/selection.py                      # 20 repetitions; some five minutes on two cores
    python benchmarks/selection.py --repetitions 40 --cache DIR

In each repetition both rules choose among the same candidates, from the same collection and verification. Prints the
test accuracy of the chosen templates, how far the estimate that each rule reports is from it, and the tokens that each
selection took, with intervals over repetitions. Simulated models only.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import fmean

from recompact.adaptation.adapt import Adaptation, adapt
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.store.calls import tokens_by_phase
from recompact.engine.store.store import Store
from recompact.evaluation.arm_runs import find_arm, read_arms
from recompact.evaluation.arms import parse_arms
from recompact.evaluation.evaluate import evaluate, open_evaluation, with_split
from recompact.evaluation.summary import evaluation
from recompact.values.candidate import Fit
from recompact.values.stats import Estimate, bootstrap
from recompact.values.template import Template

RULES = ("paper", "racing")


@dataclass(frozen=True)
class Choice:
    """What one rule chose in one repetition."""

    winner: str
    accuracy: float  # on test tasks
    reported: float  # the pass rate that the rule reports for its winner, on fit tasks
    gain_reported: float  # over the original, on fit tasks
    gain: float  # over the original, on test tasks
    tokens: int


def config_of(seed: int, train: int, rule: str = "paper") -> Config:
    text = (
        f'[suite]\nlimit = {train}\n[compressor]\nbudget = 2048\n[run]\nseed = {seed}\n[adapt]\nselection = "{rule}"\n'
    )
    return parse_config(text, Path("selection.toml"))


async def adapt_config(config: Config, path: Path, until: str) -> Adaptation:
    with Store.open(path) as store:
        async with open_study(config, store) as study:
            return await adapt(study, until)  # type: ignore[arg-type]


def selection_tokens(path: Path) -> int:
    with Store.read(path) as store:
        return sum(tokens_by_phase(store).get("select", {}).values())


def repetition(place: Path, train: int, test: int, runs: int, seed: int) -> dict[str, Choice]:
    """One collection, verification and set of candidates; both rules; all their choices on the test tasks."""
    base = place / f"{seed}.db"
    asyncio.run(adapt_config(config_of(seed, train), base, "revise"))
    choices: dict[str, tuple[Adaptation, int]] = {}
    for rule in RULES:
        path = place / f"{seed}-{rule}.db"
        if not path.exists():
            shutil.copy(base, path)
        adaptation = asyncio.run(adapt_config(config_of(seed, train, rule), path, "select"))
        choices[rule] = adaptation, selection_tokens(path)
    templates = {adaptation.template.hash: adaptation.template for adaptation, _ in choices.values()}
    accuracy, original = asyncio.run(try_templates(place, config_of(seed, train), templates, test, runs))
    return {
        rule: _choice(adaptation, accuracy.get(adaptation.template.hash, original), original, tokens)
        for rule, (adaptation, tokens) in choices.items()
    }


def _choice(adaptation: Adaptation, accuracy: float, original: float, tokens: int) -> Choice:
    selection = adaptation.selection
    fits: tuple[Fit, ...] = (selection.confirmed or selection.fits) if selection else ()
    rates = {fit.name: fit.rate for fit in fits}
    reported = rates.get(adaptation.winner, original)
    gain_reported = reported - rates.get("original", original)
    return Choice(adaptation.winner, accuracy, reported, gain_reported, accuracy - original, tokens)


async def try_templates(
    place: Path, config: Config, templates: dict[str, Template], test: int, runs: int
) -> tuple[dict[str, float], float]:
    """The accuracy of each template and of the original on the test tasks."""
    names = {}
    for hash, template in templates.items():
        directory = place / "templates" / hash[:16]
        if not directory.exists():
            template.save(directory)
        names[hash] = directory
    with Store.open(place / f"{config.run.seed}-test.db") as store:
        async with open_evaluation(with_split(config, "test", test), store) as study:
            others = {hash: path for hash, path in names.items() if hash != study.template.hash}
            labels = [f"t{hash[:8]}={path.resolve()}" for hash, path in others.items()]
            arms = parse_arms(["prompting", *labels], config.compressor, study.template)
            await evaluate(study, arms, runs)
        made = read_arms(store)
        shown = evaluation("test", [find_arm(made, arm.label, store.path) for arm in arms])
    rates = [shown.metrics(arm).means["acc"] for arm in shown.arms]
    return dict(zip(others, rates[1:], strict=True)), rates[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--train", type=int, default=60)
    parser.add_argument("--test", type=int, default=60)
    parser.add_argument("--runs", type=int, default=1, help="of each test task")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--cache", type=Path, help="keep the runs here and go on from them")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = args.cache or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        work = partial(repetition, place, args.train, args.test, args.runs)
        with ProcessPoolExecutor(args.processes) as pool:
            choices = list(pool.map(work, range(args.repetitions)))
    if args.json:
        print(json.dumps([{rule: asdict(choice) for rule, choice in each.items()} for each in choices], indent=2))
        return
    report(choices)


def report(choices: list[dict[str, Choice]]) -> None:
    by_rule = {rule: [each[rule] for each in choices] for rule in RULES}
    for rule, own in by_rule.items():
        accuracy, gain, optimism = bootstrap(
            [[c.accuracy for c in own], [c.gain for c in own], [c.gain_reported - c.gain for c in own]]
        )
        kept = sum(choice.winner == "original" for choice in own)
        print(f"{rule}: test accuracy {percent(accuracy)}, gain over the original {percent(gain)};")
        print(f"  the gain that it reports is {percent(optimism)} above that; the original was kept {kept} times;")
        print(f"  {fmean(choice.tokens for choice in own) / 1e6:.2f}M tokens for the selection")
    differences = [each["racing"].accuracy - each["paper"].accuracy for each in choices]
    (difference,) = bootstrap([differences])
    tokens = sum(c.tokens for c in by_rule["racing"]) / max(1, sum(c.tokens for c in by_rule["paper"]))
    print(f"racing minus paper, {len(choices)} repetitions: {percent(difference)}, at {tokens:.2f} times the tokens")


def percent(estimate: Estimate) -> str:
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


if __name__ == "__main__":
    main()
