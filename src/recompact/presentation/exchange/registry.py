"""The formats that a run can be exported to. Another is one file with a function `write`, and one row here."""

from __future__ import annotations

from pathlib import Path

from recompact.engine.store.store import Store
from recompact.presentation.exchange.episodes import read_episodes
from recompact.registry import Registry
from recompact.values.outputs import replaced_directory

EXPORT = "exported run"
FORMATS = Registry(
    "format",
    "recompact.formats",
    {name: f"recompact.presentation.exchange.{name}:write" for name in ("atif", "inspect", "otlp", "jsonl")},
)


def export_run(store: Store, form: str, out: Path, *, mask: bool = False) -> tuple[Path, ...]:
    """Write a run in a format into a directory that is new, empty or an earlier export; returns its files."""
    write = FORMATS.find(form)
    with replaced_directory(out, EXPORT) as directory:
        write(store, read_episodes(store, mask=mask), directory)
        names = sorted(path.name for path in directory.iterdir())
    return tuple(out / name for name in names)
