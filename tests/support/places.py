"""Places that a result may be written to or not, and what stands in them."""

from __future__ import annotations

import os
from pathlib import Path


def contents(directory: Path) -> dict[str, bytes | str | None]:
    """Everything below a directory: bytes of files, targets of links."""
    return {
        str(path.relative_to(directory)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in directory.rglob("*")
    }


def deep(root: Path, levels: int = 3000) -> None:
    """Make directories in directories, each called d."""
    handle = os.open(root, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)
