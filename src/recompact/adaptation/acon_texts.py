"""Whole trajectories as text for an optimizer, within a limit in tokens.

In go turns and a number of tokens, out comes a text that fits and says where something was cut: first long observations
are shortened, then the middle is left out. The agent's prefix is never in it, whatever the scope: ACON shows its
optimizer the task and the histories without the system message.
"""

from __future__ import annotations

from collections.abc import Sequence

from recompact.adaptation.evidence import LONG, MARK, shown_turn
from recompact.context import Turn
from recompact.tokens import TokenCounter
from recompact.trajectory import Trajectory


def shown_turns(turns: Sequence[Turn], budget: int, count: TokenCounter) -> str:
    """The turns as the compressor would read them, in at most so many tokens."""
    text = ""
    for long in (LONG, LONG // 4, LONG // 16):
        text = "\n\n".join(shown_turn(turn, long) for turn in turns)
        if count(text) <= budget:
            return text
    return without_middle(text, budget, count)


def without_middle(text: str, budget: int, count: TokenCounter) -> str:
    """The longest beginning and end that fit together; what went wrong usually stands near one of them.

    >>> print(without_middle("one\\ntwo\\nthree\\nfour\\nfive\\nsix\\nseven", 6, lambda text: len(text.split())))
    one
    [5 lines cut here]
    seven
    """
    if count(text) <= budget:
        return text
    lines = [line if len(line) <= LONG else line[:LONG] + MARK for line in text.splitlines()]
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if count(_around(lines, middle)) <= budget:
            low = middle
        else:
            high = middle - 1
    return _around(lines, low)


def _around(lines: Sequence[str], kept: int) -> str:
    if kept >= len(lines):
        return "\n".join(lines)
    end = kept // 2
    begin = kept - end
    return "\n".join([*lines[:begin], f"[{len(lines) - kept} lines cut here]", *lines[len(lines) - end :]])


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


def in_segments(trajectory: Trajectory, budget: int, count: TokenCounter) -> str:
    """A trajectory under compaction: its segments with the summaries between them, whole as long as they fit."""
    written, parts = summaries(trajectory), segments(trajectory)
    share = max(0, budget - sum(count(text) for text in written)) // len(parts)
    out = []
    for number, turns in enumerate(parts, 1):
        out.append(block("segment", shown_turns(turns, share, count), number=number))
        if number <= len(written):
            out.append(block("summary", written[number - 1], number=number))
    text = "\n".join(out)
    # The tags between the parts are not in the shares; leave the middle out only where that is not what is too much.
    return text if count(text) <= budget + 20 * len(out) else without_middle(text, budget, count)


def block(tag: str, text: str, **attributes: object) -> str:
    """A text between tags."""
    shown = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{shown}>\n{text}\n</{tag}>"
