"""A directory that is all of an environment's state, as the bytes of a tar archive.

Only names, contents, targets and permission bits count, so equal trees are equal bytes. Restoring replaces the tree
exactly and reaches nothing outside it: links are never followed, and an archive whose names lead elsewhere is refused.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from recompact.environments.own_directory import empty_directory
from recompact.environments.trees import DIRECTORY, Entry, Tree, TreeLimits, TreeRefused, TreeTooLarge

LIMIT = 64 * 1024 * 1024
"""Bytes of contents that one snapshot may hold, unless the environment's `directory_limit` says otherwise."""

_ENTRY_COST = 1024  # the least that a name costs, so that a million empty files are no way around the limit
_BITS = 0o777  # no set-user-id: what an agent made must not gain rights by being restored


class SnapshotRefused(Exception):
    """No snapshot can be taken or restored here; the text says why."""


class SnapshotTooLarge(SnapshotRefused):
    """The tree is larger than its limit."""


def archive(root: Path, limit: int = LIMIT) -> bytes:
    """The tree below `root`. Hard links become separate files; pipes, sockets and devices are refused."""
    buffer = io.BytesIO()
    limits = TreeLimits(limit, entries=limit // _ENTRY_COST)
    try:
        with Tree(root, limits) as tree, tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
            tar.addfile(_member(".", os.fstat(tree.top)))
            for entry in tree.walk():
                _add(tar, tree, entry)
    except TreeTooLarge as error:
        raise SnapshotTooLarge(
            f"{root} is too large for a directory snapshot: {error}; set directory_limit on the environment, or choose"
            " another strategy"
        ) from None
    except TreeRefused as error:
        raise SnapshotRefused(str(error)) from None
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, tree: Tree, entry: Entry) -> None:
    member = _member(entry.name, entry.status)
    content = b""
    if member.issym():
        member.linkname = tree.target(entry)
    elif not member.isdir():
        content = b"".join(tree.content(entry))
        member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _member(name: str, status: os.stat_result) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode = stat.S_IMODE(status.st_mode) & _BITS
    if stat.S_ISDIR(status.st_mode):
        member.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        member.type, member.mode = tarfile.SYMTYPE, 0o777
    elif not stat.S_ISREG(status.st_mode):
        raise SnapshotRefused(f"{name} is {_kind(status.st_mode)}, which a directory snapshot cannot hold")
    return member


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFIFO: "a named pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "no regular file")


def unpack(data: bytes, root: Path) -> None:
    """Make the tree below `root` what was archived: nothing more, nothing less. It is created where it is missing."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            members = _check(tar.getmembers())
            if not root.is_symlink():
                root.mkdir(parents=True, exist_ok=True)
            with _open_root(root) as top:
                empty_directory(root)
                _write(tar, members, top)
    except tarfile.TarError as error:
        raise SnapshotRefused(f"the snapshot of {root} is not a readable archive: {error}") from error
    except OSError as error:
        raise SnapshotRefused(f"{root} could not be restored: {error}") from error


def _check(members: Sequence[tarfile.TarInfo]) -> Sequence[tarfile.TarInfo]:
    """Only names that stay inside, below directories of the archive itself: never through a link, never twice."""
    if not members or members[0].name != "." or not members[0].isdir():
        raise SnapshotRefused("this is not a snapshot of a directory: it does not begin with the directory itself")
    folders, seen = {""}, set()
    for member in members[1:]:
        name = member.name
        above, _, last = name.rpartition("/")
        if name.startswith("/") or last in ("", ".", "..") or "\0" in name or above not in folders or name in seen:
            raise SnapshotRefused(f"the snapshot names {name!r}, which is not a new place inside its directory")
        if not (member.isreg() or member.isdir() or member.issym()):
            raise SnapshotRefused(f"the snapshot has {name!r}, which is neither a file nor a directory nor a link")
        seen.add(name)
        if member.isdir():
            folders.add(name)
    return members


def _write(tar: tarfile.TarFile, members: Sequence[tarfile.TarInfo], top: int) -> None:
    for member in members[1:]:
        if member.isdir():
            os.mkdir(member.name, 0o700, dir_fd=top)
        elif member.issym():
            os.symlink(member.linkname, member.name, dir_fd=top)
        else:
            content = tar.extractfile(member)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(member.name, flags, 0o600, dir_fd=top), "wb") as file:
                file.write(content.read() if content is not None else b"")
                os.fchmod(file.fileno(), member.mode & _BITS)
    for member in reversed(members):  # last, since a directory without the right to write could not be filled
        if member.isdir():
            os.chmod(member.name, member.mode & _BITS, dir_fd=top)


@contextlib.contextmanager
def _open_root(root: Path) -> Iterator[int]:
    """The directory itself, never a link that was put in its place."""
    try:
        handle = os.open(root, DIRECTORY)
    except OSError as error:
        what = "a symbolic link" if root.is_symlink() else error.strerror
        raise SnapshotRefused(f"{root} is not a directory that can be snapshotted: {what}") from error
    try:
        yield handle
    finally:
        os.close(handle)
