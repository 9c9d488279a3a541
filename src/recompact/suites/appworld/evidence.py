"""What an episode leaves behind for its grader, as one text: the files in which the engine keeps the apps' changes.

It travels in the details of a score, where texts beyond some size would be cut, so it is compressed. Unpacking it
trusts nothing: it comes from a process in which an agent's code ran.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping

MOST_CHARACTERS = 3_500_000
"""In the compressed text, which has a few thousand in a typical episode."""

_MOST_BYTES = 256 * 1024 * 1024  # when unpacked
_FILE = re.compile(r"[a-z_]{1,40}\.jsonl?")


class Unusable(ValueError):
    """Unusable evidence; the text says why."""


def pack(files: Mapping[str, str]) -> str:
    text = base64.b64encode(zlib.compress(json.dumps(files).encode())).decode()
    if len(text) > MOST_CHARACTERS:
        raise Unusable(f"the episode has changed too much to be judged: {len(text):,} characters, compressed")
    return text


def unpack(text: object) -> dict[str, str]:
    """The files by name. Raises Unusable for what cannot be such files; it may come from an agent."""
    if not isinstance(text, str):
        raise Unusable("it is no text")
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(base64.b64decode(text, validate=True), _MOST_BYTES)
        files = json.loads(data) if unpacking.eof else None
    except (ValueError, zlib.error, RecursionError):
        files = None
    if not isinstance(files, dict):
        raise Unusable("it cannot be unpacked")
    for name, content in files.items():
        if not _FILE.fullmatch(name) or not isinstance(content, str):
            raise Unusable(f"{name[:80]!r} is not a file of the apps' state")
    return files
