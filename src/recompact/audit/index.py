"""What a call's result repeats: for each result, from which earlier one its lines were last known.

The last place of a line answers every question about it at once. At any boundary, real or placebo, it was dropped,
kept, or has been seen since. So one pass over a session serves all boundaries, and no text has to be held.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from recompact.audit.deeds import ASIDE, READING, Deed
from recompact.audit.shell import END, Range

SHORTEST = 25  # characters of a line that is worth recognising
LONGEST = 300  # characters of a line that count
GENERATION = 400_000  # lines; two generations hold several times what any context window does
PLACES = 8  # earlier reads of one path that are remembered

_NUMBERED = re.compile(r"^[ \t]*\d+(?:→|\t|: |\| ?)", re.MULTILINE)
_LOCATED = re.compile(r"^[^\s:]{1,300}:\d+[:-]", re.MULTILINE)
_MARKS = ("error", "exception", "failed", "fatal", "not found", "no such", "cannot", "denied", "undefined", "panic")
_ERROR = re.compile(
    r"\b(?:\w*(?:error|exception)|failed|fatal|not found|no such|cannot|can't|denied|undefined|panic\w*)\b", re.IGNORECASE
)
_DIGITS = re.compile(r"\d+")


def lines(text: str) -> set[str]:
    """The lines of a result without indentation, line numbers and `path:12:` prefixes.

    >>> sorted(lines("  12→    return value_of_the_thing\\n  13→}"))
    ['return value_of_the_thing', '}']
    """
    head = text[:400]
    if _NUMBERED.search(head):
        text = _NUMBERED.sub("", text)
    elif ":" in head and _LOCATED.search(head):
        text = _LOCATED.sub("", text)
    return set(map(str.strip, text.split("\n")))


def error_lines(text: str, failed: bool | None) -> Iterator[str]:
    """Lines of a command's output that tell of an error, with digits made equal."""
    low = text.lower()
    if failed is not True and not any(mark in low for mark in _MARKS):
        return
    found = False
    for line in text.split("\n"):
        if len(line) < 2_000 and _ERROR.search(line):
            found = True
            yield _DIGITS.sub("#", line.strip())
    if failed is True and not found and text.strip():
        yield _DIGITS.sub("#", text.strip().rsplit("\n", 1)[-1][:LONGEST].strip())


class LineIndex:
    """Where each line was last seen. Old lines are forgotten by the generation, so that memory stays bounded."""

    def __init__(self) -> None:
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def add(self, text: str, number: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """Take in a result: (earlier result, characters last seen there) for each, and all characters that count."""
        young, old = self._young, self._old
        origins: dict[int, int] = defaultdict(int)
        total = 0
        for line in lines(text):
            length = len(line)
            if length < SHORTEST:
                continue
            if length > LONGEST:
                line, length = line[:LONGEST], LONGEST
            mark = hash(line)
            place = young.get(mark)
            if place is None and old:
                place = old.get(mark)
            young[mark] = number
            total += length
            if place is not None:
                origins[place] += length
        if len(young) > GENERATION:
            self._young, self._old = {}, young
        return tuple(origins.items()), total


class ReadIndex:
    """Which lines of which file were last read where."""

    def __init__(self) -> None:
        self._reads: dict[str, list[tuple[int, int, int]]] = {}

    def add(self, reads: tuple[Range, ...], number: int) -> tuple[tuple[Range, int], ...]:
        """Take in what a call read: each range that was read before, with the latest result that overlaps it."""
        again = []
        for wanted in reads:
            places = self._reads.setdefault(wanted.path, [])
            for place, first, last in reversed(places):
                if place != number and _overlap(wanted, first, last):
                    again.append((wanted, place))
                    break
            places.append((number, wanted.first, wanted.last))
            del places[:-PLACES]
        return tuple(again)


def _overlap(wanted: Range, first: int, last: int) -> bool:
    """Whether two ranges share at least half of the smaller one."""
    shared = min(wanted.last, last) - max(wanted.first, first) + 1
    return 2 * shared >= min(wanted.last - wanted.first, last - first) + 1 and shared > 0 and last <= END


class FailureIndex:
    """Errors that were met, and by which command."""

    LIMIT = 300_000

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._by: dict[tuple[int, int], int] = {}

    def add(self, deed: Deed, text: str, failed: bool | None, number: int) -> tuple[int, str, int] | None:
        """Take in a result: where its error was last met, the error, and where this very command first met it."""
        if deed.kind in READING or deed.kind in ASIDE or deed.kind == "edit":
            return None
        again: tuple[int, str, int] | None = None
        key = hash(deed.key)
        for line in set(error_lines(text, failed)):
            mark = hash(line)
            first = self._by.setdefault((key, mark), number)
            last = self._last.get(mark, -1)
            self._last[mark] = number
            if first != number and (again is None or last > again[0]):
                # The latest of its errors counts: while any of them is in sight, the agent was told.
                again = (last, line, first)
        if len(self._by) > self.LIMIT:
            self._by.clear()
        return again
