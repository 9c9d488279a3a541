"""The templates that a report sets side by side, and the clauses that explain what is new in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from recompact.engine.store.adaptations import AdaptationRecord
from recompact.evaluation.summary import Evaluation
from recompact.presentation.report.changes import PromptChange, prompt_change
from recompact.presentation.report.content.answer import adapted_arms
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
