"""What a run of `recompact adapt` holds, read from its records.

Until a run records what was selected and the text of its original template, `adaptations`, `original_template` and
`selection_of` work it out again. They are the only places in the report that do so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from recompact.adaptation.candidates import candidate_from_json
from recompact.adaptation.revision import Candidate
from recompact.adaptation.selection import ORIGINAL, PHASE, Fit, Selection, best
from recompact.config import load_config
from recompact.errors import InputError
from recompact.store.runs import TrajectoryRow, config_of, trajectories
from recompact.store.store import Store
from recompact.template import Template, default_template, resolve


@dataclass(frozen=True)
class Adaptation:
    """The candidates of one method, and how the fit runs chose among them."""

    method: str
    original: Template | None
    candidates: tuple[Candidate, ...]
    selection: Selection | None

    @property
    def winner(self) -> Candidate | None:
        if self.selection is None:
            return None
        return next((c for c in self.candidates if c.name == self.selection.winner and c.template), None)


def adaptations(store: Store, templates: Mapping[str, Template]) -> tuple[Adaptation, ...]:
    """What the run holds, method by method. `templates` are those at hand, by hash."""
    units = sorted(store.finished("candidate"))
    if not units:
        return ()
    original = original_template(store, templates)
    rows = trajectories(store, phase=PHASE)
    by_method: dict[str, list[Candidate]] = {}
    for unit in units:
        candidate = candidate_from_json(store.result(unit), original or Template("", "", ""))
        by_method.setdefault(unit.split("/")[1], []).append(candidate)
    if "acon-utco" in by_method:  # it goes on from the winner of acon-ut, which stays a candidate
        by_method["acon-utco"] = [*by_method.get("acon-ut", ()), *by_method["acon-utco"]]
    return tuple(
        Adaptation(method, original, tuple(candidates), selection_of(candidates, rows, _original_hash(store)))
        for method, candidates in by_method.items()
    )


def original_template(store: Store, templates: Mapping[str, Template]) -> Template | None:
    """The template that a run began with: one at hand, the default, or that of its config; None if it is neither."""
    wanted = _original_hash(store)
    for template in (*templates.values(), default_template()):
        if template.hash == wanted:
            return template
    try:
        file = config_of(store)
        template = resolve(load_config(file).compressor.template, file.parent)
    except InputError:
        return None
    return template if template.hash == wanted else None


def _original_hash(store: Store) -> str:
    return str(store.meta.get("identity", {}).get("template", ""))


def selection_of(candidates: Sequence[Candidate], rows: Sequence[TrajectoryRow], original: str) -> Selection | None:
    """The selection by the recorded fit runs; None while some of them are missing. `original` is a hash."""
    hashes = {ORIGINAL: original} | {c.name: c.template.hash for c in candidates if c.template}
    by_hash: dict[str, list[TrajectoryRow]] = {}
    for row in rows:
        by_hash.setdefault(row.unit.split("/")[1], []).append(row)
    by_name = {name: by_hash.get(hash[:16], []) for name, hash in hashes.items()}
    done = {frozenset((row.task, row.run) for row in runs) for runs in by_name.values()}
    if len(done) > 1 or not (shared := done.pop()):
        return None
    fits = [
        Fit(name, len(runs), sum(row.success for row in runs), fmean(row.steps for row in runs))
        for name, runs in by_name.items()
    ]
    return Selection(tuple(fits), best(fits), tuple(sorted({task for task, _ in shared})))
