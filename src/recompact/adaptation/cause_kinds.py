"""What kind of thing the cause of a harmful compaction is, so that a clause can ask for such things in general.

A cause is a few pieces whose return closed the loss. What continuations then used of them, and the form of the pieces,
tell records from pages, tokens, identifiers and the like.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from recompact.adaptation.missing_facts import Kind, kind_of
from recompact.attribution.bisection.cause import Cause, CausePiece
from recompact.attribution.divergence import actions_of, literals, occurs, strings_in, visible_text
from recompact.values.chat import canonical
from recompact.values.masking import mask_secrets
from recompact.values.trajectory import Boundary, Trajectory

RECORDS = 2  # alike, that make a set

_PAGES = re.compile(r'(?i)"(?:\w*_)?(?:page|offset|cursor|skip)(?:_\w*)?":|\bpages?\s+\d')


def kinds_of(cause: Cause, boundary: Boundary, closing: Sequence[Trajectory]) -> tuple[Kind, ...]:
    """The kinds of what a cause brought back, the most telling first; none where its form says nothing.

    `closing` are the continuations that had the pieces back. A set of records counts as such: its fields need no clause
    each. Otherwise it is the facts in the pieces that these continuations used and the summary lacks.
    """
    kinds: Counter[Kind] = Counter()
    for piece in cause.pieces:
        if piece.kind == "line":
            continue
        if _holds_records(piece):
            kinds["result"] += 1
            if _PAGES.search(piece.text):
                kinds["page"] += 1
        else:
            kinds.update(set(_used_kinds(piece, boundary, closing)))
    return tuple(kind for kind, _ in kinds.most_common())


def _holds_records(piece: CausePiece) -> bool:
    """Whether a piece is a set of records: a table of an entry, or a result with several objects or rows."""
    if piece.kind == "entry":
        return len(piece.text.splitlines()) > RECORDS
    return any(_objects(text) >= RECORDS for text in piece.text.splitlines())


def _objects(text: str) -> int:
    """The most objects that a list in a JSON text has."""
    if not text.startswith(("{", "[")):
        return 0
    try:
        return max((len(each) for each in _lists(json.loads(text))), default=0)
    except (ValueError, RecursionError):
        return 0


def _lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list) and value and all(isinstance(each, dict | list) for each in value):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _lists(each)


def _used_kinds(piece: CausePiece, boundary: Boundary, closing: Sequence[Trajectory]) -> Iterator[Kind]:
    """The kinds of the facts in a piece that continuations used and that the context after the compaction lacks."""
    visible = visible_text(boundary.post)
    actions = [action for trajectory in closing for action in actions_of(trajectory)]
    texts = [text for a in actions for text in (canonical(dict(a.arguments)), a.text, *strings_in(dict(a.arguments)))]
    used = "\n".join(dict.fromkeys(texts))
    for literal in dict.fromkeys(literals(piece.text)):
        if occurs(literal, used) and not occurs(literal, visible):
            hidden = mask_secrets(piece.text)
            yield kind_of(literal, secret=not occurs(literal, hidden))
    if _PAGES.search(piece.text):
        yield "page"
