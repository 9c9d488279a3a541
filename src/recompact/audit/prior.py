"""The audit as a prior of racing: `[verify] prior = "audit"`."""

from __future__ import annotations

from recompact.attribution.prior import Tilt
from recompact.audit.odds import features
from recompact.audit.runs import audit_run
from recompact.audit.scoring import assess
from recompact.audit.worth import recorded_worth
from recompact.engine.store.store import Store
from recompact.values.outcome import BoundaryId


def audited_tilts(store: Store) -> dict[BoundaryId, Tilt]:
    """What an audit of the collected trajectories says about each boundary, before any draw of it."""
    worth = recorded_worth()
    tilts = {}
    for each in assess(audit_run(store)).ranked:
        observed = features(each)
        tilt = Tilt(worth.hazard_odds.ratio(observed), worth.burden_odds.ratio(observed))
        tilts[BoundaryId(each.session.member, each.compaction.ordinal)] = tilt
    return tilts
