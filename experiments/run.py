"""Run an experiment, or resume it: collect, verify, adapt by each method, evaluate all arms on unseen tasks.

    python experiments/run.py all-real
    python experiments/run.py all-real --limit 12       # only the first twelve unseen tasks
    python experiments/run.py fresh-tasks --recorded    # what was played so far, from the kept replies; asks no model
    python experiments/run.py fresh-tasks --resume      # the same, and asks the model for what is missing
    python experiments/run.py fresh-tasks --config hosted --forecast
    python experiments/run.py fresh-tasks --config hosted --model gpt-5-mini --price 0.25,2 --ceiling 5

Stop it whenever you like (Ctrl-C, or kill it): the same command resumes where it left off. In the end the page of
results stands beside the run files.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from experiment import Experiment, find_experiment, parser_of
from forecast import forecast
from hosted import add_hosted_arguments, hosted_by
from recompact.adaptation.adapt import STAGES, Adaptation, Stage, adapt
from recompact.adaptation.result import write_result
from recompact.attribution.bisection.bisect import bisect
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.verify import verify
from recompact.cli.progress import watch
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.runs import open_run, trajectories
from recompact.errors import InputError, RecompactError
from recompact.evaluation.evaluate import PHASE, evaluate, open_evaluation
from recompact.values.tables import render
from recompact.values.texts import quantity
from replies import NotRecorded, RecordedModel, begin_with_replies, without_models
from results import page

PHASES = ("adapt", "evaluate", "all")


async def adapt_by(experiment: Experiment, method: str, until: Stage = "select") -> Adaptation:
    """Steps 1 to 4 by one method. Its template is written unless the optimizer gave nothing that could be used."""
    with open_run(experiment.adaptations) as store:
        async with open_study(experiment.training(method), store, models=experiment.models) as study:
            with watch(study, f"{experiment.name}: {method}") as shown:
                adaptation = await adapt(shown, until)
            if until == "select" and not adaptation.unusable:
                day = datetime.now(UTC).date().isoformat()
                write_result(study, adaptation, experiment.template(method), day)
    return adaptation


async def solved_without_compaction(experiment: Experiment) -> int:
    """How many of the training tasks the agent solves when nothing is compacted. Raises where an environment broke."""
    with open_run(experiment.trial) as store:
        async with open_evaluation(experiment.config, store, models=experiment.models) as study:
            with watch(study, f"{experiment.name}: trial") as shown:
                await evaluate(shown, experiment.uncompacted(), 1)
        rows = trajectories(store, phase=PHASE)
    if broken := [row.task for row in rows if row.ending == "environment error"]:
        raise InputError(
            f"the environments of {', '.join(broken)} broke, so it is not known whether the agent solves them:"
            f" see `recompact show {experiment.trial}`, remove that file, and run this again"
        )
    return sum(row.success for row in rows)


async def bisect_retained(experiment: Experiment) -> str:
    """Look for what each retained compaction of a training task should have kept, and say at how many it was found."""
    with open_run(experiment.adaptations) as store:
        async with open_study(experiment.config, store, models=experiment.models) as study:
            with watch(study, f"{experiment.name}: bisect") as shown:
                await collect(shown)
                await verify(shown)
                retained = [verdict.id for verdict in read_verdicts(store).retained]
                causes = (await bisect(shown, retained, most=experiment.plan.bisect)).causes
    return f"{sum(cause.known for cause in causes.values())} of {quantity(len(causes), 'retained compaction')}"


async def evaluate_arms(experiment: Experiment, limit: int | None, runs: int, *, later: bool) -> None:
    """All arms that are ready on the unseen tasks."""
    config = experiment.testing(limit)
    arms = experiment.arms(later=later)
    with open_run(experiment.evaluation) as store:
        async with open_evaluation(config, store, models=experiment.models) as study:
            with watch(study, f"{experiment.name}: evaluate") as shown:
                await evaluate(shown, arms, runs)


def adapt_all(experiment: Experiment, methods: Sequence[str], until: Stage) -> list[str]:
    """Bisect what verification retained, then adapt by each method; gives those whose optimizer was of no use."""
    failed = []
    if experiment.plan.bisect and until != "collect":
        print(f"A cause was found at {asyncio.run(bisect_retained(experiment))}.", flush=True)
    for method in methods:
        adaptation = asyncio.run(adapt_by(experiment, method, until))
        if adaptation.unusable:
            failed.append(method)
        statement = adaptation.selection.statement if adaptation.selection else adaptation.statement
        print(f"{method}: {statement or f'stopped after {until}, as planned.'}", flush=True)
    return failed


def run(
    experiment: Experiment,
    methods: Sequence[str],
    stage: str,
    limit: int | None,
    runs: int,
    until: Stage | None = None,
) -> int:
    """Do what is left of it. A method that came to nothing has no arm; the others continue."""
    until = until or experiment.plan.until
    failed: list[str] = []
    if fewest := experiment.plan.solvable:
        solved = asyncio.run(solved_without_compaction(experiment))
        print(
            f"Solved without compaction: {solved} of {len(experiment.config.suite.tasks)} training tasks.", flush=True
        )
        if solved < fewest:
            print(f"That is fewer than {fewest}, so there is nothing that a compaction could cost: it ends here.")
            return 0
    try:
        if stage in ("adapt", "all"):
            failed = adapt_all(experiment, methods, until)
        if stage in ("evaluate", "all") and until == "select":
            for tasks, later in experiment.batches(limit):
                asyncio.run(evaluate_arms(experiment, tasks, runs, later=later))
    except Unfinished as error:
        if not all(isinstance(unit.failure, NotRecorded) for unit in error.units):
            raise
        print("No more was recorded: --resume asks a model for the rest.", flush=True)
    if failed:
        print(f"The optimizer gave nothing usable for {', '.join(failed)}: the same command asks it again.")
    return 2 if failed else 0


def write_page(experiment: Experiment) -> None:
    """Put the page of results beside the run files."""
    beside = experiment.place / "results.md"
    beside.write_text(page(experiment), encoding="utf-8")
    print(f"The results: {beside}")


def repeats_the_page(experiment: Experiment) -> bool:
    """Whether the recorded replies gave the page in the folder, and say so."""
    recorded = [model for model in experiment.models.values() if isinstance(model, RecordedModel)]
    if reworded := sum(model.reworded for model in recorded):
        print(f"{quantity(reworded, 'reply')} of the optimizer: to questions that are worded otherwise today.")
    same = experiment.page.is_file() and experiment.page.read_text(encoding="utf-8") == page(experiment)
    print(f"They are {'those' if same else 'not those'} of {experiment.page}{', to the letter' if same else ''}.")
    return same


def arguments() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--method", action="append", help="only this method of the plan; repeat it")
    parser.add_argument("--stage", choices=PHASES, default="all", help="only adapt, or only evaluate (default: all)")
    parser.add_argument("--until", choices=STAGES, help="adapt only up to this step; then stop (default: the plan's)")
    parser.add_argument("--limit", type=int, help="only the first so many unseen tasks")
    parser.add_argument("--runs", type=int, help="runs of each unseen task and arm (default: the plan's)")
    parser.add_argument("--forecast", action="store_true", help="only say what it takes: calls, tokens and money")
    kept = parser.add_mutually_exclusive_group()
    kept.add_argument("--recorded", action="store_true", help="repeat what the folder's replies answer; ask no model")
    kept.add_argument("--resume", action="store_true", help="begin with the folder's replies, and ask for the rest")
    add_hosted_arguments(parser)
    return parser.parse_args()


def main() -> int:
    given = arguments()
    try:
        experiment = hosted_by(find_experiment(given), given)
        runs = given.runs or experiment.plan.runs
        if given.forecast or experiment.config_name != "config":
            print(render(forecast(experiment, runs), "terminal"), flush=True)
        if given.forecast:
            return 0
        experiment.place.mkdir(parents=True, exist_ok=True)
        if given.recorded or given.resume:
            added = begin_with_replies(experiment)
            print(f"{quantity(added, 'recorded reply')} put into the journal: what they answer is not asked for.")
        if given.recorded:
            experiment = without_models(experiment)
        methods = given.method or experiment.plan.methods
        try:
            code = run(experiment, methods, given.stage, given.limit, runs, given.until)
        finally:
            write_page(experiment)
        in_part = given.method or given.limit or given.runs or given.stage != "all" or given.until
        return code if not given.recorded or in_part or repeats_the_page(experiment) else 1
    except RecompactError as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Stopped. The same command goes on: python {' '.join(sys.argv)}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
