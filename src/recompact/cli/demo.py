"""`recompact demo`: the whole of Recompact on the embedded world, with no key and no network, in about a minute.

Collect, verify, adapt, and evaluate on tasks that were never seen, with simulated models; the runs, the adapted
template and a report about all of it stay in a directory to look at. The arms that need no adapted template are played
meanwhile in a process of their own.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import click

from recompact.adaptation.adapt import Adaptation, adapt
from recompact.adaptation.result import write_result
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.statement import Statement, headline, statement_of
from recompact.cli.benchmark_configs import config_text
from recompact.cli.console import print_claims, print_json, print_tables, say
from recompact.cli.options import Json, as_command
from recompact.cli.progress import watch
from recompact.cli.report import write_report
from recompact.cli.running import ending_early, this_command
from recompact.engine.assembly import open_study
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.store.runs import open_run, run_path
from recompact.errors import RecompactError
from recompact.evaluation.arm_runs import find_arm, read_arms
from recompact.evaluation.arms import parse_arms
from recompact.evaluation.evaluate import digest, evaluate, open_evaluation, with_split
from recompact.evaluation.paired import Comparison, compare
from recompact.evaluation.summary import Evaluation, arm_table, evaluation
from recompact.values.candidate import Candidate
from recompact.values.chat import sha256
from recompact.values.outputs import add_files
from recompact.values.texts import command_line, quantity

BUDGET = 2048
WORLD = 101  # the first draw that was accepted, by figures of no method: docs/benchmarks.md#worlds
ARMS = ("none", "prompting")
TITLE = "What compaction does to a simulated agent"
SIMULATED = "A simulation: simulated models in an embedded world. It shows the method, not how any real model behaves."


@as_command("demo", example="demo --train 12 --test 12")
def command(
    *,
    directory: Annotated[Path, "--dir"] = Path("recompact-demo"),
    train: Annotated[int, click.IntRange(6, 90), "Tasks to adapt on."] = 90,
    test: Annotated[int, click.IntRange(2, 168), "Unseen tasks to evaluate on."] = 168,
    runs: Annotated[int, click.IntRange(1, 9), "Runs of each arm and task."] = 3,
    as_json: Json,
) -> None:
    """Run the whole of Recompact on the embedded world: simulated models, no key, no network.

    Collects trajectories under a budget of 2,048 tokens, finds the harmful compactions, adapts the prompt from them,
    evaluates it on unseen tasks, and writes a report for a browser. Run again, it only shows the existing results.
    """
    file = directory / "demo.toml"  # where later commands (verify, replay, show) find what the runs were made with
    text = config_text("demo.txt").format(limit=train, world=WORLD, budget=BUDGET)
    config = parse_config(text, file)
    result = directory / "adapted"
    path = run_path("adapt", directory)
    add_files(directory, "demo", {file.name: text.encode()}, "--dir")
    with ending_early(path, this_command()):
        with _playing_ahead(config, directory, test, runs), open_run(path) as store:
            study, adapted = asyncio.run(_adapt(config, store, quiet=as_json))
            write_result(study, adapted, result, datetime.now(UTC).date().isoformat())
            verified = statement_of(read_verdicts(store))
            digest = store.digest(without="replay/")
        with open_run(run_path("evaluate", directory)) as store:
            arms = [*ARMS, f"{config.adapt.method}={result.resolve()}"]
            shown, comparison, evaluated = asyncio.run(_evaluate(config, store, arms, test, runs, quiet=as_json))
    digest = sha256(digest + evaluated)  # of the records alone: the report is made from them
    runs_made = (str(path), str(run_path("evaluate", directory)))
    page = write_report(runs_made, directory, directory / "report.html", title=TITLE)
    if as_json:
        print_json(
            {
                "simulated": True,
                "boundaries": verified.boundaries,
                "harmful": verified.retained,
                "winner": adapted.winner,
                "template": str(result),
                "report": page["report"],
                "arms": {arm.label: shown.metrics(arm).to_json() for arm in shown.arms},
                "comparison": comparison.to_json(),
                "digest": digest,
            }
        )
        click.echo(f"digest: {digest}", err=True)
        return
    _print_story(adapted, shown, page, _harm(verified))
    click.echo(f"\nThe report, for a browser:            {page['report']}")
    click.echo(f"The adapted template and CHANGES.md:  {result}")
    click.echo(f"The compactions, by harm:             {command_line('boundaries', path)}")
    click.echo(f"Browse the runs:                      {command_line('view', directory)}")
    click.echo("Your own agent:                       recompact init mine --suite, then recompact check mine.toml")
    click.echo(f"digest: {digest}")


async def _adapt(config: Config, store: Any, quiet: bool) -> tuple[Any, Adaptation]:
    async with open_study(config, store) as study:
        with watch(study, "adapt", quiet=quiet) as shown:
            return study, await adapt(shown)


@contextmanager
def _playing_ahead(config: Config, directory: Path, test: int, runs: int) -> Iterator[None]:
    """Play the arms that need no adapted template in another process, where there is a second core to do it on.

    What it has played is on record; whatever it leaves undone, for whatever reason, the evaluation itself does.
    """
    if (os.cpu_count() or 1) < 2:
        yield
        return
    worker = multiprocessing.get_context("spawn").Process(
        target=_play_ahead, args=(config, directory, test, runs), daemon=True
    )
    worker.start()
    try:
        yield
        worker.join()
    finally:
        worker.terminate()
        worker.join()


def _play_ahead(config: Config, directory: Path, test: int, runs: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    Thread(target=_end_with_parent, daemon=True).start()
    # What fails here fails again in the evaluation itself, which says so.
    with suppress(RecompactError), open_run(run_path("evaluate", directory)) as store:
        asyncio.run(_evaluate(config, store, ARMS, test, runs, quiet=True))


def _end_with_parent() -> None:
    """A killed demo leaves no process behind that holds its runs."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


