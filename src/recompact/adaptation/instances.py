"""What in a text belongs to one task alone: names, addresses, ids, dates, amounts and files.

Words that anybody would use are not instances: those of the template and of the suite's tools, technical terms, and
phrases that the texts themselves also write in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

_UPPER, _LOWER = "A-ZÀ-ÖØ-Þ", "a-zà-öø-ÿ"
_WORD = rf"[{_UPPER}][{_LOWER}]+(?:['’-][{_UPPER}]?[{_LOWER}]+)*"
_NAMES = re.compile(rf"(?<!\w){_WORD}(?: (?:[{_UPPER}]\. )?{_WORD})+(?!\w)")
_IDS = re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[a-zA-Z])\w[\w-]{2,}\w(?![\w-])")  # letters and digits mixed
_OTHERS = (
    re.compile(r"[\w.+-]+@[\w-]+\.[\w.]*\w"),  # addresses
    re.compile(r"\b\d{4}-\d\d-\d\d\b"),  # dates
    re.compile(r"(?<![\w.])[$€£]?\d+\.\d\d(?![\w.]\d|\d)"),  # amounts
    re.compile(r"[$€£]\d[\d,]*(?![\d.])|(?<![\w.,])\d{1,3}(?:,\d{3})+(?![\w,])"),
    re.compile(r"(?<![\w-])\d{2,}(?:-\d{2,})+(?![\w-])"),  # phone numbers
    re.compile(r"(?<![\d.,-])\d{5,}(?!\w)"),  # long numbers
    re.compile(r"\b[\w-]+\.(?:docx?|xlsx?|pptx?|pdf|csv|txt|eml|ics|png|jpe?g)\b"),  # files
)
_TECHNICAL = re.compile(
    r"(?i)utf-?(?:8|16|32)|iso-?\d{4}(?:-\d{1,2})?|latin-?\d{1,2}|cp\d{3,4}|rfc-?\d{3,5}|base(?:16|32|58|64|85)|md[245]"
    r"|sha-?(?:1|224|256|384|512)|aes-?(?:128|192|256)|u?int(?:8|16|32|64)|float(?:16|32|64)|http[123]|oauth[12]|ipv[46]"
    r"|html[45]|css[1-4]|python[23]"
    r"|\d{1,4}(?:st|nd|rd|th)"
    r"|(?:[a-z]+_)+v\d+(?:_[a-z]+)*"  # a version of an interface
    r"|\d{1,3}-(?:second|minute|hour|day|week|month|year|digit|character|word|line|page|item|step|token)s?"
)
_LEADING = frozenset(
    re.findall(
        r"\w+",
        "the a an this that these those no not all any each every some your my our his her their its in on at to for"
        " from with by of and or but if when while after before please dear hi hello thanks thank yes",
    )
)
_COMMON = _LEADING | frozenset(
    re.findall(
        r"\w+",
        "note error result results user agent task tool assistant system summary step steps page pages total amount"
        " date time day week month year access token tokens api key keys login password username name names id ids"
        " email address phone number account file files folder list item items order orders payment payments message"
        " messages event events contact contacts status value values type text title subject next previous first last"
        " new old current done open closed pending credit debit gift card bank request response session end start",
    )
)
_KEYS = re.compile(r'"([A-Za-z]+(?:_[A-Za-z]+)*_?\d?)"\s*:|\b([a-z]+(?:_[a-z]+)+)=')
_FUNCTIONS = re.compile(r"\b[A-Za-z_][\w.]*(?=\()")
_PROSE = re.compile(r"(?<![\w@.])[a-z]{2,}(?: [a-z]{2,})+(?![\w@])")


def instances_in(texts: Iterable[str], known: Iterable[str] = ()) -> frozenset[str]:
    """What in the texts belongs to one task. `known` are texts and names that belong to none: template, tools, policy.

    >>> sorted(instances_in(["Ann Miller paid 12.50 on 2025-03-01 (t1042) with her Access Token, in utf-8"]))
    ['12.50', '2025-03-01', 'Ann Miller', 't1042']
    """
    shown = list(texts)
    everybody = "\n".join(known)
    parts = [_parts_of(text) for text in shown]
    literals = {literal for each in parts for literal in each.ids} - {word for each in parts for word in each.words}
    literals |= {literal for each in parts for literal in each.others}
    literals |= _names(parts, everybody)
    own = {literal for literal in literals if not _TECHNICAL.fullmatch(literal)}
    return frozenset(literal for literal in own if not names(everybody, literal))


def names(text: str, literal: str) -> bool:
    """Whether a text names a literal, ignoring case, and not as part of a longer word."""
    start = r"(?<!\w)" if literal[:1].isalnum() or literal[:1] == "_" else ""
    return re.search(rf"{start}{re.escape(literal)}(?!\w)", text, re.IGNORECASE) is not None


@dataclass(frozen=True)
class _Parts:
    """What one text holds. `words` are functions that are called and keys of records: words of the suite, even where
    they contain a digit. `phrases` are two words in a row in lower case, in running text or in a key (access_token)."""

    others: frozenset[str]
    ids: frozenset[str]
    words: frozenset[str]
    names: frozenset[str]
    phrases: frozenset[tuple[str, str]]


@lru_cache(maxsize=1024)  # the same observations are in the evidence of many boundaries and drafts
def _parts_of(text: str) -> _Parts:
    keys = [key for pair in _KEYS.findall(text) for key in pair if key]
    runs = [run.split(" ") for run in _PROSE.findall(text)] + [key.lower().split("_") for key in keys if "_" in key]
    return _Parts(
        frozenset(literal for pattern in _OTHERS for literal in pattern.findall(text)),
        frozenset(_IDS.findall(text)),
        frozenset([*keys, *(part for name in _FUNCTIONS.findall(text) for part in (name, *name.split(".")))]),
        frozenset(_NAMES.findall(text)),
        frozenset(pair for run in runs for pair in pairwise(run)),
    )


def _names(parts: Sequence[_Parts], everybody: str) -> set[str]:
    """Two or more capitalised words in a row, except phrases that are ordinary words."""
    phrases = {phrase for each in (*parts, _parts_of(everybody)) for phrase in each.phrases}
    ordinary = _COMMON | set(re.findall(r"[a-z]+", everybody.lower()))
    pairs: set[str] = set()
    for sequence in {sequence for each in parts for sequence in each.names}:
        for first, second in pairwise(sequence.split(" ")):
            low = first.lower(), second.lower()
            if low not in phrases and not (low[0] in ordinary and low[1] in ordinary) and low[0] not in _LEADING:
                pairs.add(f"{first} {second}")
    return pairs
