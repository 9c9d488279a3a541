"""Which boundaries of a run are retained: the verdict of its allocation, in which copies count as one draw.

Racing judges by probability, and what is printed is the same probability. Copies (temperature 0) must then not count
as evidence again and again, though they have been drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recompact.attribution.allocation import Allocation
from recompact.attribution.allocation_parser import outcomes_seen_by
from recompact.attribution.chained import without_chaining
from recompact.attribution.determinism import CopiedArms, without_copies
from recompact.attribution.prior import LearnedPriors, learn_priors
from recompact.attribution.racing import Racing
from recompact.values.outcome import BoundaryId, Outcomes


def judged_outcomes(
    allocation: Allocation, outcomes: Mapping[BoundaryId, Outcomes], copied: CopiedArms
) -> Mapping[BoundaryId, Outcomes]:
    """The outcomes that effects are estimated from: with chained draws where the allocation chains, without copies."""
    return without_copies(outcomes_seen_by(allocation, outcomes), copied)


def retained_by(
    allocation: Allocation,
    outcomes: Mapping[BoundaryId, Outcomes],
    copied: CopiedArms,
    priors: LearnedPriors | None = None,
) -> Sequence[BoundaryId]:
    """What the allocation retains, most harmful first, once nothing is due any more.

    Racing judges by these priors, or by those that the outcomes themselves teach. A control must be given those of the
    verification that it is a control of: by its own, which know no harm, it would retain less than that does by chance.
    """
    inner = without_chaining(allocation)
    if not isinstance(inner, Racing):
        return allocation.retained(outcomes)
    judged = judged_outcomes(allocation, outcomes, copied)
    # Whether a race is over is a question of the draws that were made, copies or not.
    over = {id: judged[id] for id, own in outcomes_seen_by(allocation, outcomes).items() if inner.is_over(id, own)}
    return inner.judge(over, priors or learn_priors(judged))
