"""Places that a result may be written to or not, and what stands in them."""

from __future__ import annotations

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
