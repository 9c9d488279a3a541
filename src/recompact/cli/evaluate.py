"""`recompact evaluate`: run tasks under several arms, and compare the arms in a table."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, cast, get_args

import click

from recompact.adaptation.method import method_in
from recompact.attribution.cached_input import cache_sentence, cached_input
from recompact.cli.console import print_claims, print_json, print_tables, say
from recompact.cli.options import POSITIVE, RUN, Accept, By, DryRun, Form, Json, Skip, as_command
from recompact.cli.progress import watch
from recompact.cli.running import Job, print_forecast, report_skipped
from recompact.compressors.protocol import Scope
from recompact.engine.assembly import skip_tasks
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.shared_starts import sharing
from recompact.engine.store.runs import open_run, retry_broken, run_path
from recompact.engine.store.store import Store
from recompact.engine.study import Watch
from recompact.errors import InputError
from recompact.evaluation.adaptations import (
    adaptations_table,
    plan_adaptations,
    play_adaptation,
    several_adaptations,
)
from recompact.evaluation.arm_runs import ArmRuns, read_arms
from recompact.evaluation.arm_verdicts import ArmVerdicts, plan_verifications, read_arm_verdicts, verify_arm
from recompact.evaluation.arms import PROMPTING, Arm, parse_arms
from recompact.evaluation.breakdown import BUDGET, MODEL, breakdown, breakdown_table, by_model, check_by
from recompact.evaluation.costs import cost_table, costs_of
from recompact.evaluation.evaluate import (
    PHASE,
    EvaluationPlan,
    digest as digest_of,
    evaluate,
    open_evaluation,
    plan_evaluation,
    with_split,
)
from recompact.evaluation.released import load_evaluation
from recompact.evaluation.strategies import strategies, strategies_of
from recompact.evaluation.summary import Evaluation, arm_table, detail_tables, difference_table, evaluation, to_json
from recompact.presentation.report.content.answer import arm_contrasts
from recompact.presentation.report.content.lead import answer
from recompact.values.tables import Format, Table
from recompact.values.template import resolve
from recompact.values.texts import command_line


@dataclass(frozen=True)
class Layout:
    """How an evaluation is printed: in which format, against which arm, broken down by what, and how much of it."""

    form: Format = "terminal"
    against: str | None = None
    by: tuple[str, ...] = ()
    details: bool = False


@as_command("evaluate", example="evaluate rooms.toml --arm none --arm prompting --arm causes=runs/rooms-causes")
def command(
    configs: Annotated[tuple[Path, ...], {"metavar": "CONFIG...", "required": True}],
    *,
    arms: Annotated[
        tuple[str, ...], "--arm", "none, fifo, llmlingua2, prompting, or NAME=TEMPLATE; NAME@BUDGET. Repeatable."
    ],
    strategy_list: Annotated[
        str | None,
        "--strategies",
        "Arms as a comma-separated list, or all; prints what each costs and gains against none and each other.",
    ],
    verified: Annotated[
        bool,
        "--verify",
        "With --strategies: H and B of each one's compactions too, by [verify], in a run of its own for each.",
    ],
    runs: Annotated[int, POSITIVE, "Runs of each task and arm."] = 3,
    scopes: Annotated[
        str | None, "--scope", "history, prefix, observation, or several, as in history,prefix (default: the config's)."
    ],
    budgets: Annotated[
        tuple[str, ...], "--budget", "Run each compressing arm at this budget, as NAME@BUDGET. Repeatable."
    ],
    split: Annotated[str, "Split of the suite."] = "test",
    limit: Annotated[int | None, POSITIVE, "Only the first N tasks (default: the config's)."],
    adaptations: Annotated[
        int | None,
        click.IntRange(min=2),
        "First adapt N times by the config's method, each with its own seed, and evaluate every result.",
    ],
    run: Annotated[str | None, RUN, "Name of the run (default: the config's file name and -evaluate)."],
    against: Annotated[str | None, "The arm to measure the others against (default: prompting)."],
    by: By,
    details: Annotated[bool, "Every Pass^k and Pass@k, tokens by role, endings."],
    retry: Annotated[bool, "Replay trajectories whose environment broke."],
    accept_changes: Accept,
    form: Form,
    skip: Skip,
    dry_run: DryRun,
    as_json: Json,
) -> None:
    """Run the tasks of a split under several arms, interleaved, and compare the arms.

    Stop it whenever you like: the same command resumes where it left off. Another --arm, --scope or --budget, more
    --runs or a higher --limit reuse existing trajectories and make only the missing ones. Several CONFIGs of one suite,
    each with other models, are evaluated one after the other and compared by model.
    """
    if len(configs) > 1 and run:
        raise click.UsageError("--run names one run: with several CONFIGs each has its own, CONFIG-evaluate")
    if verified and strategy_list is None:
        raise click.UsageError("--verify needs --strategies, whose table has H and B")
    by = one_evaluation_by(by, several=len(configs) > 1)
    arms += tuple(name for name in strategies(strategy_list) if name not in arms) if strategy_list is not None else ()
    paths, incomplete = [], False
    layout = Layout("json" if as_json else form, against, by, details)
    progress = partial(watch, quiet=layout.form != "terminal")
    named = arms
    for config in configs:
        loaded = with_split(load_config(config), split, limit)
        if adaptations:
            arms = (*named, *_adapted_arms(config, adaptations, layout.form, dry_run=dry_run))
            arms = arms if PROMPTING in arms or against else (PROMPTING, *arms)
        own = resolve(loaded.compressor.template, config.parent)
        chosen = parse_arms(arms, loaded.compressor, own, parse_scopes(scopes), _budgets(budgets))
        check_against(against, chosen)
        path = run_path(run or f"{config.stem}-evaluate", config.parent / loaded.run.directory)
        if dry_run:
            from recompact.evaluation.reproduction.forecast import forecast_evaluation

            plans = plan_verifications(loaded, chosen, path) if verified else []
            expected = asyncio.run(forecast_evaluation(loaded, chosen, runs, path, plans))
            print_forecast(expected, loaded, path, layout.form)
            continue
        with open_run(path) as store:
            job = Job(path)
            plan = job.finish(_evaluate(job, loaded, store, chosen, runs, by, skip, progress, retry, accept_changes))
            assert plan is not None
            plans = plan_verifications(loaded, plan.arms, path) if verified and not job.unfinished else []
            for each in plans:
                skipped = store.metadata.skipped
                verification = verify_arm(each, progress, skip=skipped, accept_changes=accept_changes)
                job.finish(verification, each.run)
            verdicts = read_arm_verdicts(plans) if strategy_list is not None else None
            _report(store, job, plan, runs, layout, verdicts, alone=len(configs) == 1)
        paths.append(str(path))
        incomplete = incomplete or bool(job.unfinished)
    if incomplete:
        sys.exit(1)
    if len(configs) > 1 and not dry_run:
        print_by_model(paths, Path(), layout, runs)


def _adapted_arms(config: Path, number: int, form: Format, *, dry_run: bool) -> list[str]:
    """Make the adaptations, or print what they cost; as arms, where their templates are there."""
    loaded = load_config(config)
    plans = plan_adaptations(loaded, config.stem, config.parent / loaded.run.directory, number)
    for plan in plans:
        if dry_run:
            from recompact.evaluation.reproduction.forecast import forecast_adaptation

            expected = asyncio.run(forecast_adaptation(plan.config, method_in(plan.config), plan.run))
            print_forecast(expected, plan.config, plan.run, form)
            continue
        job = Job(plan.run)
        job.finish(play_adaptation(plan, partial(watch, quiet=form != "terminal")))
        if job.unfinished:
            job.report_unfinished("unit", retry=False)
            sys.exit(1)
    # A template that is not there yet costs as much as the config's own.
    return [f"{plan.name}={plan.template if plan.template.is_dir() else loaded.compressor.template}" for plan in plans]


def parse_scopes(text: str | None, every: Sequence[Scope] = get_args(Scope)) -> list[Scope]:
    """The scopes that a person named, separated by commas."""
    scopes: list[Scope] = []
    for word in filter(None, (text or "").split(",")):
        if word not in every:
            raise InputError(f"unknown scope {word!r}: --scope takes {', '.join(every)}, several separated by commas")
        scopes.append(cast(Scope, word))
    return scopes


def _budgets(texts: tuple[str, ...]) -> list[int]:
    budgets = []
    for word in (word for text in texts for word in text.split(",") if word):
        if not word.isascii() or not word.isdecimal() or int(word) < 1:
            raise InputError(f"--budget {word!r} is not a number of tokens: write it as in --budget 1024,2048")
        budgets.append(int(word))
    return budgets


async def _evaluate(
    job: Job,
    config: Config,
    store: Store,
    arms: tuple[Arm, ...],
    runs: int,
    by: tuple[str, ...],
    skip: tuple[str, ...],
    progress: Watch,
    retry: bool,
    accept_changes: bool,
) -> EvaluationPlan:
    async with open_evaluation(config, store, accept_changes=accept_changes) as study:
        if skip:
            await skip_tasks(study, skip)
        plan = await plan_evaluation(study, arms, runs)
        check_by(by, {key for task in plan.tasks for key in task.groups})  # before anything is paid for
        if retry:
            retry_broken(store, PHASE)
            store.retry_set_aside()
        with progress(study, "evaluate") as shown:
            try:
                await evaluate(shown, arms, runs)
            except Unfinished as unfinished:
                job.unfinished = unfinished.units
        return plan


def _report(
    store: Store,
    job: Job,
    plan: EvaluationPlan,
    runs: int,
    layout: Layout,
    verdicts: Mapping[str, ArmVerdicts] | None,
    alone: bool,
) -> None:
    """Print the result. With `verdicts` of arms, strategies are set side by side."""
    form, unfinished = layout.form, job.unfinished
    recorded = {arm.label: arm for arm in read_arms(store)}
    suite = store.metadata.suite or "?"
    tasks = tuple(task.id for task in plan.tasks)
    shown = evaluation(str(suite), [recorded[arm.label] for arm in plan.arms], tasks, runs)
    digest = None if unfinished else digest_of(store, plan.units)
    skipped = list(store.metadata.skipped)
    cache, shared = cached_input(store), sharing(store, PHASE)
    more = {
        "run": str(store.path),
        "cached_input": cache.to_json(),
        "shared": asdict(shared),
        "skipped": skipped,
        "unfinished": job.unfinished_json(),
        "digest": digest,
    }
    costs = costs_of(store, shown) if layout.details or form == "json" else ()
    more |= {"costs": [each.to_json() for each in costs]}
    side_by_side = strategies_of(store, shown, verdicts) if verdicts is not None else None
    if side_by_side is not None:
        more |= side_by_side.to_json()
    if side_by_side is not None and form != "json":
        tables = side_by_side.tables(len(shown.shared.tasks))
        print_tables(tables[:1] if form == "csv" else tables, form)
    elif alone or form not in ("json", "csv"):  # those have room for one table: the one by model
        further = [cost_table(costs)] if costs else []
        print_evaluation(shown, layout, more, further)
    if form == "terminal" and not shown.simulated and (sentence := cache_sentence(cache, PHASE)):
        say(sentence)
    if form == "terminal" and shared.statement:
        say(shared.statement)
    report_skipped(store)
    job.report_unfinished("unit" if verdicts else "trajectory")
    if form == "terminal" and verdicts:
        say(f"List an arm's compactions: {command_line('boundaries', next(iter(verdicts.values())).run)}")
    if form == "terminal" and not unfinished and len(shown.arms) > 1:
        first, second = shown.arms[-1].label, shown.arms[0].label
        say(f"Compare two of them: {command_line('compare', store.path, first, second)}")
    if digest:
        click.echo(f"digest: {digest}", err=form != "terminal")


def one_evaluation_by(by: tuple[str, ...], *, several: bool) -> tuple[str, ...]:
    """What each evaluation is broken down by; several of them are set side by side by model as well."""
    if not several:
        check_by([key for key in by if key == MODEL], ())
    return tuple(key for key in by if key != MODEL)


def print_by_model(runs: Sequence[str], directory: Path, layout: Layout, most: int | None) -> None:
    """Evaluations with different models side by side."""
    by_models = by_model([load_evaluation(run, directory, most) for run in runs], layout.against or PROMPTING)
    if layout.form == "json":
        print_json(by_models.to_json())
        return
    print_tables([breakdown_table(by_models)], layout.form)
    if layout.form == "terminal":
        say(f"Draw it: {command_line('figures', *runs, options=['--out', 'figures'])}")


def check_against(against: str | None, arms: Sequence[Arm | ArmRuns]) -> None:
    """Refuse a reference that does not exist."""
    if against is not None and not any(against in (arm.name, arm.label, arm.base) for arm in arms):
        labels = ", ".join(arm.label for arm in arms)
        raise InputError(f"--against {against}: unknown arm; the arms are {labels or 'not recorded yet'}")


def print_evaluation(
    shown: Evaluation, layout: Layout, more: Mapping[str, Any] = MappingProxyType({}), further: Sequence[Table] = ()
) -> None:
    """All arms side by side, in the format that was asked for."""
    form, reference = layout.form, layout.against or PROMPTING
    differences = difference_table(shown, reference)
    several = several_adaptations(shown, reference)
    parts = [part for key in dict.fromkeys((*layout.by, BUDGET)) if (part := breakdown(shown, key, layout.against))]
    if form == "json":
        compared = [c.to_json() for c in differences[1]] if differences else []
        repeated = {"adaptations": [asdict(each) for each in several]} if several else {}
        by_parts = [part.to_json() for part in parts]
        print_json({**to_json(shown), "comparisons": compared, "by": by_parts, **repeated, **more})
        return
    if not shown.shared.tasks:
        click.echo(f"There is no task yet that every arm has finished{shown.shared.broken_words}.", err=True)
        return
    tables = [arm_table(shown), *map(breakdown_table, parts)]
    if form == "csv":  # one table per file: the arms, or the first breakdown that was asked for
        print_tables(tables[bool(layout.by) :][:1], form)
        return
    tables += [differences[0]] if differences else []
    tables += [adaptations_table(several)] if several else []
    tables += (*detail_tables(shown), *further) if layout.details else ()
    print_tables(tables, form)
    if form == "terminal":
        claims = answer(*arm_contrasts(shown, differences[1] if differences else []))
        click.echo("")
        print_claims((claim.text, claim.numbers) for claim in claims)
