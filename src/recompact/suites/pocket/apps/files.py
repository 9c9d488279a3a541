"""The owner's text files: bills, notes, lists.

A list shows names; the text of a file is shown by reading it.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from recompact.suites.pocket.apps.account import login_entry
from recompact.suites.pocket.apps.queries import matching, one, page_of
from recompact.suites.pocket.database import insert, select, setting
from recompact.suites.pocket.spec import ApiError, App, Arguments, may, need

APP = App("files", "your text files, such as bills and notes", [login_entry("files")])
_HOW = "files.list_files"
_ID = need("file_id", "string", f"from {_HOW}")


@APP.listing(
    "List files by folder and name.",
    "{id, folder, name, modified}",
    may("folder"),
    may("query", "string", "words of the file name"),
)
def list_files(db: sqlite3.Connection, a: Arguments) -> Any:
    rows = select(db, "select id, folder, name, modified from files order by folder, name, id")
    matches = [r for r in rows if a["folder"] in (None, r["folder"]) and matching(r["name"], a["query"])]
    return page_of(matches, a)


@APP.read("Read a file.", "{id, folder, name, content, modified}", _ID)
def read_file(db: sqlite3.Connection, a: Arguments) -> Any:
    return one(db, "files", a["file_id"], _HOW)


@APP.change("Write a new file.", "{file_id}", need("folder"), need("name"), need("content"))
def create_file(db: sqlite3.Connection, a: Arguments) -> Any:
    existing = select(db, "select id from files where folder = ? and name = ?", a["folder"], a["name"])
    if existing:
        raise ApiError(f"that folder has a file of this name already: {existing[0]['id']}")
    values = {name: a[name] for name in ("folder", "name", "content")}
    return {"file_id": insert(db, "files", **values, modified=setting(db, "today"))}


@APP.change("Add a line of text at the end of a file.", "{updated: file_id}", _ID, need("text"))
def append_to_file(db: sqlite3.Connection, a: Arguments) -> Any:
    file = one(db, "files", a["file_id"], _HOW)
    content = f"{file['content']}\n{a['text']}"
    db.execute("update files set content = ?, modified = ? where id = ?", (content, setting(db, "today"), file["id"]))
    return {"updated": file["id"]}


@APP.change("Move a file to another folder.", "{moved: file_id, folder}", _ID, need("folder"))
def move_file(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "files", a["file_id"], _HOW)
    db.execute("update files set folder = ? where id = ?", (a["folder"], a["file_id"]))
    return {"moved": a["file_id"], "folder": a["folder"]}


@APP.change("Delete a file for good.", "{deleted: file_id}", _ID)
def delete_file(db: sqlite3.Connection, a: Arguments) -> Any:
    one(db, "files", a["file_id"], _HOW)
    db.execute("delete from files where id = ?", (a["file_id"],))
    return {"deleted": a["file_id"]}
