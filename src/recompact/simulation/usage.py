"""What a provider would have counted: the usage that simulated models report."""

from __future__ import annotations

from functools import lru_cache

from recompact.values.chat import Request
from recompact.values.tokens import counter


@lru_cache(maxsize=50_000)
def count(text: str) -> int:
    return counter()(text)


def input_tokens(request: Request) -> int:
    """Tokens of a request's messages, with a few for the frame of each."""
    texts = [m.content for m in request.messages] + [c.arguments for m in request.messages for c in m.calls]
    return sum(count(text) + 4 for text in texts)
