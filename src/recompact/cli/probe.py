"""`recompact probe`: what compacted contexts still show of what the agent needed next."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import click

from recompact.cli.console import agree_to_send, print_json, print_tables, say
from recompact.cli.options import POSITIVE, RUN, Directory, DryRun, Json, as_command
from recompact.cli.running import Job, print_forecast
from recompact.cli.verify import locate_run
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config, parse_config
from recompact.engine.forecast import Forecast
from recompact.engine.store.runs import SUFFIX, is_simulated, open_run, run_path
from recompact.engine.store.store import Store
from recompact.environments.functions import function_suite
from recompact.errors import InputError
from recompact.evaluation.arms import PROMPTED, Arm, parse_arms
from recompact.evaluation.gate_sources import parse_side
from recompact.evaluation.probes import CompactionPoint, point_of_compaction, points_of_run
from recompact.evaluation.probing import FULL, RECORDED, Probing, probe
from recompact.evaluation.replay import refuse_evaluation
from recompact.evaluation.reproduction.forecast import forecast_probes
from recompact.harnesses.registry import transcript_readers
from recompact.harnesses.transcripts.registry import read_transcripts
from recompact.presentation.probes import probe_table
from recompact.values.session import SkippedFile, Tally, Unreadable, moments
from recompact.values.template import resolve
from recompact.values.texts import quantity
from recompact.values.tokens import counter

DEFAULT_ARMS = ("fifo", "masking")
"""What is tried where nothing is named: strategies that need no model."""


@as_command("probe", example="probe ~/.claude/projects")
def command(
    what: Annotated[tuple[str, ...], {"metavar": "RUN|SESSION...", "required": True}],
    *,
    templates: Annotated[tuple[str, ...], "--template", "A template to try: DIRECTORY or NAME=DIRECTORY. Repeatable."],
    arms: Annotated[tuple[str, ...], "--arm", "An arm to try, as for evaluate: fifo, masking. Repeatable."],
    config: Annotated[Path | None, "For sessions: the config whose models to ask."],
    ask: Annotated[bool, "Also put the questions to the config's agent model, one a prompt."],
    judge: Annotated[bool, "With --ask: let the config's optimizer model judge open answers."],
    budget: Annotated[int | None, POSITIVE, "For sessions: tokens to compact to (default: as recorded)."],
    limit: Annotated[int | None, POSITIVE, "Only the first N compactions."],
    yes: Annotated[bool, "Send sessions to the config's models without asking."],
    run: Annotated[str | None, RUN, "Name of the run (default: where a RUN is given, that run; else probe)."],
    directory: Directory,
    dry_run: DryRun,
    as_json: Json,
) -> None:
    """Compact real compaction points again, and count what each result still shows of what was needed next.

    A RUN is one of Recompact; a SESSION is a transcript, or a folder of them, of any harness that `recompact audit`
    reads. Without --template and --ask it asks no model: it counts, for the recorded summary and for strategies that
    need no model, which exact values that later calls used can still be seen. Each result is compared with the latest
    history of the same length, and compacted a second time. Stop it whenever you like: the same command resumes.
    """
    if judge and not ask:
        raise click.UsageError("--judge is for --ask: nothing else has open answers")
    material = material_of(what, run, directory, config, budget)
    chosen = _arms(templates, arms, material.config)
    points = material.points[:limit]
    asks = material.check_models(chosen, ask=ask)
    forecast = forecast_probes(material.config, points, chosen, ask=ask, judge=judge)
    place, own = material.place(run), material.run is not None
    if dry_run:
        print_forecast(forecast, material.config, place, "json" if as_json else "terminal")
        return
    if not own and asks:
        agree_to_probe(material, len(points), forecast, yes=yes)
    with ExitStack() as stack:
        if not own and not asks:  # nothing to resume
            place = Path(stack.enter_context(TemporaryDirectory())) / f"probe{SUFFIX}"
        store = stack.enter_context(open_run(place))
        job = Job(place, as_json)
        probing = job.play(
            material.config,
            store,
            "probe",
            lambda study: probe(study, points, chosen, ask=ask, judge=judge),
            **material.suite,
        )
        if probing is not None:
            _report(replace(probing, simulated=asks and is_simulated(store)), material, as_json)
    job.report_unfinished("unit", retry=False)
    if job.unfinished:
        sys.exit(1)


@dataclass(frozen=True)
class Material:
    """What is probed: compactions of a run, or of sessions, and how many of those could not be used, by reason."""

    config: Config
    points: Sequence[CompactionPoint]
    run: Path | None = None
    skipped: Counter[str] = field(default_factory=Counter)
    models: bool = True  # whether somebody named the models that may be asked

    @property
    def suite(self) -> dict[str, Any]:
        """For `open_study`: sessions have no tasks."""
        return {} if self.run else {"suite": function_suite("sessions", [], {})}

    def place(self, name: str | None) -> Path:
        """The run that keeps what is asked."""
        return self.run or run_path(name or "probe", self.config.directory / self.config.run.directory)

    def check_models(self, arms: Sequence[Arm], *, ask: bool = False) -> bool:
        """Whether a model is asked at all; raises where nobody named one."""
        asks = ask or any(PROMPTED in arm.kind for arm in arms)
        if asks and not self.models:
            raise InputError("a template or --ask needs a model: name a config that has one, as in --config mine.toml")
        return asks


def material_of(
    what: Sequence[str], name: str | None, directory: Path, config: Path | None, budget: int | None
) -> Material:
    """The compactions of a run of ours, or of sessions."""
    file = Path(what[0])
    named = not file.exists() and len(file.parts) == 1 and not file.suffix  # as `recompact runs` lists it
    if len(what) != 1 or not (file.suffix in (SUFFIX, ".toml") or named):
        return _of_sessions(what, config, budget)
    if config or budget:
        raise click.UsageError("--config and --budget are for sessions: a run has its own, and --arm fifo@1024 another")
    return _of_run(what[0], name, directory)


def _of_run(what: str, name: str | None, directory: Path) -> Material:
    path, file = locate_run(what, name, directory)
    with Store.read(path) as store:
        refuse_evaluation(store)
        points = list(points_of_run(store))
    if not points:
        raise InputError(f"{path} has no compaction: collect longer tasks, or set a smaller budget")
    return Material(load_config(file), points, path)


def _of_sessions(what: Sequence[str], config: Path | None, budget: int | None) -> Material:
    loaded = load_config(config) if config is not None else parse_config("", Path("probe.toml"))
    count = counter(loaded.run.counter)
    points: list[CompactionPoint] = []
    skipped: Counter[str] = Counter()
    names: Counter[str] = Counter()
    for transcript in read_transcripts(tuple(map(Path, what)), transcript_readers()):
        if isinstance(transcript, SkippedFile):
            skipped[transcript.why or transcript.reason] += 1
            continue
        name = transcript.path.name + (f"/{transcript.member}" if transcript.member else "")
        names[name] += 1
        label = name if names[name] == 1 else f"{name} ({names[name]})"
        try:
            each = [
                moment for moment in moments(transcript.events(Tally()), count) if moment.index and moment.pre.turns
            ]
        except (Unreadable, OSError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            skipped[f"unreadable: {type(error).__name__}"] += 1
            continue
        points += [point_of_compaction(moment, label, budget) for moment in each]
    if not points:
        why = "; ".join(f"{reason} ({times})" for reason, times in skipped.most_common(3))
        raise InputError(f"no compaction in {', '.join(what)}{f' ({why})' if why else ''}: name a run, or transcripts")
    return Material(loaded, points, skipped=skipped, models=config is not None)


def _arms(templates: Sequence[str], arms: Sequence[str], config: Config) -> list[Arm]:
    own = resolve(config.compressor.template, config.directory)
    chosen = [parse_side(text, config, own) for text in templates]
    chosen += parse_arms(arms, config.compressor, own) if arms else ()
    chosen = chosen or list(parse_arms(DEFAULT_ARMS, config.compressor, own))
    for name, times in Counter(arm.name for arm in chosen).items():
        if times > 1 or name in (FULL, RECORDED):
            raise InputError(
                f"two conditions would be called {name!r}: give this one another name, as in NAME=DIRECTORY"
            )
    return chosen


def agree_to_probe(material: Material, points: int, forecast: Forecast, *, yes: bool) -> None:
    """Sessions hold whatever their owner typed: they are sent only if that is wanted."""
    models = [material.config.compressor_model, material.config.agent.model]
    names = " and ".join(dict.fromkeys(models))
    what = (
        f"This sends {quantity(points, 'compaction')} of your sessions, unmasked, to {names}: about"
        f" {forecast.total.tokens:,} tokens."
    )
    if not agree_to_send(what, yes=yes):
        raise InputError("nothing was sent")


_SKIPPED = {"foreign": "of no known transcript format"}


def _report(probing: Probing, material: Material, as_json: bool) -> None:
    if as_json:
        print_json({**probing.to_json(), "skipped": dict(material.skipped)})
        return
    if not probing.conditions:
        say(f"At {quantity(probing.points, 'compaction')} nothing of the consumed part was used later: nothing to ask.")
    else:
        print_tables([probe_table(probing)])
    if material.skipped:
        reasons = "; ".join(
            f"{_SKIPPED.get(reason, reason)} ({times})" for reason, times in material.skipped.most_common(3)
        )
        say(f"Not read: {quantity(sum(material.skipped.values()), 'file')}: {reasons}", err=True)
