"""The provider's own compaction: the agent's conversation is sent as it is, and the API answers with a summary.

Anthropic's can be read. OpenAI's is encrypted: it goes back as it came, and nobody here knows what is in it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated

from recompact.compressors.protocol import Compaction, CompactionFailed, CompressorInputs
from recompact.models.openai_wire import COMPACTION
from recompact.registry import Limit
from recompact.values.chat import Message, Request
from recompact.values.context import Context, Summary

LEAST = 50_000
"""The fewest tokens of a request at which Anthropic's API compacts it; OpenAI's compacts whatever it is sent."""

ENCRYPTED = "(The provider compacted the earlier steps into a form that only its own models can read.)"


class Native:
    """Asks for a compaction of all but the most recent turn. The budget must be above what the API compacts at all."""

    def __init__(self, inputs: CompressorInputs, *, over: Annotated[int, Limit(ge=LEAST)] = LEAST) -> None:
        self._inputs, self._over = inputs, over

    async def compress(self, context: Context, budget: int) -> Compaction:
        decoding = replace(self._inputs.decoding, compact_over=self._over)
        request = Request(context.before_last().messages, self._inputs.tools, decoding)
        reply = await self._inputs.model.reply(request)
        if not is_compaction(reply.message):
            reason = f"its API has none, or what was sent has at most {self._over:,} tokens"
            raise CompactionFailed(f"the provider answered without a compaction: {reason}", reply.usage, reply.notes)
        text = reply.message.content.strip()
        summary = Summary.measured(text, self._inputs.count)
        if not text:  # the provider's own count: ours would be of letters without a meaning
            summary = Summary(ENCRYPTED, reply.usage.output, reply.message.thoughts)
        compacted = replace(context, summary=summary, turns=context.turns[-1:])
        return Compaction(compacted, reply.usage, notes=reply.notes)


def is_compaction(message: Message) -> bool:
    """Whether a provider wrote this in place of a conversation, and wrote anything."""
    blocks = json.loads(message.thoughts) if message.thoughts else []
    own = [block for block in blocks if block["type"] == COMPACTION]
    return any(block.get("content") or block.get("encrypted_content") for block in own)
