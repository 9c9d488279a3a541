"""Exact values in what an agent sent and saw: identifiers, tokens, addresses, paths, hashes, long numbers.

Words and short numbers are not among them: these a summary can say, or the agent can guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recompact.values.literals import literals

_VALUE = re.compile(
    r"""
    [\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+                       # an address
    | (?<![\w-])(?=[\w-]{0,80}\d)(?=[\w-]{0,80}[A-Za-z])[A-Za-z0-9]\w*(?:[-_]\w+)+(?![\w-])  # an id of several parts
    | (?<!\w)(?=\w{0,80}\d)(?=\w{0,80}[A-Za-z])\w{8,80}(?!\w)          # a token
    """,
    re.VERBOSE,
)
_LONGEST = 80
_LOOKED_AT = 20_000  # characters of one text
_KINDS = frozenset({"url", "path", "hash", "file", "number"})


def exact_values(text: str) -> Iterator[str]:
    """The exact values of a text, each once, in order.

    >>> list(exact_values('{"token": "pay-7f3a91", "path": "/src/a/main.py", "note": "two of 12", "to": "ada@x.org"}'))
    ['pay-7f3a91', 'ada@x.org', '/src/a/main.py']
    """
    text = text[:_LOOKED_AT]
    found = dict.fromkeys(match[0] for match in _VALUE.finditer(text))
    more = (each.text for each in literals(text) if each.kind in _KINDS)
    yield from (value for value in dict.fromkeys((*found, *more)) if len(value) <= _LONGEST and ", " not in value)
