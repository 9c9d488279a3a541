"""Results are written where it is free or where an earlier one of ours stands; a kill leaves the one or the other."""

from __future__ import annotations

import base64
import ctypes
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from places import contents

from recompact.errors import InputError
from recompact.values import outputs
from recompact.values.outputs import add_files, check_directory, replaced_directory, write_file


def put(directory: Path, text: str, *more: str) -> None:
    with replaced_directory(directory, "result") as fresh:
        for name in ("one.md", "two.md", *more):
            (fresh / name).write_text(f"{text} {name}")


def test_a_result_replaces_an_earlier_one_with_all_its_files(tmp_path: Path) -> None:
    put(tmp_path / "new" / "r", "old", "three.md")
    put(tmp_path / "new" / "r", "new")
    assert sorted(path.name for path in (tmp_path / "new" / "r").iterdir()) == ["manifest.json", "one.md", "two.md"]
    assert (tmp_path / "new" / "r" / "one.md").read_text() == "new one.md"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r"]  # and nothing is left beside it


@pytest.mark.parametrize("atomic", [True, False])
def test_where_the_system_cannot_swap_it_is_renamed_in_turn(
    atomic: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not atomic:
        monkeypatch.setattr(outputs, "_exchange", lambda one, other: False)
    put(tmp_path / "r", "old")
    put(tmp_path / "r", "new")
    assert (tmp_path / "r" / "one.md").read_text() == "new one.md"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_a_system_without_the_call_to_swap_is_one_that_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path / "r", "old")
    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: object())
    put(tmp_path / "r", "new")
    assert (tmp_path / "r" / "one.md").read_text() == "new one.md"


@pytest.mark.parametrize("name", ["a.txt", "notes.txt", "manifest.json.bak", "deep/z.txt"])
def test_a_file_of_the_users_is_never_replaced_whatever_its_name(name: str, tmp_path: Path) -> None:
    put(tmp_path / "r", "old")
    (tmp_path / "r" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "r" / name).write_text("mine")
    with pytest.raises(InputError, match=f"{name}, .*nothing was written"):
        put(tmp_path / "r", "new")
    assert (tmp_path / "r" / name).read_text() == "mine"


def test_what_was_changed_stays_and_the_way_out_is_named(tmp_path: Path) -> None:
    put(tmp_path / "r", "old")
    (tmp_path / "r" / "one.md").write_text("changed")
    with pytest.raises(InputError, match=r"one\.md .*nothing was written"):
        put(tmp_path / "r", "new")
    assert (tmp_path / "r" / "one.md").read_text() == "changed"


def thesis(directory: Path, what: str) -> Path:
    """A place with something of the user's, or one that is no directory."""
    place = directory / "place"
    if what == "file":
        place.write_text("mine")
        return place
    if what == "link":
        (directory / "real").mkdir()
        place.symlink_to(directory / "real")
        return place
    if what == "dangling link":
        place.symlink_to(directory / "nowhere")
        return place
    if what in ("changed", "added", "ours with .git", "ours with a run"):
        put(place, "ours")
    place.mkdir(exist_ok=True)
    match what:
        case "changed":
            (place / "one.md").write_text("mine now")
        case "added":
            (place / "notes.txt").write_text("mine")
        case "ours with .git" | "git":
            (place / ".git").mkdir()
            (place / ".git" / "HEAD").write_text("ref: refs/heads/main")
        case "ours with a run" | "run":
            (place / "mine.db").write_bytes(b"SQLite format 3\0" + bytes(84))
        case "unrelated":
            (place / "thesis.tex").write_text("\\documentclass{book}")
        case "foreign manifest":
            (place / "manifest.json").write_text('{"name": "an extension of a browser"}')
        case "other kind":
            add_files(place, "something else", {"a.txt": b"a"})
    return place


