"""Placebo boundaries: points of a session at which nothing was compacted, measured as if something had been.

Agents read files twice without any compaction. What a compaction costs is what comes on top of that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from recompact.audit.measures import Horizon, Point, Scheme, Step, measure
from recompact.audit.visibility import Visible

EVERY = 5  # calls from one candidate to the next
MOST = 24  # points of one stretch between compactions; more would overlap and say nothing new
RELATIVE_HISTORY = 0.4  # of the smallest real history dropped in the session


def placebos(
    steps: Sequence[Step],
    visible_at: Callable[[int], Visible],
    *,
    earlier: Sequence[Step],
    kept: int,
    after_compaction: bool,
    before_compaction: bool,
    scheme: Scheme,
) -> Iterator[Point]:
    """The placebo points of one stretch between compactions.

    `earlier` calls, from before the stretch, were still visible at its start; a placebo keeps as many of the latest
    calls (`kept`) as the session's real compactions do.
    """
    first = scheme.guard if after_compaction else 0
    last = len(steps) - (scheme.guard if before_compaction else scheme.window)
    candidates: list[int] = []
    for place in range(first, min(last + 1, len(steps)), EVERY):
        while place > first and not steps[place].starts_batch:
            place -= 1  # not between the calls of one response
        if len(earlier) + place - kept >= scheme.history and place not in candidates[-1:]:
            candidates.append(place)
    thin = -(-len(candidates) // MOST) if candidates else 1
    behind = [*earlier, *steps]
    for place in candidates[::thin]:
        number = steps[place].number
        before = visible_at(number).until(number)
        tail = behind[len(earlier) + place - kept].number if kept else number
        after = before.since(tail).onwards(number)
        window = steps[place : place + scheme.window]
        values = measure(window, Horizon(number, before, after))
        if values:
            yield Point(values, len(earlier) + place - kept, steps[place].starts_turn)


def far_enough(points: Sequence[Point], smallest: int) -> list[Point]:
    """Points with enough history, relative to the least that a real compaction of the session dropped."""
    return [point for point in points if point.dropped >= RELATIVE_HISTORY * smallest]
