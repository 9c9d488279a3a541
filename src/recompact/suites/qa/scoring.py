"""Exact match and F1 of an answer as SQuAD's evaluation defines them: the best over the accepted answers."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalize(text: str) -> str:
    """Lower case, without punctuation, articles and superfluous space.

    >>> normalize("The  Cat's-eye, an  agate.")
    'catseye agate'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, accepted: Sequence[str]) -> float:
    """Whether the answer is one of those accepted, once both are normalized.

    >>> exact_match("the Blue Nile", ["Nile", "Blue Nile"])
    1.0
    """
    return _best(lambda gold: float(normalize(answer) == normalize(gold)), accepted)


def f1(answer: str, accepted: Sequence[str]) -> float:
    """The harmonic mean of the shares of words that the answer and an accepted one have in common.

    >>> f1("the Blue Nile river", ["Nile", "Blue Nile"])
    0.8
    """
    return _best(lambda gold: _overlap(normalize(answer).split(), normalize(gold).split()), accepted)


def _best(score: Callable[[str], float], accepted: Sequence[str]) -> float:
    return max((score(gold) for gold in accepted), default=0.0)


def _overlap(words: Sequence[str], gold: Sequence[str]) -> float:
    if not words or not gold:  # as in SQuAD 2.0: an empty answer is right only if nothing is left of the accepted one
        return float(words == gold)
    common = (Counter(words) & Counter(gold)).total()
    return 2 * common / (len(words) + len(gold))
