"""Where the keys and tables of a TOML text stand: the standard library's reader keeps no positions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Place = tuple[str, ...]
"""The path of a key or a table; entries of arrays by their number, as text."""


@lru_cache(maxsize=8)
def lines_of(text: str) -> dict[Place, int]:
    """The line of the statement that first defines each key and each table of a valid text.

    Statements are found by reading: a statement ends with the line at which what was gathered so far can be read.

    >>> lines_of("[run]\\nseed = 1\\n[[a]]\\nb.c = {d = 2}")
    {('run',): 1, ('run', 'seed'): 2, ('a',): 3, ('a', '0'): 3, ('a', '0', 'b'): 4, ...}
    """
    lines: dict[Place, int] = {}
    headers = statement = ""
    begin = 1
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        statement += line + "\n"
        try:
            data = tomllib.loads(headers + statement)
        except tomllib.TOMLDecodeError:
            continue
        for place in _places(data):
            lines.setdefault(place, begin)
        if statement.lstrip().startswith("["):
            headers += statement
        statement, begin = "", number + 1
    return lines


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*at, str(key))
            yield from _places(inner, (*at, str(key)))
