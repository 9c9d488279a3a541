"""`recompact audit`: what transcripts of your sessions show about their compactions, without a model or a key."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from recompact.audit.auditing import Audit, audit_run, audit_transcripts
from recompact.audit.diagnosis import (
    OBSERVATIONAL,
    RESULT,
    Draft,
    diagnose_observed,
    draft,
    draft_lines,
    plan_diagnosis,
    write_revision,
)
from recompact.audit.scoring import Assessment, assess
from recompact.audit.worth import worth_of_score
from recompact.cli.console import agree_to_send, console, print_json, say
from recompact.cli.options import POSITIVE, Json, as_command
from recompact.engine.config import Config
from recompact.engine.config_parser import load_config
from recompact.engine.store.runs import SUFFIX
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.harnesses.registry import HARNESSES, transcript_readers
from recompact.harnesses.transcripts.registry import read_transcripts, usual_places
from recompact.models.failures import CeilingReached, ModelFailure
from recompact.presentation.audit import words
from recompact.presentation.audit.bills import bills
from recompact.presentation.audit.page import group_table, measure_table, ranking_table, render
from recompact.presentation.audit.plain import plain
from recompact.values.masking import safe_line
from recompact.values.outputs import check_directory, check_page, write_page
from recompact.values.tables import Table, fit_table
from recompact.values.template import resolve
from recompact.values.tokens import counter

if TYPE_CHECKING:
    from rich.console import Console


@as_command("audit", example="audit ~/.claude/projects")
def command(
    paths: Annotated[tuple[Path, ...], {"metavar": "[PATH...]"}],
    *,
    out: Path = Path("audit.html"),
    no_page: Annotated[bool, "Write no page."],
    top: Annotated[int, POSITIVE, "Compactions to show in full."] = 10,
    look: Annotated[bool, "--open", "Show the page in the browser."],
    config: Annotated[
        Path | None,
        "--diagnose",
        "Send masked excerpts of the worst compactions to this config's optimizer, and revise its template.",
        {"metavar": "CONFIG"},
    ],
    revised: Annotated[Path, "Where to write the template of --diagnose or --draft."] = Path("audit-template"),
    drafting: Annotated[bool, "--draft", "Write the drafted clauses as a template, without a model."],
    yes: Annotated[bool, "Let --diagnose send without asking."],
    as_json: Json,
) -> None:
    """Read transcripts and show what followed their compactions.

    A PATH is a transcript or a folder of them: Claude Code, Codex, pi, OpenClaw, OpenHands, Copilot CLI, OpenCode,
    Gemini CLI, Hermes, Inspect, ATIF, OpenTelemetry (OTLP/JSON), or JSON lines of OpenAI messages; or the file of a run
    of Recompact (.db).
    Without a path, it searches the places where these harnesses keep their sessions on this machine. It writes nothing
    but the page (and what --draft and --diagnose ask for), and sends nothing anywhere without --diagnose.
    """
    if drafting and config is not None:
        raise click.UsageError("--draft and --diagnose both write the template of --revised: use one of them.")
    if not no_page:
        check_page(out)  # before the work
    loaded = None
    if config is not None:
        loaded = load_config(config)
    if loaded is not None or drafting:
        check_directory(revised, RESULT, "--revised")
    places = paths or usual_transcripts(as_json)
    with console(stderr=True).status("reading transcripts"):
        findings = _audit(places)
        assessment = assess(findings)
    if not findings.sessions:
        why = "; ".join(text.removesuffix(".") for text in words.unread(findings.skipped, 3))
        raise InputError(f"found no transcript{f' ({why})' if why else ''}: name files or folders that contain some")
    date = datetime.now(UTC).date().isoformat()
    drafted = draft(assessment)
    if not no_page:
        write_page(out, render(assessment, HARNESSES.names(), top=top, date=date))
    if not as_json:
        _show(assessment, drafted, top, None if no_page else out)
    if drafting:
        _write_draft(drafted, revised, date)
    diagnosis = _diagnose(assessment, loaded, top, revised, date, yes, as_json) if loaded is not None else None
    if as_json:
        addition = {} if loaded is None else {"diagnosis": diagnosis}
        print_json({**plain(assessment), "draft": drafted.to_json(), "page": None if no_page else str(out), **addition})
    if look and not no_page:
        click.launch(str(out.resolve()))


def _diagnose(
    assessment: Assessment, config: Config, top: int, revised: Path, date: str, yes: bool, as_json: bool
) -> dict[str, Any] | None:
    """Ask the config's optimizer about the worst compactions, once the user has seen what will be sent and agreed."""
    count = counter(config.run.counter)
    keys = [os.environ.get(model.key_env or "", "") for model in config.models.values()]
    plan = plan_diagnosis(config, assessment, top, count, keys)
    if not plan.evidence:
        say("No compaction has both a readable summary and calls after it, so there is nothing to diagnose.", err=True)
        return None
    if not agree_to_send(plan.statement, yes=yes):
        say("Nothing was sent.", err=True)
        return None
    template = resolve(config.compressor.template, config.directory)
    try:
        with console(stderr=True).status("asking the optimizer"):
            result = asyncio.run(diagnose_observed(config, plan, template, count))
    except ModelFailure as failure:
        say(f"recompact: {failure} (no template was written; the audit above is complete)", err=True)
        sys.exit(3 if isinstance(failure, CeilingReached) else 2)
    written = write_revision(result, revised, date)
    if not as_json:
        say(f"\n{OBSERVATIONAL}\n{result.statement}")
        for each in result.diagnoses:
            causes = [f"{cause.mechanism} ({cause.kind}): {cause.explanation}" for cause in each.causes]
            for text in causes or [f"abstained: {each.abstained}" if each.abstained else "no usable answer"]:
                say(f"  {each.id}: {safe_line(text, 400)}")
        if result.candidate and result.candidate.template is None:
            say(f"The revision cannot be used: {safe_line('; '.join(result.candidate.objections), 400)}")
        if written:
            say(f"The revised template, its manifest and CHANGES.md are in {revised}: observational, not verified.")
    return {**result.to_json(), "sent": plan.statement, "directory": str(revised) if written else None}


