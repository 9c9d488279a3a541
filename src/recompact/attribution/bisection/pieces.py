"""What a compaction dropped, cut into pieces that can be put back, and the context after it with some of them back.

A piece is an entry of the previous summary that the new one lacks, or a whole dropped turn. A line that the new summary
added is a piece as well: one that can be taken out. So is the request itself, which a summary may retell wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from recompact.attribution.divergence import consumed_turns, literals, occurs, visible_text
from recompact.values.context import Context, Summary, Turn
from recompact.values.template import Section, parse_sections, render_sections
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Boundary

PieceKind = Literal["entry", "turn", "line", "request"]

_EMPTY = re.compile(r"(?i)[\W_]*(?:none|n/a|nothing)?[\W_]*")
_FENCE = re.compile(r"\s*(?:```|~~~)")


@dataclass(frozen=True)
class Piece:
    """One piece: an entry of the previous summary, a dropped turn, a line that the new summary added, or the request.

    `number` counts pieces of its kind in the order in which they stood, from 1. `heading` is the section of an entry or
    a line in its normal form (`## Goal`), and empty for a turn. `turn` is not on record: its text is.
    """

    kind: PieceKind
    number: int
    text: str
    tokens: int
    heading: str = ""
    turn: Turn | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(frozen=True)
class Intervention:
    """What is changed about the context after a compaction: pieces put back, and lines taken out."""

    back: frozenset[str] = frozenset()
    out: frozenset[str] = frozenset()

    @staticmethod
    def of(names: Iterable[str]) -> Intervention:
        """Lines are taken out, and everything else is put back."""
        every = frozenset(names)
        out = frozenset(name for name in every if name.startswith("line "))
        return Intervention(every - out, out)

    @property
    def key(self) -> str:
        """Its name in the names of units: the same pieces give the same key, whatever their order.

        >>> Intervention(frozenset({"turn 2", "entry 10", "entry 9"})).key, Intervention().key
        ('entry.9,entry.10,turn.2', 'post')
        """
        names = [*sorted(self.back, key=_place), *sorted(self.out, key=_place)]
        return ",".join(name.replace(" ", ".") for name in names) or "post"


def _place(name: str) -> tuple[str, int]:
    kind, _, number = name.partition(" ")
    return kind, int(number)


def dropped_pieces(boundary: Boundary, count: TokenCounter) -> tuple[Piece, ...]:
    """What can be put back, the oldest first: entries of the previous summary, then dropped turns."""
    new = boundary.post.summary.text if boundary.post.summary else ""
    old = boundary.pre.summary.text if boundary.pre.summary else ""
    turns = enumerate(consumed_turns(boundary), 1)
    return (
        *_absent_entries("entry", old, new, count),
        *(Piece("turn", number, turn.text, turn.tokens, turn=turn) for number, turn in turns),
    )


def added_lines(boundary: Boundary, count: TokenCounter) -> tuple[Piece, ...]:
    """What can be taken out: the entries of the new summary that are not in the previous one, word for word."""
    new = boundary.post.summary.text if boundary.post.summary else ""
    old = boundary.pre.summary.text if boundary.pre.summary else ""
    return tuple(_absent_entries("line", new, old, count))


def statements_in(boundary: Boundary, lines: Iterable[Piece], request: str, count: TokenCounter) -> tuple[Piece, ...]:
    """What the summary says of its own accord: added lines with no literal of what it was written from, and the request
    in its own words, where the summary does not have it. These are taken out, or put in, with no turn put back."""
    summary = boundary.post.summary.text if boundary.post.summary else ""
    source = visible_text(boundary.pre)
    own = [line for line in lines if not any(occurs(literal, source) for literal in literals(line.text))]
    if not summary or not request.strip() or _normal(request) in _normal(summary):
        return tuple(own)
    sections = parse_sections(summary)
    heading = next((section.name for section in sections if section.level), "")
    return (*own, Piece("request", 1, request, count(request), heading))


def context_with(
    boundary: Boundary, pieces: Collection[Piece], intervention: Intervention, count: TokenCounter
) -> Context:
    """The context after the compaction, changed by an intervention.

    Entries go back under their heading. Turns go back as messages, each in the place of what it became or before the
    turns that were kept: as text in the summary an agent may not be able to use them, and providers refuse results
    without their calls.
    """
    post = boundary.post
    back = sorted((p for p in pieces if p.name in intervention.back), key=lambda p: p.number)
    out = {_normal(p.text) for p in pieces if p.name in intervention.out}
    turns = tuple(p.turn for p in back if p.turn is not None)
    entries = [p for p in back if p.turn is None]
    if entries or out:
        text = _with_entries(_without(post.summary.text if post.summary else "", out), entries)
        post = replace(post, summary=Summary.measured(text, count) if text.strip() else None)
    ids = {call.id for turn in turns for call in turn.message.calls}
    kept = [turn for turn in post.turns if not turn.message.calls or ids.isdisjoint(c.id for c in turn.message.calls)]
    if len(kept) == len(post.turns):
        return replace(post, turns=(*turns, *post.turns))
    dropped = len(boundary.pre.turns) - len(post.turns)
    place = {turn: n for n, turn in enumerate(boundary.pre.turns)}
    place |= {turn: n + dropped for n, turn in enumerate(post.turns)}
    return replace(post, turns=tuple(sorted((*turns, *kept), key=lambda turn: place[turn])))


def placebo_for(chosen: Collection[str], pieces: Sequence[Piece], seed: str) -> frozenset[str]:
    """Other pieces, drawn at random, with at least as many tokens in all; fewer where there are no more."""
    others = [piece for piece in pieces if piece.name not in chosen]
    size = sum(piece.tokens for piece in pieces if piece.name in chosen)
    Random(seed).shuffle(others)
    names: set[str] = set()
    for piece in others:
        if size <= 0:
            break
        names.add(piece.name)
        size -= piece.tokens
    return frozenset(names)


def _absent_entries(kind: PieceKind, text: str, other: str, count: TokenCounter) -> Iterator[Piece]:
    """The entries of one summary that are not in another, each once."""
    seen = {_normal(entry) for _, entry in entries_of(other)}
    number = 0
    for heading, entry in entries_of(text):
        if _normal(entry) not in seen and not _EMPTY.fullmatch(entry):
            number += 1
            seen.add(_normal(entry))
            yield Piece(kind, number, entry, count(entry), heading)


def entries_of(text: str) -> Iterator[tuple[str, str]]:
    """The entries of a summary with the heading they stand under: a line, with the indented lines that belong to it.

    >>> list(entries_of("## Done\\n- a\\n  b\\n- c\\n"))
    [('## Done', '- a\\n  b'), ('## Done', '- c')]
    """
    for section in parse_sections(text):
        for entry in _entries(section):
            yield section.name, entry


def _entries(section: Section) -> Iterator[str]:
    entry: list[str] = []
    fenced = False
    for line in section.guidance.splitlines():
        goes_on = fenced or line[:1].isspace()
        if _FENCE.match(line):
            goes_on, fenced = True, not fenced
        if not line.strip() and not fenced:
            continue
        if entry and not goes_on:
            yield "\n".join(entry)
            entry = []
        entry.append(line)
    if entry:
        yield "\n".join(entry)


def _normal(entry: str) -> str:
    return " ".join(entry.split())


def _without(text: str, out: Collection[str]) -> str:
    """A summary without some of its entries."""
    if not out:
        return text
    sections = []
    for section in parse_sections(text):
        kept = [entry for entry in _entries(section) if _normal(entry) not in out]
        sections.append(replace(section, guidance="".join(f"{entry}\n" for entry in kept)))
    return render_sections(tuple(sections))


def _with_entries(text: str, entries: Iterable[Piece]) -> str:
    """A summary with entries added at the end of their sections; a section that is gone comes back at the end."""
    sections = list(parse_sections(text))
    for piece in entries:
        at = next((n for n, section in enumerate(sections) if section.name == piece.heading), None)
        if at is None:
            if sections and not sections[-1].text.endswith("\n") and sections[-1].text:
                sections[-1] = replace(sections[-1], guidance=f"{sections[-1].guidance}\n")
            level = len(piece.heading) - len(piece.heading.lstrip("#"))
            sections.append(Section(f"{piece.heading}\n", level, piece.heading[level:].strip(), f"{piece.text}\n"))
            continue
        guidance = sections[at].guidance.rstrip()
        guidance = "" if _EMPTY.fullmatch(guidance) else f"{guidance}\n"
        heading = sections[at].heading
        heading = heading if not heading or heading.endswith("\n") else f"{heading}\n"
        sections[at] = replace(sections[at], heading=heading, guidance=f"{guidance}{piece.text}\n")
    return render_sections(tuple(sections)).rstrip("\n")
