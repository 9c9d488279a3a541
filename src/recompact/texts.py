"""Texts that models and environments wrote, made fit to be shown: cut where they are long, and with nothing hidden.

Comes in: any text, also one that was written to deceive. Goes out: plain text for a terminal or a page. Escaping for
HTML is not done here but by the page, for everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from recompact.tokens import TokenCounter
from recompact.trajectory import Action

SLACK = 40  # a cut that saves less than this is not worth its mark

_HIDDEN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for tab and line feed
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or reordering
    "\ud800-\udfff"  # half a character, which no encoding can carry
    "\ufdd0-\ufdef\ufffe\uffff"  # no characters at all
    "\U000e0000-\U000e007f"  # tags: text that is not seen
    "]"
)


def visible(text: str) -> str:
    """With a visible mark in place of each character that is not seen, or that changes the order of others.

    >>> visible("rm -rf /\\x00 \\u202egnp.exe")
    'rm -rf /␀ ⟨U+202E⟩gnp.exe'
    """
    return _HIDDEN.sub(_mark, text.replace("\r\n", "\n"))


def _mark(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"⟨U+{code:04X}⟩"


def cut(text: str, limit: int) -> tuple[str, int]:
    """The beginning of a text, and how many characters were left out: none where it is about as short as the limit.

    >>> cut("a" * 1000, 100)[1], cut("a" * 120, 100)[1]
    (900, 0)
    """
    more = len(text) - limit
    return (text, 0) if more < SLACK else (text[:limit], more)


_LONGEST_TOKEN = 128  # characters: no vocabulary of ours has a longer one


def keep_ends(text: str, limit: int, count: TokenCounter) -> tuple[str, int]:
    """Head and tail of a text of more than so many tokens with a mark between them, and about how many are left out.

    >>> keep_ends("one two three four", 100, lambda text: len(text.split()))
    ('one two three four', 0)
    >>> print(keep_ends("abcdefgh" * 100, 40, lambda text: len(text) // 4)[0])
    abcdefghabcdefghabcdefghabcdefghabcdefgh
    [… about 160 tokens are left out here …]
    abcdefghabcdefghabcdefghabcdefghabcdefgh
    """
    if len(text) * 4 <= limit:  # a character is four bytes at the most, and a token at least one
        return text, 0
    half = max(1, (limit - 20) // 2)  # the mark between them counts as well
    reach = _LONGEST_TOKEN * limit
    estimated = 0
    if len(text) > 2 * reach:  # surely too long: its middle need not be counted to know that
        estimated = int((len(text) - 2 * reach) * count(text[:reach]) / reach)
        total = count(text[:reach]) + estimated + count(text[-reach:])
    else:
        total = count(text)
    if total <= limit:
        return text, 0
    head = _fitting(text[:reach], half, count, lambda part, size: part[:size])
    tail = _fitting(text[-reach:], half, count, lambda part, size: part[len(part) - size :])
    omitted = total - limit
    return f"{head}\n[… about {omitted:,} tokens are left out here …]\n{tail}", omitted


def _fitting(text: str, limit: int, count: TokenCounter, part: Callable[[str, int], str]) -> str:
    """A part of the text that has no more tokens than the limit, found in a few steps by proportion."""
    size = len(text)
    while size and (tokens := count(part(text, size))) > limit:
        size = min(size - 1, size * limit // tokens)
    return part(text, size)


def action_line(action: Action) -> str:
    """An action on one line.

    >>> action_line(Action("look", {"page": 2})), action_line(Action("", text="I am done."))
    ('look(page=2)', 'I am done.')
    """
    if not action.name:
        return action.text.replace("\n", " ") or "(no action)"
    given = action.text or ", ".join(f"{k}={json.dumps(v, ensure_ascii=False)}" for k, v in action.arguments.items())
    return f"{action.name}({given})".replace("\n", " ")
