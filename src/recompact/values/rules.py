"""Standing rules in what a user said: sentences that order or forbid something from then on."""

from __future__ import annotations

import re

_RULE = re.compile(
    r"(?i)\b(?:never|always|must(?: not|n't)?|do(?: not|n't)(?! (?:know|think|understand|remember)\b)"
    r"|may not|only (?:ever|if|when|after)|without (?:asking|my)"
    r"|under no circumstances|make sure|from now on|at all times)\b"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"[a-z]{4,}|\d[\d.,]*\d|\d")
_LONGEST = 600
_SHARE = 0.6
"""Of a rule's longer words, how many one line must have to count as saying it."""


def rules_in(text: str) -> tuple[str, ...]:
    """The rules of a text, sentence by sentence.

    >>> rules_in("Pay the bills. Never approve requests over 50 without asking.\\nThanks!")
    ('Never approve requests over 50 without asking.',)
    >>> rules_in("I don't know what we can do about it. Don't touch the lock file.")
    ("Don't touch the lock file.",)
    """
    sentences = (sentence.strip() for sentence in _SENTENCE.split(text))
    return tuple(dict.fromkeys(s for s in sentences if len(s) <= _LONGEST and _RULE.search(s)))


def says(text: str, rule: str) -> bool:
    """Whether a text carries a rule: word for word, or a line of it with all its numbers and most of its longer words.

    >>> rule = "Never approve requests over 50 without asking."
    >>> says("- never approve a request over 50 without asking first", rule), says("- approve requests over 50", rule)
    (True, False)
    """
    if " ".join(rule.split()).casefold() in " ".join(text.split()).casefold():
        return True
    words = set(_WORD.findall(rule.casefold()))
    numbers = {word for word in words if word[0].isdigit()}
    needed = words - numbers
    for line in text.casefold().splitlines():
        present = set(_WORD.findall(line))
        if numbers <= present and needed and len(needed & present) >= _SHARE * len(needed) and _RULE.search(line):
            return True
    return False
