"""What changed in a section of a compaction prompt, line by line and word by word.

Comes in: a section as it was and as it is. Goes out: lines with a sign, in pieces, of which those are marked that the
other side does not have. The terminal and the page show the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from recompact.template import SectionChange

Sign = Literal["+", "-", " "]


@dataclass(frozen=True)
class Line:
    """A line with its sign: new, gone, or the same. Each piece says whether it is what differs."""

    sign: Sign
    pieces: tuple[tuple[str, bool], ...]

    @property
    def text(self) -> str:
        return "".join(piece for piece, _ in self.pieces)


@dataclass(frozen=True)
class Changed:
    """One section: its heading, what happened to it in a word, and its lines."""

    heading: str
    what: str
    lines: tuple[Line, ...]


def changed(change: SectionChange) -> Changed:
    """A section's change in lines. The heading is said once and is not among them, unless it differs itself."""
    before, after = change.before or "", change.after or ""
    what = "added" if change.before is None else "removed" if change.after is None else "changed"
    if what == "changed" and before.split() == after.split():
        what = "changed in white space only"
    lines, others = before.splitlines(), after.splitlines()
    if change.heading and (not lines or not others or lines[0] == others[0]):
        lines, others = lines[1:], others[1:]
    return Changed(change.heading or "(before the first heading)", what, tuple(line_changes(lines, others)))


def line_changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Line]:
    """Two texts as one list of lines; where as many lines were taken as were put, words are compared.

    >>> [(line.sign, line.pieces) for line in line_changes(["keep all"], ["keep nothing"])]
    [('-', (('keep ', False), ('all', True))), ('+', (('keep ', False), ('nothing', True)))]
    """
    for kind, i, i_end, j, j_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (Line(" ", ((line, False),)) for line in before[i:i_end])
        elif i_end - i == j_end - j:
            for old, new in zip(before[i:i_end], after[j:j_end], strict=True):
                yield Line("-", _pieces(old, new))
                yield Line("+", _pieces(new, old))
        else:
            yield from (Line("-", ((line, False),)) for line in before[i:i_end])
            yield from (Line("+", ((line, False),)) for line in after[j:j_end])


def _pieces(line: str, other: str) -> tuple[tuple[str, bool], ...]:
    """A line in pieces: which of its words the other does not have."""
    words, others = line.split(" "), other.split(" ")
    found = []
    for kind, i, i_end, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        if i < i_end:
            found.append((" ".join(words[i:i_end]) + (" " if i_end < len(words) else ""), kind != "equal"))
    return tuple(found)
