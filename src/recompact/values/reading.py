"""Small files that a user names: whatever is at their path, reading ends soon."""

from __future__ import annotations

import os
import stat
from pathlib import Path

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
