"""The one place that decides which compactions did harm: `judge` works verdicts out, `verify` stores them, and
`read_verdicts` gives them to everybody else."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

from recompact.attribution.allocation import Allocation, Judgement, judged_outcomes
from recompact.attribution.effects import effect_of, equal_draws
from recompact.attribution.prior import LearnedPriors, learn_priors
from recompact.attribution.records import (
    Purpose,
    copied_arms,
    fresh_summaries,
    further_outcomes,
    outcomes_in,
    settings_of,
)
from recompact.attribution.registry import allocation_of
from recompact.engine.config import VerifyConfig
from recompact.engine.store.records import NONE_FAILED, FailedCompactions
from recompact.engine.store.runs import boundary_rows, failed_compactions
from recompact.engine.store.store import Store
from recompact.engine.store.verdicts import (
    Kind,
    Reason,
    Verdict,
    digest_of_records,
    has_verdicts,
    stored_verdicts,
    write_verdicts,
)
from recompact.values.chat import canonical
from recompact.values.outcome import ARMS, BoundaryId, CopiedArms, Effect, Outcomes, without_copies
from recompact.version import __version__


@dataclass(frozen=True)
class Verification:
    """What a verification came to: a verdict on every boundary, the most harmful first. `settled` tells whether the
    allocation has all the draws that it asks for; until then nothing is retained."""

    settings: VerifyConfig
    settled: bool
    verdicts: tuple[Verdict, ...]
    failed: FailedCompactions = NONE_FAILED  # compactions that would have been boundaries

    @property
    def retained(self) -> tuple[Verdict, ...]:
        """The harmful ones, as the allocation judges, the worst first."""
        return tuple(verdict for verdict in self.verdicts if verdict.retained)

    @property
    def examined(self) -> tuple[Verdict, ...]:
        """Those with draws in both arms."""
        return tuple(verdict for verdict in self.verdicts if verdict.effect is not None)

    @property
    def most_harmful(self) -> tuple[Verdict, ...]:
        """The harmful ones; where there is none, those that look harmful but were not retained."""
        return self.retained or tuple(verdict for verdict in self.verdicts if verdict.kind == "suspected")

    @property
    def left_out(self) -> Mapping[BoundaryId, str]:
        """Why some boundaries could not be verified."""
        return {verdict.id: verdict.left_out for verdict in self.verdicts if verdict.left_out}

    @property
    def kinds(self) -> Mapping[Kind, int]:
        """How many verdicts there are of each kind."""
        return Counter(verdict.kind for verdict in self.verdicts)

    @cached_property
    def equal_draws(self) -> tuple[int, dict[BoundaryId, Outcomes]]:
        """How many draws every boundary has in each arm, and those draws; what was left out does not count."""
        return equal_draws({verdict.id: verdict.outcomes for verdict in self.verdicts if not verdict.left_out})

    def of(self, boundary: BoundaryId) -> Verdict:
        """The verdict on one boundary."""
        return next(verdict for verdict in self.verdicts if verdict.id == boundary)

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self.settings),
            "settled": self.settled,
            "failed_compactions": asdict(self.failed),
            "boundaries": [verdict.to_json() for verdict in self.verdicts],
        }


def read_verdicts(store: Store, settings: VerifyConfig | None = None) -> Verification:
    """The verdicts of a run by these settings, or by those of its last verification.

    They are those that `verify` stored, where it has: a run whose draws have changed since, or that is judged by other
    settings, is judged anew.
    """
    settings = settings or settings_of(store)
    if (key := stored_key(store, settings)) is None:
        return judge(store, settings)
    return Verification(settings, True, stored_verdicts(store, key), failed_compactions(store))


def stored_key(store: Store, settings: VerifyConfig | None = None) -> bytes | None:
    """The key of the verdicts that a run has stored by these settings; None where it has none, or its draws have
    changed since."""
    key = settings_key(store, settings or settings_of(store))
    return key if has_verdicts(store, key) else None


def store_verdicts(store: Store, settings: VerifyConfig) -> Verification:
    """Judge a run whose draws are complete, and keep the verdicts in it."""
    verification = judge(store, settings)
    if verification.settled:
        write_verdicts(store, settings_key(store, settings), digest_of_records(store), verification.verdicts)
    return verification


def settings_key(store: Store, settings: VerifyConfig) -> bytes:
    """A hash of everything besides records that decides verdicts. Another version of Recompact may judge otherwise."""
    metadata = store.metadata
    decides = {
        "verify": {**asdict(settings), "hazard": float(settings.hazard), "burden": float(settings.burden)},
        "run": dict(metadata.identity.get("run", {})),
        "temperature": metadata.identity.get("agent", {}).get("temperature"),
        "skipped": list(metadata.skipped),
        "version": __version__,
    }
    return hashlib.sha256(canonical(decides).encode()).digest()


def judge(store: Store, settings: VerifyConfig, allocation: Allocation | None = None) -> Verification:
    """Work out the verdicts of a run, by the allocation of the settings if no other is given."""
    now = outcomes_in(store)
    allocation = allocation or allocation_of(store, settings)
    settled = not allocation.due(now.outcomes)
    copied = copied_arms(store)
    judgements = allocation.judge(now.outcomes, copied) if settled else {}
    judged = judged_outcomes(allocation, now.outcomes, copied)
    priors = learn_priors(judged)
    fresh, copied_pairs = _further_judged(store, "confirm")
    summaries, copied_summaries = _further_judged(store, "resample")
    all_copied = copied | copied_pairs | copied_summaries
    wordings = fresh_summaries(store)
    thresholds = settings.thresholds
    verdicts = []
    for row in boundary_rows(store):
        id = row.id
        outcomes = judged.get(id, Outcomes())
        remaining = store.metadata.step_limit - row.step
        estimate = partial(effect_of, thresholds=thresholds, remaining=remaining, prior=priors.of(id))
        confirming = fresh.get(id, Outcomes())
        effect = estimate(outcomes)
        verdict = Verdict(
            id,
            row,
            "left out" if id in now.left_out else _reason(effect, judgements.get(id)),
            outcomes,
            effect,
            now.left_out.get(id, ""),
            confirmed=estimate(confirming),
            resampled=estimate(Outcomes(confirming.pre or outcomes.pre, summaries.get(id, Outcomes()).post)),
            wordings=wordings.get(id, 0),
            copies=any((id, arm) in all_copied for arm in ARMS),
            copied_summaries=(id, "POST") in copied_summaries,
        )
        verdicts.append(verdict)
    return Verification(settings, settled, tuple(sorted(verdicts, key=_rank)), failed_compactions(store))


def _reason(effect: Effect | None, judgement: Judgement | None) -> Reason:
    """Why a boundary is judged as it is; there is no judgement while draws are missing."""
    if effect is None:
        return "no draws"
    return judgement or ("harmful so far" if effect.selected else "unfinished")


def _further_judged(store: Store, purpose: Purpose) -> tuple[Mapping[BoundaryId, Outcomes], CopiedArms]:
    """The draws beside the verification that effects are estimated from, and the arms of which only one copy stays."""
    copied = copied_arms(store, purpose)
    return without_copies(further_outcomes(store, purpose), copied), copied


def priors_of(store: Store, settings: VerifyConfig) -> LearnedPriors:
    """What a run teaches about its compactions; its verdicts, and whatever is compared with them, are judged by it."""
    return learn_priors(
        judged_outcomes(allocation_of(store, settings), outcomes_in(store).outcomes, copied_arms(store))
    )


def _rank(verdict: Verdict) -> tuple[int, bool, float, BoundaryId]:
    """Retained ones first, then by harm; what has no verdict comes last."""
    if verdict.effect is None:
        return 1, False, 0.0, verdict.id
    return 0, not verdict.retained, -verdict.effect.score, verdict.id
