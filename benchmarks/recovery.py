"""How much of what compaction cost does an adapted prompt win back, and is that at least half?

The question is put as a difference, not as a ratio: where the loss itself is near zero, a ratio has no interval worth
the name.
"""

from __future__ import annotations

from dataclasses import dataclass

from recompact.evaluation.arm_runs import ArmRuns, Common, common
from recompact.evaluation.metrics import per_task
from recompact.values.stats import RESAMPLES, Estimate, bootstrap


@dataclass(frozen=True)
class Recovery:
    """`lost`: none minus prompting. `won`: adapted minus prompting. `beyond_half`: won minus half of lost."""

    lost: Estimate
    won: Estimate
    beyond_half: Estimate

    @property
    def share(self) -> float | None:
        """Won in proportion to lost; None where nothing was lost that could be won back."""
        return self.won.value / self.lost.value if self.lost.value > 0 else None

    @property
    def at_least_half(self) -> bool:
        """Even the low end of the interval lies beyond half of the loss."""
        return self.beyond_half.low > 0

    @property
    def words(self) -> str:
        """
        >>> Recovery(Estimate(0.05, 0.01, 0.09), Estimate(0.08, 0.04, 0.12), Estimate(0.055, 0.03, 0.08)).words
        'lost 5.0 points, won back 8.0 (160 %); beyond half of the loss: +5.5 points, 95 % interval +3.0 to +8.0'
        """
        share = f" ({100 * self.share:.0f} %)" if self.share is not None else ""
        doubt = "" if self.lost.low > 0 else f" (interval {100 * self.lost.low:+.1f} to {100 * self.lost.high:+.1f})"
        half = self.beyond_half
        return (
            f"lost {100 * self.lost.value:.1f} points{doubt}, won back {100 * self.won.value:.1f}{share};"
            f" beyond half of the loss: {100 * half.value:+.1f} points,"
            f" 95 % interval {100 * half.low:+.1f} to {100 * half.high:+.1f}"
        )


def recovery(
    none: ArmRuns,
    prompting: ArmRuns,
    adapted: ArmRuns,
    shared: Common | None = None,
    *,
    metric: str = "acc",
    resamples: int = RESAMPLES,
) -> Recovery:
    """What an adapted prompt recovers, over the tasks that all three arms have done."""
    shared = shared or common([none, prompting, adapted])
    full, before, after = (
        per_task(arm, shared.tasks, shared.runs, "own counter")[metric] for arm in (none, prompting, adapted)
    )
    lost = [x - y for x, y in zip(full, before, strict=True)]
    won = [x - y for x, y in zip(after, before, strict=True)]
    beyond = [x - y / 2 for x, y in zip(won, lost, strict=True)]
    return Recovery(*bootstrap([lost, won, beyond], resamples))
