"""Texts in pieces, as the terminal and the page render them: what is marked, what is cut, what is new or gone.

What changed between two templates is such a text too: section by section, line by line and word by word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from recompact.attribution.divergence import literal_spans
from recompact.values.template import PARTS, Template, headings, parse_sections, placeholders
from recompact.values.texts import cut

if TYPE_CHECKING:
    from recompact.values.candidate import Clause


Sign = Literal["+", "-", " "]


@dataclass(frozen=True)
class Piece:
    """A piece of a text: plain, a fact that was dropped (and needed), a word that differs, what was cut, a note."""

    text: str
    kind: Literal["", "needed", "dropped", "differs", "cut", "note"] = ""


@dataclass(frozen=True)
class Line:
    """One or more lines that are new, gone or the same. `clauses` are those that first occur here."""

    sign: Sign
    pieces: tuple[Piece, ...]
    clauses: tuple[Clause, ...] = ()

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)


@dataclass(frozen=True)
class Block:
    """A titled text: a summary, a turn, a section of a prompt, or a continuation with its last action."""

    title: str
    lines: tuple[Line, ...]
    note: str = ""  # beside the title


@dataclass(frozen=True)
class Fact:
    """A value with its label, and a note in small print."""

    label: str
    value: str
    note: str = ""


def shorten(text: str, limit: int | None) -> tuple[Piece, ...]:
    """The beginning of a text, with a piece that says how much was cut."""
    kept, more = cut(text, limit)
    return (Piece(kept), *_rest(more))


def mark_changes(text: str, limit: int | None, sign: Sign, changed: Iterable[str], marks: Mapping[str, Any]) -> Block:
    """A text up to the limit, with `sign` at the lines that are among the changed ones, and literals marked."""
    kept, more = cut(text, limit)
    differing = frozenset(changed)
    # A line that is cut is judged by the whole of it.
    signs = (sign if line.strip() in differing else " " for line in text.splitlines())
    runs = groupby(zip(kept.splitlines(), signs, strict=False), key=itemgetter(1))
    lines = [Line(of, _mark_literals("\n".join(line for line, _ in run), marks)) for of, run in runs]
    return Block("", (*lines, *([Line(" ", _rest(more))] if more else [])))


def note_block(text: str, kind: Literal["cut", "note"] = "note") -> Block:
    return Block("", (Line(" ", (Piece(text, kind),)),))


def _mark_literals(text: str, marks: Mapping[str, Any]) -> tuple[Piece, ...]:
    """A text in which the literals that `marks` names are marked, each with its own kind."""
    pieces, done = [], 0
    for start, end in literal_spans(text) if marks else ():
        if kind := marks.get(text[start:end]):
            pieces += [Piece(text[done:start]), Piece(text[start:end], kind)]
            done = end
    return tuple(piece for piece in (*pieces, Piece(text[done:])) if piece.text)


def _rest(more: int) -> tuple[Piece, ...]:
    return (Piece(f"{more:,} more characters", "cut"),) if more else ()


def score_facts(value: float, details: Mapping[str, Any], limit: int | None) -> tuple[Fact, ...]:
    """What a score says besides success or failure.

    >>> [fact.value for fact in score_facts(0.5, {"answer": "42", "checks": {"paid": False}}, None)]
    ['0.5', '42', '{"paid": false}']
    """
    partial = (Fact("reward", f"{value:g}"),) if value not in (0, 1) else ()
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        for name, value in details.items()
    }
    return (*partial, *(Fact(name, shorten_plain(text, limit)) for name, text in texts.items()))


def shorten_plain(text: str, limit: int | None) -> str:
    """The beginning of a text that is shown as a value, with how much was cut."""
    kept, more = cut(text, limit)
    return f"{kept} […{more:,} more characters]" if more else kept


@dataclass(frozen=True)
class SectionChange:
    """A section whose text is not the same in two templates; None where it is missing."""

    heading: str  # empty for what comes before the first one
    before: str | None
    after: str | None


def _section_changes(before: str, after: str) -> tuple[SectionChange, ...]:
    a, b = parse_sections(before), parse_sections(after)
    matcher = SequenceMatcher(None, [s.name for s in a], [s.name for s in b], autojunk=False)
    changes = []
    for kind, i, i_end, j, j_end in matcher.get_opcodes():
        if kind == "equal":
            pairs = zip(a[i:i_end], b[j:j_end], strict=True)
            changes += [SectionChange(x.name, x.text, y.text) for x, y in pairs if x.text != y.text]
        else:
            changes += [SectionChange(x.name, x.text, None) for x in a[i:i_end] if x.text]
            changes += [SectionChange(y.name, None, y.text) for y in b[j:j_end] if y.text]
    return tuple(changes)


Pair = tuple[tuple[str, ...], tuple[str, ...]]  # before and after


@dataclass(frozen=True)
class ChangedPart:
    """One part of the prompt (first, update, system) that differs: its headings and placeholders, and its sections, as
    they are and as a text to show."""

    part: str
    headings: Pair
    placeholders: Pair
    changes: tuple[SectionChange, ...]
    sections: tuple[Block, ...]
    like: str = ""  # an earlier part that differs in exactly the same lines

    @property
    def structure(self) -> tuple[tuple[str, str, str], ...]:
        """Headings or placeholders that differ: what, before, after."""
        both = (("headings", self.headings), ("placeholders", self.placeholders))
        return tuple((what, ", ".join(a) or "none", ", ".join(b) or "none") for what, (a, b) in both if a != b)


@dataclass(frozen=True)
class PromptChange:
    """Two templates by name, what differs, and the clauses that occur in no single line."""

    before: str
    after: str
    hashes: tuple[str, str]
    parts: tuple[ChangedPart, ...]
    loose: tuple[Clause, ...]

    @property
    def structure_changed(self) -> bool:
        return any(part.structure for part in self.parts)

    @property
    def verdict(self) -> str:
        if not self.parts:
            return "Nothing differs."
        if self.structure_changed:
            return "The structure differs: headings or placeholders are not the same."
        return "Headings and placeholders are the same: only guidance differs."


def prompt_change(
    before: tuple[str, Template], after: tuple[str, Template], clauses: Sequence[Clause] = ()
) -> PromptChange:
    """Compare two named templates part by part and section by section. `clauses` are those of the second."""
    unplaced = list(clauses)
    parts: list[ChangedPart] = []
    seen: dict[tuple[Block, ...], str] = {}
    for part in (*PARTS, "frame"):
        a, b = before[1].part(part), after[1].part(part)
        if a == b:
            continue
        changes = _section_changes(a, b)
        sections = tuple(map(changed_section, changes))
        like = seen.setdefault(sections, part)
        marked = tuple(_with_clauses(section, unplaced) for section in sections)
        used, like = (placeholders(a), placeholders(b)), like if like != part else ""
        parts.append(ChangedPart(part, (headings(a), headings(b)), used, changes, marked, like))
    return PromptChange(before[0], after[0], (before[1].hash, after[1].hash), tuple(parts), tuple(unplaced))


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
                yield Line("-", _compared_pieces(old, new))
                yield Line("+", _compared_pieces(new, old))
        else:
            yield from (Line("-", (Piece(line),)) for line in before[i:i_end])
            yield from (Line("+", (Piece(line),)) for line in after[j:j_end])


def _compared_pieces(line: str, other: str) -> tuple[Piece, ...]:
    """A line in pieces, marking the words that the other does not have."""
    words, others = line.split(" "), other.split(" ")
    pieces = []
    for kind, i, i_end, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        if i < i_end:
            text = " ".join(words[i:i_end]) + (" " if i_end < len(words) else "")
            pieces.append(Piece(text, "" if kind == "equal" else "differs"))
    return tuple(pieces)
