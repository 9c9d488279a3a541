"""Transcript files, read without trust: a stream of JSON records, whatever the file contains.

Lines, documents and archive members have limits, links inside a folder are not followed, and nothing is ever written.
What is skipped is reported.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import IO, Any

from recompact.values.session import SkippedFile, Tally, Unreadable
from recompact.version import install_command

try:
    import orjson
except ImportError:  # an extra: twice as fast, otherwise the same
    orjson = None  # type: ignore[assignment]
try:
    import zstandard
except ImportError:  # an extra: Inspect compresses its logs with it
    zstandard = None  # type: ignore[assignment]

LINE_LIMIT = 32 << 20  # bytes of one record; longer ones are images and other attachments
SKIPPED_LIMIT = 2 << 30  # bytes of such lines in one file, and of holes, which may be of any size
DOCUMENT_LIMIT = 64 << 20  # bytes of a file that is one JSON value and so has to be held in memory
MEMBERS_LIMIT = 5_000  # members of an archive
SAMPLE_LIMIT = 256 << 20  # bytes of a sample that an archive holds in chunks
WINDOW_LIMIT = 128 << 20  # bytes that zstd may need to look back
ZSTD = 93  # the number of this method in ZIP archives
ARCHIVE_LIMIT = 4 << 30  # bytes that all of its members may unpack to
BLOCK = 1 << 20
DEEPEST = 200  # folders in folders
SAMPLE = 64  # records by which a format is recognised
SAMPLE_BYTES = 8 << 20

SUFFIXES = (".jsonl", ".json", ".ndjson", ".eval", ".zip")

Record = tuple[int, Any]  # the number of its line, file or member, and its value


@dataclass(frozen=True)
class RecordFile:
    """The records of one file, folder or member. Each call of `open` reads them from the start."""

    path: Path
    member: str
    size: int
    open: Callable[[Tally], Iterator[Record]]


Find = Iterator[RecordFile | SkippedFile]


def decode(data: bytes) -> Any:
    """A JSON value. The slow decoder reads what the fast one refuses (half a surrogate pair, NaN, invalid UTF-8).

    >>> decode(b'{"a": "\\\\ud800"}')
    {'a': '\\ud800'}
    """
    if orjson is not None:
        try:
            return orjson.loads(data)
        except ValueError:
            pass
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def find(paths: Iterable[Path]) -> Find:
    """The transcripts in files and folders, each once, in the order of their paths, and what is skipped there."""
    seen: set[tuple[Path, str]] = set()
    for file in _all(paths):
        mark = (file.path.resolve(), file.member) if isinstance(file, RecordFile) else None
        if mark is None or mark not in seen:
            yield file
        if mark is not None:
            seen.add(mark)


def _all(paths: Iterable[Path]) -> Find:
    for path in paths:
        try:
            if path.is_dir():
                yield from _in_folder(path)
            elif path.is_file():
                yield from _of_file(path)
            elif path.exists():
                yield SkippedFile(path, "special")
            else:
                yield SkippedFile(path, "unreadable", "there is no such file or folder")
        except OSError as error:
            yield SkippedFile(path, "unreadable", error.strerror or str(error))


def _in_folder(root: Path) -> Find:
    refused: list[OSError] = []
    deepest = len(root.parts) + DEEPEST
    for folder, folders, names in os.walk(root, onerror=refused.append, followlinks=False):
        here = Path(folder)
        if len(here.parts) > deepest:
            yield SkippedFile(here, "unreadable", f"it is more than {DEEPEST} folders deep")
            folders[:] = []
            continue
        linked = [name for name in folders if (here / name).is_symlink()]
        yield from (SkippedFile(here / name, "link") for name in linked)
        folders[:] = sorted(name for name in folders if name not in linked)
        paths = [here / name for name in sorted(names) if name.endswith(SUFFIXES)]
        skipped = {path: file for path in paths if (file := _irregular(path))}
        yield from skipped.values()
        events: list[Path] = []
        others: list[Path] = []
        for path in (path for path in paths if path not in skipped):
            (events if fnmatch(path.name, "event-*.json") else others).append(path)
        if events:
            yield RecordFile(here, "", sum(path.lstat().st_size for path in events), partial(_event_files, events))
        for path in others:
            yield from _of_file(path)
    for error in refused:
        yield SkippedFile(Path(error.filename or root), "unreadable", error.strerror or str(error))


def _irregular(path: Path) -> SkippedFile | None:
    """A file found in a folder that is not a plain one. A link may lead anywhere, so none is followed."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        return SkippedFile(path, "unreadable", error.strerror or str(error))
    if stat.S_ISLNK(mode):
        return SkippedFile(path, "link")
    return None if stat.S_ISREG(mode) else SkippedFile(path, "special")


