"""The findings of a run: each boundary with its effect, its intervals, and whether it was retained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from recompact.attribution.allocation import judged_outcomes
from recompact.attribution.determinism import copied_arms
from recompact.attribution.effects import Effect, effect_of
from recompact.attribution.further_records import Purpose, fresh_summaries, further_outcomes
from recompact.attribution.posterior import Thresholds
from recompact.attribution.prior import LearnedPriors, learn_priors
from recompact.attribution.registry import allocation_of
from recompact.attribution.verify import outcomes_in, settings_of
from recompact.engine.config import VerifyConfig
from recompact.engine.store.failed_compactions import NONE_FAILED, FailedCompactions
from recompact.engine.store.runs import BoundaryRow, boundary_rows, failed_compactions, trajectories
from recompact.engine.store.store import Store
from recompact.values.outcome import ARMS, BoundaryId, CopiedArms, Outcomes, without_copies


@dataclass(frozen=True)
class Finding:
    """One boundary. `effect` is None where an arm has no draw, and `left_out` says why a boundary has no verdict."""

    id: BoundaryId
    row: BoundaryRow
    outcomes: Outcomes
    effect: Effect | None
    retained: bool = False
    left_out: str = ""
    confirmed: Effect | None = None  # of fresh pairs alone, which had no part in retaining it
    resampled: Effect | None = None  # of the prompt: each POST draw has its own summary
    wordings: int = 0  # how many different summaries those draws have
    copies: bool = False  # the draws of an arm are copies of each other and count as one
    copied_summaries: bool = False  # those with fresh summaries are: all had the same words

    @property
    def reported_effect(self) -> Effect | None:
        """The effect to show: that of the fresh pairs where there are any, since selection inflates numbers."""
        return self.confirmed or self.effect

    def to_json(self) -> dict[str, Any]:
        return {
            "boundary": str(self.id),
            **self.flat(),
            "left_out": self.left_out,
            "confirmed": self.confirmed and self.confirmed.to_json(),
            "resampled": self.resampled and self.resampled.to_json(),
            "wordings": self.wordings,
            "copies": self.copies,
        }

    def flat(self) -> dict[str, Any]:
        """As one row of a table; a cell without a value is None."""
        effect = self.effect
        return {
            "task": self.row.task,
            "t": self.row.index,
            "step": self.row.step,
            "pre_tokens": self.row.pre_tokens,
            "post_tokens": self.row.post_tokens,
            **effect_numbers(effect),
            "probability": effect and effect.harmful,
            "score": effect and effect.score,
            "channel": effect and effect.channel,
            "pre_draws": len(self.outcomes.pre),
            "post_draws": len(self.outcomes.post),
            "retained": self.retained,
        }


def effect_numbers(effect: Effect | None, prefix: str = "") -> dict[str, Any]:
    """H and B with their intervals, as cells of a row; None where there is no effect."""
    values: dict[str, Any] = {
        "H": effect and effect.hazard,
        "H_low": effect and effect.hazard_estimate.low,
        "H_high": effect and effect.hazard_estimate.high,
        "B": effect and effect.burden,
        "B_low": effect and effect.burden_estimate.low,
        "B_high": effect and effect.burden_estimate.high,
    }
    return {f"{prefix}{name}": value for name, value in values.items()}


@dataclass(frozen=True)
class Findings:
    """All boundaries of a run, most harmful first. `settled` tells whether the allocation has all it asks for."""

    settings: VerifyConfig
    settled: bool
    boundaries: tuple[Finding, ...]
    failed: FailedCompactions = NONE_FAILED  # compactions that would have been boundaries

    def to_json(self) -> dict[str, Any]:
        return {
            **asdict(self.settings),
            "settled": self.settled,
            "failed_compactions": asdict(self.failed),
            "boundaries": [finding.to_json() for finding in self.boundaries],
        }


def findings(store: Store, settings: VerifyConfig | None = None) -> Findings:
    """The findings of a run, judged by these settings or by those of its last verification."""
    settings = settings or settings_of(store)
    now = outcomes_in(store)
    allocation = allocation_of(store, settings)
    settled = not allocation.due(now.outcomes)
    copied = copied_arms(store)
    retained = set(allocation.retained(now.outcomes, copied)) if settled else set()
    judged = judged_outcomes(allocation, now.outcomes, copied)
    priors = learn_priors(judged)
    fresh, copied_pairs = _further_judged(store, "confirm")
    summaries, copied_summaries = _further_judged(store, "resample")
    all_copied = copied | copied_pairs | copied_summaries
    wordings = fresh_summaries(store)
    thresholds = Thresholds(settings.hazard, settings.burden)
    boundaries = []
    for row in boundary_rows(store):
        id = BoundaryId(row.unit, row.index)
        outcomes = judged.get(id, Outcomes())
        prior = allocation.prior(priors.of(id), id)
        effect = partial(effect_of, thresholds=thresholds, remaining=store.metadata.step_limit - row.step, prior=prior)
        confirming = fresh.get(id, Outcomes())
        own_summaries = Outcomes(confirming.pre or outcomes.pre, summaries.get(id, Outcomes()).post)
        finding = Finding(
            id,
            row,
            outcomes,
            effect(outcomes),
            id in retained,
            now.left_out.get(id, ""),
            confirmed=effect(confirming),
            resampled=effect(own_summaries),
            wordings=wordings.get(id, 0),
            copies=any((id, arm) in all_copied for arm in ARMS),
            copied_summaries=(id, "POST") in copied_summaries,
        )
        boundaries.append(finding)
    failed = failed_compactions(store, trajectories(store))
    return Findings(settings, settled, tuple(sorted(boundaries, key=_rank)), failed)


def _further_judged(store: Store, purpose: Purpose) -> tuple[Mapping[BoundaryId, Outcomes], CopiedArms]:
    """The draws beside the verification that effects are estimated from, and the arms of which only one copy stays."""
    copied = copied_arms(store, purpose)
    return without_copies(further_outcomes(store, purpose), copied), copied


def priors_of(store: Store, settings: VerifyConfig) -> LearnedPriors:
    """What a run teaches about its compactions; its findings, and whatever is compared with them, are judged by it."""
    return learn_priors(
        judged_outcomes(allocation_of(store, settings), outcomes_in(store).outcomes, copied_arms(store))
    )


def _rank(finding: Finding) -> tuple[int, bool, float, BoundaryId]:
    """Retained ones first, then by harm; what has no verdict comes last."""
    if finding.effect is None:
        return 1, False, 0.0, finding.id
    return 0, not finding.retained, -finding.effect.score, finding.id


def by_id(all_findings: Findings) -> Mapping[BoundaryId, Finding]:
    return {finding.id: finding for finding in all_findings.boundaries}
