"""Compactions that failed, counted from the records of trajectories: a run without compactions must not look like one
in which none was needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from recompact.engine.store.store import Store
from recompact.values.texts import cut, quantity
from recompact.values.trajectory import COMPACTION_FAILED, Incident

REASON = 300  # characters of a reason that are repeated; the trajectory has all of it


@dataclass(frozen=True)
class FailedCompactions:
    """How many compactions failed, in how many trajectories, and the reason of the first."""

    number: int = 0
    trajectories: int = 0
    reason: str = ""

    @property
    def words(self) -> str:
        """What is said of them; empty where none failed.

        >>> FailedCompactions(3, 2, "no summary came back").words
        '3 compactions failed in 2 trajectories: no summary came back'
        """
        if not self.number:
            return ""
        reason, more = cut(" ".join(self.reason.split()).removesuffix("."), REASON)
        failed = f"{quantity(self.number, 'compaction')} failed in {quantity(self.trajectories, 'trajectory')}"
        return f"{failed}: {reason}{' …' * bool(more)}"

    @property
    def nothing_compacted(self) -> str:
        """What is said where not one compaction was made: that, and that all of them failed if any was tried.

        >>> FailedCompactions().nothing_compacted, FailedCompactions(1, 1, "no summary").nothing_compacted
        ('nothing was compacted', 'nothing was compacted: 1 compaction failed in 1 trajectory: no summary')
        """
        return f"nothing was compacted{': ' * bool(self.number)}{self.words}"


NONE_FAILED = FailedCompactions()


def failed_among(incidents: Iterable[Incident]) -> FailedCompactions:
    """Those of one trajectory."""
    reasons = [incident.text for incident in incidents if incident.kind == COMPACTION_FAILED]
    return FailedCompactions(len(reasons), 1, reasons[0]) if reasons else NONE_FAILED


def failed_in_unit(store: Store, unit: str) -> FailedCompactions:
    """Those of one recorded trajectory."""
    try:
        return failed_among(Incident(*incident) for incident in store.result(unit)["incidents"])
    except (KeyError, TypeError):
        raise store.damaged(f"the incidents of {unit} cannot be read") from None


def failed_in_all(parts: Iterable[FailedCompactions]) -> FailedCompactions:
    """Those of several trajectories together."""
    some = [part for part in parts if part.number]
    if not some:
        return NONE_FAILED
    return FailedCompactions(sum(p.number for p in some), sum(p.trajectories for p in some), some[0].reason)
