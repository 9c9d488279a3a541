"""Anchors: exact values of the replaced turns, collected by rule and appended to the summary, each with its field.

No model is asked to copy anything, so none can forget to or copy it wrongly.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from recompact.compressors.protocol import Compaction, Compressor, CompressorInputs
from recompact.registry import Limit
from recompact.values.context import Context, Summary, Turn, replaced_turns
from recompact.values.literals import contains, exact_values
from recompact.values.receipt import shown_text, texts_of
from recompact.values.tokens import TokenCounter

HEADING = "## Exact values from before"
LONGEST = 80  # characters of a value, and of the name of what it identifies
PARSED = 20_000  # characters of a text that is read as JSON; of a longer one the beginning is searched
_NAMES = ("name", "title", "subject", "label")
_IDENTIFYING = re.compile(r"(?:^|_)(?:id|key|token|code|number)$|[a-z]Id$")
_LINE = re.compile(r"(?:(?P<field>[^:\s]+): )?(?P<value>\S+)(?: \((?P<name>.*)\))?")


@dataclass(frozen=True)
class Anchor:
    """An exact value, the field that it stood in, and the name of what it identifies.

    >>> str(Anchor("f2745", "id", "Water bill.txt")), Anchor.read("id: f2745 (Water bill.txt)").name
    ('id: f2745 (Water bill.txt)', 'Water bill.txt')
    """

    value: str
    field: str = ""
    name: str = ""

    def __str__(self) -> str:
        return (f"{self.field}: " if self.field else "") + self.value + (f" ({self.name})" if self.name else "")

    @staticmethod
    def read(line: str) -> Anchor:
        """The anchor of a line that an earlier compaction wrote."""
        match = _LINE.fullmatch(line)
        return Anchor(match["value"], match["field"] or "", match["name"] or "") if match else Anchor(line)


class Anchors:
    """Appends up to `tokens` tokens of values from the replaced turns: those of the agent's own calls first, then those
    of results, the latest first in both. What the rest of the context shows anyway is left out."""

    def __init__(
        self, inputs: CompressorInputs, inner: Compressor, *, tokens: Annotated[int, Limit(ge=20)] = 256
    ) -> None:
        self._count, self._inner, self._tokens = inputs.count, inner, tokens

    async def compress(self, context: Context, budget: int) -> Compaction:
        plain, earlier = _without_anchors(context, self._count)
        limit = min(self._tokens, budget // 4)
        compaction = await self._inner.compress(plain, budget - limit)
        post = compaction.context
        gone = [context.turns[n] for n in replaced_turns(context, post)]
        shown = shown_text(post)
        lines = [str(each) for each in _distinct((*anchors_of(gone), *earlier)) if not contains(shown, each.value)]
        post, _ = with_appendix(post, lines, limit, self._count)
        return replace(compaction, context=post)


def anchors_of(turns: Sequence[Turn]) -> Iterator[Anchor]:
    """The exact values of turns, those of the agent's own calls first."""
    return (anchor for text in texts_of(turns) for anchor in _anchors_in(text))


def _anchors_in(text: str) -> Iterator[Anchor]:
    """The exact values of a text. In JSON they have a field, and shorter ones count as exact as well.

    >>> [str(each) for each in _anchors_in('{"items": [{"id": "f27", "name": "Bill"}], "token": "fil-91fc", "n": 4}')]
    ['id: f27 (Bill)', 'token: fil-91fc']
    >>> [str(each) for each in _anchors_in("wrote /srv/notes/a.txt as f27")]
    ['/srv/notes/a.txt']
    """
    try:
        parsed = json.loads(text) if len(text) <= PARSED else None
    except (ValueError, RecursionError):
        parsed = None
    if isinstance(parsed, dict | list):
        yield from _leaves(parsed)
    else:
        yield from (Anchor(value) for value in exact_values(text))


def _leaves(value: Any, field: str = "", name: str = "") -> Iterator[Anchor]:
    if isinstance(value, dict):
        names = (value[key] for key in _NAMES if isinstance(value.get(key), str))
        own = " ".join(next(names, "").split())[:LONGEST]
        for key, part in value.items():
            yield from _leaves(part, "_".join(str(key).split()).replace(":", ""), own)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part, field, name)
    elif isinstance(value, str | int):
        text = str(value)
        if _is_exact(text, field):
            yield Anchor(text, field, "" if name == text else name)
        elif isinstance(value, str):
            yield from (Anchor(part) for part in exact_values(text))


def _is_exact(text: str, field: str) -> bool:
    """Whether nobody can guess a value: letters with digits, or any number in a field that identifies something."""
    if len(text) > LONGEST or len(text.split()) != 1 or not re.search(r"\d", text):
        return False
    mixed = len(text) > 3 and re.search(r"[A-Za-z]", text) is not None
    return mixed or _IDENTIFYING.search(field) is not None or text in exact_values(text)


def _distinct(anchors: Iterable[Anchor]) -> list[Anchor]:
    """Each value once, with a field where one is known; a part of another anchor only where it has a field itself."""
    by_value: dict[str, Anchor] = {}
    for each in anchors:
        known = by_value.get(each.value)
        if known is None or (each.field and not known.field):
            by_value[each.value] = each  # an update keeps the place of the first
    every = "\n".join(map(str, by_value.values()))
    return [each for each in by_value.values() if each.field or every.count(each.value) == 1]


def with_appendix(
    post: Context,
    entries: Sequence[str],
    limit: int,
    count: TokenCounter,
    heading: str = HEADING,
    before: str = "",
) -> tuple[Context, int]:
    """The context with as many entries below its summary, a line each, as fit into `limit` tokens, the first ones
    first, and how many those are."""

    def appendix(number: int) -> str:
        return "\n".join((heading, *(before + entry for entry in entries[:number])))

    number = bisect_right(range(1, len(entries) + 1), limit, key=lambda number: count(appendix(number)))
    if not number:
        return post, 0
    if post.summary is None:
        return replace(post, summary=Summary.measured(appendix(number), count)), number
    text = f"{post.summary.text}\n\n{appendix(number)}"
    return replace(post, summary=replace(post.summary, text=text, tokens=count(text))), number


def _without_anchors(context: Context, count: TokenCounter) -> tuple[Context, tuple[Anchor, ...]]:
    """The context with a summary that has no anchors, and the anchors that it had."""
    summary = context.summary
    if summary is None or HEADING not in summary.text:
        return context, ()
    text, _, listed = summary.text.rpartition(HEADING)
    anchors = tuple(Anchor.read(line) for line in listed.strip().splitlines())
    text = text.rstrip()
    tokens = count(text)
    return replace(context, summary=replace(summary, text=text, tokens=tokens) if text else None), anchors
