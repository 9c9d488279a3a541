"""The built-in transcript readers, and how files find theirs. Another takes one file and one row here;
nothing else knows its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from recompact.harnesses.transcripts import (
    atif,
    claude_code,
    codex,
    copilot,
    gemini,
    hermes,
    inspect,
    openai_messages,
    opencode,
    openhands,
    otlp,
    pi,
)
from recompact.harnesses.transcripts.files import RecordFile, find, sample
from recompact.harnesses.transcripts.reader import Reader
from recompact.values.session import Event, SkippedFile, Tally, Transcript, Unreadable

# Asked in this order: the plain form at the end takes what no other knows.
READERS: tuple[Reader, ...] = (
    claude_code.READER,
    codex.READER,
    pi.OPENCLAW,
    pi.READER,
    openhands.READER,
    copilot.READER,
    opencode.READER,
    gemini.READER,
    atif.READER,
    inspect.READER,
    otlp.READER,
    hermes.READER,
    openai_messages.READER,
)


def reader_of(sample: list[Any], path: Path, readers: Sequence[Reader] = READERS) -> Reader | None:
    """The reader of the format that these first records are in."""
    return next((reader for reader in readers if reader.recognises(sample, path)), None)


def read_transcripts(paths: Iterable[Path], readers: Sequence[Reader] = READERS) -> Iterator[Transcript | SkippedFile]:
    """The transcripts in files and folders, and what was skipped there. A session that goes on in another of these
    files is one transcript."""
    known: dict[tuple[Path, str], _KnownFile] = {}
    for file in find(paths):
        each = file if isinstance(file, SkippedFile) else _recognise(file, readers)
        if isinstance(each, SkippedFile):
            yield each
        else:
            known[each.file.path, each.file.member] = each
    continued = {each.following for each in known.values()}
    used: set[tuple[Path, str]] = set()
    # Beginnings first: what is left over then is a circle of files that name each other.
    for key in sorted(known, key=continued.__contains__):
        files: list[RecordFile] = []
        place: tuple[Path, str] | None = key
        while place in known and place not in used:
            used.add(place)
            files.append(known[place].file)
            place = known[place].following
        if files:
            first, reader = files[0], known[key].reader
            size, modified = sum(file.size for file in files), _modification_time(files[-1].path)
            yield Transcript(first.path, first.member, reader.harness, size, modified, partial(_events, reader, files))


@dataclass(frozen=True)
class _KnownFile:
    file: RecordFile
    reader: Reader
    following: tuple[Path, str] | None  # the file in which its session goes on


def _recognise(file: RecordFile, readers: Sequence[Reader]) -> _KnownFile | SkippedFile:
    try:
        values = sample(file)
    except Unreadable as error:
        return SkippedFile(file.path, "unreadable", str(error))
    except OSError as error:
        return SkippedFile(file.path, "unreadable", error.strerror or str(error))
    reader = reader_of(values, file.path, readers)
    if reader is None:
        return SkippedFile(file.path, "foreign" if values else "empty")
    name = reader.next_file(values)
    return _KnownFile(file, reader, (file.path.parent / name, "") if name else None)


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it has gone since; reading it says so
        return 0.0


def _events(reader: Reader, files: Sequence[RecordFile], tally: Tally) -> Iterator[Event]:
    return reader.read((record for file in files for record in file.open(tally)), tally)


def usual_places(
    environment: Mapping[str, str] = os.environ, readers: Sequence[Reader] = READERS
) -> Iterator[tuple[str, Path]]:
    """Where the harnesses keep their transcripts on this machine: the folders that exist."""
    for reader in readers:
        for place in reader.places:
            root = environment.get(place.variable) if place.variable else None
            folder = Path(root or place.default).expanduser() / place.folder
            if folder.is_dir():
                yield reader.harness, folder
