"""A row that is not the one that was written is an error, whichever value has changed and whoever reads it."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from commands import recompact
from hypothesis import given, strategies as st
from report_support import make_verified
from run_files import change_rows

from recompact.engine.store.checksums import Columns, checksum_of, columns_of_tables, damaged_table
from recompact.engine.store.runs import overview
from recompact.engine.store.store import Store, StoreError
from recompact.models.failures import UnreadableReply
from recompact.values.chat import Usage


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_verified(tmp_path_factory.mktemp("checked") / "v.db", ["red", "green"])
    with Store.open(path) as store:
        store.note_unanswered("m", Usage(3, 1, calls=1))
        store.set_aside("collect/odd", "it is")
    return path


def test_no_query_is_alarmed_by_rows_that_it_does_not_want(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recompact.engine.store.store.damaged_table", lambda db: pytest.fail("it was asked for"))
    with Store.read(run) as store:
        for table, columns in columns_of_tables().items():
            for column in columns.names:
                for (value,) in store._select(f"SELECT DISTINCT {column} FROM {table}"):
                    rows = store._select(f"SELECT {column} FROM {table} WHERE {column} = ?", (value,))
                    assert rows or value is None


def other(value: object) -> object:
    """A value that differs by little, as after one flipped bit."""
    if isinstance(value, int):
        return value ^ 64
    if isinstance(value, float):
        return math.nextafter(value, math.inf)
    if isinstance(value, str):
        return chr(ord(value[0]) ^ 1) + value[1:] if value else "a"
    return bytes([value[0] ^ 1]) + value[1:] if isinstance(value, bytes) and value else 7


@pytest.mark.parametrize("table", columns_of_tables())
def test_every_value_of_a_row_is_checked(table: str, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    shutil.copy(run, path)
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute(
            f"SELECT {', '.join(columns_of_tables()[table].names)} FROM {table} LIMIT 1"
        ).fetchone()
    assert row or table == "verdicts"
    for column, value in zip(columns_of_tables()[table].names, row or (), strict=bool(row)):
        shutil.copy(run, path)
        change_rows(path, f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (other(value), value), seal=False)
        with Store.read(path) as store, pytest.raises(StoreError, match=rf"the table {table} "):
            store._rows(f"SELECT * FROM {table}")


def test_the_whole_of_a_sound_run_is_read(run: Path) -> None:
    with Store.read(run) as store:
        assert damaged_table(store._db) == ""
        assert overview(store).trajectories
        assert [len(store._rows(f"SELECT * FROM {table}")) for table in columns_of_tables()]


@pytest.mark.parametrize("command", ["show", "boundaries", "report", "verify"])
def test_no_command_prints_a_result_of_a_changed_row(command: str, run: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    shutil.copy(run, path)
    change_rows(path, "UPDATE continuations SET success = 1 - success WHERE draw = 0", seal=False)
    change_rows(path, "UPDATE trajectories SET steps = steps + 1", seal=False)
    ended = recompact(command, path, cwd=tmp_path)
    assert ended.returncode == 2, ended.stdout


def test_a_changed_call_concerns_its_unit_and_can_be_dropped(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy.db"
    shutil.copy(run, path)
    with Store.open(path) as store:
        unit, ordinal = store._select("SELECT unit, ordinal FROM calls LIMIT 1")[0]
        change_rows(path, "UPDATE calls SET input = input + 1 WHERE unit = ?", (unit,), seal=False)
        with pytest.raises(UnreadableReply):
            store.journaled(unit)
        store.forget(unit, ordinal)
        assert store.journaled(unit) == {}


VALUES = st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.floats()


@given(st.tuples(st.text("aé\0\U0001f600"), st.binary(), VALUES, VALUES, VALUES | st.binary()))
def test_a_checksum_is_that_of_what_the_file_gives_back(values: tuple[object, ...]) -> None:
    columns = Columns(("t",), ("b",), ("r",), ("n", "o"))
    row = columns.row(dict(zip(columns.names, values, strict=True)))
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE x (t TEXT NOT NULL, b BLOB NOT NULL, r REAL, n INTEGER, o BLOB)")
        connection.execute("INSERT INTO x VALUES (?, ?, ?, ?, ?)", row)
        back = connection.execute("SELECT * FROM x").fetchone()
    assert checksum_of(1, 1, *row) == checksum_of(1, 1, *back)


def test_a_lock_that_was_removed_is_taken_again(tmp_path: Path) -> None:
    with Store.open(tmp_path / "run.db") as store:
        os.unlink(tmp_path / "run.db.lock")
        store.set_aside("collect/a", "x")
        with pytest.raises(StoreError, match="in use"):
            Store.open(tmp_path / "run.db")


def test_a_writer_whose_lock_another_one_has_by_now_is_stopped(tmp_path: Path) -> None:
    first = Store.open(tmp_path / "run.db")
    os.unlink(tmp_path / "run.db.lock")
    with Store.open(tmp_path / "run.db") as second:
        with pytest.raises(StoreError, match="in use"):
            first.set_aside("collect/a", "x")
        second.set_aside("collect/a", "y")
    first.close()
