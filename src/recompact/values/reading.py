"""What a user writes: small files, whose reading ends soon whatever is there; where the keys of a TOML text stand,
since the standard library's reader keeps no positions; and a key as a field of a dataclass, with its meaning.

pydantic reads the meaning from the field's metadata, so modules that hosts import need no pydantic.
"""

from __future__ import annotations

import os
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
