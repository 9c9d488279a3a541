"""Literals: the exact strings that cannot be guessed back once a summary has dropped them.

They are taken only from what the agent asked for after a compaction, and then looked up in the older text. The other
way round, indexing every literal of a session, costs ten times as much and finds the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LITERAL = re.compile(
    r"(?P<url>https?://[^\s'\"`<>()\[\]{}|]+)"
    r"|(?<![\w.@~+-])(?P<path>[\w.@~+-]*(?:[/\\][\w.@+-]+)+)"
    r"|(?P<hash>\b(?=[0-9a-f]{0,39}[0-9])(?=[0-9a-f]{0,39}[a-f])[0-9a-f]{7,40}\b)"
    r"|(?<![\w-])(?P<file>[\w-]{1,80}\.[a-z]{1,5}\b)"
    r"|(?P<name>\b[A-Za-z][a-z0-9]*(?:_[A-Za-z0-9]+)+\b|\b[A-Z0-9]+(?:_[A-Z0-9]+)+\b|\b[A-Za-z][a-z0-9]+(?:[A-Z][a-z0-9]+)+\b)"
    r"|(?<![\w.,-])(?P<number>\d{4,})(?![\w,])"
)
SHORTEST = 5  # characters; shorter ones are found everywhere
PARTS = 3  # parts of a path by which it is compared, so that relative and absolute spellings are one


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal as it was written, and the form in which it is compared."""

    kind: str
    text: str
    form: str


def literals(text: str) -> Iterator[Literal]:
    """The literals of a command or of a call's arguments, each once.

    >>> [(each.kind, each.form) for each in literals("sed -n '10,90p' /a/b/src/cli/main.py && git show 3f2a9c1")]
    [('path', 'src/cli/main.py'), ('hash', '3f2a9c1')]
    """
    forms = set()
    for match in _LITERAL.finditer(text):
        kind = match.lastgroup or ""
        word = match[0].rstrip(".,:;/\\")
        form = word
        if kind == "path":
            steps = [step for step in word.replace("\\", "/").split("/") if step not in ("", ".", "..")]
            form = "/".join(steps[-PARTS:])
            if word.startswith("/dev/") or len(steps) < 2:
                continue
        if len(form) >= SHORTEST - (kind == "number") and form not in forms:
            forms.add(form)
            yield Literal(kind, word, form)


def contains(text: str, form: str) -> bool:
    """Whether a text holds this literal, and not only as a piece of a longer word.

    >>> contains("see run_all.py", "run_all"), contains("see rerun_all_now", "run_all"), contains("a\\\\b.py", "a/b.py")
    (True, False, True)
    """
    if _whole(text, form):
        return True
    return "/" in form and "\\" in text and _whole(text, form.replace("/", "\\"))


def _whole(text: str, form: str) -> bool:
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        before, after = text[start - 1 : start] if start else "", text[end : end + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        start = text.find(form, start + 1)
    return False


def covers(text: str, literal: Literal) -> bool:
    """Whether a summary carries a literal. A file's name is enough for its path: the benefit of the doubt."""
    if contains(text, literal.form):
        return True
    name = literal.form.rsplit("/", 1)[-1]
    return literal.kind == "path" and "." in name and contains(text, name)