def _of_file(path: Path) -> Find:
    try:
        with _open(path) as file:
            head = file.read(4)
        if head.startswith(b"PK\x03\x04"):
            yield from _members(path)
            return
        opener = partial(_lines if _is_lines(path) else _document, path)
        yield RecordFile(path, "", path.stat().st_size, opener)
    except (OSError, zipfile.BadZipFile) as error:
        yield SkippedFile(path, "unreadable", str(getattr(error, "strerror", None) or error))


def _open(path: Path) -> IO[bytes]:
    # O_NONBLOCK: a pipe that has replaced a file since it was checked must not hold up the audit.
    return in_utf8(os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb", BLOCK))


def in_utf8(file: IO[bytes]) -> IO[bytes]:
    """The file as UTF-8 without a byte order mark. PowerShell writes one, and UTF-16 if it is not told otherwise.

    >>> in_utf8(io.BytesIO("[1]".encode("utf-16"))).read(), in_utf8(io.BytesIO("[1]".encode("utf-8-sig"))).read()
    (b'[1]', b'[1]')
    """
    start = file.read(len(codecs.BOM_UTF8))
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return io.BufferedReader(_FromUtf16(file, start), BLOCK)
    if start != codecs.BOM_UTF8:
        file.seek(0)
    return file


class _FromUtf16(io.RawIOBase):
    """A file in UTF-16, whose mark has been read, turned into UTF-8 block by block."""

    def __init__(self, file: IO[bytes], start: bytes) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
        self._ready = self._decoder.decode(start).encode()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready and (block := self._file.read(BLOCK)):
            self._ready = self._decoder.decode(block).encode("utf-8", "replace")
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _is_lines(path: Path) -> bool:
    """Whether the first line is a complete JSON value and not the start of a larger one."""
    with _open(path) as file, contextlib.suppress(Unreadable):  # reading its records says so
        for line in _split(file):
            if line is None:  # too long for a record; a document may be longer, and has nothing after it
                return path.suffix != ".json" or bool(file.read(1))
            if line.strip():
                try:
                    value = decode(line)
                except ValueError:
                    return path.suffix != ".json" and line.strip() not in (b"{", b"[")
                return path.suffix != ".json" or (isinstance(value, dict) and bool(file.read(1)))
    return True


def _split(file: IO[bytes]) -> Iterator[bytes | None]:
    """Lines, or None for one over the limit; no more than the limit is ever held. Raises `Unreadable` where a file goes
    on without records."""
    skipped = 0
    while line := file.readline(LINE_LIMIT + 1):
        if line.startswith(b"\0"):
            skipped = _count_skipped(skipped, line)
        if len(line) <= LINE_LIMIT or line.endswith(b"\n"):
            yield line
            continue
        skipped = _count_skipped(skipped, line)
        del line
        while (rest := file.readline(BLOCK)) and not rest.endswith(b"\n"):
            skipped = _count_skipped(skipped, rest)
        yield None


def _count_skipped(bytes: int, line: bytes) -> int:
    if bytes + len(line) > SKIPPED_LIMIT:
        raise Unreadable(f"more than {SKIPPED_LIMIT / 1e9:,.0f} GB of it are no records")
    return bytes + len(line)


def _lines(path: Path, tally: Tally) -> Iterator[Record]:
    failed = False
    with _open(path) as file:
        for number, line in enumerate(_split(file), 1):
            if failed:  # not the last line after all
                tally.broken, failed = tally.broken + 1, False
            if line is None:
                tally.long += 1
                continue
            try:
                value = decode(line)
            except ValueError:
                failed = bool(line.strip())
                continue
            tally.records += 1
            yield number, value
    tally.cut += failed


def _document(path: Path, tally: Tally) -> Iterator[Record]:
    size = path.stat().st_size
    if size > DOCUMENT_LIMIT:
        raise Unreadable(
            f"one JSON value of {size / 1e6:,.0f} MB; up to {DOCUMENT_LIMIT / 1e6:,.0f} MB can be read. "
            "Export the session as lines (JSONL), which have no limit"
        )
    with _open(path) as file:
        yield from _value(file.read(DOCUMENT_LIMIT + 1), 1, tally)


def _value(data: bytes, number: int, tally: Tally) -> Iterator[Record]:
    try:
        value = decode(data)
    except ValueError as error:
        raise Unreadable(f"no JSON ({str(error)[:80]})") from None
    tally.records += 1
    yield number, value


def _event_files(paths: list[Path], tally: Tally) -> Iterator[Record]:
    for number, path in enumerate(paths, 1):
        if path.lstat().st_size > LINE_LIMIT:
            tally.long += 1
            continue
        try:
            with _open(path) as file:
                value = decode(file.read(LINE_LIMIT))
        except (ValueError, OSError):
            tally.broken += 1
            continue
        tally.records += 1
        yield number, value


def _members(path: Path) -> Iterator[RecordFile]:
    """The JSON members of an archive, each a transcript. Nothing is unpacked to disk."""
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith((".json", ".jsonl"))]
    if len(members) > MEMBERS_LIMIT:
        raise zipfile.BadZipFile(f"an archive of {len(members):,} members; at most {MEMBERS_LIMIT:,} are read")
    unpacked = sum(info.file_size for info in members)  # no member yields more than it declares
    if unpacked > ARCHIVE_LIMIT:
        raise zipfile.BadZipFile(f"an archive that unpacks to {unpacked / 1e9:,.0f} GB")
    samples = [info for info in members if info.filename.startswith("samples/")]
    chunked = {info.filename.removesuffix("/sample.json") for info in samples if info.filename.endswith("/sample.json")}
    for prefix in sorted(chunked):
        chunks = [info for info in samples if info.filename.startswith(f"{prefix}/")]
        yield RecordFile(
            path, prefix, sum(info.compress_size for info in chunks), partial(_chunked_sample, path, prefix, chunks)
        )
    for info in samples or members:
        if not any(info.filename.startswith(f"{prefix}/") for prefix in chunked):
            yield RecordFile(path, info.filename, info.compress_size, partial(_member, path, info))


