"""What a call's result repeats: for each result, which earlier one last showed its lines.

The last place of a line answers every question about it at once. At any boundary, real or placebo, it was dropped,
kept, or has been seen since. So one pass over a session serves all boundaries, and no text has to be held.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

from recompact.audit.noise import is_wrapper
from recompact.audit.visibility import Visible
from recompact.values.call_effects import ASIDE, READING, CallEffect
from recompact.values.shell import END, Range

SHORTEST = 25  # characters of a line that is worth recognising
LONGEST = 300  # characters of a line that are kept; of a longer one also a digest
LIMIT = 500_000  # lines after which the older half is forgotten: several times what any context window holds
STRETCH = 30_000  # lines above which it is worth forgetting what is no longer visible
PLACES = 8  # earlier reads of one path that are remembered

_NUMBERED = re.compile(r"^[ \t]*\d+(→|\t|: |\| )", re.MULTILINE)
_LOCATED = re.compile(r"^[^\s:]{1,300}:\d+[:-]", re.MULTILINE)
_MARKS = (
    "error",
    "exception",
    "fail",
    "fatal",
    "not found",
    "no such",
    "cannot",
    "denied",
    "panic",
    "err!",
    "unable",
    "refused",
)
_ERROR = re.compile(
    r"(?<!new )\b\w{0,60}(?:Error|Exception)\b ?[:(\[]"
    r"|^.{0,40}?\b(?:error|fatal|panic|failed|failure)\b ?[:\]!\[(]"
    r"|\bcommand not found\b|\bno such file or directory\b|\bpermission denied\b|\bcannot find (?:module|package)\b"
    r"|\bis not recognized as\b|\bconnection refused\b|\bcould not (?:find|resolve|connect)\b|\bundefined reference\b"
    r"|\bno module named\b|\bERR!|\bunable to \w+",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_WORDS = re.compile(r"[^\W\d_]+")


def lines(text: str) -> list[str]:
    """The lines of a result without line numbers and `path:12:` prefixes.

    >>> lines("  12→    return value_of_the_first_thing\\n  13→}")
    ['    return value_of_the_first_thing', '}']
    """
    head = text[:400]
    if match := _NUMBERED.search(head):
        mark = match[1]
        return [line.partition(mark)[2] or line for line in text.split("\n")]
    if ":" in head and _LOCATED.search(head):
        text = _LOCATED.sub("", text)
    return text.split("\n")


def error_lines(text: str, failed: bool | None) -> Iterator[str]:
    """Lines of a command's output that report an error, with each number as `#`: none where the command succeeded.

    >>> list(error_lines("line 12\\nValueError: 12 is odd", None))
    ['ValueError: # is odd']
    """
    if failed is False:
        return
    low = text.lower()
    has_error_line = False
    if any(mark in low for mark in _MARKS):
        for line in dict.fromkeys(text.split("\n")):
            line = line.strip()[:LONGEST]
            if _ERROR.search(line):
                has_error_line = True
                yield _DIGITS.sub("#", line)
    if failed is True and not has_error_line and text.strip():
        yield _DIGITS.sub("#", text.strip().rsplit("\n", 1)[-1][:LONGEST].strip())


class LineIndex:
    """Where each line was last seen. What no boundary can ask for any more is forgotten, so memory stays bounded."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def compacted(self, before: Visible) -> None:
        """A compaction: what was invisible right before it is not asked for again."""
        places = self._places
        if len(places) > STRETCH:
            alive = {number for number in set(places.values()) if before.holds(number)}
            self._places = {line: number for line, number in places.items() if number in alive}

    def add(self, text: str, number: int) -> tuple[tuple[int, int], ...]:
        """Take in a result: (earlier result, characters last seen there) for each. A line counts once, and in full."""
        places = self._places
        # Whole dictionaries, not line by line: this is where an audit spends its time.
        own = dict.fromkeys([line for line in map(str.strip, lines(text)) if len(line) >= SHORTEST], number)
        sizes = {_digest(line): len(line) for line in own if len(line) > LONGEST}
        if sizes:
            own = dict.fromkeys([line if len(line) <= LONGEST else _digest(line) for line in own], number)
        origins: dict[int, int] = defaultdict(int)
        for line in own.keys() & places.keys():
            if is_wrapper(line):
                continue
            origins[places[line]] += sizes.get(line, len(line))
        places.update(own)
        if len(places) > LIMIT:
            middle = sorted(places.values())[LIMIT // 2]
            self._places = {line: number for line, number in places.items() if number > middle}
        return tuple(sorted(origins.items()))


def _digest(line: str) -> str:
    """What stands for a long line: equal only if all of it is."""
    return f"{line[:LONGEST]}{hash(line)}"


class RepeatedRead(NamedTuple):
    """A range that was read again: what is read now, the result that showed it last, and what that one had read."""

    range: Range
    place: int
    earlier: Range


class ReadIndex:
    """Which lines of which file were last read where."""

    def __init__(self) -> None:
        self._reads: dict[str, list[tuple[int, int, int]]] = {}

    def add(self, reads: tuple[Range, ...], number: int) -> tuple[RepeatedRead, ...]:
        """Take in what a call read: each range that was read before, with the latest result that overlaps it."""
        again = []
        for wanted in reads:
            places = self._reads.setdefault(wanted.path, [])
            for place, first, last in reversed(places):
                if place != number and _overlap(wanted, first, last):
                    again.append(RepeatedRead(wanted, place, Range(wanted.path, first, last)))
                    break
            places.append((number, wanted.first, wanted.last))
            del places[:-PLACES]
        return tuple(again)

    def forget(self, paths: tuple[str, ...]) -> None:
        """These files were changed: what was read of them is no longer what they hold."""
        for path in paths:
            self._reads.pop(path, None)


def _overlap(wanted: Range, first: int, last: int) -> bool:
    """Whether two ranges share at least half of the smaller one."""
    shared = min(wanted.last, last) - max(wanted.first, first) + 1
    return 2 * shared >= min(wanted.last - wanted.first, last - first) + 1 and shared > 0 and last <= END


class KnownFailure(NamedTuple):
    """A command hit an error that it had hit before."""

    last: int  # the latest result or summary that told of this error
    error: str
    line: int  # of the file, where this command first hit it


class FailureIndex:
    """Which errors were hit, and by which command."""

    LIMIT = 300_000
    SUMMARIES = 2  # one that a compaction wrote, and the one that it replaced

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._summaries: deque[tuple[int, str]] = deque(maxlen=self.SUMMARIES)
        self._by: dict[tuple[int, int], tuple[int, int]] = {}  # (line of the first time, edits by the last time)

    def add(
        self, effect: CallEffect, text: str, failed: bool | None, number: int, line: int, edits: int
    ) -> KnownFailure | None:
        """Take in a result; the latest of its errors counts: while any of them is in sight, the agent has been told.

        A command that fails again after an edit is work in progress, not a failure that was forgotten.
        """
        if effect.kind in READING or effect.kind in ASIDE or effect.kind == "edit":
            return None
        again: KnownFailure | None = None
        key = effect.key
        for error in set(error_lines(text, failed)):
            mark = hash(error)
            last = self._last.get(mark, -1)
            self._last[mark] = number
            first, edits_then = self._by.get((key, mark), (-1, -1))
            self._by[key, mark] = (first if first >= 0 else line, edits)
            if first >= 0 and edits_then == edits:
                last = max(last, self._latest_quote(error))
                if again is None or last > again.last:
                    again = KnownFailure(last, error, first)
        if len(self._by) > self.LIMIT:
            self._by.clear()
            self._last.clear()
        return again

    def take_summary(self, text: str, number: int) -> None:
        """Take in a summary: an agent that reads an error there has been told of it."""
        self._summaries.append((number, _wording(text)))

    def _latest_quote(self, error: str) -> int:
        """The latest summary that quotes an error; -1 if none does."""
        wording = _wording(error)
        return max((number for number, text in self._summaries if wording.strip() and wording in text), default=-1)


def _wording(text: str) -> str:
    """The words of a text, so that numbers, quotation marks and line breaks do not matter.

    >>> _wording("`ValueError`: 12 is\\nodd")
    ' valueerror is odd '
    """
    return f" {' '.join(_WORDS.findall(text.lower()))} "
