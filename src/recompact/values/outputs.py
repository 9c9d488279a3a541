"""Where results may be written: to a place that is free, or over an earlier result that its manifest marks as ours.

Nothing of anybody else's is ever removed or replaced. A result takes the place of an earlier one by renaming, so that a
kill leaves the old one or the new one.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import secrets
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recompact.errors import InputError
from recompact.version import __version__

MANIFEST = "manifest.json"
_REPOSITORIES = (".git", ".hg", ".svn", ".jj")
_DATABASE = b"SQLite format 3\0"


def check_directory(directory: Path, kind: str, option: str = "--out", *, whole: bool = True) -> None:
    """Refuse a directory that holds anything but an earlier result of this kind, as Recompact wrote it.

    A `whole` result is replaced with everything in its directory; otherwise files are added to it one by one, and what
    others keep beside them stays.
    """
    if not _is_directory(directory, option):
        return
    elsewhere = f"nothing was written; name another directory with {option}"
    if directory.resolve() in (Path.cwd().resolve(), *Path.cwd().resolve().parents):
        raise InputError(f"{directory} is the directory you are in, or one above it: {elsewhere}")
    present = sorted(entry.name for entry in directory.iterdir())
    if repository := next((name for name in present if name in _REPOSITORIES), None):
        raise InputError(f"{directory} is under version control ({repository}): {elsewhere}")
    if not present:
        return
    manifest = _manifest(directory)
    database = next((name for name in present if _is_database(directory / name)), None)
    if database and (whole or manifest is None):
        raise InputError(f"{directory} holds a database ({database}), perhaps a run: {elsewhere}")
    if manifest is None:
        raise InputError(
            f"{directory} holds {present[0]}, and no {MANIFEST} says that Recompact wrote what is there: {elsewhere}"
        )
    if manifest["kind"] != kind:
        raise InputError(f"{directory} holds another thing of Recompact's ({manifest['kind']}): {elsewhere}")
    ours = manifest["files"]
    if whole:
        present = _files_below(directory)
    if whole and (others := [name for name in present if name not in ours and name != MANIFEST]):
        raise InputError(f"{directory} holds {others[0]}, which Recompact did not write: {elsewhere}, or move it away")
    if changed := [name for name in present if name in ours and not _is_as_written(directory / name, ours[name])]:
        raise InputError(f"{directory / changed[0]} was changed since Recompact wrote it: {elsewhere}, or move it away")


def is_ours(directory: Path, kind: str) -> bool:
    """Whether the manifest in a directory says that it is a result of this kind."""
    manifest = None if directory.is_symlink() else _manifest(directory)
    return manifest is not None and manifest["kind"] == kind


@contextmanager
def replaced_directory(directory: Path, kind: str, option: str = "--out") -> Iterator[Path]:
    """A fresh directory to write a result into, which then takes the place of the earlier one.

    The files in it are listed in its manifest, which the writer may have begun with entries of its own.
    """
    check_directory(directory, kind, option)
    fresh = directory.with_name(f".{directory.name}.{secrets.token_hex(4)}")
    in_place = False
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        try:
            yield fresh
            files = {name: [_hash((fresh / name).read_bytes())] for name in _files_below(fresh) if name != MANIFEST}
            _write_manifest(fresh, kind, files)
            check_directory(directory, kind, option)  # writing may have taken a while
            _put_in_place(fresh, directory)
            in_place = True
        finally:
            _remove_ours(fresh, unfinished=not in_place)  # or else the earlier result
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{directory} cannot be written ({reason}): name another place with {option}") from None


def add_files(directory: Path, kind: str, files: Mapping[str, bytes], option: str = "--out") -> list[Path]:
    """Write files into a directory of ours, each in one step; those of the same name must be ours too."""
    check_directory(directory, kind, option, whole=False)
    manifest = _manifest(directory) or {"files": {}}
    listed: dict[str, list[str]] = dict(manifest["files"])
    for name in files:
        if name not in listed and os.path.lexists(directory / name):
            raise InputError(
                f"{directory / name} already exists, and Recompact did not write it: move it, or name another"
                f" directory with {option}"
            )
    new = {name: [_hash(data)] for name, data in files.items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        # Until all are there a file may be the earlier one or the new one: after a kill both are known as ours.
        either = {name: list(dict.fromkeys([*listed.get(name, []), *hashes])) for name, hashes in new.items()}
        _write_manifest(directory, kind, {**listed, **either})
        for name, data in files.items():
            _replace_file(directory / name, data)
        _write_manifest(directory, kind, {**listed, **new})
    except OSError as error:
        raise InputError(
            f"{directory} cannot be written ({error.strerror}): name another place with {option}"
        ) from None
    return [directory / name for name in files]


def check_file(path: Path, what: str, ours: Callable[[Path], bool], option: str = "--out") -> None:
    """Refuse a path that is taken; a file that is `what`, according to `ours`, may be replaced."""
    if path.is_symlink():
        raise InputError(f"{path} is a symbolic link: nothing was written; name the file itself with {option}")
    if path.is_dir():
        raise InputError(f"{path} is a directory: nothing was written; name a file with {option}")
    if path.exists() and not (path.is_file() and ours(path)):
        raise InputError(
            f"{path} already exists and is not {what} of Recompact's: nothing was written; name another file with"
            f" {option}"
        )


def write_file(path: Path, data: bytes, what: str, ours: Callable[[Path], bool], option: str = "--out") -> None:
    """Write one file whole or not at all, over an earlier one of ours only."""
    check_file(path, what, ours, option)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace_file(path, data)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}): name another file with {option}") from None


# -- what is there ---------------------------------------------------------------------------------------------------


def check_page(path: Path) -> None:
    """Refuse a name that is not that of a page, and an existing page that is not one of ours."""
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"{path} is not the name of a page: give --out a name that ends with .html")
    check_file(path, "a page", _is_page)


def write_page(path: Path, html: str) -> int:
    """Write a page, whole or not at all, and return its size in bytes."""
    check_page(path)
    data = html.encode("utf-8")
    write_file(path, data, "a page", _is_page)
    return len(data)


def _is_page(path: Path) -> bool:
    """Whether a page says that we wrote it."""
    with path.open("rb") as file:
        return b'<meta name="generator" content="recompact ' in file.read(4096)


def content_policy(style: str) -> str:
    """The policy of our pages: nothing may be loaded or run, and one style sheet is allowed, by its hash."""
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def _is_directory(directory: Path, option: str) -> bool:
    """Whether there is a directory; anything else that has its name is refused."""
    if directory.is_symlink():
        raise InputError(
            f"{directory} is a symbolic link: nothing was written; name the directory itself with {option}"
        )
    if directory.exists() and not directory.is_dir():
        raise InputError(
            f"{directory} is a file: nothing was written; {option} must name a directory that is new or empty"
        )
    return directory.is_dir()


def _manifest(directory: Path) -> dict[str, Any] | None:
    """What a directory of ours says about itself: its kind, and the hashes that each file may have."""
    try:
        manifest = json.loads((directory / MANIFEST).read_bytes())
        files = {str(name): [str(each) for each in hashes] for name, hashes in manifest["files"].items()}
        return {**manifest, "kind": str(manifest["kind"]), "files": files} if manifest["recompact"] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_as_written(path: Path, hashes: list[str]) -> bool:
    return path.is_file() and not path.is_symlink() and _hash(path.read_bytes()) in hashes


def _is_database(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_DATABASE)) == _DATABASE


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- writing ---------------------------------------------------------------------------------------------------------


def _write_manifest(directory: Path, kind: str, files: Mapping[str, list[str]]) -> None:
    path = directory / MANIFEST
    own = json.loads(path.read_bytes()) if path.exists() else {}
    manifest = {"recompact": __version__, **own, "kind": kind, "files": dict(sorted(files.items()))}
    _replace_file(path, (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())


def _replace_file(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with partial.open("xb") as file:
            file.write(data)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _put_in_place(fresh: Path, directory: Path) -> None:
    """After this, `directory` is the fresh one, and `fresh` the earlier one if there was one."""
    try:
        fresh.rename(directory)  # also over an empty directory
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not _exchange(fresh, directory):
            _exchange_in_turn(fresh, directory)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories in one step; False where the system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    here, swap, paths = -100, 2, (os.fsencode(one), os.fsencode(other))
    try:
        if sys.platform == "darwin":
            return bool(libc.renamex_np(*paths, swap) == 0)
        return bool(libc.renameat2(here, paths[0], here, paths[1], swap) == 0)
    except AttributeError:
        return False


def _exchange_in_turn(one: Path, other: Path) -> None:
    """The same by renaming three times; a kill in between leaves both, the earlier one beside it under another name."""
    aside = other.with_name(f".{other.name}.earlier.{secrets.token_hex(4)}")
    other.rename(aside)
    try:
        one.rename(other)
    except OSError:
        aside.rename(other)
        raise
    aside.rename(one)


def _remove_ours(directory: Path, unfinished: bool) -> None:
    """Remove a directory that only we had files in: one of our own, unfinished, or an earlier result, of which whatever
    the manifest does not name stays, with the directory."""
    if not directory.is_dir():
        return
    manifest = _manifest(directory)
    names = [*manifest["files"], MANIFEST] if manifest else _files_below(directory) if unfinished else []
    for name in names:
        (directory / name).unlink(missing_ok=True)
    for folder in sorted({directory, *(f for name in names for f in (directory / name).parents)}, reverse=True):
        if folder.is_relative_to(directory):
            with suppress(OSError):
                folder.rmdir()


def _files_below(directory: Path) -> list[str]:
    """Everything in a directory and the folders in it that is not itself a folder; symbolic links are not followed."""
    names: list[str] = []
    for folder, folders, files in os.walk(directory):
        linked = [name for name in folders if (Path(folder) / name).is_symlink()]
        names += ((Path(folder) / name).relative_to(directory).as_posix() for name in [*files, *linked])
    return sorted(names)