def _member(path: Path, info: zipfile.ZipInfo, tally: Tally) -> Iterator[Record]:
    data = _unpack(path, info, DOCUMENT_LIMIT)
    if info.filename.endswith(".json"):
        yield from _value(data, 1, tally)
        return
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            yield from _value(line, number, tally)


def _chunked_sample(path: Path, prefix: str, chunks: list[zipfile.ZipInfo], tally: Tally) -> Iterator[Record]:
    """A sample that Inspect wrote in chunks, put together: each is named after the index of its first item."""
    if sum(info.file_size for info in chunks) > SAMPLE_LIMIT:
        raise Unreadable(f"member {prefix} unpacks to more than {SAMPLE_LIMIT / 1e6:,.0f} MB")
    named = {info.filename.removeprefix(f"{prefix}/"): info for info in chunks}
    (_, shell), *_ = _value(_unpack(path, named["sample.json"], SAMPLE_LIMIT), 1, tally)
    sequences: dict[str, list[Any]] = {"messages": [], "events": [], "attachments": []}
    for sequence, entries in sequences.items():
        starts = sorted(int(name[1]) for each in named if (name := re.fullmatch(rf"{sequence}/(\d+)\.json", each)))
        for start in starts:
            for _, values in _value(_unpack(path, named[f"{sequence}/{start}.json"], SAMPLE_LIMIT), 1, tally):
                entries.extend(values if isinstance(values, list) else ())
    tally.records = 1
    events_data = {"messages": sequences.pop("messages")}
    yield 1, {**(shell if isinstance(shell, dict) else {}), **sequences, "events_data": events_data}


def _unpack(path: Path, info: zipfile.ZipInfo, limit: int) -> bytes:
    """A member's bytes as UTF-8; the size that the archive declares is a limit, not a promise."""
    most = min(limit, info.file_size)
    try:
        if info.compress_type == ZSTD and zstandard is not None:
            with _open_zstd(path, info) as stream:
                data = stream.read(most + 1)
        else:
            with zipfile.ZipFile(path) as archive, archive.open(info) as file:
                data = file.read(most + 1)
    except NotImplementedError as error:
        why = f"zstd, which {install_command('audit')} adds" if info.compress_type == ZSTD else str(error)
        raise Unreadable(f"member {info.filename} cannot be unpacked ({why})") from None
    except _BROKEN as error:
        raise Unreadable(f"member {info.filename} cannot be unpacked ({error})") from None
    if len(data) > most or info.file_size > limit:
        raise Unreadable(f"member {info.filename} unpacks to more than {most / 1e6:,.0f} MB")
    return in_utf8(io.BytesIO(data)).read()


_BROKEN = (RuntimeError, EOFError, zipfile.BadZipFile, zlib.error, struct.error) + (
    (zstandard.ZstdError,) if zstandard is not None else ()
)


def _open_zstd(path: Path, info: zipfile.ZipInfo) -> IO[bytes]:
    """A member by a method that `zipfile` knows only from Python 3.14 on. A stream may consist of several frames."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)  # the lengths of the local name and extra field, which go before the data
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(name + extra, os.SEEK_CUR)
        packed = io.BytesIO(file.read(info.compress_size))
    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_LIMIT)
    return decompressor.stream_reader(packed, read_across_frames=True)


def sample(file: RecordFile) -> list[Any]:
    """The first records, by which a reader recognises its format; none of an empty file."""
    values: list[Any] = []
    tally = Tally()
    for _, value in file.open(tally):
        values.append(value)
        if len(values) >= SAMPLE:
            break
    if not values and (tally.broken or tally.cut or tally.long):
        raise Unreadable("no line of it is JSON" if not tally.long else "no line of it can be read as JSON")
    return values
