"""Long texts and whole trajectories made short enough for an optimizer. Every cut leaves a mark in the text and is
counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recompact.values.chat import Message
from recompact.values.context import Turn, render_turn
from recompact.values.texts import SLACK, quantity
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Trajectory

LONG = 1600  # characters of one observation that are shown at first


@dataclass(frozen=True)
class Excerpt:
    """A text as it is shown, how often it was cut, and how many characters that left out."""

    text: str
    cuts: int = 0
    left_out: int = 0

    def counting(self, *others: Excerpt) -> Excerpt:
        """The same text with the cuts of others added to its own."""
        return Excerpt(
            self.text,
            self.cuts + sum(other.cuts for other in others),
            self.left_out + sum(other.left_out for other in others),
        )


def join_excerpts(separator: str, parts: Sequence[Excerpt]) -> Excerpt:
    return Excerpt(separator.join(part.text for part in parts)).counting(*parts)


def head_and_tail(text: str, limit: int | None) -> Excerpt:
    """The beginning and the end of a text, `limit` characters together; all of it where that is about as short.

    >>> head_and_tail("a" * 50 + "b" * 100 + "c" * 50, 20)
    Excerpt(text='aaaaaaaaaa [180 characters cut here] cccccccccc', cuts=1, left_out=180)
    """
    if limit is None or (more := len(text) - limit) < SLACK:
        return Excerpt(text)
    end = limit // 2
    return Excerpt(f"{text[: limit - end]} [{more} characters cut here] {text[len(text) - end :]}", 1, more)


def shown_turn(turn: Turn, long: int | None = LONG) -> Excerpt:
    """A turn as the compressor read it, with long observations cut."""
    shown = [head_and_tail(result.content, long) for result in turn.results]
    results = tuple(
        Message(r.role, excerpt.text, r.calls, r.call_id) for r, excerpt in zip(turn.results, shown, strict=True)
    )
    return Excerpt(render_turn(turn.message, results)).counting(*shown)


def shown_turns(turns: Sequence[Turn], budget: int, count: TokenCounter) -> Excerpt:
    """Turns in at most `budget` tokens: long observations are cut first, then the middle is left out."""
    excerpt = Excerpt("")
    for long in (LONG, LONG // 4, LONG // 16):
        excerpt = join_excerpts("\n\n", [shown_turn(turn, long) for turn in turns])
        if count(excerpt.text) <= budget:
            return excerpt
    return without_middle(excerpt.text, budget, count).counting(excerpt)


def without_middle(text: str, budget: int, count: TokenCounter) -> Excerpt:
    """The longest beginning and end that fit together; what went wrong is usually near one of them.

    >>> excerpt = without_middle("one\\ntwo\\nthree\\nfour\\nfive\\nsix\\nseven", 6, lambda text: len(text.split()))
    >>> print(excerpt.text)
    one
    [5 lines cut here]
    seven
    >>> excerpt.cuts, excerpt.left_out
    (1, 24)
    """
    if count(text) <= budget:
        return Excerpt(text)
    lines = [head_and_tail(line, LONG) for line in text.splitlines()]
    low, high = 0, len(lines)
    while low < high:
        middle = (low + high + 1) // 2
        if count(_around(lines, middle).text) <= budget:
            low = middle
        else:
            high = middle - 1
    return _around(lines, low)


def _around(lines: Sequence[Excerpt], kept: int) -> Excerpt:
    if kept >= len(lines):
        return join_excerpts("\n", lines)
    end = kept // 2
    first, middle, last = lines[: kept - end], lines[kept - end : len(lines) - end], lines[len(lines) - end :]
    # A line that was itself cut and is now left out counts with all its characters.
    cut_characters = sum(len(line.text) + 1 + line.left_out for line in middle)
    mark = Excerpt(f"[{quantity(len(middle), 'line')} cut here]", 1, cut_characters)
    return join_excerpts("\n", [*first, mark, *last])


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much of the room each gets, so that small ones stay whole and the large ones share what remains.

    >>> shares([10, 500, 700], 410)
    [10, 200, 200]
    """
    share = [0] * len(sizes)
    waiting = sorted(range(len(sizes)), key=lambda at: sizes[at])
    for position, at in enumerate(waiting):
        share[at] = max(0, min(sizes[at], room // (len(waiting) - position)))
        room -= share[at]
    return share


def block(tag: str, text: str, **attributes: object) -> str:
    """A text between tags."""
    shown = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f"<{tag}{shown}>\n{text}\n</{tag}>"


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
