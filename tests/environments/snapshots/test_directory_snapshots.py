"""A directory as bytes: equal trees are equal bytes, restoring is exact, and nothing outside is ever reached."""

from __future__ import annotations

import io
import os
import socket
import tarfile
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, strategies as st

from recompact.environments.snapshots import SnapshotRefused, archive, unpack


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file.txt").write_text("hello")
    (root / "script.sh").write_text("#!/bin/sh\n")
    (root / "script.sh").chmod(0o750)
    (root / "empty").mkdir(mode=0o700)
    (root / "link").symlink_to("a/b/file.txt")
    (root / "dangling").symlink_to("/nowhere/at/all")
    (root / "name with spaces and ü").write_bytes(bytes(range(256)))
    return root


def listing(root: Path) -> list[tuple[str, int, bytes | str]]:
    entries: list[tuple[str, int, bytes | str]] = []
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        content = os.readlink(path) if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
        entries.append((str(path.relative_to(root)), mode, content))
    return entries


def test_restoring_makes_the_tree_what_it_was(tree: Path, tmp_path: Path) -> None:
    before, data = listing(tree), archive(tree)
    (tree / "a" / "b" / "file.txt").write_text("changed")
    (tree / "extra").mkdir()
    (tree / "extra" / "more.txt").write_text("more")
    (tree / "empty").rmdir()
    (tree / "link").unlink()
    (tree / "link").mkdir()
    (tree / "script.sh").chmod(0o600)
    unpack(data, tree)
    assert listing(tree) == before
    unpack(data, tmp_path / "new" / "place")
    assert listing(tmp_path / "new" / "place") == before


def test_equal_trees_are_equal_bytes(tree: Path, tmp_path: Path) -> None:
    data = archive(tree)
    unpack(data, tmp_path / "copy")
    os.utime(tmp_path / "copy" / "script.sh", (1, 1))
    assert archive(tmp_path / "copy") == data


def test_hard_links_come_back_as_files_of_their_own(tree: Path) -> None:
    os.link(tree / "script.sh", tree / "twin.sh")
    unpack(archive(tree), tree)
    (tree / "twin.sh").write_text("other")
    assert (tree / "script.sh").read_text() == "#!/bin/sh\n"


def test_links_that_lead_out_are_kept_and_not_followed(tree: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("precious")
    data = archive(tree)
    (tree / "a" / "b" / "file.txt").unlink()
    (tree / "a" / "b").rmdir()
    (tree / "a" / "b").symlink_to(outside)
    (tree / "out").symlink_to(outside)
    with_links = archive(tree)
    assert b"precious" not in with_links.replace(b"precious.txt", b"")
    unpack(data, tree)
    assert (outside / "precious.txt").read_text() == "precious"
    unpack(with_links, tree)
    assert os.readlink(tree / "out") == str(outside)
    assert [path.name for path in outside.iterdir()] == ["precious.txt"]


def test_a_root_that_was_replaced_by_a_link_is_refused(tree: Path, tmp_path: Path) -> None:
    data = archive(tree)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("precious")
    tree.rename(tmp_path / "moved")
    tree.symlink_to(outside)
    with pytest.raises(SnapshotRefused, match="a symbolic link"):
        unpack(data, tree)
    with pytest.raises(SnapshotRefused, match="a symbolic link"):
        archive(tree)
    assert (outside / "precious.txt").exists()


def test_directories_without_rights_are_no_obstacle(tree: Path) -> None:
    (tree / "a" / "b").chmod(0o500)
    (tree / "a").chmod(0o500)
    data, before = archive(tree), listing(tree)
    unpack(data, tree)
    assert listing(tree) == before
    unpack(data, tree)
    (tree / "a").chmod(0o700)
    (tree / "a" / "b").chmod(0o700)


def test_odd_names_survive(tmp_path: Path) -> None:
    root = tmp_path / "odd"
    root.mkdir()
    names = [b"\xff\xfe", b"-rf", b"new\nline", b"x" * 200, b"...", b"..a", "\u00e9".encode(), b"a\\b"]
    for name in names:
        (root / os.fsdecode(name)).write_bytes(name)
    data = archive(root)
    unpack(data, tmp_path / "copy")
    assert sorted(os.listdir(os.fsencode(tmp_path / "copy"))) == sorted(names)
    assert archive(tmp_path / "copy") == data


def test_pipes_and_sockets_are_refused(tree: Path) -> None:
    os.mkfifo(tree / "pipe")
    with pytest.raises(SnapshotRefused, match=r"^pipe .*named pipe"):
        archive(tree)
    (tree / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tree / "sock"))
        with pytest.raises(SnapshotRefused, match="sock is a socket"):
            archive(tree)


def test_the_size_is_bounded(tree: Path) -> None:
    with (tree / "sparse").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(SnapshotRefused, match=r"67,108,864 bytes \(reached at sparse\)"):
        archive(tree)


def hostile(*members: tuple[str, bytes, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, kind, target in ((".", tarfile.DIRTYPE, ""), *members):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.mode = kind, target, 0o777
            tar.addfile(member)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "members",
    [
        (("../x", tarfile.REGTYPE, ""),),
        (("/tmp/x", tarfile.REGTYPE, ""),),
        (("a", tarfile.DIRTYPE, ""), ("a/../../x", tarfile.REGTYPE, "")),
        (("a", tarfile.SYMTYPE, "/tmp"), ("a/x", tarfile.REGTYPE, "")),
        (("a", tarfile.SYMTYPE, "/tmp"), ("a", tarfile.DIRTYPE, ""), ("a/x", tarfile.REGTYPE, "")),
        (("a//x", tarfile.REGTYPE, ""),),
        (("nowhere/x", tarfile.REGTYPE, ""),),
        (("x", tarfile.FIFOTYPE, ""),),
        (("x", tarfile.CHRTYPE, ""),),
        (("x", tarfile.LNKTYPE, "/etc/passwd"),),
    ],
)
def test_a_hostile_archive_is_refused_before_anything_is_touched(
    tree: Path, members: tuple[tuple[str, bytes, str], ...]
) -> None:
    before = listing(tree)
    with pytest.raises(SnapshotRefused, match=r"the snapshot (names|has)"):
        unpack(hostile(*members), tree)
    assert listing(tree) == before


@pytest.mark.parametrize("data", [b"", b"nonsense" * 200, b"\0" * 2048])
def test_something_else_is_refused(tree: Path, data: bytes) -> None:
    before = listing(tree)
    with pytest.raises(SnapshotRefused):
        unpack(data, tree)
    assert listing(tree) == before


names = st.lists(st.sampled_from(["a", "b", "c", ".d"]), min_size=1, max_size=3).map("/".join)


@examples(30)
@given(
    files=st.dictionaries(names, st.binary(max_size=20), max_size=6),
    others=st.dictionaries(names, st.binary(max_size=5)),
)
def test_any_tree_comes_back_whatever_was_there(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], others: dict[str, bytes]
) -> None:
    root, other = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    for place, contents in ((root, files), (other, others)):
        for name, content in contents.items():
            path = place / name
            if not any(parent.is_file() for parent in path.parents) and not path.is_dir():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
    unpack(archive(root), other)
    assert listing(other) == listing(root)
