"""The run: one SQLite file in WAL mode that holds all records of a command, written by its driver alone.

Texts are kept once, compressed, under the hash of their bytes. A reply is in the journal before anybody uses it, and
a finished unit is written in one transaction with everything that belongs to it, so a kill at any moment loses at most
the calls that were under way.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from recompact.engine.store.checksums import (
    FAULT,
    columns_of_tables,
    damaged_table,
    insertion,
    is_intact,
    without_checks,
)
from recompact.engine.store.connection import (
    LOCK,
    StoreError,
    connect_to_read,
    connect_to_write,
    keep_lock,
    store_error,
    take_lock,
)
from recompact.engine.store.metadata import RunMetadata
from recompact.engine.store.packing import SMALL, pack, pack_request, unpack
from recompact.errors import InputError
from recompact.models.failures import ModelFailure, SetAside, UnreadableReply
from recompact.models.journal import JournaledReply, JournalRequest
from recompact.models.shape import in_shape
from recompact.values.chat import Message, Reply, Usage, canonical

__all__ = ["Store", "StoreError"]


USAGE = ("input", "output", "cached", "reasoning", "calls", "estimated", "cache_reported")
UNANSWERED = "unanswered"  # stands for the role of calls that brought no reply
"""The columns that make up a `Usage`, in its order."""

KEPT = 50_000  # hashes that are remembered, some five megabytes


class Store:
    """An open run file: `Store.open` to write, `Store.read` to read."""

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: int | None) -> None:
        self.path = path
        self._db = connection
        self._lock = lock
        self._file = _identity(path)
        self._kept: set[bytes] = set()  # hashes of texts that are known to be in the file

    # -- opening and closing -------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open for writing, creating the file where there is none. A second writer is refused."""
        lock = take_lock(path)
        try:
            return cls(path, connect_to_write(path), lock)
        except BaseException:
            os.close(lock)
            raise

    @classmethod
    def read(cls, path: Path) -> Self:
        """Open for reading, also while a driver is writing."""
        if not path.is_file():
            raise StoreError(f"there is no run {path}; `recompact runs` lists the runs")
        return cls(path, connect_to_read(path), None)

    def close(self) -> None:
        self._db.close()
        if self._lock is not None:
            os.ftruncate(self._lock, 0)  # nobody writes any more, though this process may live on
            os.close(self._lock)  # the file stays: removing it would let two writers lock two different files
            self._lock = None

    def discard(self) -> None:
        """Close and remove a run in which nothing happened."""
        self.close()
        if _identity(self.path) != self._file:  # another one has taken its place
            return
        for suffix in ("", "-wal", "-shm", LOCK):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def check_file(self) -> None:
        """Fail where the file was deleted or replaced, because what is written to it now would go nowhere, or where
        another writer got in because the lock was removed."""
        if _identity(self.path) != self._file:
            raise StoreError(
                f"{self.path} was deleted or replaced while this command was writing to it: what was recorded there is"
                " lost; put the file back and run the same command again, or start anew with --run NAME"
            )
        if self._lock is not None:
            self._lock = keep_lock(self.path, self._lock)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing. An error of SQLite, such as a full disk, becomes a message that says what to do."""
        self.check_file()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise store_error(error, self.path) from error
        except BaseException:
            self._roll_back()
            raise

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read in here is from one moment, whatever a driver writes meanwhile."""
        try:
            self._db.execute("BEGIN")
            yield
        except sqlite3.Error as error:
            raise store_error(error, self.path) from error
        finally:
            self._roll_back()

    def _roll_back(self) -> None:
        self._kept.clear()  # what was put in a transaction goes with it
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    # -- texts ---------------------------------------------------------------------------------------------------

    def put(self, data: str | bytes | Message, near: Sequence[bytes] = ()) -> bytes:
        """Keep a text, a blob or a message and return its hash. Call within a transaction.

        `near` are hashes of texts that it may repeat: it is then kept as what it adds to them.
        """
        if isinstance(data, Message):  # its digest is the hash of its text, and mostly known
            key = bytes.fromhex(data.digest)
            if key in self._kept:
                return key
            raw = _encode(data.text)
        else:
            raw = _encode(data) if isinstance(data, str) else data
            key = hashlib.sha256(raw).digest()
            if key in self._kept:
                return key
        # Packing a long text takes more time than asking whether it is there.
        if len(raw) <= SMALL or not self._db.execute("SELECT 1 FROM texts WHERE hash = ?", (key,)).fetchone():
            packed = pack(raw, self._plain, near)
            self._db.execute("INSERT OR IGNORE INTO texts (hash, codec, data) VALUES (?, ?, ?)", (key, *packed))
        if len(self._kept) >= KEPT:
            self._kept.clear()
        self._kept.add(key)
        return key

    def blob(self, key: bytes) -> bytes:
        rows = self._select("SELECT codec, data FROM texts WHERE hash = ?", (key,))
        if not rows:
            raise self.damaged(f"text {key.hex()[:12]} is missing")
        codec, data = rows[0]
        raw = unpack(codec, data, self._plain)
        if raw is None or hashlib.sha256(raw).digest() != key:
            raise self.damaged(f"text {key.hex()[:12]} is not the one that was written")
        return raw

    def _plain(self, beginning: bytes) -> tuple[int, bytes] | None:
        """Codec and data of the text whose hash begins like this."""
        end = beginning + b"\xff" * (32 - len(beginning))
        rows = self._select("SELECT codec, data FROM texts WHERE hash BETWEEN ? AND ? LIMIT 1", (beginning, end))
        return rows[0] if rows else None

    def text(self, key: bytes) -> str:
        try:
            return self.blob(key).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise self.damaged(f"text {key.hex()[:12]} is not a text") from None

    def document(self, key: bytes) -> Any:
        """What a text says as JSON."""
        try:
            return json.loads(self.text(key))
        except (ValueError, RecursionError):
            raise self.damaged(f"text {key.hex()[:12]} is not a document") from None

    def damaged(self, what: str) -> StoreError:
        return StoreError(f"{self.path} is damaged or was changed by somebody: {what}. Use another copy of it")

    # -- metadata ------------------------------------------------------------------------------------------------

    @property
    def metadata(self) -> RunMetadata:
        """What the run says about itself, as it is in the file now."""
        return RunMetadata.from_json(self._meta())

    def set_metadata(self, metadata: RunMetadata) -> None:
        """Make the file say this; `replace(store.metadata, …)` is what it says now, with a change."""
        before, after = self._meta(), metadata.to_json()
        with self.transaction():
            for key in before.keys() - after.keys():
                self._db.execute("DELETE FROM main.meta WHERE key = ?", (key,))
            for key, value in after.items():
                if before.get(key) != value:
                    self.insert("meta", {"key": key, "value": canonical(value)}, replace=True)

    def _meta(self) -> dict[str, Any]:
        return {key: json.loads(value) for key, value in self._select("SELECT key, value FROM meta")}

    # -- the journal ---------------------------------------------------------------------------------------------

    def journaled(self, unit: str) -> dict[int, tuple[str, Reply]]:
        """The calls of a unit that were answered: ordinal -> (digest of the request, reply).

        Raises `SetAside` where the unit was set aside, and `UnreadableReply` where a reply is damaged.
        """
        if reasons := self._select("SELECT reason FROM set_aside WHERE unit = ?", (unit,)):
            raise SetAside(str(reasons[0][0]))
        rows = self._select(
            f"SELECT ordinal, request, message, finish, model, notes, {is_intact('calls')}, {', '.join(USAGE)}"
            " FROM main.calls WHERE unit = ? ORDER BY ordinal",
            (unit,),
        )
        return {ordinal: self._journaled_call(unit, ordinal, *row) for ordinal, *row in rows}

    def _journaled_call(
        self, unit: str, ordinal: int, request: Any, message: Any, finish: Any, model: Any, notes: Any, *counts: Any
    ) -> tuple[str, Reply]:
        """What a journaled call says. Whatever is wrong with it concerns its unit alone."""
        intact, *usage = counts
        try:
            if not intact:
                raise ValueError("it is not what was written")
            written = Message.from_json(self.document(message))
            reply = Reply(written, Usage(*usage), finish, model, tuple(json.loads(notes)))
            if not in_shape(reply):
                raise ValueError("it is not in the shape that replies are kept in")
            return request.hex(), reply
        except (InputError, ModelFailure, zlib.error, ArithmeticError, LookupError, RecursionError) as error:
            if isinstance(error.__cause__, sqlite3.OperationalError):  # the disk, and not what is on it
                raise
            reason: Exception = error
        except (AttributeError, TypeError, ValueError) as error:
            reason = error
        raise UnreadableReply(f"the journaled reply {ordinal + 1} of {unit} cannot be read ({reason})", ordinal)

    def journal(self, call: JournaledReply, asked: JournalRequest | None = None) -> None:
        """Record a reply before it is used, with the digest of its request and, where it is given, what was asked."""
        reply = call.reply
        with self.transaction():
            row = {name: getattr(call, name) for name in ("unit", "ordinal", "role", "configured", "seconds")}
            row |= {
                "request": bytes.fromhex(call.request),
                "message": self.put(reply.message),
                "finish": reply.finish,
                "model": reply.model,
                "notes": canonical(list(reply.notes)) if reply.notes else "[]",
                "asked": pack_request(asked, self.put) if asked else None,
            }
            self.insert("calls", {**row, **{name: getattr(reply.usage, name) for name in USAGE}})

    def forget(self, unit: str, ordinal: int) -> None:
        """Drop the journal of a unit from this call on, because its replay took another path."""
        with self.transaction():
            self._drop_calls("unit = ? AND ordinal >= ?", (unit, ordinal))

    def _drop_calls(self, condition: str, parameters: Sequence[Any]) -> None:
        """Take calls out of the journal but not what they cost, as far as that can be read. Call within a
        transaction."""
        sums = ", ".join(f"sum({name})" for name in USAGE)
        rows = self._select(
            f"SELECT substr(unit, 1, instr(unit || '/', '/') - 1), configured, role, {sums}"
            f" FROM main.calls WHERE {condition} AND {is_intact('calls')} GROUP BY 1, 2, 3",
            parameters,
        )
        for phase, configured, role, *counts in rows:
            self._note_cost(phase, configured, role, counts)
        self._db.execute(f"DELETE FROM main.calls WHERE {condition}", parameters)

    def _note_cost(self, phase: str, configured: str, role: str, counts: Sequence[int]) -> None:
        """Add to what was paid for calls that the journal does not have. Call within a transaction."""
        key = {"phase": phase, "configured": configured, "role": role}
        query = f"SELECT {', '.join(USAGE)} FROM dropped WHERE phase = ? AND configured = ? AND role = ?"
        before = (self._select(query, tuple(key.values())) or [(0,) * len(USAGE)])[0]
        sums = {name: old + new for name, old, new in zip(USAGE, before, counts, strict=True)}
        self.insert("dropped", key | sums, replace=True)

    def note_unanswered(self, configured: str, usage: Usage) -> None:
        """Remember what was paid, or may have been, for calls that brought no reply."""
        with self.transaction():
            self._note_cost("", configured, UNANSWERED, [getattr(usage, name) for name in USAGE])

    def set_aside(self, unit: str, reason: str) -> None:
        """Remember that a unit would fail again if it were played again."""
        with self.transaction():
            self.insert("set_aside", {"unit": unit, "reason": reason}, replace=True)

    def units_set_aside(self) -> dict[str, str]:
        """Why each of these units is not played again."""
        return dict(self._select("SELECT unit, reason FROM set_aside ORDER BY unit"))

    def retry_set_aside(self) -> int:
        """Let units that were set aside be played again, without what cannot be read of them. Returns how many."""
        units = self.units_set_aside()
        for unit in units:
            with self.transaction():
                self._db.execute("DELETE FROM main.set_aside WHERE unit = ?", (unit,))
            try:
                self.journaled(unit)
            except UnreadableReply as unreadable:
                self.forget(unit, unreadable.ordinal)
        return len(units)

    def spent(self) -> dict[tuple[str, str], Usage]:
        """Tokens of all calls that were ever journaled, by (configured model, role)."""
        rows = self._select(
            f"SELECT configured, role, {', '.join(f'sum({name})' for name in USAGE)}"
            f" FROM (SELECT configured, role, {', '.join(USAGE)} FROM calls"
            f" UNION ALL SELECT configured, role, {', '.join(USAGE)} FROM dropped) GROUP BY configured, role"
        )
        return {(row[0], row[1]): Usage(*row[2:]) for row in rows}

    # -- units ---------------------------------------------------------------------------------------------------

    def finished(self, kind: str | None = None) -> set[str]:
        rows = self._select("SELECT name FROM units WHERE ? IS NULL OR kind = ?", (kind, kind))
        return {row[0] for row in rows}

    def finish(self, unit: str, kind: str, result: str, seconds: float) -> None:
        """Record a unit's result. Call within the transaction that writes what belongs to it."""
        self.insert("units", {"name": unit, "kind": kind, "result": self.put(result), "seconds": seconds})

    def forget_units(self, prefixes: Sequence[str]) -> None:
        """Drop units whose names begin with one of these, with their calls and records, so that they run again. What
        the calls cost stays known."""
        with self.transaction():
            for prefix in prefixes:
                self._drop_calls("substr(unit, 1, ?) = ?", (len(prefix), prefix))
            for table, columns in columns_of_tables().items():
                key = "name" if table in ("units", "continuations") and "name" in columns.names else "unit"
                if key not in columns.names:
                    continue
                for prefix in prefixes:
                    self._db.execute(f"DELETE FROM main.{table} WHERE substr({key}, 1, ?) = ?", (len(prefix), prefix))

    def reopen(self, unit: str) -> None:
        """Drop a unit's result but not its calls: when it runs again, it replays those and pays for none twice."""
        with self.transaction():
            for table, column in (
                *(("units", "name"), ("continuations", "name")),
                *(("trajectories", "unit"), ("boundaries", "unit"), ("set_aside", "unit")),
            ):
                self._db.execute(f"DELETE FROM main.{table} WHERE {column} = ?", (unit,))

    def result(self, unit: str) -> Any:
        rows = self._select("SELECT result FROM units WHERE name = ?", (unit,))
        if not rows:
            raise StoreError(f"{self.path} has no finished unit {unit!r}")
        return self.document(rows[0][0])

    def digest(self, prefix: str = "", without: str | None = None) -> str:
        """One hash over the results of units, in order of name; timings are not part of it.

        Names must begin with `prefix`; those that begin with `without` are skipped.
        """
        total = hashlib.sha256()
        query = "SELECT name, result FROM units WHERE substr(name, 1, ?) = ? ORDER BY name"
        for name, result in self._select(query, (len(prefix), prefix)):
            if without is None or not name.startswith(without):
                total.update(name.encode() + b"\0" + result)
        return total.hexdigest()

    # -- rows ----------------------------------------------------------------------------------------------------

    def insert(self, table: str, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Add a row to one of our own tables, with its checksum. Call within a transaction."""
        self._db.execute(*insertion(table, values, replace=replace))

    def _rows(self, query: str, parameters: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Rows by column name, for this package only: others call its named queries."""
        return self._select(query, parameters, sqlite3.Row)

    def _select(self, query: str, parameters: Sequence[Any] = (), factory: Any = None) -> list[Any]:
        """All rows. An error of SQLite, such as a damaged page, becomes a message that says what to do."""
        cursor = self._db.cursor()
        cursor.row_factory = factory
        try:
            try:
                return cursor.execute(query, parameters).fetchall()
            except sqlite3.Error as error:
                if FAULT not in str(error):
                    raise
            if table := damaged_table(self._db):
                raise self.damaged(f"a row of the table {table} is not the one that was written")
            with without_checks(self._db):
                return cursor.execute(query, parameters).fetchall()
        except sqlite3.Error as error:
            raise store_error(error, self.path) from error


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path refers to."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
