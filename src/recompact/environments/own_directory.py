"""The directory in which this process keeps what its hosts need, and how directories are removed.

It is removed with the process. If a process was killed, the next one to start on this machine removes what it left.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_log = logging.getLogger(__name__)

_PREFIX = "recompact-hosts-"
_LOCK = "lock"

_own: dict[tuple[int, str], Path] = {}  # by process, since a fork is another one, and by location


def own_directory(within: str | None = None) -> Path:
    """Where this process keeps what its hosts need, in the temporary directory or in another one. What a killed
    harness has left there is removed."""
    within = within or tempfile.gettempdir()
    key = os.getpid(), within
    if key not in _own or not _own[key].is_dir():  # whatever clears the temporary directory may have removed it
        _remove_abandoned(within)
        while not _lock(place := Path(tempfile.mkdtemp(prefix=_PREFIX, dir=within))):
            pass
        atexit.register(_remove_own, place, os.getpid())
        _own[key] = place
    return _own[key]


def remove_unused() -> None:
    """Remove this process's directories with nothing left in them, before it is killed. Others are made when needed."""
    for key, place in list(_own.items()):
        with contextlib.suppress(OSError):
            if key[0] == os.getpid() and set(os.listdir(place)) <= {_LOCK}:
                del _own[key]
                remove_tree(place)


def _lock(place: Path) -> bool:
    """Lock a new directory for as long as this process lives. Returns whether it is still there: until it is locked,
    another process that starts at the same moment takes it for abandoned."""
    try:
        lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except FileNotFoundError:
        return False
    fcntl.flock(lock, fcntl.LOCK_EX)
    with contextlib.suppress(OSError):
        if os.path.samestat(os.stat(place / _LOCK), os.fstat(lock)):
            return True  # and the file stays open
    os.close(lock)
    return False


def _remove_abandoned(within: str) -> None:
    for place in Path(within).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if place.is_symlink() or place.stat().st_uid != os.getuid():  # anybody may write to a temporary directory
                continue
            lock = os.open(place / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its harness lives
                remove_tree(place)
            finally:
                os.close(lock)


def _remove_own(place: Path, pid: int) -> None:
    if os.getpid() == pid:
        remove_tree(place)


def remove_tree(place: Path) -> None:
    """Remove whatever is there, even if it is too deep for a recursion or has no permissions. No link is followed."""
    if place.is_symlink() or not place.is_dir():
        place.unlink(missing_ok=True)
        return
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(place)
        return
    for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
        subprocess.run([*command, "--", str(place)], capture_output=True, check=False)
    if place.exists():
        _log.warning("%s could not be removed: do so by hand", place)


def empty_directory(place: Path) -> None:
    """Remove everything in a directory."""
    place.chmod(0o700)
    for entry in place.iterdir():
        remove_tree(entry)
