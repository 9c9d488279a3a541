"""What a transcript reader is, and the few shapes of content that several harnesses share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts.files import Record
from recompact.values.session import Event, Role, Tail, Tally


@dataclass(frozen=True)
class Place:
    """A folder in which a harness keeps its transcripts: below a directory that a variable may move."""

    folder: str
    variable: str = ""  # the environment variable that names another directory
    default: str = "~"


@dataclass(frozen=True)
class Reader:
    """How the transcripts of one harness are recognised, found and read."""

    harness: str
    recognises: Callable[[list[Any], Path], bool]  # by the first records, and the path where those are not enough
    read: Callable[[Iterable[Record], Tally], Iterator[Event]]
    places: tuple[Place, ...] = ()
    next_file: Callable[[list[Any]], str] = lambda sample: ""  # the file beside it in which the session goes on
    tail: Tail | None = None  # what the harness's own compaction leaves word for word, by default


def objects_in(records: Iterable[Record], tally: Tally) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records that are objects; others are counted as broken."""
    for line, record in records:
        if isinstance(record, dict):
            yield line, record
        else:
            tally.broken += 1


def speaker(words: str, marks: tuple[str, ...]) -> Role:
    """Who a message in the user's name is from: the harness, if it begins with one of its marks.

    >>> speaker("<notice> done", ("<notice>",)), speaker("Go on.", ("<notice>",))
    ('system', 'user')
    """
    return "system" if words.lstrip().startswith(marks) else "user"


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def content_text(content: Any) -> str:
    """The text of a message's content: a string, a block, or blocks of which some carry text."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    texts = []
    for block in items(content):
        if isinstance(block, str):
            texts.append(block)
        elif isinstance(block, dict):
            texts.append(text(block.get("text")) or text(block.get("content")))
    return "\n".join(filter(None, texts))


def arguments(value: Any) -> Mapping[str, Any]:
    """The arguments of a call: a mapping, JSON of one in a string, or free text, which then goes under `input`."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str) and value[:1] == "{":
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            return parsed
    return {"input": value} if isinstance(value, str) else {}