PLACES = {
    "file": "is a file",
    "link": "symbolic link",
    "dangling link": "symbolic link",
    "git": "version control",
    "run": "holds a database",
    "unrelated": r"holds thesis\.tex",
    "foreign manifest": "says that Recompact wrote",
    "other kind": "something else",
    "changed": r"one\.md was changed",
    "added": r"holds notes\.txt",
    "ours with .git": "version control",
    "ours with a run": "holds a database",
}


@pytest.mark.parametrize(("what", "sentence"), PLACES.items())
def test_a_place_with_something_in_it_is_refused_and_stays(what: str, sentence: str, tmp_path: Path) -> None:
    place = thesis(tmp_path, what)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=sentence):
        put(place, "new")
    with pytest.raises(InputError, match=sentence):
        check_directory(place, "result")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("place", [".", "..", "../here", "/"])
def test_where_one_stands_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="the directory you are in"):
        put(Path(place), "new")


def test_files_are_added_beside_others_and_never_over_them(tmp_path: Path) -> None:
    add_files(tmp_path / "f", "figures", {"a.svg": b"1"})
    (tmp_path / "f" / "notes.txt").write_text("mine")
    add_files(tmp_path / "f", "figures", {"a.svg": b"2", "b.svg": b"1"})
    assert (tmp_path / "f" / "a.svg").read_bytes() == b"2"
    (tmp_path / "f" / "c.svg").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"c\.svg already exists"):
        add_files(tmp_path / "f", "figures", {"b.svg": b"2", "c.svg": b"1"})
    (tmp_path / "f" / "b.svg").write_text("retouched")
    with pytest.raises(InputError, match=r"b\.svg was changed"):
        add_files(tmp_path / "f", "figures", {"a.svg": b"3"})
    (tmp_path / "f" / "b.svg").write_bytes(b"1")
    assert contents(tmp_path) == before


