"""Opening the SQLite file of a run: the lock of its one writer, the migrations, and errors in plain words."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from recompact.errors import InputError
from recompact.store.schema import APPLICATION_ID, AS_NEWEST, MIGRATIONS, READABLE

LOCK = ".lock"


class StoreError(InputError):
    """The run file cannot be used; the text names it and the way out."""


def take_lock(path: Path) -> int:
    """An advisory lock that dies with its holder, so that a killed driver leaves nothing to clean up.

    It is beside the file itself, so that a run has one lock whatever link it is opened by.
    """
    lock = os.open(f"{path.resolve()}{LOCK}", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise StoreError(f"{path} is in use by process {holder}: wait for it to end, or choose another --run") from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
    return lock


def writer_of(path: Path) -> int | None:
    """The process that writes to the run, as its lock says, if it still lives. The lock itself is left alone: even a
    shared one could turn a writer away."""
    try:
        holder = int(Path(f"{path.resolve()}{LOCK}").read_text())
        os.kill(holder, 0)
    except PermissionError:
        return holder
    except (OSError, ValueError, OverflowError):
        return None
    return holder


def connect_to_write(path: Path) -> sqlite3.Connection:
    """The file in its newest form, created where there is none."""
    connection = _connect(path)
    _migrate(connection, path)
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """The file as it is if that can be read, or else in its newest form; nothing can be changed through this."""
    connection = _connect(path) if _is_writable(path) else _connect_read_only(path)
    version = _version_of(connection, path)
    if version < READABLE:
        _migrate(connection, path)
    elif version < len(MIGRATIONS):
        for statement in _statements(AS_NEWEST):
            connection.execute(statement)
    connection.execute("PRAGMA query_only=ON")
    return connection


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


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """For a place where nothing may be written. Records that are still in the file beside it would be missed."""
    wal = Path(f"{path}-wal")
    if wal.is_file() and wal.stat().st_size:
        raise StoreError(
            f"{path} is not closed ({wal.name} has more) and may only be read: copy both to a place of yours"
        )
    try:
        return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
    except sqlite3.DatabaseError as error:
        raise store_error(error, path) from error


def _version_of(connection: sqlite3.Connection, path: Path) -> int:
    try:
        version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        application: int = connection.execute("PRAGMA application_id").fetchone()[0]
        contents: int = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        tables = _tables_in(connection)
    except sqlite3.DatabaseError as error:
        raise store_error(error, path) from error
    if contents and application != APPLICATION_ID:
        raise StoreError(f"{path} is a database of some other program: choose another --run")
    if version > len(MIGRATIONS):
        raise StoreError(
            f"{path} was written by a newer Recompact (its format is {version}, this one reads up to"
            f" {len(MIGRATIONS)}): update Recompact, or choose another --run"
        )
    if missing := sorted(_tables(version) - tables):
        raise StoreError(f"{path} is damaged: it has no table {missing[0]}. Use another copy of it, or another --run")
    return version


@cache
def _tables(version: int) -> frozenset[str]:
    """The tables that a file of this version has."""
    connection = sqlite3.connect(":memory:")
    connection.executescript("".join(MIGRATIONS[:version]))
    tables = _tables_in(connection)
    connection.close()
    return tables


def _tables_in(connection: sqlite3.Connection) -> frozenset[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return frozenset(row[0] for row in rows)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring a file to the newest version, all or nothing."""
    if _version_of(connection, path) == len(MIGRATIONS):
        return
    try:
        connection.execute("BEGIN IMMEDIATE")
        # Read again under the lock: another process may have been faster.
        version = _version_of(connection, path)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        for statement in _statements("".join(MIGRATIONS[version:])):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
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
    if "full" in text or "disk I/O" in text:
        return StoreError(
            f"{path} could not be written ({text}): free some space and run the same command again;"
            " what was recorded so far is kept"
        )
    if "not a database" in text or "malformed" in text:
        return StoreError(f"{path} is no run file or is damaged ({text}): choose another --run")
    if "locked" in text:
        return StoreError(f"{path} is locked by another program ({text}): close it and try again")
    if "readonly" in text or "unable to open" in text:
        return StoreError(f"{path} cannot be opened ({text}): see to its permissions, or copy it to a place of yours")
    return StoreError(f"{path}: {text}")
