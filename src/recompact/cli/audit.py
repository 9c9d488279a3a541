"""`recompact audit`: what transcripts of one's own sessions show about their compactions: no model, no key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recompact.cli.console import console, json_option, print_json
from recompact.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from recompact.audit.auditing import Audit
    from recompact.audit.scoring import Assessment


@click.command(name="audit")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="[PATH...]")
@click.option("--out", type=click.Path(path_type=Path), default=Path("audit.html"), show_default=True)
@click.option("--no-page", is_flag=True, help="Write no page.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Compactions to show in full.")
@click.option("--open", "look", is_flag=True, help="Show the page in the browser.")
@json_option
def command(paths: tuple[Path, ...], out: Path, no_page: bool, top: int, look: bool, as_json: bool) -> None:
    """Read transcripts and show what followed their compactions.

    A PATH is a transcript or a folder of them: Claude Code, Codex, pi, OpenClaw, OpenHands, Copilot CLI, OpenCode,
    Gemini CLI, Hermes, Inspect, ATIF, or JSON lines of OpenAI messages; or the file of a run of Recompact (.db).
    Without a path, the places are searched where these harnesses keep their sessions on this machine. Nothing is
    written but the page.
    """
    from recompact.audit.html import render
    from recompact.audit.masking import safe_line
    from recompact.audit.plain import plain
    from recompact.audit.scoring import assess
    from recompact.outputs import check_page, write_page

    if not no_page:
        check_page(out)  # before the work
    places = paths or _usual_places(as_json)
    with console(stderr=True).status("reading transcripts"):
        findings = _audit(places)
        assessment = assess(findings)
    if not findings.sessions:
        why = safe_line("; ".join(f"{path}: {reason}" for path, reason in findings.passed.unreadable[:3]), 600)
        foreign = len(findings.passed.foreign)
        why = why or (f"{foreign} JSON files of no known format" if foreign else "")
        raise InputError(f"no transcript was found{f' ({why})' if why else ''}: name files or folders that hold some")
    if not no_page:
        write_page(out, render(assessment, top=top, date=datetime.now(UTC).date().isoformat()))
    if as_json:
        print_json({**plain(assessment), "page": None if no_page else str(out)})
    else:
        _show(assessment, top, None if no_page else out)
    if look and not no_page:
        click.launch(str(out.resolve()))


def _audit(places: tuple[Path, ...]) -> Audit:
    """Transcripts and runs of Recompact together."""
    from recompact.audit.auditing import audit_transcripts
    from recompact.harnesses.transcripts.registry import reader_of
    from recompact.store.audited import audit_run
    from recompact.store.runs import SUFFIX
    from recompact.store.store import Store

    runs = [path for path in places if path.suffix == SUFFIX]
    audit = audit_transcripts(tuple(path for path in places if path not in runs), reader_of)
    for path in runs:
        with Store.read(path) as store:
            audit += audit_run(store)
    return audit


def _usual_places(quiet: bool) -> tuple[Path, ...]:
    from recompact.harnesses.transcripts.registry import READERS, usual_places

    places = list(usual_places())
    if not places:
        known = ", ".join(reader.harness for reader in READERS if reader.places)
        raise InputError(f"no transcripts of {known} are in their usual places: name a file or a folder")
    if not quiet:
        for harness, folder in places:
            click.echo(f"{harness}: {folder}")
    return tuple(folder for _, folder in places)


def _show(assessment: Assessment, top: int, page: Path | None) -> None:
    from recompact.audit import words
    from recompact.audit.worth import recorded_worth, sentences

    out = console()
    out.print(words.scope(assessment), markup=False)
    for text in words.answer(assessment):
        out.print(f"\n{text}", markup=False)
    for table in _tables(assessment, min(top, 10)):
        out.print()
        out.print(table)
    for text in words.passed_over(assessment):
        out.print(f"- {text}", markup=False, style="dim")
    out.print()
    for text in words.OBSERVATIONAL:
        out.print(text, markup=False)
    if assessment.scored:
        out.print()
        for text in sentences(recorded_worth()):
            out.print(text, markup=False, style="dim")
    out.print()
    for text, suggestion in words.NEXT:
        out.print(f"{text} `{suggestion}`.", markup=False)
    if page is not None:
        out.print(f"The page: {page}", markup=False)


def _tables(assessment: Assessment, top: int) -> Iterator[Table]:
    if assessment.contrasts:
        yield _measures(assessment)
    if assessment.ranked:
        yield _worst(assessment, top)
        yield _versions(assessment)


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False, title_style="bold")
    table.add_column(columns[0], overflow="fold")
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=name != "excess [95 %]")
    return table


def _measures(assessment: Assessment) -> Table:
    from recompact.audit import words

    table = _table("Per 10 calls; * shown as harm", "", "after", "placebo", "excess [95 %]")
    for each in assessment.contrasts:
        table.add_row(
            f"{each.measure.title}{'' if 'per 10' in each.measure.unit else ' †'}",
            words.amount(each.real),
            words.amount(each.placebo),
            words.interval(each.difference) + (" *" if each.separates else "  "),
        )
    table.caption = "† not per 10 calls. Only an interval above zero is shown as harm."
    table.caption_justify = "left"
    return table


def _worst(assessment: Assessment, top: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    from recompact.audit import words

    table = Table(title="The worst compactions", title_justify="left", box=None, pad_edge=False, title_style="bold")
    for name in ("score", "tokens", "excess"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("file:line, what", overflow="fold")
    for each in (assessment.scored or assessment.ranked)[:top]:
        told = words.gist(each) if each.score is not None else words.unscored(each)
        table.add_row(
            f"{each.score:.2f}" if each.score is not None else "–",
            _short_size(each.found.before, each.found.after, each.found.estimated),
            words.amount(each.excess_chars) if each.excess_chars is not None else "–",
            Text(f"{words.place(each.session, each.found)}\n{told}"),
        )
    table.caption = "score: rarity at placebo points, 1 is one in ten; excess: characters, beyond placebo"
    table.caption_justify = "left"
    return table


def _short_size(before: int | None, after: int | None, estimated: bool) -> str:
    said = ["?" if tokens is None else f"{tokens / 1000:.0f}k" for tokens in (before, after)]
    return ("~" if estimated else "") + " → ".join(said)


def _versions(assessment: Assessment) -> Table:
    from rich.text import Text

    from recompact.audit import words
    from recompact.audit.masking import safe_line

    table = _table("By harness and version", "", "sessions", "compactions", "excess characters", "covered")
    for each in assessment.versions[:12]:
        table.add_row(
            Text(safe_line(each.name, 60)),
            str(each.sessions),
            str(each.compactions),
            words.interval(each.excess_chars) if each.excess_chars else "–",
            f"{each.covered}/{each.needed}" if each.needed else "–",
        )
    return table
