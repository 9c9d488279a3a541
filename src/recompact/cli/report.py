"""`recompact report`: one self-contained HTML page about runs, to read or to send to somebody."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import click

from recompact.cli.console import print_json, say
from recompact.cli.options import POSITIVE, Directory, Json, as_command
from recompact.cli.progress import waiting
from recompact.presentation.report.content.report import read_report
from recompact.presentation.report.html.page import render
from recompact.values.outputs import check_page, write_page


@as_command("report", example="report rooms rooms-evaluate")
def command(
    runs: Annotated[tuple[str, ...], {"metavar": "RUN [RUN...]", "required": True}],
    *,
    directory: Directory,
    prompt: Annotated[
        tuple[Path, Path] | None, "Two templates to compare (default: those of the runs).", {"metavar": "BEFORE AFTER"}
    ],
    out: Path = Path("report.html"),
    top: Annotated[int, POSITIVE, "Compactions to show in full."] = 10,
    title: Annotated[str, "The heading of the page.", {"show_default": False}] = "",
    launch: Annotated[bool, "--open", "Open the page in the browser."],
    as_json: Json,
) -> None:
    """Write one self-contained HTML page about RUNs.

    A RUN is an evaluation, a verified or adapted run, or released records as `recompact compare` reads them. An
    evaluation and the run that its template was adapted on make the full report; evaluations with different models are
    also compared by model.
    """
    with waiting("reading and drawing", quiet=as_json):
        summary = write_report(runs, directory, out, prompt=prompt, top=top, title=title)
    if as_json:
        print_json(summary)
    else:
        say(f"The report: {out} ({summary['bytes'] / 1e6:.1f} MB, {summary['seconds']:.1f} s)")
    if launch:
        click.launch(str(out.resolve()))


def write_report(
    runs: tuple[str, ...],
    directory: Path,
    out: Path,
    *,
    prompt: tuple[Path, Path] | None = None,
    top: int = 10,
    title: str = "",
) -> dict[str, Any]:
    """Read the runs and write the page; return where it is, its size, how long it took and what it says."""
    check_page(out)  # before the work
    started = time.perf_counter()
    date = datetime.now(UTC).date().isoformat()
    report = read_report(runs, directory, prompt=prompt, top=top, title=title, date=date)
    size = write_page(out, render(report))
    return {
        "report": str(out),
        "bytes": size,
        "seconds": round(time.perf_counter() - started, 2),
        "evaluations": len(report.evaluations),
        "boundaries": sum(run.harm.statement.examined for run in report.verified),
        "harmful": sum(run.harm.harmful for run in report.verified),
        "simulated": list(report.simulated),
        "answer": [claim.text for claim in report.lead],
        "numbers": [list(claim.numbers) for claim in report.lead],
    }
