"""The section lock: a revised template keeps its structure, and its guidance names no instance of the evidence.

It is checked by parsing, never by asking; broken rules are stated in words that an optimizer can act on. An instance is
what belongs to one task alone: a name, address, id, date, amount or file, but no word that anybody would use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from recompact.values.candidate import Candidate, Clause
from recompact.values.template import Section, Template, fill, lint, placeholders

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
    literals |= _capitalised_names(parts, everybody)
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


def _capitalised_names(parts: Sequence[_Parts], everybody: str) -> set[str]:
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


PARTS = ("first", "update")
_TAG = re.compile(r"</?[a-zA-Z][\w-]*>")
_FIELD = re.compile(r"^\s*(- \[[ xX]\]|\d+\.|- \*\*)", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\s*[\r\n]+\s*")
_FORMAT = re.compile(r"(?i)\b(?:format|headings?|structure|sections (?:above|below))\b|\{\{\s*budget\s*\}\}")
_NO_FORMAT = re.compile(
    r"(?i)\b(?:free[- ]?(?:form|text)|unstructured|plain prose|in (?:any|whatever) (?:form|way)"
    r"|(?:without|no|omit|skip|drop|leave out|ignore|any|whatever|other|different|another)"
    r" (?:(?:the|any|all|these|those|empty|other) )*(?:headings?|sections?|format|structure))\b"
)
# What looks like a heading without being one: a line in bold type, a row of a table.
_DISGUISED = re.compile(r"^[ \t]*((?:\*\*|__)(?!\[)[^*_\r\n]+(?:\*\*|__):?|\|.*\|)[ \t]*$", re.MULTILINE)


def broken_rules(original: Template, revised: Template, instances: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What breaks the lock: headings, placeholders, tags, required fields and what is said of the format must stay, no
    section be emptied or added in disguise, and no instance be named.

    >>> t = Template("s", "{{ history }}\\n## Goal\\nthe aim", "{{ history }}{{ previous_summary }}\\n## Goal\\n")
    >>> broken_rules(t, Template("s", "{{ history }}\\n## Aim\\nthe aim", t.update))
    ("first: the headings must stay ['## Goal'], but they are ['## Aim']",)
    """
    problems = []
    if revised.system != original.system:
        problems.append("system: must stay as it is")
    for part in PARTS:
        problems += _structure(part, original, revised)
        problems += [
            f"{part}: names {literal!r}, which belongs to one task only"
            for literal in _named_instances(part, original, revised, instances)
        ]
    return tuple(problems)


def unusable(revised: Template) -> tuple[str, ...]:
    """What makes any template unusable, locked or not."""
    return tuple(str(finding) for finding in lint(revised) if finding.level == "error")


def problems_of(original: Template, revised: Template, instances: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """All that keeps a revision from being a candidate under the lock."""
    return (*unusable(revised), *broken_rules(original, revised, instances))


def locked_candidate(
    name: str, original: Template, revised: Template, clauses: Sequence[Clause], instances: frozenset[str]
) -> Candidate:
    """A revision with its clauses, or what is wrong with it."""
    if problems := problems_of(original, revised, instances):
        return Candidate(name, None, (), problems)
    return Candidate(name, revised, tuple(clauses))


def _structure(part: str, original: Template, revised: Template) -> list[str]:
    before, after = original.part(part), revised.part(part)
    problems = []
    headings = [[s.heading.strip() for s in t.sections(part) if s.level] for t in (original, revised)]
    if headings[0] != headings[1]:
        problems.append(f"{part}: the headings must stay {headings[0]}, but they are {headings[1]}")
    problems += lost_placeholders(part, original, revised)
    if Counter(_TAG.findall(before)) != Counter(_TAG.findall(after)):
        problems.append(f"{part}: the tags must stay {_TAG.findall(before)}")
    if headings[0] == headings[1]:
        for old, new in zip(original.sections(part), revised.sections(part), strict=True):
            missing = set(_FIELD.findall(old.guidance)) - set(_FIELD.findall(new.guidance))
            if missing:
                problems.append(f"{part}, section {old.title!r}: must keep its form {sorted(missing)}")
            elif _says_something(old) and not _says_something(new):
                problems.append(f"{part}, section {old.title!r}: must not be emptied")
    disguised = Counter(_DISGUISED.findall(after)) - Counter(_DISGUISED.findall(before))
    problems += [f"{part}: {line!r} would be a section of its own, and none may be added" for line in disguised]
    return problems + _format(part, original.sections(part), revised.sections(part))


def _says_something(section: Section) -> bool:
    return re.search(r"\w", _FIELD.sub("", section.guidance)) is not None


def _format(part: str, original: Sequence[Section], revised: Sequence[Section]) -> list[str]:
    """What is said of the output's format stays, word for word, and nothing releases from it.

    That is what stands last before the first heading, and other sentences there about headings, format and length.
    """
    before = _sentences(section for section in original if not section.level)
    fixed = [sentence for sentence in before if _FORMAT.search(sentence) or sentence == before[-1]]
    known, now = set(_sentences(original)), _sentences(revised)
    problems = [f"{part}: must keep the sentence {sentence!r}" for sentence in fixed if sentence not in now]
    freed = [sentence for sentence in now if sentence not in known and _NO_FORMAT.search(sentence)]
    return problems + [f"{part}: must keep the output's format, but says {sentence[:80]!r}" for sentence in freed]


def _sentences(sections: Iterable[Section]) -> list[str]:
    texts = (_TAG.sub("", section.guidance) for section in sections)
    parts = [sentence for text in texts for sentence in _SENTENCE_END.split(text)]
    return [
        sentence for sentence in parts if re.search(r"\w", fill(sentence, dict.fromkeys(placeholders(sentence), "")))
    ]


def lost_placeholders(part: str, original: Template, revised: Template) -> list[str]:
    """What breaks even a free rewriting: a part must fill the same places as before."""
    before, after = placeholders(original.part(part)), placeholders(revised.part(part))
    if Counter(before) == Counter(after):
        return []
    wanted = [f"{{{{ {name} }}}}" for name in before]
    return [f"{part}: the placeholders must stay {wanted}, each as often as before"]


def _named_instances(part: str, original: Template, revised: Template, instances: frozenset[str]) -> list[str]:
    """Instances of the evidence in what is new; what the template itself says is nobody's instance."""
    old = set(original.part(part).splitlines())
    added = "\n".join(line for line in revised.part(part).splitlines() if line not in old)
    own = "\n".join((original.system, original.first, original.update))
    return [literal for literal in sorted(instances) if names(added, literal) and not names(own, literal)]
