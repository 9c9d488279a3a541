"""What a report reads from each run: an evaluation with its tables and comparisons, a verified run with its cases.

Each comes with where it is from: models, settings, versions, and the commands behind the numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from recompact.attribution.cached_input import cache_text, cached_input
from recompact.attribution.judgement import Verification, read_verdicts
from recompact.attribution.statement import control_of
from recompact.engine.store.adaptations import recorded_templates
from recompact.engine.store.runs import Overview, overview, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.arm_runs import ArmRuns, common, read_arms
from recompact.evaluation.arms import PROMPTING, built_in_arms
from recompact.evaluation.breakdown import breakdown, breakdown_table, by_budget
from recompact.evaluation.costs import cost_table, costs_of
from recompact.evaluation.metrics import group_keys
from recompact.evaluation.released import models_of, read_released
from recompact.evaluation.summary import (
    SIMULATED,
    Evaluation,
    arm_table,
    detail_tables,
    difference_table,
    evaluation,
    notes,
)
from recompact.presentation.report.content.answer import (
    ArmContrast,
    Harm,
    NextStep,
    arm_contrast,
    arm_contrasts,
    compacting_arms,
    harm_of,
    rule_of,
)
from recompact.presentation.report.content.cases import Case
from recompact.presentation.report.content.overview import Timeline, boundary_table, counts_table, timeline
from recompact.presentation.report.content.shown_cases import worst_cases
from recompact.values.tables import Table
from recompact.values.template import Template
from recompact.values.texts import command_line, quantity


@dataclass(frozen=True)
class Provenance:
    """One run: its name as a command takes it, what it is, its facts, and the commands that say more about it."""

    name: str
    kind: str
    facts: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]  # that print numbers of the page
    more: tuple[NextStep, ...] = ()  # what the page does not say
    suite_changes: tuple[str, ...] = ()  # that the run continued with: a sentence each
    simulated: bool = False


def evaluation_provenance(store: Store, name: str, evaluation: Evaluation) -> Provenance:
    arms = "; ".join(_arm(arm) for arm in evaluation.arms)
    more = [
        NextStep(
            "What the agent does after a compaction, arm by arm:", command_line("show", name, options=["--behaviour"])
        )
    ]
    if len(evaluation.arms) > 1:
        two = evaluation.arms[-1].label, evaluation.arms[0].label
        more.append(NextStep("Two arms in every metric:", command_line("compare", name, *two)))
    groups = [word for key in group_keys(evaluation.arms) for word in ("--by", key)]
    commands = (command_line("compare", name, options=["--details", *groups]),)
    facts = (("Tasks", _tasks(evaluation)), ("Arms", arms))
    return _recorded_provenance(store, overview(store), name, "an evaluation", facts, commands, more)


def released_provenance(name: str, evaluation: Evaluation) -> Provenance:
    facts = (("Tasks", _tasks(evaluation)), ("Arms", "; ".join(arm.label for arm in evaluation.arms)))
    return Provenance(name, "released run records", facts, (command_line("compare", name),))


def verified_provenance(
    store: Store, name: str, verification: Verification, worst: str, *, adapted: bool
) -> Provenance:
    """`worst` is the boundary that is shown first; `adapted`: the run holds candidates too."""
    settings, run = verification.settings, overview(store)
    facts = (
        ("Compressor", run.compressor),
        ("Allocation", settings.allocation),
        ("Harmful", rule_of(settings)),
    )
    commands = [command_line("boundaries", name)] + [command_line("boundary", name, worst)] * bool(worst)
    replay = command_line("replay", name, worst, options=["--template", "NAME=DIRECTORY"])
    more = [NextStep("Whether the harm is gone with another template:", replay)] * bool(worst)
    kind = "a verified and adapted run" if adapted else "a verified run"
    return _recorded_provenance(store, run, name, kind, facts, commands, more)


def adapted_provenance(store: Store, name: str) -> Provenance:
    run = overview(store)
    facts, commands = (("Compressor", run.compressor),), [command_line("show", name)]
    return _recorded_provenance(store, run, name, "an adapted run", facts, commands)


def _recorded_provenance(
    store: Store,
    run: Overview,
    name: str,
    kind: str,
    facts: Sequence[tuple[str, str]],
    commands: Sequence[str],
    more: Sequence[NextStep] = (),
) -> Provenance:
    """That of a run of ours, whose own facts stand among those that each one records."""
    changes = tuple(
        f"The suite changed after {quantity(change['finished'], 'unit')} of work ({', '.join(change['changed'])}), and"
        " the run continued with --accept-changes: its numbers mix results from before and after."
        for change in store.metadata.suite_changes
    )
    facts = (*_common(store), *facts, *_spending(store, run))
    return Provenance(name, kind, facts, tuple(commands), tuple(more), changes, run.simulated)


def _common(store: Store) -> tuple[tuple[str, str], ...]:
    """What each of our runs records about itself; missing facts are left out."""
    identity: Mapping[str, Any] = store.metadata.identity
    suite, run = identity.get("suite", {}), identity.get("run", {})
    template = str(identity.get("template", ""))[:16]
    split = f"{suite.get('use', '?')}, split {suite.get('split', '?')}"
    limit = f", the first {quantity(suite['limit'], 'task')}" if suite.get("limit") else ""
    facts = (
        ("Suite", f"{split}{limit}"),
        ("Models", "; ".join(_models(store, identity))),
        ("Seed", str(run.get("seed", ""))),
        ("Step limit", str(run.get("step_limit", ""))),
        ("Tokens counted by", str(run.get("counter", ""))),
        ("Template", f"{template} (hash)" if template else ""),
        ("Recompact", store.metadata.version),
    )
    return tuple((name, value) for name, value in facts if value)


def _models(store: Store, identity: Mapping[str, Any]) -> list[str]:
    settings = identity.get("models", {})
    models = []
    for model, role in sorted(store.spent(), key=lambda entry: (entry[1], entry[0])):
        id = settings.get(model, {}).get("id", model)
        models.append(f"{role} {model}" + (f" ({id})" if id != model else ""))
    return models


def _spending(store: Store, run: Overview) -> tuple[tuple[str, str], ...]:
    spent = ", ".join(f"{role} {count:,}" for role, count in run.tokens.items())
    if not spent:
        return ()
    facts = (("Tokens spent", spent),)
    return facts if run.simulated else (*facts, ("Cached input", cache_text(cached_input(store))))


def _arm(arm: ArmRuns) -> str:
    budget = arm.settings.get("budget")
    return f"{arm.label} (budget {budget:,})" if isinstance(budget, int) else arm.label


def _tasks(evaluation: Evaluation) -> str:
    return f"{quantity(len(evaluation.shared.tasks), 'task')}, {quantity(evaluation.shared.runs, 'run')} of each arm"


KINDS = {
    "fifo": "fifo, by dropping the oldest turns",
    PROMPTING: "prompting, by a summary that the original prompt asks for",
}
SCOPES = {
    "history": "history, all that follows the fixed messages at the beginning",
    "prefix": "prefix, those messages too",
}


def cautions(evaluation: Evaluation) -> tuple[str, ...]:
    """What to be careful about: the notes of the evaluation except the first, which says what it is."""
    return tuple(text for text in notes(evaluation)[1:] if text != SIMULATED)


def without_notes(table: Table, elsewhere: Collection[str]) -> Table:
    """A table without the notes that are elsewhere on the page."""
    return replace(table, notes=tuple(note for note in table.notes if note not in (*elsewhere, SIMULATED)))


def legend(evaluations: Sequence[Evaluation]) -> tuple[str, ...]:
    """Arms, scopes and columns in words, as far as they occur."""
    arms = [arm for evaluation in evaluations for arm in evaluation.arms]
    bases = {arm.base for arm in arms}
    kinds = ["none, which never compacts"] if any(evaluation.none for evaluation in evaluations) else []
    kinds += [words for name, words in KINDS.items() if name in bases]
    if kinds and bases - set(built_in_arms()):
        kinds.append("any other, with a prompt of its own")
    lines = [f"An arm is a way to compact the history: {'; '.join(kinds)}."] if kinds else []
    scopes = [words for scope, words in SCOPES.items() if any(arm.scope == scope for arm in arms)]
    lines += [f"The scope is what the compressor sees: {'; '.join(scopes)}."] if scopes else []
    accuracy = "Acc is the share of runs that succeed"
    if any(evaluation.shared.runs > 1 for evaluation in evaluations):
        accuracy += ", Pass^k that of tasks which succeed in all of k runs, Pass@k in at least one of them"
    return (*lines, f"{accuracy}. Steps and compactions are means per task and run, Peak is the agent's largest input.")


@dataclass(frozen=True)
class EvaluationReport:
    """An evaluation: its tables, and its arms in words. `name` is short, `provenance.name` what a command takes."""

    name: str
    evaluation: Evaluation
    arms: Table
    differences: Table | None
    budgets: Table | None
    details: tuple[Table, ...]
    costs: tuple[ArmContrast, ...]
    gains: tuple[ArmContrast, ...]
    others: tuple[ArmContrast, ...]
    warnings: tuple[str, ...]
    provenance: Provenance
    templates: Mapping[str, Template] = field(repr=False)


@dataclass(frozen=True)
class VerificationReport:
    """A verified run: its counts, its list of boundaries, and the most harmful of them."""

    name: str
    verification: Verification
    harm: Harm
    counts: Table
    boundaries: Table
    cases: tuple[Case, ...]
    timeline: Timeline | None
    provenance: Provenance


def short_names(runs: Sequence[str]) -> dict[str, str]:
    """What runs are called where there are several: the file's name, or the whole path where two share that.

    >>> short_names(["a/x.db", "b/x.db", "b/y.db"])
    {'a/x.db': 'a/x.db', 'b/x.db': 'b/x.db', 'b/y.db': 'y'}
    """
    stems = [Path(run).stem for run in runs]
    return {run: stem if stems.count(stem) == 1 else run for run, stem in zip(runs, stems, strict=True)}


# --- evaluations


def released_run(path: str, name: str, several: bool) -> EvaluationReport:
    """Released records. `several`: there are other evaluations, so tables say which one they belong to."""
    compared = _side_by_side(path, name, evaluation(Path(path).stem, read_released(Path(path))), several)
    return _evaluation_report(name, compared, released_provenance(path, compared), {})


TaskChoice = Callable[[Evaluation], tuple[str, Sequence[str]]]
"""The words that say which tasks of an evaluation are compared, and those tasks; no words for all of them."""


def evaluated_run(store: Store, name: str, several: bool, choose: TaskChoice | None = None) -> EvaluationReport:
    """One of our evaluations, over all its tasks or those that are chosen."""
    path, suite = str(store.path), store.metadata.suite or "?"
    every = evaluation(suite, read_arms(store), suite=suite, models=models_of(store))
    compared = _side_by_side(path, name, every, several, choose)
    report = _evaluation_report(name, compared, evaluation_provenance(store, path, compared), recorded_templates(store))
    paid = cost_table(costs_of(store, compared))
    return replace(report, details=(*report.details, paid)) if paid.rows else report


def _side_by_side(
    path: str, name: str, compared: Evaluation, several: bool, choose: TaskChoice | None = None
) -> Evaluation:
    words, tasks = choose(compared) if choose and compared.shared.tasks else ("", ())
    title = f"{compared.title}, {words}" if words else compared.title
    if words:
        compared = replace(compared, shared=common(compared.arms, tasks))
    if not compared.shared.tasks:
        why = f"has no task yet that every arm has finished{compared.shared.broken_words}"
        raise InputError(f"{path} {why}: resume the same recompact evaluate")
    size = f"{quantity(len(compared.shared.tasks), 'task')}, {quantity(compared.shared.runs, 'run')}"
    return replace(compared, title=f"{title}, {size}" + (f" ({name})" if several else ""))


def _evaluation_report(
    name: str, evaluation: Evaluation, provenance: Provenance, templates: Mapping[str, Template]
) -> EvaluationReport:
    warnings = cautions(evaluation)
    differences = difference_table(evaluation, _reference(evaluation, compacting_arms(evaluation)))
    tabled = differences[1] if differences else []
    budgets = by_budget(evaluation)
    costs, gains = arm_contrasts(evaluation, tabled)
    return EvaluationReport(
        name=name,
        evaluation=evaluation,
        arms=without_notes(arm_table(evaluation), warnings),
        differences=differences[0] if differences else None,
        budgets=without_notes(breakdown_table(budgets), warnings) if budgets else None,
        details=_details(evaluation),
        costs=costs,
        gains=gains,
        others=() if costs or gains else tuple(map(arm_contrast, tabled)),
        warnings=warnings,
        provenance=provenance,
        templates=templates,
    )


def _details(evaluation: Evaluation) -> tuple[Table, ...]:
    """The folded tables, without empty ones (records that do not count tokens)."""
    groups = filter(None, (breakdown(evaluation, key) for key in group_keys(evaluation.arms)))
    return tuple(table for table in (*map(breakdown_table, groups), *detail_tables(evaluation)) if table.rows)


def _reference(evaluation: Evaluation, compacting: Sequence[ArmRuns]) -> str:
    """What the table measures the others against: prompting in each scope, or else the arm that stands for it."""
    if any(arm.base == PROMPTING for arm in compacting):
        return PROMPTING
    return (compacting or evaluation.arms)[0].label


# --- verified runs


def verified_run(store: Store, name: str, top: int, prefix: str, *, adapted: bool) -> VerificationReport:
    """A verified run. The anchors of its cases begin with `prefix`; `adapted`: it has candidates too."""
    every, rows = read_verdicts(store), trajectories(store)
    cases = worst_cases(store, every, top, prefix)
    worst = str(cases[0].id) if cases else ""
    return VerificationReport(
        name=name,
        verification=every,
        harm=harm_of(every, len(rows), control_of(store, every.settings)),
        counts=counts_table(every, {row.unit: row.success for row in rows}, Counter(row.ending for row in rows)),
        boundaries=boundary_table(every),
        cases=cases,
        timeline=timeline(every),
        provenance=verified_provenance(store, str(store.path), every, worst, adapted=adapted),
    )