def test_a_file_is_replaced_only_if_it_is_ours(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    for text in (b"ours 1", b"ours 2"):
        write_file(path, text, "a page", lambda path: path.read_bytes().startswith(b"ours"))
        assert path.read_bytes() == text
    path.write_text("mine")
    (tmp_path / "link").symlink_to(path)
    for target in (path, tmp_path / "link", tmp_path):
        with pytest.raises(InputError, match="nothing was written"):
            write_file(target, b"ours", "a page", lambda path: path.read_bytes().startswith(b"ours"))
    assert path.read_text() == "mine"


# -- kills -------------------------------------------------------------------------------------------------------------


def killed(work: Callable[[], None], at: int) -> bool:
    """Run in a child that is gone at its n-th change to the disk; False if it came to its end before."""
    child = os.fork()
    if not child:
        count = 0

        def dying(call: Callable[..., object]) -> Callable[..., object]:
            def counted(*arguments: object, **keywords: object) -> object:
                nonlocal count
                count += "rb" not in arguments
                if count == at:
                    os._exit(9)
                return call(*arguments, **keywords)

            return counted

        for name in ("mkdir", "write_text", "write_bytes", "rename", "replace", "unlink", "rmdir", "open"):
            setattr(Path, name, dying(getattr(Path, name)))
        outputs._exchange = dying(outputs._exchange)  # type: ignore[assignment]
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


def every_kill(work: Callable[[], None]) -> Iterator[int]:
    """The numbers of the changes at which the work was killed, one after the other, until it comes to its end."""
    for at in range(1, 100):
        if not killed(work, at):
            return
        yield at
    raise AssertionError("it never came to its end")


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_result(tmp_path: Path) -> None:
    put(tmp_path / "r", "old", "three.md")
    old = contents(tmp_path / "r")
    put(tmp_path / "n", "new")
    new = contents(tmp_path / "n")
    results = [contents(tmp_path / "r") for _ in every_kill(lambda: put(tmp_path / "r", "new"))]
    assert len(results) > 8
    assert all(result in (old, new) for result in results)
    assert contents(tmp_path / "r") == new


def test_an_earlier_result_without_its_manifest_is_not_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever happens to the earlier result between the last look at it and its removal, nothing of a user's goes."""
    place = tmp_path / "out"
    with replaced_directory(place, "a test") as fresh:
        (fresh / "a.txt").write_text("old")
    swap = outputs._put_in_place

    def swap_and_lose_the_manifest(fresh: Path, directory: Path) -> None:
        swap(fresh, directory)
        (fresh / outputs.MANIFEST).unlink()
        (fresh / "mine.txt").write_text("mine")

    monkeypatch.setattr(outputs, "_put_in_place", swap_and_lose_the_manifest)
    with replaced_directory(place, "a test") as fresh:
        (fresh / "a.txt").write_text("new")
    assert (place / "a.txt").read_text() == "new"
    assert [path.read_text() for path in tmp_path.glob(".out.*/mine.txt")] == ["mine"]


def test_a_kill_while_files_are_added_does_not_lock_us_out(tmp_path: Path) -> None:
    def add() -> None:
        add_files(tmp_path / "f", "figures", {"a.svg": b"2", "b.svg": b"2"})

    add_files(tmp_path / "f", "figures", {"a.svg": b"1"})
    contents_seen = [(tmp_path / "f" / "a.svg").read_bytes() for _ in every_kill(add)]
    assert set(contents_seen) == {b"1", b"2"}
    assert {path.name: path.read_bytes() for path in (tmp_path / "f").glob("[ab].svg")} == {
        "a.svg": b"2",
        "b.svg": b"2",
    }


class Library:
    """A C library as an Apple system has it: one call that swaps two directories, or fails."""

    def __init__(self, status: int) -> None:
        self.status = status

    def renamex_np(self, one: bytes, other: bytes, flags: int) -> int:
        assert flags == 2
        if self.status == 0:
            aside = other + b".aside"
            os.rename(other, aside)
            os.rename(one, other)
            os.rename(aside, one)
        return self.status


@pytest.mark.parametrize("status", [0, -1, 1])
def test_on_an_apple_system_its_own_call_swaps_and_what_fails_is_done_in_turn(
    status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "r", "old")
    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: Library(status))
    monkeypatch.setattr("sys.platform", "darwin")
    put(tmp_path / "r", "new")
    assert (tmp_path / "r" / "one.md").read_text() == "new one.md"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_an_exchange_that_fails_halfway_leaves_the_earlier_result(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(OSError, match="gone"):
        outputs._exchange_in_turn(tmp_path / "gone", tmp_path / "there")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("manifest", "is_one"),
    [
        ('{"recompact": "1", "kind": "result", "files": {}}', True),
        ('{"recompact": "", "kind": "result", "files": {}}', False),
        ('{"recompact": "1", "kind": "other", "files": {}}', False),
        ('{"recompact": "1", "kind": "result"}', False),
        ('{"recompact": "1", "kind": "result", "files": []}', False),
        ("[]", False),
        ("{", False),
        ("[" * 100_000, False),
        (None, False),
    ],
)
def test_a_directory_is_ours_by_its_manifest(manifest: str | None, is_one: bool, tmp_path: Path) -> None:
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    assert outputs.is_ours(tmp_path, "result") is is_one
    (tmp_path / "link").symlink_to(tmp_path)
    assert not outputs.is_ours(tmp_path / "link", "result")


@pytest.mark.parametrize("name", ["page.html", "page.htm", "deep/page.html"])
def test_a_page_is_written_over_an_earlier_one_of_ours(name: str, tmp_path: Path) -> None:
    page = '<meta name="generator" content="recompact 1"> ä'
    path = tmp_path / name
    assert outputs.write_page(path, page) == len(page.encode())
    assert outputs.write_page(path, page + "!") == len(page.encode()) + 1
    assert path.read_text(encoding="utf-8") == page + "!"
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    path.write_text("x" * 4096 + page)  # it does not say so at its beginning
    with pytest.raises(InputError, match=re.escape(path.name)):
        outputs.write_page(path, page)


def test_a_page_has_the_name_of_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"page\.txt .*--out"):
        outputs.write_page(tmp_path / "page.txt", "x")


