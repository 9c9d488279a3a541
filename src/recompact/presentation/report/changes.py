"""What changed between two templates: section by section, line by line and word by word.

The terminal and the page render the same `PromptChange`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from recompact.presentation.report.document import Block, Line, Piece
from recompact.values.template import PartDiff, SectionChange, Template, diff

if TYPE_CHECKING:
    from recompact.values.candidate import Clause


@dataclass(frozen=True)
class ChangedPart:
    """One part of the prompt (first, update, system) with the sections that differ."""

    part: str
    structure: tuple[tuple[str, str, str], ...]  # headings or placeholders that differ: what, before, after
    sections: tuple[Block, ...]
    like: str = ""  # an earlier part that differs in exactly the same lines


@dataclass(frozen=True)
class PromptChange:
    """Two templates by name, what differs, and the clauses that occur in no single line."""

    before: str
    after: str
    hashes: tuple[str, str]
    parts: tuple[ChangedPart, ...]
    loose: tuple[Clause, ...]

    @property
    def verdict(self) -> str:
        if not self.parts:
            return "Nothing differs."
        if any(part.structure for part in self.parts):
            return "The structure differs: headings or placeholders are not the same."
        return "Headings and placeholders are the same: only guidance differs."


def prompt_change(
    before: tuple[str, Template], after: tuple[str, Template], clauses: Sequence[Clause] = ()
) -> PromptChange:
    """Compare two named templates. `clauses` are those of the second."""
    unplaced = list(clauses)
    parts: list[ChangedPart] = []
    seen: dict[tuple[Block, ...], str] = {}
    for part in diff(before[1], after[1]):
        sections = tuple(map(changed_section, part.changes))
        like = seen.setdefault(sections, part.part)
        marked = tuple(_with_clauses(section, unplaced) for section in sections)
        parts.append(ChangedPart(part.part, _structure(part), marked, like if like != part.part else ""))
    hashes = before[1].hash, after[1].hash
    return PromptChange(before[0], after[0], hashes, tuple(parts), tuple(unplaced))


def _structure(part: PartDiff) -> tuple[tuple[str, str, str], ...]:
    both = (("headings", part.headings), ("placeholders", part.placeholders))
    return tuple((what, ", ".join(a) or "none", ", ".join(b) or "none") for what, (a, b) in both if a != b)


def _with_clauses(section: Block, unplaced: list[Clause]) -> Block:
    """The section with each clause at the first new line that contains it; those leave `unplaced`."""
    lines = []
    for line in section.lines:
        here = tuple(clause for clause in unplaced if line.sign == "+" and _plain(clause.text) in _plain(line.text))
        for clause in here:
            unplaced.remove(clause)
        lines.append(replace(line, clauses=here))
    return replace(section, lines=tuple(lines))


def _plain(text: str) -> str:
    return " ".join(text.split())


def changed_section(change: SectionChange) -> Block:
    """A section's change in lines. Its heading is not among them, unless the heading itself differs."""
    before, after = change.before or "", change.after or ""
    what = "added" if change.before is None else "removed" if change.after is None else "changed"
    if what == "changed" and before.split() == after.split():
        what = "changed in white space only"
    old, new = before.splitlines(), after.splitlines()
    if change.heading and (not old or not new or old[0] == new[0]):
        old, new = old[1:], new[1:]
    return Block(change.heading or "(before the first heading)", tuple(changed_lines(old, new)), what)


def changed_lines(before: Sequence[str], after: Sequence[str]) -> Iterator[Line]:
    """Two texts as one list of lines; where as many lines were removed as were added, words are compared.

    >>> [(line.sign, [piece.text for piece in line.pieces if piece.kind]) for line in changed_lines(["all"], ["none"])]
    [('-', ['all']), ('+', ['none'])]
    """
    for kind, i, i_end, j, j_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from (Line(" ", (Piece(line),)) for line in before[i:i_end])
        elif i_end - i == j_end - j:
            for old, new in zip(before[i:i_end], after[j:j_end], strict=True):
                yield Line("-", _pieces(old, new))
                yield Line("+", _pieces(new, old))
        else:
            yield from (Line("-", (Piece(line),)) for line in before[i:i_end])
            yield from (Line("+", (Piece(line),)) for line in after[j:j_end])


def _pieces(line: str, other: str) -> tuple[Piece, ...]:
    """A line in pieces, marking the words that the other does not have."""
    words, others = line.split(" "), other.split(" ")
    pieces = []
    for kind, i, i_end, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        if i < i_end:
            text = " ".join(words[i:i_end]) + (" " if i_end < len(words) else "")
            pieces.append(Piece(text, "" if kind == "equal" else "differs"))
    return tuple(pieces)
