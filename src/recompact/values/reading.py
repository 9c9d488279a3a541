"""Small files that a user names: whatever is at their path, reading ends soon."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MOST = 16 * 1024 * 1024
"""Bytes of a config or of a part of a template, at most."""


def read_small(path: Path) -> str:
    """The text of a regular file. Raises OSError or ValueError for anything else, a pipe or a device included."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)  # a pipe would wait for a writer
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ValueError("it is not an ordinary file")
    with os.fdopen(handle, "rb") as file:
        content = file.read(MOST + 1)
    if len(content) > MOST:
        raise ValueError(f"it has more than {MOST:,} bytes")
    return content.decode("utf-8")
