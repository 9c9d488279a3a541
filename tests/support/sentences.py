"""What a sentence states, apart from how it is worded: tests compare that, so that a sentence can be improved."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<![\w.-])[-+−]?\d+(?:[.,]\d+)*(?![\w-])")


def numbers_in(text: str) -> list[str]:
    """The numbers that stand by themselves in a text, in order, as they are written.

    >>> numbers_in("2 of 1,200 runs (-0.5, 95% interval) of pocket-train-046.")
    ['2', '1,200', '-0.5', '95']
    """
    return _NUMBER.findall(text)


def words_in(text: str, *words: str) -> list[str]:
    """Which of these words a text has, as whole words, in its order: the verbs that have to agree with a number.

    >>> words_in("1 task is left out: it is broken.", "is", "are", "it", "them")
    ['is', 'it', 'is']
    """
    return re.findall(rf"\b(?:{'|'.join(map(re.escape, words))})\b", text)
