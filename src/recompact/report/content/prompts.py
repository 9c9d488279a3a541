"""What changed in the prompt, section by section, and which boundaries each new clause answers.

Comes in: two templates, from directories, from the arms of an evaluation, or from a run of `recompact adapt` with its
candidates. Goes out: changed sections as lines, each with the clauses that stand in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from recompact.adaptation.candidates import candidate_from_json
from recompact.adaptation.revision import Candidate, Rule
from recompact.adaptation.selection import ORIGINAL, Fit, Selection, best
from recompact.config import load_config
from recompact.errors import InputError
from recompact.evaluation.summary import Evaluation
from recompact.report.changes import Changed, Line, changed
from recompact.report.content.answer import adapted
from recompact.store.runs import TrajectoryRow, config_of, trajectories
from recompact.store.store import Store
from recompact.tables import Cell, Column, Number, Table
from recompact.template import Template, default_template, diff, read, resolve

FITTED = "select"  # the phase of the fit runs


@dataclass(frozen=True)
class Marked:
    """A line of a changed section, and the clauses that stand in it for the first time."""

    line: Line
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class ChangedSection:
    heading: str
    what: str
    lines: tuple[Marked, ...]


@dataclass(frozen=True)
class ChangedPart:
    """One part of the prompt (first, update, system) with the sections that differ."""

    part: str
    structure: bool  # headings or placeholders differ too
    sections: tuple[ChangedSection, ...]
    like: str = ""  # the part before it that differs in the very same lines


@dataclass(frozen=True)
class PromptChange:
    """Two templates: their names and hashes, what differs, and the clauses that stand in no single line."""

    before: str
    after: str
    hashes: tuple[str, str]
    parts: tuple[ChangedPart, ...]
    loose: tuple[Rule, ...]


@dataclass(frozen=True)
class Adaptation:
    """What a run of `recompact adapt` holds for one method: its candidates and how the fit runs chose among them."""

    method: str
    original: Template | None
    candidates: tuple[Candidate, ...]
    selection: Selection | None

    @property
    def winner(self) -> Candidate | None:
        if self.selection is None:
            return None
        return next((c for c in self.candidates if c.name == self.selection.winner and c.template), None)


def prompt_change(
    before: tuple[str, Template], after: tuple[str, Template], rules: Mapping[str, Sequence[Rule]]
) -> PromptChange:
    """Two named templates. `rules` are the clauses of templates, by their hash."""
    left = list(rules.get(after[1].hash, ()))
    parts: list[ChangedPart] = []
    seen: dict[tuple[Changed, ...], str] = {}
    for found in diff(before[1], after[1]):
        changes = tuple(map(changed, found.changes))
        sections = tuple(_section(change, left) for change in changes)
        like = seen.setdefault(changes, found.part)
        parts.append(ChangedPart(found.part, found.structure_changed, sections, like if like != found.part else ""))
    hashes = before[1].hash, after[1].hash
    return PromptChange(before[0], after[0], hashes, tuple(parts), tuple(left))


def _section(found: Changed, left: list[Rule]) -> ChangedSection:
    """With each clause at the first line that holds it; it is taken from those that are left."""
    lines = []
    for line in found.lines:
        here = [rule for rule in left if line.sign == "+" and _plain(rule.clause) in _plain(line.text)]
        for rule in here:
            left.remove(rule)
        lines.append(Marked(line, tuple(here)))
    return ChangedSection(found.heading, found.what, tuple(lines))


def _plain(text: str) -> str:
    return " ".join(text.split())


# --- where templates come from


def given(before: Path, after: Path) -> tuple[tuple[str, Template], tuple[str, Template]]:
    """Two templates as a person names them: directories, or `default`."""
    return _named(before), _named(after)


def _named(name: Path) -> tuple[str, Template]:
    return str(name), default_template() if str(name) == "default" else read(name)


def manifest_rules(directory: Path) -> dict[str, tuple[Rule, ...]]:
    """The clauses that a manifest beside a template tells of; nothing where there is none of ours."""
    try:
        found = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
        rules = tuple(
            Rule(str(r["clause"]), str(r["section"]), tuple(map(str, r["boundaries"]))) for r in found["rules"]
        )
        return {str(found["hash"]): rules}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def templates_of(store: Store) -> dict[str, Template]:
    """The templates that an evaluation's arms had, by hash."""
    return {hash: Template(**parts) for hash, parts in store.metadata.templates.items()}


