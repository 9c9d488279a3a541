"""The owner's text files: bills, notes, lists.

A list shows names; the text of a file is shown by reading it.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from recompact.suites.pocket.apps.account import login_entry
from recompact.suites.pocket.apps.queries import matching, one, page_of
from recompact.suites.pocket.database import insert, select, setting
from recompact.suites.pocket.spec import ApiError, Arguments, change, listing, may, need, read

ABOUT = "your text files, such as bills and notes"
_HOW = "files.list_files"


def list_files(db: sqlite3.Connection, a: Arguments) -> Any:
    rows = select(db, "select id, folder, name, modified from files order by folder, name, id")
    matches = [r for r in rows if a["folder"] in (None, r["folder"]) and matching(r["name"], a["query"])]
    return page_of(matches, a)


def read_file(db: sqlite3.Connection, a: Arguments) -> Any:
    return one(db, "files", a["file_id"], _HOW)


def create_file(db: sqlite3.Connection, a: Arguments) -> Any:
    existing = select(db, "select id from files where folder = ? and name = ?", a["folder"], a["name"])
    if existing:
        raise ApiError(f"that folder has a file of this name already: {existing[0]['id']}")
    values = {name: a[name] for name in ("folder", "name", "content")}
    return {"file_id": insert(db, "files", **values, modified=setting(db, "today"))}


def append_to_file(db: sqlite3.Connection, a: Arguments) -> Any:
    file = one(db, "files", a["file_id"], _HOW)
    content = f"{file['content']}\n{a['text']}"
    db.execute("update files set content = ?, modified = ? where id = ?", (content, setting(db, "today"), file["id"]))
    return {"updated": file["id"]}


def move_file(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "files", a["file_id"], _HOW)
    db.execute("update files set folder = ? where id = ?", (a["folder"], a["file_id"]))
    return {"moved": a["file_id"], "folder": a["folder"]}


def delete_file(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "files", a["file_id"], _HOW)
    db.execute("delete from files where id = ?", (a["file_id"],))
    return {"deleted": a["file_id"]}


_ID = need("file_id", "string", f"from {_HOW}")
ENTRIES = (
    login_entry("files"),
    listing(
        "files",
        "list_files",
        (may("folder"), may("query", "string", "words of the file name")),
        "List files by folder and name.",
        "{id, folder, name, modified}",
        list_files,
    ),
    read("files", "read_file", (_ID,), "Read a file.", "{id, folder, name, content, modified}", read_file),
    change(
        "files",
        "create_file",
        (need("folder"), need("name"), need("content")),
        "Write a new file.",
        "{file_id}",
        create_file,
    ),
    change(
        "files",
        "append_to_file",
        (_ID, need("text")),
        "Add a line of text at the end of a file.",
        "{updated: file_id}",
        append_to_file,
    ),
    change(
        "files",
        "move_file",
        (_ID, need("folder")),
        "Move a file to another folder.",
        "{moved: file_id, folder}",
        move_file,
    ),
    change("files", "delete_file", (_ID,), "Delete a file for good.", "{deleted: file_id}", delete_file),
)
