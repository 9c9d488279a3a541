"""What an export consists of, and how it is saved to disk without replacing anything the user has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from recompact.errors import InputError
from recompact.values.outputs import replaced_directory, write_file

EXPORT = "export"
"""What the manifest of such a directory calls it."""


@dataclass(frozen=True)
class ExportFile:
    """A file of an export. One with a `place` works unchanged once put there; where others go, the instructions say."""

    name: str
    text: str
    place: str = ""

    @property
    def data(self) -> bytes:
        return self.text.encode("utf-8")


@dataclass(frozen=True)
class Export:
    """What makes a harness use a template: files, what to do with them, how to see that they are in force, the traps of
    this harness, and what it cannot carry of the template."""

    files: tuple[ExportFile, ...]
    steps: tuple[str, ...]
    checks: tuple[str, ...]
    traps: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()


def write_export(export: Export, directory: Path) -> list[Path]:
    """Write all files into a directory of their own: a new one, or over an earlier export."""
    with replaced_directory(directory, EXPORT) as fresh:
        for file in export.files:
            path = fresh / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data)
    return [directory / file.name for file in export.files]


def install(export: Export, *, force: bool) -> list[tuple[Path, Path | None]]:
    """Put files that have a place there; return each with the earlier file, if one was moved aside."""
    placed = [(file, Path(file.place).expanduser()) for file in export.files if file.place]
    if not placed:
        raise InputError(
            "this harness takes the template in your code or settings, so there is nothing to install:"
            " leave --install out, and follow the steps that are printed"
        )
    taken = [path for file, path in placed if os.path.lexists(path) and not _same(path, file.data)]
    if taken and not force:
        raise InputError(
            f"{taken[0]} already exists: nothing was written; with --force it is moved aside, or leave --install out"
        )
    return [(path, _put(path, file.data)) for file, path in placed]


def _same(path: Path, data: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == data


def _put(path: Path, data: bytes) -> Path | None:
    earlier = None
    if os.path.lexists(path) and not _same(path, data):
        earlier = _free(path.with_name(f"{path.name}.earlier-{number}") for number in range(1, 1000))
        path.rename(earlier)
    write_file(path, data, "an export", lambda _: True, "--out")
    return earlier


def _free(paths: Iterable[Path]) -> Path:
    for path in paths:
        if not os.path.lexists(path):
            return path
    raise InputError("there are too many earlier files beside the place: remove some, or leave --install out")