def between_arms(
    shown: Evaluation, templates: Mapping[str, Template]
) -> Iterator[tuple[tuple[str, Template], tuple[str, Template]]]:
    """Each arm with another template than the prompting arm that it is measured against."""
    for arm, original in adapted(shown):
        hashes = original.settings.get("template"), arm.settings.get("template")
        before, after = (templates.get(str(hash)) for hash in hashes)
        if before and after and before != after:
            yield (original.label, before), (arm.label, after)


def adaptations(store: Store, known: Mapping[str, Template]) -> tuple[Adaptation, ...]:
    """What a run of `recompact adapt` holds, method by method. `known` are templates at hand, by hash."""
    units = sorted(store.finished("candidate"))
    if not units:
        return ()
    original = original_of(store, known)
    frame = original or Template("", "", "")
    fits = trajectories(store, phase=FITTED)
    wanted = store.metadata.template
    by_method: dict[str, list[Candidate]] = {}
    for unit in units:
        by_method.setdefault(unit.split("/")[1], []).append(candidate_from_json(store.result(unit), frame))
    if "acon-utco" in by_method:  # it goes on from the winner of acon-ut, which stays a candidate
        by_method["acon-utco"] = [*by_method.get("acon-ut", ()), *by_method["acon-utco"]]
    return tuple(
        Adaptation(method, original, tuple(found), selection_of(found, fits, wanted))
        for method, found in by_method.items()
    )


def original_of(store: Store, known: Mapping[str, Template]) -> Template | None:
    """The template that a run began with: at hand, ours, or that of its config; None where it is none of them."""
    wanted = store.metadata.template
    for at_hand in (*known.values(), default_template()):
        if at_hand.hash == wanted:
            return at_hand
    try:
        file = config_of(store)
        found = resolve(load_config(file).compressor.template, file.parent)
    except InputError:
        return None
    return found if found.hash == wanted else None


def selection_of(candidates: Sequence[Candidate], rows: Sequence[TrajectoryRow], original: str) -> Selection | None:
    """The selection as the fit runs in the records give it; None where they are not all there."""
    hashes = {ORIGINAL: original} | {c.name: c.template.hash for c in candidates if c.template}
    by_hash: dict[str, list[TrajectoryRow]] = {}
    for row in rows:
        by_hash.setdefault(row.unit.split("/")[1], []).append(row)
    made = {name: by_hash.get(hash[:16], []) for name, hash in hashes.items()}
    done = {frozenset((row.task, row.run) for row in found) for found in made.values()}
    if len(done) > 1 or not (shared := done.pop()):
        return None  # some are still to be run
    fits = [
        Fit(name, len(found), sum(row.success for row in found), fmean(row.steps for row in found))
        for name, found in made.items()
    ]
    return Selection(tuple(fits), best(fits), tuple(sorted({task for task, _ in shared})))


def fit_table(selection: Selection) -> Table:
    """How the candidates did on the fit tasks."""
    columns = tuple(Column(name, name) for name in ("template", "runs", "passed", "mean steps"))
    rows: tuple[tuple[Cell, ...], ...] = tuple((f.name, f.runs, f.passed, Number(f.steps)) for f in selection.fits)
    said = (
        "Training tasks with the most compactions. A template is selected here, so this is no evidence that it helps.",
    )
    return Table("Selection on the fit tasks", columns, rows, said)
