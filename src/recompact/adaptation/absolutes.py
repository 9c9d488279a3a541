"""Absolutes in a template's own guidance: "exactly" makes a compressor write so much of one kind that others must go.

A sentence keeps what it asks for and loses only the absolute, and only where no tested cause is of a kind it names.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from recompact.adaptation.clause_reasons import kinds_named
from recompact.adaptation.missing_facts import Kind
from recompact.values.template import Template, parse_sections, render_sections

_SENTENCE = re.compile(r"[^.;:!?\n]+[.;:!?]*")
_ABSOLUTE = re.compile(
    r"(?i)[ ,]*\b(?:exactly|precisely|verbatim|literally|word for word|character for character|in full"
    r"|without exception)\b"
)


def without_absolutes(
    template: Template, tested: Collection[Kind] = ()
) -> tuple[Template, tuple[tuple[str, str], ...]]:
    """The template without absolutes for kinds that no tested cause has, and the changed sentences by section.

    >>> soften_sentence("Write paths and error texts exactly as they appeared.", ())
    'Write paths and error texts as they appeared.'
    >>> soften_sentence("Write paths and error texts exactly as they appeared.", ("path",))
    'Write paths and error texts exactly as they appeared.'
    """
    changed: dict[tuple[str, str], None] = {}
    parts = {part: _soften(template.part(part), tested, changed) for part in ("first", "update")}
    if not changed:
        return template, ()
    return replace(template, first=parts["first"], update=parts["update"], provenance={}), tuple(changed)


def soften_sentence(sentence: str, tested: Collection[Kind]) -> str:
    """The sentence without its absolutes, unless it names no kind, or one that a tested cause has."""
    named = kinds_named(sentence)
    return _ABSOLUTE.sub("", sentence) if named and not set(named) & set(tested) else sentence


def _soften(text: str, tested: Collection[Kind], changed: dict[tuple[str, str], None]) -> str:
    sections = []
    for section in parse_sections(text):

        def soften(match: re.Match[str], title: str = section.title) -> str:
            softer = soften_sentence(match[0], tested)
            if softer != match[0]:
                changed[title, softer.strip()] = None
            return softer

        own = _SENTENCE.sub(soften, section.guidance) if section.level else section.guidance
        sections.append(replace(section, guidance=own))
    return render_sections(tuple(sections))
