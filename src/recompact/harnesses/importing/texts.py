"""Texts as source code writes them: literal pieces, and holes where the code inserts something else.

Each language's scanner yields these values; recognition turns them into prompt texts and says what it could not
know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LEAST = 80  # characters; no prompt is shorter


@dataclass(frozen=True)
class Hole:
    """An expression inside a text, whose value cannot be told from the source alone."""

    source: str  # as the code writes it, without the braces
    text: str  # as the text would show it, with them
    optional: bool = False  # the empty text is one of its possible values


Pieces = tuple[str | Hole, ...]


def speaks_of_summaries(pieces: Pieces) -> bool:
    """Whether a text is worth a closer look: long enough for a prompt, and about summaries."""
    literal = "".join(piece for piece in pieces if isinstance(piece, str))
    return len(literal) >= LEAST and "summar" in literal.lower()


@dataclass(frozen=True)
class SourceText:
    """A text in a file of source code."""

    constant: str  # the name that it is bound to; empty where it has none
    offset: int  # of its first byte in the file
    pieces: Pieces
    notes: tuple[str, ...] = ()

    def render(self, names: Mapping[str, str]) -> RenderedText:
        """Fill the holes whose meaning is known (`names`: expression -> placeholder) and report the others."""
        text, placeholders, unresolved = "", {}, {}
        for piece in self.pieces:
            if isinstance(piece, str):
                text += piece
            elif piece.source in names:
                placeholders[piece.source] = names[piece.source]
                text += f"{{{{ {names[piece.source]} }}}}"
            elif piece.optional:
                unresolved[piece.source] = "left out, as the code does where it has no value for it"
            else:
                unresolved[piece.source] = "kept as the code writes it"
                text += piece.text
        return RenderedText(text, placeholders, unresolved)


@dataclass(frozen=True)
class RenderedText:
    """A prompt text, the placeholders in it by expression, and what was done about each unresolved expression."""

    text: str
    placeholders: Mapping[str, str]
    unresolved: Mapping[str, str]
