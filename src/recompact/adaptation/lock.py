"""The section lock: a revised template keeps its structure, and its guidance names no instance of the evidence.

It is checked by parsing, never by asking; broken rules are stated in words that an optimizer can act on.
"""

from __future__ import annotations

import re
from collections import Counter

from recompact.adaptation.instances import names
from recompact.values.template import Template, lint, placeholders

PARTS = ("first", "update")
_TAG = re.compile(r"</?[a-zA-Z][\w-]*>")
_FIELD = re.compile(r"^\s*(- \[[ xX]\]|\d+\.|- \*\*)", re.MULTILINE)


def broken_rules(original: Template, revised: Template, instances: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """What breaks the lock: headings, placeholders, tags and required fields must stay, and no instance be named.

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
    return problems


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
