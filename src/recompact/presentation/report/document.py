"""Texts in pieces, as the terminal and the page render them: what is marked, what is cut, what is new or gone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

from recompact.attribution.divergence import literal_spans
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
