"""Everything that a report says, as one value: read from runs, before anything of it becomes a page.

Comes in: the names of runs (evaluations, verified or adapted runs, released records). Goes out: a `Report` with the
answer, tables, cases, prompt changes and facts. Only records are read; no model is asked and nothing is written.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from recompact.candidate import Clause
from recompact.errors import InputError
from recompact.evaluation.evaluate import PHASE as EVALUATE
from recompact.evaluation.released import is_released
from recompact.evaluation.transfer import Transfer
from recompact.report.content.answer import Claim
from recompact.report.content.arms import legend
from recompact.report.content.lead import KeyFigure, key_figures, lead
from recompact.report.content.next_steps import Next, next_steps
from recompact.report.content.prompts import (
    Adaptation,
    PromptChange,
    adaptations,
    between_arms,
    fit_table,
    given,
    manifest_rules,
    prompt_change,
)
from recompact.report.content.provenance import Made, adapted_made
from recompact.report.content.runs import (
    Evaluated,
    Verified,
    evaluated_run,
    released_run,
    short_names,
    verified_run,
)
from recompact.report.content.transfer import across_models
from recompact.store.runs import boundary_rows, continuation_rows, find_run, overview, trajectories
from recompact.store.store import Store
from recompact.tables import Table
from recompact.version import __version__

TITLE = "What compaction does to this agent"
MANY = 20  # intervals from which on some exclude zero by chance


@dataclass(frozen=True)
class Selected:
    """How an adaptation chose its template; no table where it has not chosen yet."""

    method: str
    statement: str
    table: Table | None


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    date: str
    lead: tuple[Claim, ...]
    figures: tuple[tuple[KeyFigure, ...], ...]  # in rows
    warnings: tuple[str, ...]
    next: tuple[Next, ...]
    evaluations: tuple[Evaluated, ...]
    legend: tuple[str, ...]  # what arms and columns are
    transfer: Transfer | None
    no_transfer: str  # why several evaluations make none
    verified: tuple[Verified, ...]
    prompts: tuple[PromptChange, ...]
    selected: tuple[Selected, ...]
    made: tuple[Made, ...]
    simulated: tuple[str, ...]  # the runs whose models are simulated
    anchors: Mapping[str, str]  # boundary -> where it is shown
    version: str = __version__


@dataclass
class _Read:
    """What was read so far, run by run."""

    names: Mapping[str, str]  # short ones, by path
    several: bool  # there is more than one evaluation, so each is named
    evaluations: list[Evaluated] = field(default_factory=list)
    verified: list[Verified] = field(default_factory=list)
    adapted: list[Adaptation] = field(default_factory=list)
    made: list[Made] = field(default_factory=list)
    simulated: list[str] = field(default_factory=list)


def read_report(
    runs: Sequence[str],
    directory: Path,
    *,
    prompt: tuple[Path, Path] | None = None,
    top: int = 10,
    title: str = "",
    date: str = "",
) -> Report:
    """Read all that a report needs. `directory` is where runs are that are named without a path."""
    released = [run for run in dict.fromkeys(runs) if is_released(run)]
    paths: dict[Path, Path] = {}
    for path in (find_run(run, directory) for run in runs if run not in released):
        paths.setdefault(path.resolve(), path)  # however it was named, the same run is read once
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.read(path)) for path in paths.values()]
        names = short_names([*released, *(str(store.path) for store in stores)])
        read = _Read(names, len(released) + sum(map(_evaluates, stores)) > 1)
        for run in released:
            read.evaluations.append(released_run(run, names[run], read.several))
        for store in sorted(stores, key=lambda store: not _evaluates(store)):
            _read_run(store, read, top)
    return _report(read, _prompts(read, prompt), title, date)


def _evaluates(store: Store) -> bool:
    return store.metadata.command == EVALUATE


def _read_run(store: Store, read: _Read, top: int) -> None:
    path = str(store.path)
    if _evaluates(store):
        read.evaluations.append(evaluated_run(store, read.names[path], read.several))
        return
    found = adaptations(store)
    read.adapted += found
    if continuation_rows(store):
        prefix = f"boundary-{len(read.verified) + 1}-"
        read.verified.append(verified_run(store, read.names[path], top, prefix, adapted=bool(found)))
    elif found:
        read.made.append(adapted_made(store, path))
        read.simulated += [path] * overview(store).simulated
    else:
        raise InputError(f"{path} has nothing to report yet: {_way_out(store)}")


def _way_out(store: Store) -> str:
    """What to do with a run that was only collected."""
    if trajectories(store) and not boundary_rows(store):
        return "nothing was compacted in it. Collect with a smaller budget, or give an evaluation"
    verify = shlex.join(["recompact", "verify", str(store.path)])
    return f"give an evaluation, or verify its compactions with `{verify}`"


def _report(read: _Read, prompts: tuple[PromptChange, ...], title: str, date: str) -> Report:
    costs = [found for made in read.evaluations for found in made.costs]
    gains = [found for made in read.evaluations for found in made.gains]
    harms = [(made.made.name, made.harm) for made in read.verified]
    simulated = [made.made.name for made in read.evaluations if made.shown.simulated]
    simulated += [made.made.name for made in read.verified if made.simulated]
    together = across_models([made.setting for made in read.evaluations]) if read.several else ""
    return Report(
        title=title or TITLE,
        date=date,
        lead=lead(read.evaluations, read.verified),
        figures=key_figures(read.evaluations, read.verified),
        warnings=_warnings(read),
        next=next_steps(costs, gains, harms, simulated=bool(simulated), adapted=_chosen(read)),
        evaluations=tuple(read.evaluations),
        legend=legend([made.shown for made in read.evaluations]) if read.evaluations else (),
        transfer=together if isinstance(together, Transfer) else None,
        no_transfer=together if isinstance(together, str) else "",
        verified=tuple(read.verified),
        prompts=prompts,
        selected=tuple(map(_selected, read.adapted)),
        made=(*(made.made for made in read.evaluations), *(made.made for made in read.verified), *read.made),
        simulated=tuple(dict.fromkeys([*simulated, *read.simulated])),
        anchors={str(case.id): case.anchor for made in read.verified for case in made.cases},
    )


def _chosen(read: _Read) -> bool:
    """Whether an adaptation chose a template of its own."""
    return any(made.winner for made in read.adapted)


def _warnings(read: _Read) -> tuple[str, ...]:
    """What to be careful about; with the evaluation's name where it does not hold for all of them."""
    found: dict[str, list[str]] = {}
    for made in read.evaluations:
        for text in made.warnings:
            found.setdefault(text, []).append(made.name)
    said = [
        text if len(names) == len(read.evaluations) else f"{', '.join(names)}: {text}" for text, names in found.items()
    ]
    contrasts = [one for made in read.evaluations for one in (*made.costs, *made.gains, *made.others)]
    intervals = sum(len(one.changes) for one in contrasts)
    many = f"{intervals} differences are shown: one in twenty excludes zero by chance, even between equals."
    return (*said, many) if intervals > MANY else tuple(said)


# --- the prompt


def _prompts(read: _Read, prompt: tuple[Path, Path] | None) -> tuple[PromptChange, ...]:
    """The templates that a person gave, or else those of arms, or else those that an adaptation chose."""
    rules: dict[str, Sequence[Clause]] = {
        candidate.template.hash: candidate.clauses
        for made in read.adapted
        for candidate in made.candidates
        if candidate.template
    }
    if prompt:
        before, after = given(*prompt)
        return (prompt_change(before, after, {**rules, **manifest_rules(prompt[1])}),)
    found = [pair for made in read.evaluations for pair in between_arms(made.shown, made.templates)]
    if not found:
        found = [
            (("original", made.original), (made.winner.name, made.winner.template))
            for made in read.adapted
            if made.original and made.winner and made.winner.template
        ]
    distinct = {(before[1].hash, after[1].hash): (before, after) for before, after in reversed(found)}
    return tuple(prompt_change(before, after, rules) for before, after in reversed(distinct.values()))


def _selected(made: Adaptation) -> Selected:
    if made.selection is None:
        return Selected(made.method, "The candidates have not all been run on the fit tasks yet.", None)
    return Selected(made.method, made.selection.statement, fit_table(made.selection))
