"""`recompact figures`: the figures of runs as files, each with its numbers beside it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from recompact.attribution.judgement import read_verdicts
from recompact.cli.console import print_json, say
from recompact.cli.options import Directory, Json, as_command
from recompact.cli.progress import waiting
from recompact.engine.store.runs import find_run, is_simulated
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.breakdown import across_models
from recompact.evaluation.evaluate import PHASE
from recompact.evaluation.released import is_released, load_evaluation
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.figures.drawing import FIGURES, require_matplotlib, save
from recompact.presentation.report.figures.sets import FigureSet, boundary_set, evaluation_set, model_set
from recompact.values.outputs import check_directory


@as_command("figures", example="figures rooms-evaluate")
def command(
    runs: Annotated[tuple[str, ...], {"metavar": "RUN...", "required": True}],
    *,
    out: Annotated[Path, "Directory."] = Path("figures"),
    formats: Annotated[str, "--format", "svg, png or both; it always writes a CSV."] = "svg,png",
    directory: Directory,
    as_json: Json,
) -> None:
    """Draw the figures of runs: arms, budgets and tokens of evaluations, compactions of verified runs.

    RUN is an evaluation, a run that was verified or adapted, or released records. Two or more evaluations with
    different models give a figure by model too. With several RUNs the names of files begin with that of the run.
    """
    wanted = _formats(formats)
    require_matplotlib()
    check_directory(out, FIGURES, whole=False)  # before the work
    with waiting("reading and drawing", quiet=as_json):
        sets = list(_figure_sets(runs, directory))
        files = {id(figure): save([figure], out, (*wanted, "csv")) for group in sets for figure in group.figures}
    if as_json:
        print_json(_json(sets, files))
    else:
        _print(sets, files)
    if not files:
        sys.exit(2)


def _formats(text: str) -> list[str]:
    words = list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words or any(word not in ("svg", "png") for word in words):
        raise InputError(f"--format {text!r}: choose svg, png or both, as in svg,png")
    return words


def _figure_sets(runs: Sequence[str], directory: Path) -> Iterator[FigureSet]:
    """The figures of each run, and those of several evaluations together."""
    evaluations: list[Evaluation] = []
    for run, prefix in zip(runs, _prefixes(runs), strict=True):
        if shown := _evaluation(run, directory):
            evaluations.append(shown)
            group = evaluation_set(run, shown)
        else:
            with Store.read(find_run(run, directory)) as store:
                group = boundary_set(run, read_verdicts(store), is_simulated(store))
        yield replace(group, figures=tuple(replace(f, name=f"{prefix}{f.name}") for f in group.figures))
    if len(evaluations) > 1:
        yield model_set(" and ".join(shown.title for shown in evaluations), across_models(evaluations))


def _prefixes(runs: Sequence[str]) -> list[str]:
    """What the names of a run's files begin with: nothing for a single run, else its name, made unique."""
    if len(runs) == 1:
        return [""]
    stems = [Path(run).stem for run in runs]
    return [f"{stem}-" if stems.count(stem) == 1 else f"{stem}-{n}-" for n, stem in enumerate(stems, 1)]


def _evaluation(run: str, directory: Path) -> Evaluation | None:
    """An evaluation or released records; None for a run of another kind."""
    if not is_released(run):
        with Store.read(find_run(run, directory)) as store:
            if store.metadata.command != PHASE:
                return None
    return load_evaluation(run, directory)


def _json(sets: Sequence[FigureSet], files: dict[int, list[Path]]) -> dict[str, Any]:
    figures = [
        {
            "run": group.source,
            "name": figure.name,
            "title": figure.title,
            "caption": figure.caption,
            "files": [str(path) for path in files[id(figure)]],
        }
        for group in sets
        for figure in group.figures
    ]
    missing = [{"run": group.source, "name": name, "why": why} for group in sets for name, why in group.gaps.items()]
    return {"figures": figures, "missing": missing}


def _print(sets: Sequence[FigureSet], files: dict[int, list[Path]]) -> None:
    for figure in (figure for group in sets for figure in group.figures):
        first, *others = files[id(figure)]
        say(f"{first}{''.join(f', {path.suffix}' for path in others)}: {figure.title}")
        say(f"    {figure.caption}")
    for group in sets:
        for name, why in group.gaps.items():
            say(f"missing: {name} of {group.source}: {why.replace('RUN', group.source)}")
