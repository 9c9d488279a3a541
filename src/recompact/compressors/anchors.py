"""Anchors: exact values that the agent used, collected by rule and appended to the summary under a fixed heading.

It works on any compressor. No model is asked to copy anything, so none can forget to or copy it wrongly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from recompact.compressors.protocol import Compaction, Compressor, CompressorInputs
from recompact.registry import Limit
from recompact.values.context import Context, Summary, replaced_turns
from recompact.values.receipt import exact_values_of, shown_text
from recompact.values.tokens import TokenCounter

HEADING = "## Exact values from before"


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
        values = [value for value in dict.fromkeys((*exact_values_of(gone), *earlier)) if value not in shown]
        post, _ = with_appendix(post, values, limit, self._count)
        return replace(compaction, context=post)


def with_appendix(
    post: Context,
    entries: Sequence[str],
    limit: int,
    count: TokenCounter,
    heading: str = HEADING,
    between: str = ", ",
    before: str = "",
) -> tuple[Context, int]:
    """The context with as many entries below its summary as fit into `limit` tokens, the first ones first, and how
    many those are."""
    low, high = 0, len(entries)
    while low < high:
        middle = (low + high + 1) // 2
        fits = count(f"{heading}\n{before}{between.join(entries[:middle])}") <= limit
        low, high = (middle, high) if fits else (low, middle - 1)
    if not low:
        return post, 0
    above = f"{post.summary.text}\n\n" if post.summary else ""
    text = f"{above}{heading}\n{before}{between.join(entries[:low])}"
    summary = replace(post.summary or Summary("", 0), text=text)
    return replace(post, summary=replace(summary, tokens=count(summary.text))), low


def _without_anchors(context: Context, count: TokenCounter) -> tuple[Context, tuple[str, ...]]:
    """The context with a summary that has no anchors, and the anchors that it had."""
    summary = context.summary
    if summary is None or HEADING not in summary.text:
        return context, ()
    text, _, listed = summary.text.rpartition(HEADING)
    values = tuple(listed.strip().split(", "))
    text = text.rstrip()
    tokens = count(text)
    return replace(context, summary=replace(summary, text=text, tokens=tokens) if text else None), values
