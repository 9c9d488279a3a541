"""Anchors: exact values that the agent used, collected by rule and appended to the summary under a fixed heading.

It works on any compressor. No model is asked to copy anything, so none can forget to or copy it wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

from recompact.compressors.protocol import Compaction, Compressor, CompressorInputs
from recompact.registry import Limit
from recompact.values.context import Context, Summary, Turn, replaced_turns
from recompact.values.literals import exact_values
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
        shown = "\n".join(message.content for message in post.messages)
        called = "\n".join(call.arguments for turn in post.turns for call in turn.message.calls)
        values = [value for value in dict.fromkeys((*_values(gone), *earlier)) if value not in shown + called]
        text = self._within(values, limit)
        if not text:
            return compaction
        before = f"{post.summary.text}\n\n" if post.summary else ""
        summary = replace(post.summary or Summary("", 0), text=f"{before}{HEADING}\n{text}")
        summary = replace(summary, tokens=self._count(summary.text))
        return replace(compaction, context=replace(post, summary=summary))

    def _within(self, values: list[str], limit: int) -> str:
        """As many as fit, the first ones first."""
        low, high = 0, len(values)
        while low < high:
            middle = (low + high + 1) // 2
            fits = self._count(f"{HEADING}\n{', '.join(values[:middle])}") <= limit
            low, high = (middle, high) if fits else (low, middle - 1)
        return ", ".join(values[:low])


def _values(turns: list[Turn]) -> Iterator[str]:
    for turn in reversed(turns):
        for call in turn.message.calls:
            yield from exact_values(call.arguments)
    for turn in reversed(turns):
        for result in turn.results:
            yield from exact_values(result.content)


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
