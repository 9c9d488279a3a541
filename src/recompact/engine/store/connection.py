"""Opening the SQLite file of a run: the lock of its one writer, its format, and errors in plain words."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from recompact.engine.store.checksums import APPLICATION_ID, FORMAT, SCHEMA, TEXTS, check_rows, columns_of_tables
from recompact.errors import InputError

LOCK = ".lock"
SAME = 60.0  # seconds by which the clocks of processes and of files may differ, or be set while a run goes on


class StoreError(InputError):
    """The run file cannot be used; the text names it and the way out."""


def take_lock(path: Path) -> int:
    """An advisory lock that dies with its holder, so that a killed driver leaves nothing to clean up.

    It is beside the file itself, so that a run has one lock whatever link it is opened by. Its directory is made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(f"{path.resolve()}{LOCK}", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}; name another [run] directory") from None
    with suppress(OSError):
        if path.stat().st_nlink > 1:  # SQLite keeps a log beside each name, and so would two drivers a lock
            os.close(lock)
            raise StoreError(f"{path} has several names (hard links), so others may write to it: copy it to use it")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise StoreError(f"{path} is in use by process {holder}: wait for it to end, or choose another --run") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def keep_lock(path: Path, lock: int) -> int:
    """The lock of a writer, which somebody may have removed: taken again, unless another writer has it by now."""
    if os.fstat(lock).st_nlink:
        return lock
    anew = take_lock(path)
    os.close(lock)
    return anew


def writer_of(path: Path) -> int | None:
    """The process that writes to the run, as its lock says, if it still lives. The lock itself is left alone: even a
    shared one could turn a writer away. A process that began after the lock was written only has the same number."""
    lock = Path(f"{path.resolve()}{LOCK}")
    try:
        holder, since = int(lock.read_text()), lock.stat().st_mtime
        if holder <= 0:  # which to the system means a group of processes
            return None
        with suppress(PermissionError):  # it lives, as somebody else's
            os.kill(holder, 0)
    except (OSError, ValueError, OverflowError):
        return None
    ended = _status_of(holder)[:1] in (["Z"], ["X"])  # whoever started it has not asked yet how it ended
    began = start_of_process(holder)
    return None if ended or (began is not None and began > since + SAME) else holder


def start_of_process(process: int) -> float | None:
    """When it began, in seconds since the epoch, to a second or so; None where the system does not say (no Linux)."""
    try:
        ticks = int(_status_of(process)[19])
        boot = next(line.split()[1] for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
        return int(boot) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None


def _status_of(process: int) -> list[str]:
    """What Linux says of a process, after its name (which may contain anything); elsewhere nothing."""
    try:
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def connect_to_write(path: Path) -> sqlite3.Connection:
    """The file, created where there is none."""
    connection = _connect(path)
    if not _is_run(connection, path):
        _create_tables(connection, path)
    check_rows(connection, without=("calls",))  # `journaled` does, call by call: what is wrong concerns one unit
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """The file as it is; nothing can be changed through this. One that is empty yet has the tables of a new run."""
    connection = _connect_reader(path)
    if not _is_run(connection, path):
        connection.close()
        connection = sqlite3.connect(":memory:", isolation_level=None)
        _create_tables(connection, path)
    check_rows(connection)
    connection.execute("PRAGMA query_only=ON")
    return connection


def _connect_reader(path: Path) -> sqlite3.Connection:
    """In a way that leaves the file and its log as they are.

    The last connection to close moves what is in the log into the file, so a log that a killed driver left is opened
    read-only. Otherwise a read-only connection would do harm: it cannot clear away its own files, nor, where it is the
    last, those of a driver that has ended meanwhile.
    """
    if not _is_writable(path):
        return _connect_where_nothing_is_written(path)
    if _has_log(path) and writer_of(path) is None:
        return _connect_read_only(path, "mode=ro")
    return _connect(path)


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA journal_mode=WAL")
        # Safe against a killed process; a power cut may lose the last calls but never damages the file.
        connection.execute("PRAGMA synchronous=NORMAL")
        return connection
    except sqlite3.DatabaseError as error:
        raise store_error(error, path) from error


def _is_writable(path: Path) -> bool:
    """Whether SQLite may write beside the file, as it does even to read one that is in WAL mode."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _log_of(path: Path) -> Path:
    """Where SQLite puts what is new: beside the file itself, whatever link it is opened by."""
    return Path(f"{path.resolve()}-wal")


def _has_log(path: Path) -> bool:
    try:
        return _log_of(path).stat().st_size > 0
    except OSError:  # a driver that ends removes it at any moment
        return False


def _connect_where_nothing_is_written(path: Path) -> sqlite3.Connection:
    """Records that are still in the file beside it would be missed."""
    if _has_log(path):
        raise StoreError(
            f"{path} is not closed ({_log_of(path).name} has more) and may only be read: copy both to a place of yours"
        )
    return _connect_read_only(path, "mode=ro&immutable=1")


def _connect_read_only(path: Path, how: str) -> sqlite3.Connection:
    try:
        return sqlite3.connect(f"{path.resolve().as_uri()}?{how}", uri=True, isolation_level=None, timeout=30)
    except sqlite3.DatabaseError as error:
        raise store_error(error, path) from error


def _is_run(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file has a run in it; False where it is new. A file of another format or program is refused."""
    try:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        application: int = connection.execute("PRAGMA application_id").fetchone()[0]
        contents: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        tables = _tables_in(connection)
    except sqlite3.DatabaseError as error:
        raise store_error(error, path) from error
    if not contents and not version:
        return False
    if contents and application != APPLICATION_ID:
        raise StoreError(f"{path} is a database of another program: choose another --run")
    if version != FORMAT:
        way_out = "update Recompact" if version > FORMAT else "read it with the version that wrote it, or collect anew"
        raise StoreError(
            f"{path} was written by {'a newer' if version > FORMAT else 'an older'} Recompact (its format is {version},"
            f" this one reads {FORMAT}): {way_out}, or choose another --run"
        )
    if missing := sorted({TEXTS, *columns_of_tables()} - tables):
        raise StoreError(f"{path} is damaged: it has no table {missing[0]}. Use another copy of it, or another --run")
    return True


def _tables_in(connection: sqlite3.Connection) -> frozenset[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return frozenset(row[0] for row in rows)


def _create_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Make a new run, all or nothing."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        if not _is_run(connection, path):  # under the lock: another process may have been faster
            connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
            for statement in _statements(SCHEMA):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise store_error(error, path) from error


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: running it whole would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def store_error(error: sqlite3.Error, path: Path) -> StoreError:
    """What SQLite reported, with the file and the way out."""
    text = str(error)
    if "UNIQUE" in text:
        return StoreError(
            f"{path}: another process has written to it meanwhile ({text}): see that only one does, and run the same"
            " command again"
        )
    if "full" in text or "disk I/O" in text:
        return StoreError(
            f"{path} could not be written ({text}): free some space and run the same command again;"
            " what was recorded so far is kept"
        )
    if "not a database" in text or "malformed" in text:
        return StoreError(f"{path} is not a run file or is damaged ({text}): choose another --run")
    if "locked" in text:
        return StoreError(f"{path} is locked by another program ({text}): close it and try again")
    if "readonly" in text or "unable to open" in text:
        return StoreError(f"{path} cannot be opened ({text}): check its permissions, or copy it to a place of yours")
    return StoreError(f"{path}: {text}")
