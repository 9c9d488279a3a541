"""Run an experiment, or resume it: collect, verify, adapt by each method, evaluate all arms on unseen tasks.

    python experiments/run.py all-real
    python experiments/run.py all-real --limit 12       # only the first twelve unseen tasks
    python experiments/run.py all-real --config hosted --forecast
    python experiments/run.py real-compressor --recorded    # with the replies that are kept in the folder

Stop it whenever you like (Ctrl-C, or kill it): the same command resumes where it left off.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime

from experiment import Experiment, find_experiment, parser_of
from forecast import forecast
from recompact.adaptation.adapt import STAGES, Adaptation, Stage, adapt
from recompact.adaptation.result import write_result
from recompact.cli.progress import watch
from recompact.engine.assembly import open_study
from recompact.engine.store.runs import open_run, trajectories
from recompact.errors import InputError, RecompactError
from recompact.evaluation.evaluate import PHASE, evaluate, open_evaluation
from recompact.values.tables import render
from recompact.values.texts import quantity
from replies import begin_with_replies

PHASES = ("adapt", "evaluate", "all")


async def adapt_by(experiment: Experiment, method: str, until: Stage = "select") -> Adaptation:
    """Steps 1 to 4 by one method. Its template is written unless the optimizer gave nothing that could be used."""
    with open_run(experiment.adaptations) as store:
        async with open_study(experiment.training(method), store) as study:
            with watch(study, f"{experiment.name}: {method}") as shown:
                adaptation = await adapt(shown, until)
            if until == "select" and not adaptation.unusable:
                day = datetime.now(UTC).date().isoformat()
                write_result(study, adaptation, experiment.template(method), day)
    return adaptation


async def solved_without_compaction(experiment: Experiment) -> int:
    """How many of the training tasks the agent solves when nothing is compacted. Raises where an environment broke."""
    with open_run(experiment.trial) as store:
        async with open_evaluation(experiment.config, store) as study:
            with watch(study, f"{experiment.name}: trial") as shown:
                await evaluate(shown, experiment.uncompacted(), 1)
        rows = trajectories(store, phase=PHASE)
    if broken := [row.task for row in rows if row.ending == "environment error"]:
        raise InputError(
            f"the environments of {', '.join(broken)} broke, so it is not known whether the agent solves them:"
            f" see `recompact show {experiment.trial}`, remove that file, and run this again"
        )
    return sum(row.success for row in rows)


async def evaluate_arms(experiment: Experiment, limit: int | None, runs: int, *, later: bool) -> None:
    """All arms that are ready on the unseen tasks."""
    config = experiment.testing(limit)
    arms = experiment.arms(later=later)
    with open_run(experiment.evaluation) as store:
        async with open_evaluation(config, store) as study:
            with watch(study, f"{experiment.name}: evaluate") as shown:
                await evaluate(shown, arms, runs)


def run(
    experiment: Experiment,
    methods: Sequence[str],
    stage: str,
    limit: int | None,
    runs: int,
    until: Stage = "select",
) -> int:
    """Do what is left of it. A method that came to nothing has no arm; the others continue."""
    failed = []
    if fewest := experiment.plan.solvable:
        solved = asyncio.run(solved_without_compaction(experiment))
        print(
            f"Solved without compaction: {solved} of {len(experiment.config.suite.tasks)} training tasks.", flush=True
        )
        if solved < fewest:
            print(f"That is fewer than {fewest}, so there is nothing that a compaction could cost: it ends here.")
            return 0
    if stage in ("adapt", "all"):
        for method in methods:
            adaptation = asyncio.run(adapt_by(experiment, method, until))
            if adaptation.unusable:
                failed.append(method)
            statement = adaptation.selection.statement if adaptation.selection else adaptation.statement
            print(f"{method}: {statement or f'stopped after {until}, as asked.'}", flush=True)
    if stage in ("evaluate", "all") and until == "select":
        for tasks, later in experiment.batches(limit):
            asyncio.run(evaluate_arms(experiment, tasks, runs, later=later))
    if failed:
        print(f"The optimizer gave nothing usable for {', '.join(failed)}: the same command asks it again.")
    return 2 if failed else 0


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--method", action="append", help="only this method of the plan; repeat it")
    parser.add_argument("--stage", choices=PHASES, default="all", help="only adapt, or only evaluate (default: all)")
    parser.add_argument("--until", choices=STAGES, default="select", help="adapt only up to this step; then stop")
    parser.add_argument("--limit", type=int, help="only the first so many unseen tasks")
    parser.add_argument("--runs", type=int, help="runs of each unseen task and arm (default: the plan's)")
    parser.add_argument("--forecast", action="store_true", help="only say what it takes: calls, tokens and money")
    parser.add_argument("--recorded", action="store_true", help="begin with the replies that are kept in the folder")
    given = parser.parse_args()
    try:
        experiment = find_experiment(given)
        if given.forecast:
            print(render(forecast(experiment, given.runs), "terminal"))
            return 0
        experiment.place.mkdir(parents=True, exist_ok=True)
        if given.recorded:
            added = begin_with_replies(experiment)
            print(f"{quantity(added, 'recorded reply')} put into the journal: what they answer is not asked for.")
        runs = given.runs or experiment.plan.runs
        return run(experiment, given.method or experiment.plan.methods, given.stage, given.limit, runs, given.until)
    except RecompactError as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"Stopped. The same command goes on: python {' '.join(sys.argv)}", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
