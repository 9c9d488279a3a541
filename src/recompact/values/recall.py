"""Looking up what a compaction dropped: a tool for the agent, and the search behind it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from recompact.values.chat import ToolSpec
from recompact.values.context import Turn
from recompact.values.texts import keep_ends
from recompact.values.tokens import TokenCounter

RECALL = ToolSpec(
    "recall",
    "Search your earlier steps of this task that are no longer shown to you. Returns those that fit the query best,"
    " word for word. Use it before you do something again only to see its result.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "words, names or values to look for"}},
        "required": ["query"],
    },
)
NOTHING = "No earlier step that is no longer shown has any of these words."

_WORD = re.compile(r"\w+")
_K1, _B = 1.2, 0.75


def recall(query: str, turns: Sequence[Turn], limit: int, count: TokenCounter) -> str:
    """The turns that fit a query best, the best first, within so many tokens; one that does not fit is cut in its
    middle."""
    shown: list[str] = []
    for number in search(query, [turn.text for turn in turns]):
        room = limit - count("\n\n".join(shown))
        if room < limit // 4 and shown:
            break
        cut = keep_ends(turns[number].text, room, count)[0]
        if shown and count("\n\n".join([*shown, cut])) > limit:  # the mark of a cut takes room too
            break
        shown.append(cut)
    return "\n\n".join(shown) or NOTHING


def search(query: str, texts: Sequence[str]) -> list[int]:
    """The texts that have words of the query, by BM25, the best first; of equal ones, the latest.

    >>> search("token of Ada", ["the token of Bo", "Ada: token 7f", "nothing"])
    [1, 0]
    """
    documents = [Counter(_WORD.findall(text.casefold())) for text in texts]
    lengths = [sum(words.values()) for words in documents]
    mean = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = [0.0] * len(texts)
    for word in set(_WORD.findall(query.casefold())):
        having = sum(word in words for words in documents)
        weight = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for number, words in enumerate(documents):
            if times := words[word]:
                scores[number] += weight * times * (_K1 + 1) / (times + _K1 * (1 - _B + _B * lengths[number] / mean))
    return sorted((n for n, score in enumerate(scores) if score > 0), key=lambda n: (-scores[n], -n))
