"""Whole trajectories as text for an optimizer, within a limit in tokens.

The agent's prefix is never in it, whatever the scope: ACON shows its optimizer the task and the histories without the
system message.
"""

from __future__ import annotations

from recompact.adaptation.excerpts import Excerpt, block, shown_turns, without_middle
from recompact.values.context import Turn
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Trajectory


def segments(trajectory: Trajectory) -> tuple[tuple[Turn, ...], ...]:
    """The turns by compaction: what each one consumed, then what came after the last.

    The turn that a compaction leaves verbatim belongs to what comes after it: its summary did not have to keep it.
    """
    consumed = [boundary.pre.before_last().turns for boundary in trajectory.boundaries]
    rest = trajectory.boundaries[-1].step - 1 if trajectory.boundaries else 0
    return (*consumed, trajectory.turns[rest:])


def summaries(trajectory: Trajectory) -> tuple[str, ...]:
    """What each compaction wrote."""
    return tuple(b.post.summary.text if b.post.summary else "" for b in trajectory.boundaries)


def in_segments(trajectory: Trajectory, budget: int, count: TokenCounter) -> Excerpt:
    """A trajectory under compaction: its segments with the summaries between them, whole as long as they fit."""
    written, parts = summaries(trajectory), segments(trajectory)
    share = max(0, budget - sum(count(text) for text in written)) // len(parts)
    out, shown = [], []
    for number, turns in enumerate(parts, 1):
        excerpt = shown_turns(turns, share, count)
        shown.append(excerpt)
        out.append(block("segment", excerpt.text, number=number))
        if number <= len(written):
            out.append(block("summary", written[number - 1], number=number))
    text = "\n".join(out)
    # The shares do not count the tags between the parts; cut the middle only where the excess is not just the tags.
    fits = count(text) <= budget + 20 * len(out)
    return (Excerpt(text) if fits else without_middle(text, budget, count)).counting(*shown)
