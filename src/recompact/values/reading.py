"""What a user writes: small files, whose reading ends soon whatever is there; where the keys of a TOML text stand,
since the standard library's reader keeps no positions; and a key as a field of a dataclass, with its meaning.

pydantic reads the meaning from the field's metadata, so modules that hosts import need no pydantic.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator
from copy import copy
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")


def key(default: Value, meaning: str) -> Value:
    """A field with this default and meaning; typed as its default, as `dataclasses.field` is."""
    described = {"description": meaning}
    if isinstance(default, dict):
        return field(default_factory=lambda: copy(default), metadata=described)
    return field(default=default, metadata=described)


MOST = 16 * 1024 * 1024
"""Bytes of a config or of a part of a template, at most."""


def read_small(path: Path, most: int = MOST) -> str:
    """The text of a regular file of at most that many bytes. Raises OSError or ValueError for anything else, such as a
    pipe or a device."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)  # a pipe would wait forever
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("it is not an ordinary file")
    with os.fdopen(handle, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content.decode("utf-8")


Place = tuple[str, ...]
"""The path of a key or a table; entries of arrays by their number, as text."""


@lru_cache(maxsize=8)
def lines_of(text: str) -> dict[Place, int]:
    """The line of the statement that first defines each key and each table of a valid text.

    Raises RecursionError where a key is nested too deeply.

    >>> lines_of("[run]\\nseed = 1\\n[[a]]\\nb.c = {d = 2}")
    {('run',): 1, ('run', 'seed'): 2, ('a',): 3, ('a', '0'): 3, ('a', '0', 'b'): 4, ...}
    """
    lines: dict[Place, int] = {}
    sizes: dict[Place, int] = {}  # of arrays of tables, so far
    table: Place = ()
    for begin, statement in _statements(text.replace("\r\n", "\n")):
        data: Any = tomllib.loads(statement)
        if not statement.lstrip().startswith("["):
            for place in _places(data):
                lines.setdefault((*table, *place), begin)
            continue
        table = ()
        while data:
            ((part, data),) = data.items()
            table = _within(table, part)
            lines.setdefault(table, begin)
            if isinstance(data, list):
                sizes[table] = sizes.get(table, 0) + 1
                (data,) = data
            if table in sizes:  # it goes on in the last table of that array
                table = _within(table, str(sizes[table] - 1))
                lines.setdefault(table, begin)
    return lines


_TOKEN = re.compile(  # without possessive quantifiers: those of Python 3.11.2 miss strings with a quote in them
    r"""\"{3}[^"\\]*(?:(?:\\.|"{1,2}(?!"))[^"\\]*)*"{3,5}
    | '{3}[^']*(?:'{1,2}(?!')[^']*)*'{3,5} | "[^"\\\n]*(?:\\.[^"\\\n]*)*" | '[^'\n]*'
    | \#[^\n]* | [\[\]{}\n]""",
    re.DOTALL | re.VERBOSE,
)
_DEEPEST = 200  # parts of a key


def refuse_deep_keys(text: str) -> None:
    """Raise RecursionError where a text has a key of very many parts: the time to read one grows with their square."""
    rest = _TOKEN.sub(lambda token: token[0][:1] if token[0][:1] in "[]{}\n" else "x", text)
    if any(each.count(".") > _DEEPEST for each in re.split(r"[][{}=,\n]", rest)):
        raise RecursionError


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a valid text, each with the line where it begins."""
    begin, line, start, depth = 1, 1, 0, 0
    for token in _TOKEN.finditer(text + "\n"):
        what = token[0]
        line += what.count("\n")
        depth += (what in "[{") - (what in "]}")
        if what == "\n" and not depth:
            yield begin, text[start : token.end()]
            begin, start = line, token.end()


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (place := _within(at, str(key)))
            yield from _places(inner, place)


def _within(place: Place, part: str) -> Place:
    if len(place) == _DEEPEST:
        raise RecursionError
    return (*place, part)
