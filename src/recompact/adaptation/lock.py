"""The section lock: a revised template keeps its structure, and its guidance names no instance of the evidence.

It is checked by parsing, never by asking; broken rules are stated in words that an optimizer can act on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from recompact.adaptation.instances import names
from recompact.values.template import Section, Template, fill, lint, placeholders

PARTS = ("first", "update")
_TAG = re.compile(r"</?[a-zA-Z][\w-]*>")
_FIELD = re.compile(r"^\s*(- \[[ xX]\]|\d+\.|- \*\*)", re.MULTILINE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s*[\r\n]+\s*")
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
    parts = [sentence for text in texts for sentence in _SENTENCE.split(text)]
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
