"""The built-in transcript readers, and how files find theirs. Another takes one file and one row here;
nothing else knows its name."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    openclaw,
    opencode,
    openhands,
    pi,
)
from recompact.harnesses.transcripts.files import RecordFile, find, sample
from recompact.harnesses.transcripts.reader import Reader
from recompact.values.session import Event, SkippedFile, Tally, Transcript, Unreadable

# Asked in this order: the plain form at the end takes what no other knows.
READERS: tuple[Reader, ...] = (
    claude_code.READER,
    codex.READER,
    openclaw.READER,
    pi.READER,
    openhands.READER,
    copilot.READER,
    opencode.READER,
    gemini.READER,
    atif.READER,
    inspect.READER,
    hermes.READER,
    openai_messages.READER,
)


def reader_of(sample: list[Any], path: Path, readers: Sequence[Reader] = READERS) -> Reader | None:
    """The reader of the format that these first records are in."""
    return next((reader for reader in readers if reader.recognises(sample, path)), None)


def read_transcripts(paths: Iterable[Path], readers: Sequence[Reader] = READERS) -> Iterator[Transcript | SkippedFile]:
    """The transcripts in files and folders, and what was skipped there."""
    for file in find(paths):
        if isinstance(file, SkippedFile):
            yield file
            continue
        try:
            values = sample(file)
            reader = reader_of(values, file.path, readers)
            if reader is None:
                yield SkippedFile(file.path, "foreign" if values else "empty")
            else:
                modified = file.path.stat().st_mtime
                yield Transcript(
                    file.path, file.member, reader.harness, file.size, modified, partial(_events, reader, file)
                )
        except Unreadable as error:
            yield SkippedFile(file.path, "unreadable", str(error))
        except OSError as error:
            yield SkippedFile(file.path, "unreadable", error.strerror or str(error))


def _events(reader: Reader, file: RecordFile, tally: Tally) -> Iterator[Event]:
    return reader.read(file.open(tally), tally)


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