def test_a_file_may_be_written_where_nothing_or_ours_is(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "a.json"
    write_file(path, b"1", "a list", lambda path: False)
    with pytest.raises(InputError, match=r"a list .*nothing was written; .* -o"):
        write_file(path, b"2", "a list", lambda path: False, "-o")
    assert path.read_bytes() == b"1"
    write_file(path, b"2", "a list", lambda path: True)
    assert path.read_bytes() == b"2"
    with pytest.raises(InputError, match=r"directory: nothing was written; .*--out"):
        write_file(tmp_path, b"2", "a list", lambda path: True)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(InputError, match=r"symbolic link: nothing was written"):
        write_file(tmp_path / "link", b"3", "a list", lambda path: True)
    with pytest.raises(InputError, match=r"below\.json .*--out"):
        write_file(path / "below.json", b"3", "a list", lambda path: True)


def test_the_manifest_lists_files_in_order_and_keeps_what_the_writer_began(tmp_path: Path) -> None:
    with replaced_directory(tmp_path / "r", "result") as fresh:
        (fresh / "manifest.json").write_text('{"note": "ä", "recompact": "mine"}')
        for name in ("b.md", "a.md"):
            (fresh / name).write_text("x")
    text = (tmp_path / "r" / "manifest.json").read_text(encoding="utf-8")
    manifest = json.loads(text)
    assert list(manifest["files"]) == ["a.md", "b.md"]
    assert (manifest["note"], manifest["recompact"], manifest["kind"]) == ("ä", "mine", "result")
    assert "ä" in text
    assert text.endswith("}\n")
    assert text.splitlines()[1].startswith('  "')


def failing_result(directory: Path, fail: Callable[[Path], object]) -> None:
    with replaced_directory(directory, "result") as fresh:
        (fresh / "deep").mkdir()
        (fresh / "deep" / "a.md").write_text("x")
        fail(fresh)


@pytest.mark.parametrize(
    ("fail", "error", "text"),
    [
        (lambda fresh: (fresh / "no" / "a.md").write_text("x"), InputError, r"r cannot be written \(No such file"),
        (
            lambda fresh: (fresh / "a.md").write_text("\ud800", "utf-8"),
            InputError,
            r"r cannot be written \('utf-8' codec",
        ),
        (lambda fresh: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
    ids=["no place", "no text", "a mistake"],
)
def test_what_fails_while_a_result_is_written_leaves_nothing(
    fail: Callable[[Path], object], error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text):
        failing_result(tmp_path / "r", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_put_in_its_place_leaves_nothing_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(InputError, match=r"a\.json .*\(Permission denied\)"):
        write_file(tmp_path / "a.json", b"1", "a list", lambda path: True)
    with pytest.raises(InputError, match=r"d .*\(Permission denied\).* -o"):
        add_files(tmp_path / "d", "tables", {"a.csv": b"1"}, "-o")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.rglob("*")] == ["d"]


def test_a_database_beside_files_that_are_added_is_no_matter(tmp_path: Path) -> None:
    """A whole result would replace it; files that are added one by one leave it where it is."""
    add_files(tmp_path / "r", "tables", {"a.csv": b"1"})
    (tmp_path / "r" / "mine.db").write_bytes(b"SQLite format 3\0")
    assert add_files(tmp_path / "r", "tables", {"b.csv": b"2", "a.csv": b"3"}) == [
        tmp_path / "r" / "b.csv",
        tmp_path / "r" / "a.csv",
    ]
    assert (tmp_path / "r" / "a.csv").read_bytes() == b"3"
    manifest = json.loads((tmp_path / "r" / "manifest.json").read_text())
    assert {name: len(hashes) for name, hashes in manifest["files"].items()} == {"a.csv": 1, "b.csv": 1}


def test_a_policy_allows_the_one_style_sheet_by_its_hash() -> None:
    assert outputs.content_policy("p {}") == (
        "default-src 'none'; style-src 'sha256-"
        + base64.b64encode(hashlib.sha256(b"p {}").digest()).decode()
        + "'; img-src data:; base-uri 'none'; form-action 'none'"
    )
