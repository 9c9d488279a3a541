"""`recompact figures`: the figures of runs as files, each with its numbers beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recompact.cli.console import console, json_option, print_json

if TYPE_CHECKING:
    from recompact.evaluation.transfer import Setting
    from recompact.report.figures import Figure


@dataclass(frozen=True)
class Drawn:
    """The figures of one source, and why others are not there."""

    source: str
    figures: list[Figure]
    gaps: dict[str, str]


@click.command(name="figures")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--out", type=click.Path(path_type=Path), default=Path("figures"), show_default=True, help="Directory.")
@click.option(
    "--format", "formats", default="svg,png", show_default=True, help="svg, png or both; CSV is always there."
)
@click.option("--dir", "directory", type=click.Path(path_type=Path), default=Path("runs"), show_default=True)
@json_option
def command(runs: tuple[str, ...], out: Path, formats: str, directory: Path, as_json: bool) -> None:
    """Draw what runs have to show: arms, budgets and tokens of evaluations, boundaries of verified runs.

    RUN is an evaluation, a run that was verified or adapted, or released records. Two or more evaluations with
    different models give a figure of transfer too. With several RUNs the names of files begin with that of the run.
    """
    from recompact.report.figures import save

    wanted = _formats(formats)
    with console(stderr=True).status("drawing"):
        drawn = list(_drawn(runs, directory))
        written = {id(f): save([f], out, (*wanted, "csv")) for d in drawn for f in d.figures}
    if as_json:
        print_json(_json(drawn, written))
    else:
        _tell(drawn, written)
    if not written:
        sys.exit(2)


def _formats(text: str) -> list[str]:
    from recompact.errors import InputError

    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words or any(word not in ("svg", "png") for word in words):
        raise InputError(f"--format {text!r}: choose svg, png or both, as in svg,png")
    return words


def _drawn(runs: Sequence[str], directory: Path) -> Iterator[Drawn]:
    """What each run gives, and what evaluations give together."""
    from recompact.report.figures.drawn import needed

    needed()
    settings: list[Setting] = []
    for run, prefix in zip(runs, _prefixes(runs), strict=True):
        setting = _setting(run, directory)
        made = _of_evaluation(run, setting) if setting else _of_boundaries(run, directory)
        settings += [setting] if setting else []
        yield replace(made, figures=[replace(f, name=f"{prefix}{f.name}") for f in made.figures])
    if len(settings) > 1:
        yield _of_transfer(settings)


def _prefixes(runs: Sequence[str]) -> list[str]:
    """What the names of a run's files begin with: nothing for a single run, else its name, made unique."""
    if len(runs) == 1:
        return [""]
    stems = [Path(run).stem for run in runs]
    return [f"{stem}-" if stems.count(stem) == 1 else f"{stem}-{n}-" for n, stem in enumerate(stems, 1)]


def _setting(run: str, directory: Path) -> Setting | None:
    """An evaluation or released records; None for a run of another kind."""
    from recompact.evaluation.evaluate import PHASE
    from recompact.evaluation.released import is_released
    from recompact.evaluation.transfer import read_setting
    from recompact.store.runs import find_run
    from recompact.store.store import Store

    if not is_released(run):
        with Store.read(find_run(run, directory)) as store:
            if store.metadata.command != PHASE:
                return None
    return read_setting(run, directory)


def _of_evaluation(run: str, setting: Setting) -> Drawn:
    from recompact.evaluation.summary import evaluation
    from recompact.report.figures import evaluation_figures, evaluation_gaps

    shown = evaluation(setting.name, setting.arms)
    return Drawn(run, evaluation_figures(shown), evaluation_gaps(shown))


def _of_boundaries(run: str, directory: Path) -> Drawn:
    from recompact.attribution.findings import findings
    from recompact.report.figures import boundary_figures, boundary_gaps
    from recompact.store.runs import find_run, overview
    from recompact.store.store import Store

    with Store.read(find_run(run, directory)) as store:
        found, simulated = findings(store), overview(store).simulated
    return Drawn(run, boundary_figures(found, simulated), boundary_gaps(found))


def _of_transfer(settings: Sequence[Setting]) -> Drawn:
    from recompact.report.content.transfer import across_models
    from recompact.report.figures import transfer_figures

    names = " and ".join(setting.name for setting in settings)
    found = across_models(settings)
    if isinstance(found, str):
        return Drawn(names, [], {"transfer": found})
    return Drawn(names, transfer_figures(found), {})


def _json(drawn: Sequence[Drawn], written: dict[int, list[Path]]) -> dict[str, Any]:
    figures = [
        {
            "run": d.source,
            "name": f.name,
            "title": f.title,
            "caption": f.caption,
            "files": [str(path) for path in written[id(f)]],
        }
        for d in drawn
        for f in d.figures
    ]
    missing = [{"run": d.source, "name": name, "why": why} for d in drawn for name, why in d.gaps.items()]
    return {"figures": figures, "missing": missing}


def _tell(drawn: Sequence[Drawn], written: dict[int, list[Path]]) -> None:
    from recompact.tables import clean

    for figure in (f for d in drawn for f in d.figures):
        first, *others = written[id(figure)]
        click.echo(f"{first}{''.join(f', {path.suffix}' for path in others)}: {figure.title}")
        click.echo(f"    {figure.caption}")
    for d in drawn:
        for name, why in d.gaps.items():
            click.echo(clean(f"no {name} for {d.source}: {why.replace('RUN', d.source)}"))