async def _evaluate(
    config: Config, store: Any, texts: Sequence[str], test: int, runs: int, quiet: bool
) -> tuple[Evaluation, Comparison, str]:
    unseen = with_split(config, "test", test)
    async with open_evaluation(unseen, store) as study:
        arms = parse_arms(texts, config.compressor, study.template)
        with watch(study, "evaluate", quiet=quiet) as shown:
            plan = await evaluate(shown, arms, runs)
    recorded = read_arms(store)
    size = f"{quantity(test, 'unseen task')}, {quantity(runs, 'run')}"
    title = f"pocket, {size}, simulated models, budget {BUDGET:,} tokens"
    chosen = [find_arm(recorded, arm.label, store.path) for arm in arms]
    return evaluation(title, chosen), compare(chosen[-1], chosen[-2]), digest(store, plan.units)


def _harm(verified: Statement) -> str:
    """What the compactions did, in plain words; the report says it exactly."""
    hazard, burden, really = verified.settings.hazard, verified.settings.burden, verified.probably_harmful
    words = (
        f"On the training tasks: {headline(verified.kinds, verified.settled)} A compaction is harmful if the agent,"
        f" continuing from the summary, succeeds at least {100 * hazard:g} points less often, or needs at least"
        f" {burden:g} steps more, than continuing from the history that it replaced."
    )
    if not verified.retained:
        return words
    return (
        f"{words} Of the {verified.retained} that were diagnosed, about {really.value:.0f} really did harm (95 %"
        f" interval {really.low:.0f} to {really.high:.0f})."
    )


def _print_story(adapted: Adaptation, shown: Evaluation, page: dict[str, Any], harm: str) -> None:
    """What was found (about the arms, in the words of the report), what changed, and the table."""
    *meaning, _ = zip(page["answer"], page["numbers"], strict=True)  # the last is about boundaries, in its own terms
    say(SIMULATED)
    click.echo("\nWhat was found")
    print_claims(meaning)
    say(harm)
    click.echo("\nWhat changed in the prompt")
    if adapted.selection:
        say(adapted.selection.statement)
    for candidate in adapted.candidates:
        if candidate.name == adapted.winner:
            _print_clauses(candidate)
    click.echo("")
    print_tables([replace(arm_table(shown), notes=())])


def _print_clauses(candidate: Candidate) -> None:
    """The clauses that rest on compactions, each with what it rests on, and how many rest on nothing observed."""
    if observed := [clause for clause in candidate.clauses if clause.answers]:
        click.echo("Its new clauses, each with the evidence for it:")
    for clause in observed:
        flag = "  (tells the agent how to act)" if clause.tells_agent else ""
        say(f"  + {clause.text}  [{clause.proof or quantity(len(clause.answers), 'compaction')}]{flag}")
    if general := sum(not clause.answers for clause in candidate.clauses):
        say(f"Besides, {quantity(general, 'change')} in CHANGES.md answer nothing observed here.")
