"""A boundary's history compressed anew: the same state and the same PRE, with another summary in POST."""

from __future__ import annotations

from dataclasses import replace

from recompact.chat import Usage
from recompact.compressors.protocol import Compressor
from recompact.trajectory import Boundary


async def recompressed(boundary: Boundary, compressor: Compressor, budget: int) -> tuple[Boundary, Usage]:
    """The boundary with another summary in POST, and what it cost."""
    compaction = await compressor.compress(boundary.pre, budget)
    changed = replace(boundary, post=compaction.context, asked_again=compaction.asked_again, cut=compaction.cut)
    return changed, compaction.usage
