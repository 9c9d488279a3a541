"""Everything that a report says, as one value read from the records of runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from recompact.attribution.records import way_to_verify
from recompact.engine.store.adaptations import AdaptationRecord, read_adaptations
from recompact.engine.store.pages import run_counts
from recompact.engine.store.runs import boundary_rows, failed_compactions, find_run, trajectories
from recompact.engine.store.store import Store
from recompact.errors import InputError
from recompact.evaluation.breakdown import Breakdown, across_models
from recompact.evaluation.evaluate import PHASE as EVALUATE
from recompact.evaluation.released import is_released
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.content.answer import Claim, NextStep, adapted_arms
from recompact.presentation.report.content.lead import key_figures, lead, next_steps
from recompact.presentation.report.content.runs import (
    EvaluationReport,
    Provenance,
    VerificationReport,
    adapted_provenance,
    evaluated_run,
    legend,
    released_run,
    short_names,
    verified_run,
)
from recompact.presentation.report.document import Fact, PromptChange, prompt_change
from recompact.values.candidate import Clause
from recompact.values.template import Template, directory_of, read

NamedTemplate = tuple[str, Template]


def prompt_changes(
    directories: tuple[Path, Path] | None,
    evaluations: Sequence[tuple[Evaluation, Mapping[str, Template]]],
    adapted: Sequence[AdaptationRecord],
) -> tuple[PromptChange, ...]:
    """The changes between the templates that the user gave, or else between those of arms, or else between those of
    an adaptation. Evaluations come with their templates by hash."""
    clauses: dict[str, Sequence[Clause]] = {
        candidate.template.hash: candidate.clauses
        for adaptation in adapted
        for candidate in adaptation.candidates
        if candidate.template
    }
    if directories:
        clauses |= manifest_clauses(directories[1])
        pairs = [(_named_template(directories[0]), _named_template(directories[1]))]
    else:
        pairs = [pair for evaluation in evaluations for pair in _between_arms(*evaluation)]
        pairs = pairs or [pair for adaptation in adapted for pair in _selected_templates(adaptation)]
    distinct = {(before[1].hash, after[1].hash): (before, after) for before, after in reversed(pairs)}
    return tuple(
        prompt_change(before, after, clauses.get(after[1].hash, ())) for before, after in reversed(distinct.values())
    )


def _named_template(directory: Path) -> NamedTemplate:
    return str(directory), read(directory_of(str(directory)))


def _between_arms(
    evaluation: Evaluation, templates: Mapping[str, Template]
) -> Iterator[tuple[NamedTemplate, NamedTemplate]]:
    """Each arm whose template differs from that of the prompting arm that it is measured against."""
    for arm, original in adapted_arms(evaluation):
        hashes = original.settings.get("template"), arm.settings.get("template")
        before, after = (templates.get(str(hash)) for hash in hashes)
        if before and after and before != after:
            yield (original.label, before), (arm.label, after)


def _selected_templates(adaptation: AdaptationRecord) -> Iterator[tuple[NamedTemplate, NamedTemplate]]:
    winner = adaptation.winner
    if adaptation.template and winner and winner.template:
        yield ("original", adaptation.template), (winner.name, winner.template)


def manifest_clauses(directory: Path) -> dict[str, tuple[Clause, ...]]:
    """The clauses in the manifest beside a template, by its hash; empty where there is no manifest of ours."""
    try:
        manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        clauses = tuple(
            Clause(str(r["clause"]), str(r["section"]), tuple(map(str, r["boundaries"]))) for r in manifest["rules"]
        )
        return {str(manifest["hash"]): clauses}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


TITLE = "What compaction does to this agent"
MANY = 20  # intervals beyond which some exclude zero by chance


@dataclass(frozen=True)
class Report:
    """What was read of the runs of a report; what is said about them together follows from it."""

    title: str
    date: str
    evaluations: tuple[EvaluationReport, ...]
    verified: tuple[VerificationReport, ...]
    selections: tuple[AdaptationRecord, ...]
    unverified: tuple[Provenance, ...]  # of adapted runs without continuations
    prompts: tuple[PromptChange, ...]

    @cached_property
    def lead(self) -> tuple[Claim, ...]:
        return lead(self.evaluations, self.verified)

    @property
    def figures(self) -> tuple[tuple[Fact, ...], ...]:
        """The key figures, in rows."""
        return key_figures(self.evaluations, self.verified)

    @property
    def legend(self) -> tuple[str, ...]:
        """What arms and columns are."""
        return legend([run.evaluation for run in self.evaluations]) if self.evaluations else ()

    @cached_property
    def models(self) -> Breakdown | str:
        """Several evaluations by their models, or why not; nothing where there is one."""
        named = [replace(run.evaluation, title=run.name) for run in self.evaluations]
        return across_models(named) if len(named) > 1 else ""

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        return (*self._played, *self.unverified)

    @property
    def _played(self) -> tuple[Provenance, ...]:
        return (*(run.provenance for run in self.evaluations), *(run.provenance for run in self.verified))

    @property
    def simulated(self) -> tuple[str, ...]:
        """The runs whose models are simulated."""
        return tuple(run.name for run in self.provenance if run.simulated)

    @property
    def anchors(self) -> dict[str, str]:
        """Where each boundary is shown."""
        return {str(case.id): case.anchor for run in self.verified for case in run.cases}

    @property
    def next(self) -> tuple[NextStep, ...]:
        costs = [contrast for run in self.evaluations for contrast in run.costs]
        gains = [contrast for run in self.evaluations for contrast in run.gains]
        harms = [(run.provenance.name, run.harm) for run in self.verified]
        simulated = any(run.simulated for run in self._played)
        adapted = any(adaptation.winner for adaptation in self.selections)
        return next_steps(costs, gains, harms, simulated=simulated, adapted=adapted, places=self._places)

    @property
    def _places(self) -> dict[str, str]:
        """Where templates are, as far as the runs say: by an arm's label, and under "" that of an adaptation."""
        paths = {a.winner.template.hash: a.path for a in self.selections if a.winner and a.winner.template and a.path}
        arms = [arm for run in self.evaluations for arm in run.evaluation.arms]
        by_arm = {
            arm.label: arm.settings.get("directory") or paths.get(arm.settings.get("template", "")) for arm in arms
        }
        return {name: path for name, path in {**by_arm, "": next(iter(paths.values()), None)}.items() if path}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What to be careful about; with the evaluation's name where it does not hold for all of them."""
        names: dict[str, list[str]] = {}
        for run in self.evaluations:
            for text in run.warnings:
                names.setdefault(text, []).append(run.name)
        warnings = [
            text if len(runs) == len(self.evaluations) else f"{', '.join(runs)}: {text}" for text, runs in names.items()
        ]
        contrasts = [contrast for run in self.evaluations for contrast in (*run.costs, *run.gains, *run.others)]
        intervals = sum(len(contrast.changes) for contrast in contrasts)
        many = f"{intervals} differences are shown: one in twenty excludes zero by chance, even where nothing differs."
        return (*warnings, many) if intervals > MANY else tuple(warnings)