def _audit(places: tuple[Path, ...]) -> Audit:
    """Transcripts and runs of Recompact together."""
    runs = [path for path in places if path.suffix == SUFFIX]
    transcripts = tuple(path for path in places if path not in runs)
    audit = audit_transcripts(read_transcripts(transcripts, transcript_readers()))
    for path in runs:
        with Store.read(path) as store:
            audit += audit_run(store)
    return audit


def usual_transcripts(quiet: bool) -> tuple[Path, ...]:
    readers = transcript_readers()
    places = list(usual_places(readers=readers))
    if not places:
        known = ", ".join(reader.harness for reader in readers if reader.places)
        raise InputError(f"found no transcripts of {known} in their usual places: name a file or a folder")
    if not quiet:
        for harness, folder in places:
            click.echo(f"{harness}: {folder}")
    return tuple(folder for _, folder in places)


def _write_draft(drafted: Draft, directory: Path, date: str) -> None:
    if write_revision(drafted, directory, date):
        say(f"The default template with these clauses, unverified, is in {directory}.", err=True)
    else:
        reasons = (
            "; ".join(drafted.candidate.objections) if drafted.candidate else "no readable summary lacked anything"
        )
        say(f"No template was written: {reasons}.", err=True)


def _show(assessment: Assessment, drafted: Draft, top: int, page: Path | None) -> None:
    out = console()
    out.print(words.scope(assessment), markup=False)
    for text in (*words.answer(assessment), *words.outcomes(assessment), *bills(assessment)):
        out.print(f"\n{text}", markup=False)
    if assessment.contrasts:
        _print_table(out, measure_table(assessment))
    if assessment.ranked:
        worst = (assessment.scored or assessment.ranked)[: min(top, 10)]
        _print_table(out, ranking_table(assessment, worst))
        _print_table(out, group_table("By harness and version", assessment.versions[:12]))
    for text in words.left_out(assessment):
        out.print(f"- {text}", markup=False, style="dim")
    out.print()
    for text in words.OBSERVATIONAL:
        out.print(text, markup=False)
    if assessment.scored:
        out.print()
        for text in worth_of_score():
            out.print(text, markup=False, style="dim")
    out.print()
    for text in filter(None, (words.drafted_clauses(drafted), *(f"- {line}" for line in draft_lines(drafted)))):
        out.print(text, markup=False)
    out.print("\nNext:", markup=False)
    for number, (text, suggestion) in enumerate(words.next_steps(assessment, drafted, HARNESSES.names()), 1):
        out.print(f"{number}. {text}\n   {suggestion}", markup=False)
    if page is not None:
        out.print(f"The page: {page}", markup=False)


def _print_table(out: Console, table: Table) -> None:
    """No wider than the console: what a table says here is for people, --json is for programs."""
    for piece in fit_table(table, out.width):
        out.print()
        out.print(piece)
    for note in table.notes:
        out.print(note, markup=False, style="dim")
