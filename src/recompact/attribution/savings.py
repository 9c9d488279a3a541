"""What an allocation saved: tokens by phase next to those of the same number of draws for every boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from recompact.values.outcome import ARMS, BoundaryId, Outcomes
from recompact.values.texts import quantity


@dataclass(frozen=True)
class TokenReport:
    """Tokens by phase, and what verification would have cost with the same number of draws for every boundary."""

    draws: int  # in each arm of every boundary, to compare with
    by_phase: Mapping[str, int]
    continuations: int
    uniform_continuations: int
    uniform_tokens: int  # verification alone; estimated from the mean draw of each boundary and arm
    saved_continuations: float  # shares
    saved_verification: float
    saved_total: float

    @property
    def statement(self) -> str:
        """What the verification took compared with as many pairs for every boundary; it can take more."""
        if not self.continuations:
            return "There are no continuations yet."
        rest = self.uniform_continuations - self.continuations
        beside = (
            f"{quantity(self.continuations, 'continuation')}; {quantity(self.draws, 'pair')} for every boundary would"
            f" be {self.uniform_continuations:,}"
        )
        if rest <= 0:
            return f"{beside}: nothing was saved." if rest else f"{beside}, the same."
        tokens = f", {self.saved_verification:.0%} of the tokens of verification saved" * (self.saved_verification > 0)
        return f"{beside}: {self.saved_continuations:.0%} fewer{tokens}."


def token_report(
    outcomes: Mapping[BoundaryId, Outcomes], phases: Mapping[str, int] | None = None, draws: int = 3
) -> TokenReport:
    """`outcomes` are those of real continuations; `phases` has the tokens of everything else (collect, adapt …)."""
    tokens = [o.tokens for each in outcomes.values() for arm in ARMS for o in each.of(arm).values()]
    verify = sum(tokens)
    others = sum((phases or {}).values())
    uniform = draws * sum(_mean_tokens(outcomes).values())
    planned = 2 * draws * len(outcomes)
    return TokenReport(
        draws=draws,
        by_phase={**(phases or {}), "verify": verify},
        continuations=len(tokens),
        uniform_continuations=planned,
        uniform_tokens=round(uniform),
        saved_continuations=_saved_share(len(tokens), planned),
        saved_verification=_saved_share(verify, uniform),
        saved_total=_saved_share(others + verify, others + uniform),
    )


def _saved_share(spent: float, planned: float) -> float:
    return 1 - spent / planned if planned else 0.0


def _mean_tokens(outcomes: Mapping[BoundaryId, Outcomes]) -> dict[tuple[BoundaryId, str], float]:
    """Tokens of a draw by boundary and arm; the mean of the arm where a boundary has none."""
    means: dict[tuple[BoundaryId, str], float] = {}
    for arm in ARMS:
        everything = [o.tokens for each in outcomes.values() for o in each.of(arm).values()]
        overall = fmean(everything) if everything else 0.0
        for boundary, each in outcomes.items():
            own = [o.tokens for o in each.of(arm).values()]
            means[boundary, arm] = fmean(own) if own else overall
    return means
