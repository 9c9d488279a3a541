"""The built-in transcript readers, and how files find theirs. Another takes one file and one row here; nothing else
knows its name. Beside the logs of a job of Harbor lies the result of its trial, which has the task and the reward.
"""

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
    inspect,
    openai_messages,
    opencode,
    openhands,
    otlp,
    pi,
)
from recompact.harnesses.transcripts.files import DOCUMENT_LIMIT, RecordFile, decode, find, sample
from recompact.harnesses.transcripts.reader import Reader, mapping, text
from recompact.values.session import Event, Info, NewSession, SkippedFile, Tally, Transcript, Unreadable

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
    openai_messages.HERMES,
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
        elif each is not None:
            known[each.file.path, each.file.member] = each
    continued = {each.following for each in known.values()}
    used: set[tuple[Path, str]] = set()
    results: dict[Path, Info | None] = {}
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
            events = partial(_events, reader, files, _trial_outcome(first.path, results))
            yield Transcript(first.path, first.member, reader.harness, size, modified, events, reader.tail)


@dataclass(frozen=True)
class _KnownFile:
    file: RecordFile
    reader: Reader
    following: tuple[Path, str] | None  # the file in which its session goes on


def _recognise(file: RecordFile, readers: Sequence[Reader]) -> _KnownFile | SkippedFile | None:
    """None for a result of Harbor's, which is read with the logs beside it."""
    try:
        values = sample(file)
    except Unreadable as error:
        return SkippedFile(file.path, "unreadable", str(error))
    except OSError as error:
        return SkippedFile(file.path, "unreadable", error.strerror or str(error))
    reader = reader_of(values, file.path, readers)
    if reader is None and file.path.name == RESULT and _is_result(values):
        return None
    if reader is None:
        return SkippedFile(file.path, "foreign" if values else "empty")
    name = reader.next_file(values)
    return _KnownFile(file, reader, (file.path.parent / name, "") if name else None)


def _modification_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it has gone since; reading it says so
        return 0.0


def _events(reader: Reader, files: Sequence[RecordFile], outcome: Info | None, tally: Tally) -> Iterator[Event]:
    """The events of a transcript; what came of it belongs to its first session, the others being subagents."""
    for event in reader.read((record for file in files for record in file.open(tally)), tally):
        if isinstance(event, NewSession) and outcome is not None:
            yield outcome
            outcome = None
        yield event
    if outcome is not None:
        yield outcome


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


# --- Harbor

RESULT = "result.json"
_ABOVE = 8  # folders: agents nest their own logs, as `agent/sessions/2026/11/18`


def _is_result(values: list[Any]) -> bool:
    """Whether these records are the result of a trial or of a job, and no transcript."""
    document = mapping(values[0]) if len(values) == 1 else {}
    return "trial_name" in document or {"n_total_trials", "stats"} <= document.keys()


def _trial_outcome(path: Path, results: dict[Path, Info | None]) -> Info | None:
    """What the trial that a log belongs to came to; None for a log of no trial. `results` remembers what was read."""
    for folder in list(path.parents)[:_ABOVE]:
        if folder not in results:
            results[folder] = _outcome_in(folder)
        if (outcome := results[folder]) is not None:
            return outcome
    return None


def _outcome_in(folder: Path) -> Info | None:
    file = folder / RESULT
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > DOCUMENT_LIMIT:
            return None
        document = mapping(decode(file.read_bytes()))
    except (OSError, ValueError):
        return None
    if "trial_name" not in document:
        return None
    reward = _reward(mapping(document.get("verifier_result")))
    return Info(score=reward, task=text(document.get("task_name")))


def _reward(result: Mapping[str, Any]) -> float | None:
    """The reward by that name, or the only one. A trial without a verdict has none: it did not score 0."""
    rewards = {
        key: float(value)
        for key, value in mapping(result.get("rewards")).items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return rewards.get("reward", next(iter(rewards.values())) if len(rewards) == 1 else None)