def read_report(
    runs: Sequence[str],
    directory: Path,
    *,
    prompt: tuple[Path, Path] | None = None,
    top: int = 10,
    title: str = "",
    date: str = "",
) -> Report:
    """Read everything that a report needs. Runs named without a path are in `directory`."""
    released = [run for run in dict.fromkeys(runs) if is_released(run)]
    paths: dict[Path, Path] = {}
    for path in (find_run(run, directory) for run in runs if run not in released):
        paths.setdefault(path.resolve(), path)  # however it was named, the same run is read once
    verified: list[VerificationReport] = []
    adapted: list[AdaptationRecord] = []
    unverified: list[Provenance] = []
    with ExitStack() as opened:
        stores = [opened.enter_context(Store.read(path)) for path in paths.values()]
        ours = [store for store in stores if store.metadata.command == EVALUATE]
        names = short_names([*released, *(str(store.path) for store in stores)])
        several = len(released) + len(ours) > 1  # so each is named
        evaluations = [released_run(run, names[run], several) for run in released]
        evaluations += [evaluated_run(store, names[str(store.path)], several) for store in ours]
        for store in (store for store in stores if store not in ours):
            records, name = read_adaptations(store), str(store.path)
            adapted += records
            if run_counts(store, "collect").continuations:
                prefix = f"boundary-{len(verified) + 1}-"
                verified.append(verified_run(store, names[name], top, prefix, adapted=bool(records)))
            elif records:
                unverified.append(adapted_provenance(store, name))
            else:
                raise InputError(f"{name} has nothing to report yet: {_way_out(store)}")
    prompts = prompt_changes(prompt, [(run.evaluation, run.templates) for run in evaluations], adapted)
    parts = tuple(evaluations), tuple(verified), tuple(adapted), tuple(unverified)
    return Report(title or TITLE, date, *parts, prompts)


def _way_out(store: Store) -> str:
    """What to do with a run that was only collected."""
    if (rows := trajectories(store)) and not boundary_rows(store):
        if (failed := failed_compactions(store, rows)).number:
            return f"{failed.nothing_compacted}. Fix the compressor and collect another run, or name an evaluation"
        return "nothing was compacted in it. Collect with a smaller budget, or name an evaluation"
    return f"name an evaluation, or verify its compactions: {way_to_verify(store)}"
