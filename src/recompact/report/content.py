"""Everything that a report says, as one value: read from runs, before anything of it becomes a page.

Comes in: the names of runs (evaluations, verified or adapted runs, released records). Goes out: a `Report` with the
answer, tables, cases, prompt changes and facts. Only records are read; no model is asked and nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recompact import __version__
from recompact.adaptation.diagnosis import Diagnosis
from recompact.adaptation.revision import Rule
from recompact.attribution.allocation import BoundaryId
from recompact.attribution.findings import Findings, findings
from recompact.errors import InputError
from recompact.evaluation.arms import PROMPTING
from recompact.evaluation.evaluate import PHASE as EVALUATE
from recompact.evaluation.metrics import group_keys
from recompact.evaluation.paired import Comparison, size_warnings
from recompact.evaluation.records import ArmRuns, read_arms
from recompact.evaluation.released import is_released, read_released
from recompact.evaluation.summary import (
    Evaluation,
    arm_table,
    detail_tables,
    difference_table,
    evaluation,
    group_table,
)
from recompact.evaluation.sweep import sweep, sweep_table
from recompact.report.content_answer import (
    Claim,
    Contrast,
    Harm,
    adapted,
    compacted,
    compared,
    contrast,
    cost_claim,
    counted,
    gain_claim,
    harm_claim,
    harm_of,
    uncompacted,
    with_unit,
)
from recompact.report.content_boundaries import Case, boundary_list, cases, counts_table
from recompact.report.content_made import Made, adapted_made, evaluation_made, released_made, verified_made
from recompact.report.content_next import Next, next_steps
from recompact.report.content_prompts import (
    Adaptation,
    PromptChange,
    adaptations,
    between_arms,
    fit_table,
    given,
    manifest_rules,
    prompt_change,
    templates_of,
)
from recompact.report.tables import Table
from recompact.store.runs import continuation_rows, find_run, overview, trajectories
from recompact.store.store import Store
from recompact.template import Template

TITLE = "What compaction does to this agent"


@dataclass(frozen=True)
class Evaluated:
    """An evaluation: its tables, and its arms in words."""

    shown: Evaluation
    arms: Table
    differences: Table | None
    sweep: Table | None
    details: tuple[Table, ...]
    costs: tuple[Contrast, ...]
    gains: tuple[Contrast, ...]
    others: tuple[Contrast, ...]
    warnings: tuple[str, ...]
    made: Made
    templates: Mapping[str, Template] = field(repr=False)


@dataclass(frozen=True)
class Verified:
    """A verified run: its counts, its list of boundaries, and the most harmful of them."""

    name: str
    found: Findings
    harm: Harm
    counts: Table
    listed: Table
    cases: tuple[Case, ...]
    simulated: bool
    made: Made


@dataclass(frozen=True)
class KeyFigure:
    """A number that a reader takes home."""

    label: str
    value: str
    note: str


@dataclass(frozen=True)
class Selected:
    """How an adaptation chose its template."""

    method: str
    statement: str
    table: Table


@dataclass(frozen=True)
class Report:
    """A whole report."""

    title: str
    date: str
    lead: tuple[Claim, ...]
    figures: tuple[KeyFigure, ...]
    warnings: tuple[str, ...]
    next: tuple[Next, ...]
    evaluations: tuple[Evaluated, ...]
    verified: tuple[Verified, ...]
    prompts: tuple[PromptChange, ...]
    selected: tuple[Selected, ...]
    made: tuple[Made, ...]
    simulated: tuple[str, ...]  # the runs whose models are simulated
    anchors: Mapping[str, str]  # boundary -> where it is shown
    version: str = __version__


@dataclass
class _Read:
    """What was read so far, run by run. `several`: there is more than one evaluation, so each is named."""

    several: bool = False
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
    read = _Read()
    released = [run for run in dict.fromkeys(runs) if is_released(run)]
    paths = dict.fromkeys(find_run(run, directory) for run in runs if run not in released)
    stores = [Store.read(path) for path in paths]
    try:
        read.several = len(released) + sum(store.meta.get("command") == EVALUATE for store in stores) > 1
        for name in released:
            read.evaluations.append(_evaluated(name, read_released(Path(name)), None, read.several))
        # Evaluations first: the templates of their arms tell what an adaptation began with.
        for store in sorted(stores, key=lambda store: store.meta.get("command") != EVALUATE):
            _read_run(store, read, top)
    finally:
        for store in stores:
            store.close()
    prompts = _prompts(read, prompt)
    return _report(read, prompts, title, date)


def _report(read: _Read, prompts: tuple[PromptChange, ...], title: str, date: str) -> Report:
    costs = [found for made in read.evaluations for found in made.costs]
    gains = [found for made in read.evaluations for found in made.gains]
    harms = [(made.name, made.harm) for made in read.verified]
    simulated = [made.made.name for made in read.evaluations if made.shown.simulated]
    simulated += [made.name for made in read.verified if made.simulated]
    return Report(
        title=title or TITLE,
        date=date,
        lead=_lead(read),
        figures=_figures(read),
        warnings=tuple(dict.fromkeys(words for made in read.evaluations for words in made.warnings)),
        next=next_steps(costs, gains, harms, simulated=bool(simulated)),
        evaluations=tuple(read.evaluations),
        verified=tuple(read.verified),
        prompts=prompts,
        selected=tuple(
            Selected(made.method, made.selection.statement, fit_table(made.selection))
            for made in read.adapted
            if made.selection
        ),
        made=(*(made.made for made in read.evaluations), *(made.made for made in read.verified), *read.made),
        simulated=tuple(dict.fromkeys([*simulated, *read.simulated])),
        anchors={str(case.id): case.anchor for made in read.verified for case in made.cases},
    )


# --- runs


def _read_run(store: Store, read: _Read, top: int) -> None:
    name = str(store.path)
    if store.meta.get("command") == EVALUATE:
        read.evaluations.append(_evaluated(name, read_arms(store), store, read.several))
        return
    known = {hash: template for made in read.evaluations for hash, template in made.templates.items()}
    found = adaptations(store, known)
    read.adapted += found
    if continuation_rows(store):
        read.verified.append(_verified(store, name, top, f"boundary-{len(read.verified) + 1}-"))
    elif found:
        read.made.append(adapted_made(store, name))
        read.simulated += [name] * overview(store).simulated
    else:
        raise InputError(
            f"{name} has nothing to report yet: give an evaluation, or verify its compactions with"
            f" `recompact verify {name}`"
        )


def _evaluated(name: str, arms: Sequence[ArmRuns], store: Store | None, several: bool) -> Evaluated:
    suite = str(store.meta.get("suite", "?")) if store else Path(name).stem
    shown = evaluation(suite, arms)
    size = f"{counted(len(shown.shared.tasks), 'task')}, {counted(shown.shared.runs, 'run')}"
    shown = replace(shown, title=f"{suite}, {size}" + (f" ({Path(name).stem})" if several else ""))
    if not shown.shared.tasks:
        raise InputError(f"{name} has no task yet that every arm has finished: go on with the same recompact evaluate")
    present = compacted(shown)
    differences = difference_table(shown, _against(shown, present))
    known = differences[1] if differences else []
    budgets = sweep(shown)
    none = uncompacted(shown)
    cost_pairs = [(arm, none) for arm in present] if none else []
    gain_pairs = adapted(shown)
    made = compared(shown, [*cost_pairs, *gain_pairs], known)
    told = [contrast(_title(c), c) for c in made]
    return Evaluated(
        shown=shown,
        arms=arm_table(shown),
        differences=differences[0] if differences else None,
        sweep=sweep_table(budgets) if budgets else None,
        details=(*(group_table(shown, key) for key in group_keys(shown.arms)), *detail_tables(shown)),
        costs=tuple(told[: len(cost_pairs)]),
        gains=tuple(told[len(cost_pairs) :]),
        others=() if told else tuple(contrast(_title(c), c) for c in known),
        warnings=(*_left_out(shown), *size_warnings(len(shown.shared.tasks), shown.shared.runs)),
        made=evaluation_made(store, name, shown) if store else released_made(name, shown),
        templates=templates_of(store) if store else {},
    )


def _against(shown: Evaluation, present: Sequence[ArmRuns]) -> str:
    """What the table measures the others against: prompting in each scope, or else the arm that stands for it."""
    if any(arm.base == PROMPTING for arm in present):
        return PROMPTING
    return (present or shown.arms)[0].label


def _title(comparison: Comparison) -> str:
    return f"{comparison.first} against {comparison.second}"


def _left_out(shown: Evaluation) -> tuple[str, ...]:
    left = shown.shared.left_out
    return (f"{counted(left, 'task')} left out: not every arm has finished them in every run.",) if left else ()


def _verified(store: Store, name: str, top: int, prefix: str) -> Verified:
    found = findings(store)
    rows = trajectories(store)
    shown = cases(store, found, top, _diagnoses(store), prefix)
    return Verified(
        name=name,
        found=found,
        harm=harm_of(found, len(rows)),
        counts=counts_table(found, {row.unit: row.success for row in rows}),
        listed=boundary_list(found),
        cases=shown,
        simulated=overview(store).simulated,
        made=verified_made(store, name, found, str(shown[0].id) if shown else ""),
    )


def _diagnoses(store: Store) -> dict[BoundaryId, Diagnosis]:
    made = [Diagnosis.from_json(store.result(unit)) for unit in sorted(store.finished("diagnosis"))]
    return {diagnosis.id: diagnosis for diagnosis in made}


# --- the prompt


def _prompts(read: _Read, prompt: tuple[Path, Path] | None) -> tuple[PromptChange, ...]:
    """The templates that a person gave, or else those of arms, or else those that an adaptation chose."""
    rules: dict[str, Sequence[Rule]] = {
        candidate.template.hash: candidate.rules
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


# --- the answer


def _lead(read: _Read) -> tuple[Claim, ...]:
    """What there is to say first, of each run; where there are several of a kind, with its name."""
    said = []
    for made in read.evaluations:
        claims = [cost_claim(found) for found in made.costs[:1]] + [gain_claim(found) for found in made.gains[:1]]
        if not claims:
            accs = [f"{arm.label} {with_unit('acc', made.shown.metrics(arm).means['acc'])}" for arm in made.shown.arms]
            claims = [Claim(f"Accuracy: {', '.join(accs)}.", f"{made.shown.title}.")]
        said += [_named(claim, made.made.name, read.several) for claim in claims]
    many = len(read.verified) > 1
    return (*said, *(_named(harm_claim(run.harm), run.name, many) for run in read.verified))


def _named(claim: Claim, name: str, several: bool) -> Claim:
    return replace(claim, numbers=f"{name}: {claim.numbers}") if several else claim


def _figures(read: _Read) -> tuple[KeyFigure, ...]:
    found = []
    for made in read.evaluations:
        shown = made.shown
        none, arms = uncompacted(shown), compacted(shown)
        named = [("without compaction", none)] if none else []
        named += [("with compaction", arms[0])] if arms else []
        named += [("with the adapted prompt", arm) for arm, _ in adapted(shown)[:1]]
        for label, arm in named:
            value = with_unit("acc", shown.metrics(arm).means["acc"])
            where = f" of {Path(made.made.name).stem}" if read.several else ""
            found.append(KeyFigure(f"Accuracy {label}", value, f"arm {arm.label}{where}"))
    for run in read.verified:
        value = f"{run.harm.harmful:,} of {run.harm.examined:,}"
        where = f", {Path(run.name).stem}" if len(read.verified) > 1 else ""
        found.append(KeyFigure("Harmful compactions", value, f"by {run.harm.allocation}{where}"))
    return tuple(found)
