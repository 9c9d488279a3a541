"""The testbed of one episode: where it is, where the agent sees it, and what may be read of it."""

from __future__ import annotations

from pathlib import Path

from recompact.environments.files import ActionError, Files

MOUNT = "/testbed"
"""Where the shell sees the testbed, and some tasks name it."""

TESTBED = "testbed"
"""Where it is in the directory of its episode."""

MAIL_LIMIT = 128 * 1024  # a malicious one of this size costs a parser seconds, growing with its square
CALENDAR_LIMIT = 1024 * 1024


def files_of_testbed(root: Path) -> Files:
    """The files of a testbed, which has `data/`, `emails/` and `calendar/` in it."""
    return Files(root, MOUNT)


def plain_name(name: str, what: str) -> str:
    """A name that becomes part of a file name, such as a user's: never a path."""
    if not name.strip() or name in (".", "..") or any(mark in name for mark in "/\\\0\r\n") or len(name) > 200:
        raise ActionError(f"{what} {name[:80]!r} cannot be used as the name of a file")
    return name
