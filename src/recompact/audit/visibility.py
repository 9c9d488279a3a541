"""Which events of a session the model could still see at a given point."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

FOREVER = 1 << 62


@dataclass(frozen=True)
class Visible:
    """Event numbers, as intervals in order: each from its first number up to, but not including, its second."""

    starts: tuple[int, ...] = (0,)
    ends: tuple[int, ...] = (FOREVER,)

    def holds(self, number: int) -> bool:
        place = bisect_right(self.starts, number) - 1
        return place >= 0 and number < self.ends[place]

    def holds_call(self, number: int, result: int) -> bool:
        """Whether a call is visible, with its result if it has one (which is -1 if not)."""
        return self.holds(number) and (result < 0 or self.holds(result))

    def until(self, end: int) -> Visible:
        """Only what comes before this number. Branches that were abandoned leave many intervals, so they are sliced."""
        place = bisect_left(self.starts, end)
        starts, ends = self.starts[:place], self.ends[:place]
        return Visible(starts, (*ends[:-1], end) if ends and ends[-1] > end else ends)

    def since(self, start: int) -> Visible:
        """Only what comes from this number on."""
        return intervals((max(a, start), b) for a, b in zip(self.starts, self.ends, strict=True))

    def without(self, numbers: Iterable[int]) -> Visible:
        pieces = []
        removed_numbers = sorted(set(numbers))
        for start, end in zip(self.starts, self.ends, strict=True):
            for number in removed_numbers[
                bisect_right(removed_numbers, start - 1) : bisect_right(removed_numbers, end - 1)
            ]:
                pieces.append((start, number))
                start = number + 1
            pieces.append((start, end))
        return intervals(pieces)

    def including(self, numbers: Iterable[int]) -> Visible:
        """With these numbers."""
        return intervals([*zip(self.starts, self.ends, strict=True), *((number, number + 1) for number in numbers)])

    def onwards(self, start: int) -> Visible:
        """With everything from this number on."""
        before = self.until(start)
        if before.ends and before.ends[-1] == start:
            return Visible(before.starts, (*before.ends[:-1], FOREVER))
        return Visible((*before.starts, start), (*before.ends, FOREVER))

    def after_rewinds(self, rewinds: Iterable[tuple[int, int]]) -> Visible:
        """`until` the first number of each and `onwards` from the second, in turn, in time linear in their number."""
        starts, ends = list(self.starts), list(self.ends)
        for end, since in rewinds:
            while starts and starts[-1] >= end:
                del starts[-1], ends[-1]
            if ends:
                ends[-1] = min(ends[-1], end)
            if ends and ends[-1] == since:
                ends[-1] = FOREVER
            else:
                starts.append(since)
                ends.append(FOREVER)
        return Visible(tuple(starts), tuple(ends))


def intervals(pieces: Iterable[tuple[int, int]]) -> Visible:
    """Intervals brought into order; touching ones are joined, empty ones left out.

    >>> intervals([(5, 9), (0, 0), (2, 5)])
    Visible(starts=(2,), ends=(9,))
    """
    starts: list[int] = []
    ends: list[int] = []
    for start, end in sorted(pieces):
        if start >= end:
            continue
        if ends and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            starts.append(start)
            ends.append(end)
    return Visible(tuple(starts), tuple(ends))


def visible_numbers(numbers: Iterable[int]) -> Visible:
    """Exactly these numbers."""
    return intervals((number, number + 1) for number in numbers)
