"""Counting tokens offline, the unit of a budget.

A counter is any function from text to a number. The built-in ones carry their vocabulary inside an installed package,
so nothing is downloaded; a provider's own `usage` is recorded beside these counts and never mixed with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from recompact.errors import InputError

TokenCounter = Callable[[str], int]

COUNTERS = ("o200k", "cl100k", "characters")


class BytePairs:
    """A counter by a vocabulary that splits a text into words first and counts the tokens of each.

    No word goes past the end of a line if the next begins with a bracket, and up to three digits are one token. So the
    parts of such a text can be counted apart, and of a number it matters only how many digits it has.
    """

    def __init__(self, count: TokenCounter) -> None:
        self._count = count

    def __call__(self, text: str) -> int:
        return self._count(text if text.isascii() else _encodable(text))


@cache
def counter(name: str = "o200k") -> TokenCounter:
    """The counter of that name: a BPE vocabulary, or `characters` (four to a token) where any tokenizer will do.

    >>> counter("o200k")("Which room has the key?")
    6
    >>> counter("characters")("Which room has the key?")
    6
    """
    if name == "characters":
        return lambda text: (len(text) + 3) // 4
    if name in ("o200k", "cl100k"):
        from rs_bpe.bpe import openai

        encoding = openai.o200k_base() if name == "o200k" else openai.cl100k_base()
        return BytePairs(encoding.count)
    raise InputError(f"unknown token counter {name!r}: choose one of {', '.join(COUNTERS)}")


def _encodable(text: str) -> str:
    """Lone surrogates, which JSON may carry, have no UTF-8 form: count them as the replacement character."""
    return text.encode("utf-8", "replace").decode("utf-8")
