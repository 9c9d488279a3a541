"""The section lock: a revised template keeps its structure, and its guidance names no instance of the evidence.

It is checked by parsing, never by asking; what is broken is said in words that an optimizer can act on.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from recompact.template import Template, lint, placeholders

PARTS = ("first", "update")
_TAG = re.compile(r"</?[a-zA-Z][\w-]*>")
_FIELD = re.compile(r"^\s*(- \[[ xX]\]|\d+\.|- \*\*)", re.MULTILINE)


def broken_rules(original: Template, revised: Template, instances: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What a locked revision must not have changed: headings, placeholders, tags and required fields; no instances.

    >>> t = Template("s", "{{ history }}\\n## Goal\\nthe aim", "{{ history }}{{ previous_summary }}\\n## Goal\\n")
    >>> broken_rules(t, Template("s", "{{ history }}\\n## Aim\\nthe aim", t.update))
    ("first: the headings must stay ['## Goal'], but they are ['## Aim']",)
    """
    found = []
    if revised.system != original.system:
        found.append("system: must stay as it is")
    for part in PARTS:
        found += _structure(part, original, revised)
        found += [
            f"{part}: names {literal!r}, which belongs to one task only"
            for literal in _named(part, original, revised, instances)
        ]
    return tuple(found)


def unusable(revised: Template) -> tuple[str, ...]:
    """What makes any template unusable, locked or not."""
    return tuple(str(finding) for finding in lint(revised) if finding.level == "error")


def _structure(part: str, original: Template, revised: Template) -> list[str]:
    before, after = original.part(part), revised.part(part)
    found = []
    headings = [[s.heading.strip() for s in t.sections(part) if s.level] for t in (original, revised)]
    if headings[0] != headings[1]:
        found.append(f"{part}: the headings must stay {headings[0]}, but they are {headings[1]}")
    found += lost_placeholders(part, original, revised)
    if Counter(_TAG.findall(before)) != Counter(_TAG.findall(after)):
        found.append(f"{part}: the tags must stay {_TAG.findall(before)}")
    if headings[0] == headings[1]:
        for old, new in zip(original.sections(part), revised.sections(part), strict=True):
            missing = set(_FIELD.findall(old.guidance)) - set(_FIELD.findall(new.guidance))
            if missing:
                found.append(f"{part}, section {old.title!r}: must keep its form {sorted(missing)}")
    return found


def lost_placeholders(part: str, original: Template, revised: Template) -> list[str]:
    """What even a free rewriting must keep: a part fills the same places as before."""
    before, after = placeholders(original.part(part)), placeholders(revised.part(part))
    if Counter(before) == Counter(after):
        return []
    wanted = [f"{{{{ {name} }}}}" for name in before]
    return [f"{part}: the placeholders must stay {wanted}, each as often as before"]


def _named(part: str, original: Template, revised: Template, instances: frozenset[str]) -> list[str]:
    """Instances of the evidence that stand in what is new; what the template itself says is nobody's instance."""
    known = set(original.part(part).splitlines())
    added = "\n".join(line for line in revised.part(part).splitlines() if line not in known)
    own = original.part(part)
    return [literal for literal in sorted(instances) if _stands_in(literal, added) and not _stands_in(literal, own)]


def _stands_in(literal: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(literal)}(?!\w)", text) is not None


_INSTANCES = (
    re.compile(r"[\w.+-]+@[\w-]+\.[\w.]*\w"),  # addresses
    re.compile(r"\b\d{4}-\d\d-\d\d\b"),  # dates
    re.compile(r"\b\d+\.\d\d\b"),  # amounts
    re.compile(r"\b(?=[\w-]*\d)(?=[\w-]*[a-zA-Z])[\w-]{4,}\b"),  # ids and tokens: letters and digits mixed
    re.compile(r"\b[A-Z][a-z]+ [A-Z][a-z]+\b"),  # names of people and things
    re.compile(r"(?<![\d-])\d{5,}\b"),  # long numbers
)


def instances_in(texts: Iterable[str]) -> frozenset[str]:
    """What in the evidence belongs to one task: names, ids, dates, amounts.

    >>> sorted(instances_in(["Ann Miller paid 12.50 on 2025-03-01 (t1042)"]))
    ['12.50', '2025-03-01', 'Ann Miller', 't1042']
    """
    return frozenset(found for text in texts for pattern in _INSTANCES for found in pattern.findall(text))
