"""The verdicts of a run as pages need them: of all its boundaries, or of one trajectory where there are very many.

A page shows what `verify` stored. A run that is being verified is judged as it is, unless that would take too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from recompact.attribution.judgement import Verification, read_verdicts, stored_key
from recompact.engine.store.pages import run_counts
from recompact.engine.store.runs import boundaries_of, boundary_row, last_change
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import Kind, Verdict, count_verdicts, stored_verdicts, units_by_harm
from recompact.evaluation.evaluate import PHASE as EVALUATE
from recompact.values.outcome import BoundaryId, Outcomes

JUDGED = 5_000  # boundaries up to which all of them are read, or judged, together


@contextmanager
def open_moment(path: Path) -> Iterator[Store]:
    """A run opened for one page: everything on it is from the same moment, whatever a driver writes meanwhile."""
    with Store.read(path) as store, store.snapshot():
        yield store


def phase_of(store: Store) -> str:
    """The phase whose trajectories a run is about."""
    return EVALUATE if store.metadata.command == EVALUATE else "collect"


def verdicts_of_run(store: Store) -> Verification | None:
    """All verdicts of a run, read again only when the file has changed; None where it has too many or no draws."""
    counts = run_counts(store, phase_of(store))
    if store.metadata.command == EVALUATE or not counts.continuations or counts.boundaries > JUDGED:
        return None
    return _read_file(str(store.path), last_change(store.path))


@lru_cache(maxsize=4)
def _read_file(path: str, changed: float) -> Verification:
    with open_moment(Path(path)) as store:
        return read_verdicts(store)


def stored_kinds(store: Store) -> Mapping[Kind, int] | None:
    """How many verdicts of each kind `verify` has stored; None where there are none that fit."""
    key = _stored_key(store)
    return None if key is None else count_verdicts(store, key)


def _stored_key(store: Store) -> bytes | None:
    if store.metadata.command == EVALUATE or store.metadata.verified is None:
        return None
    return _key_of_file(str(store.path), last_change(store.path))


@lru_cache(maxsize=64)
def _key_of_file(path: str, changed: float) -> bytes | None:
    with open_moment(Path(path)) as store:
        return stored_key(store)


def harm_order(store: Store) -> Mapping[str, int]:
    """The trajectories that have a verdict, by the rank of their most harmful boundary."""
    if (verification := verdicts_of_run(store)) is not None:
        ranks: dict[str, int] = {}
        for place, verdict in enumerate(verification.verdicts):
            ranks.setdefault(verdict.id.unit, place)
        return ranks
    key = _stored_key(store)
    return {} if key is None else units_by_harm(store, key)


def verdicts_of_unit(store: Store, unit: str) -> tuple[Verdict, ...]:
    """The verdicts on the boundaries of one trajectory, in order; those that nobody has judged are open."""
    if (verification := verdicts_of_run(store)) is not None:
        judged = {verdict.id: verdict for verdict in verification.verdicts if verdict.id.unit == unit}
    else:
        key = _stored_key(store)
        judged = {verdict.id: verdict for verdict in stored_verdicts(store, key, unit)} if key else {}
    rows = boundaries_of(store, unit)
    unjudged = (Verdict(row.id, row, "no draws", Outcomes(), None) for row in rows)
    return tuple(judged.get(verdict.id, verdict) for verdict in unjudged)


def verdict_on(store: Store, id: BoundaryId) -> Verdict:
    """The verdict on one boundary, whatever the phase of its trajectory."""
    row = boundary_row(store, id.unit, id.index)
    return next(verdict for verdict in verdicts_of_unit(store, row.unit) if verdict.id == id)
