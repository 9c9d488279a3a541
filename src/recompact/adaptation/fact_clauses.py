"""One clause for each kind of fact, as an order or as an entry, where in a template it belongs, and a template with it.

The clauses are fixed sentences: whatever the evidence says, none of it can get into a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recompact.adaptation.missing_facts import AGAIN, Kind
from recompact.adaptation.placement import leaves, with_lines
from recompact.values.template import Section, Template, parse_sections

CLAUSES: Mapping[Kind, str] = {
    "secret": (
        "Copy the value of every access token, password and key that is still valid, exactly, character for character,"
        " with what it gives access to."
    ),
    "identifier": (
        "Copy the value of every identifier and address that later work refers to, exactly, with what it stands for."
    ),
    "path": "Copy every path, file name and link that was used or discovered, exactly, with what is there.",
    "number": "Copy the value of every count, number and code that later work depends on, exactly, with its meaning.",
    "amount": "Copy every amount exactly, to the last digit, with what it belongs to; never round or merge amounts.",
    "date": "Copy every date and time exactly, with what it belongs to.",
    "wording": "Copy every name, title and wording that has to be used again, word for word.",
    "interface": "Copy the exact name of every API and function that was looked up, with all its parameters.",
    "page": "Record exactly which pages or parts of a list were read, how many there are, and which remain.",
    "result": "Keep the records that were retrieved, one by one, with every field that later work needs.",
    "done": "Record every action that was completed, each exactly once, with its arguments: it is done.",
    "condition": "Keep every condition of the task exactly: who, since when, which ones; never widen or narrow a set.",
    "open": "Keep every item that is still unresolved among the next steps, and never present it as done.",
    "error": "Keep every error text exactly, with what caused it.",
}
UNALTERED = " Never alter, complete or reformat such a value."
"""What a clause adds where summaries had values other than those they were given."""


@dataclass(frozen=True)
class Form:
    """How the clauses are worded."""

    clauses: Mapping[Kind, str]
    unaltered: str


ORDERS = Form(CLAUSES, UNALTERED)
"""Each clause tells the compressor what to do."""

ENTRIES = Form(
    {
        "secret": (
            "token: the value of every access token, password and key that is still valid, copied exactly, character"
            " for character, with what it gives access to."
        ),
        "identifier": (
            "id: the value of every identifier and address that later work refers to, copied exactly, with what it"
            " stands for."
        ),
        "path": "path: every path, file name and link that was used or discovered, copied exactly, with what is there.",
        "number": (
            "number: the value of every count, number and code that later work depends on, copied exactly, with its"
            " meaning."
        ),
        "amount": "amount: every amount, exact to the last digit, with what it belongs to; none rounded or merged.",
        "date": "date: every date and time, copied exactly, with what it belongs to.",
        "wording": "wording: every name, title and wording that has to be used again, word for word.",
        "interface": "call: the exact name of every API and function that was looked up, with all its parameters.",
        "page": "pages: exactly which pages or parts of a list were read, how many there are, and which remain.",
        "result": "records: the records that were retrieved, one by one, with every field that later work needs.",
        "done": "done: every action that was completed, each exactly once, with its arguments.",
        "condition": (
            "condition: every condition of the task exactly as it was put: who, since when, which ones; no set widened"
            " or narrowed."
        ),
        "open": "open: every item that is still unresolved; none of them is written as done.",
        "error": "error: every error text exactly, with what caused it.",
    },
    " The value as it was, never altered, completed or reformatted.",
)
"""Each clause has the form of the line that is wanted: a small compressor may repeat an order without following it."""

SPARING = Form(
    {
        "secret": "token: access tokens and passwords in use, with what they give access to.",
        "identifier": "id: identifiers and addresses that later work refers to, with what they stand for.",
        "path": "path: paths, file names and links in use, with what is there.",
        "number": "number: counts, numbers and codes that later work depends on, with their meaning.",
        "amount": "amount: amounts to the last digit, with what they belong to.",
        "date": "date: dates and times, with what they belong to.",
        "wording": "wording: names, titles and wordings that have to be used again.",
        "interface": "call: names of the APIs and functions that were looked up, with their parameters.",
        "page": "pages: which pages of a list were read, and how many there are.",
        "result": "records: the rows that were retrieved, with the fields that later work needs.",
        "done": "done: actions that were completed, with their arguments.",
        "condition": "condition: the conditions of the task as it puts them: who, since when, which ones.",
        "open": "open: what is not done yet.",
        "error": "error: error texts, with what caused them.",
    },
    " The value as it was.",
)
"""Entries without absolutes: where room is short, a compressor that is told to keep everything of one kind writes so
much of it that other things have to go."""

_KEEPING = r"context|reference|data|state|fact|detail|information|knowledge|note"
_WORK = (r"done\b|complete|finish|accomplish", r"progress|status|history|so far", _KEEPING)
_PLACES: Mapping[Kind, tuple[str, ...]] = {
    "path": (r"file|artifact|path|resource|link", _KEEPING),
    "page": _WORK,
    "done": _WORK,
}


def clause_of(kind: Kind, contradicted: int = 0, form: Form = ORDERS) -> str:
    """The clause against the loss of such facts."""
    return form.clauses[kind] + (form.unaltered if contradicted and kind not in AGAIN else "")


ALL_CLAUSES = tuple(
    clause_of(kind, wrong, form) for form in (ORDERS, ENTRIES, SPARING) for kind in CLAUSES for wrong in (0, 1)
)
"""Every sentence that can get into a prompt."""


def section_of(kind: Kind, text: str) -> str:
    """The title of the section under which a fact of this kind would go; empty where there is no heading."""
    sections = parse_sections(text)
    return sections[_place(kind, sections)].title


def with_clauses(template: Template, clauses: Sequence[tuple[Kind, str]]) -> Template:
    """The template with each clause as a line of its section, in both parts, in the order given."""
    return with_lines(template, lambda sections: [(_place(kind, sections), clause) for kind, clause in clauses])


def _place(kind: Kind, sections: Sequence[Section]) -> int:
    """The section: the first whose title says so, among those that hold text, or else the last."""
    holding = leaves(sections)
    for words in _PLACES.get(kind, (_KEEPING,)):
        for at in holding:
            if re.search(rf"(?i)\b(?:{words})", sections[at].title):
                return at
    return holding[-1] if holding else len(sections) - 1
