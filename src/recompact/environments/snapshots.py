"""Bringing an environment back to a boundary by its state, its directory or a replay of its actions, as it chooses.

A directory is the bytes of a tar archive: only names, contents, targets and permission bits count, so equal trees are
equal bytes. Restoring replaces the tree exactly and reaches nothing outside it. A replay does the recorded actions
again in a fresh episode and compares each observation; where one differs the boundary is given up with a message, never
guessed. Used in the harness and in hosts alike, so it needs nothing but the standard library.
"""

from __future__ import annotations

import io
import json
import os
import re
import stat
import struct
import tarfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, get_args

from recompact.environments.files import Entry, Tree, TreeLimits, TreeRefused, TreeTooLarge
from recompact.environments.own_directory import empty_directory
from recompact.environments.protocol import Environment, EnvironmentFailed, Observation, Strategy
from recompact.values.trajectory import Action, Snapshot

Mask = Callable[[str], str]

TIMESTAMPS = (
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?)?"  # 2020-05-01 10:00:00
    r"|\b\d{8}T\d{6}Z?\b"  # iCalendar: 20200501T100000Z
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d{1,2} +(?:\d{1,2}:\d{2}(?::\d{2})?|\d{4})\b"  # ls -l
)
LONG_HEX = (
    r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"  # a UUID
    r"|\b0x[0-9a-fA-F]{6,}\b|\b[0-9a-fA-F]{16,}\b"
)
INODES = r"(?i:\binode:?[ =]*)\d+|(?m:^ *\d{5,}(?= ))"  # stat, ls -i
PIDS = r"(?i:\bpid:?[ =]*)\d+"

VOLATILE = (TIMESTAMPS, LONG_HEX, INODES, PIDS)
"""All of them: `mask = VOLATILE` on an environment that shows a real shell or real files."""


def masker(mask: Mask | str | Iterable[str] | None) -> Mask | None:
    """A masking function, made from patterns unless it is one already."""
    if mask is None or callable(mask):
        return mask
    patterns = [re.compile(pattern) for pattern in ([mask] if isinstance(mask, str) else mask)]

    def masked(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub("…", text)
        return text

    return masked if patterns else None


def mask_of(environment: object, suite: object = None) -> Mask | None:
    """The environment's own `mask`, else its suite's."""
    own = getattr(environment, "mask", None)
    return masker(own if own is not None else getattr(suite, "mask", None))


def excerpts(one: str, other: str, width: int = 80) -> tuple[str, str]:
    """Both texts from shortly before the first difference, short enough for a message."""
    same = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, same - width // 4)
    dots = "…" if start else ""
    return dots + one[start : start + width], dots + other[start : start + width]


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
            with Tree(root, TreeLimits(0)) as tree:
                empty_directory(root)
                _write(tar, members, tree.top)
    except tarfile.TarError as error:
        raise SnapshotRefused(f"the snapshot of {root} is not a readable archive: {error}") from error
    except (TreeRefused, OSError) as error:
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


STATE: Final = "state"
DIRECTORY: Final = "directory"
REPLAY: Final = "replay"

_MARK = b"recompact directory 1\n"
_NOTHING = 0xFFFFFFFFFFFFFFFF  # in place of a length: the environment has no bytes of its own


def strategy_of(environment: Environment) -> Strategy:
    """What the environment says in `snapshots`; without it, state if it has a `snapshot`, else replay."""
    chosen: Strategy | None = getattr(environment, "snapshots", None)
    if chosen is None:
        return STATE if hasattr(environment, "snapshot") else REPLAY
    if chosen not in get_args(Strategy):
        names = ", ".join(get_args(Strategy))
        raise SnapshotRefused(f"the environment's snapshots = {chosen!r} is not a strategy: choose one of {names}")
    return chosen


def take(environment: Environment, strategy: Strategy) -> bytes:
    """The bytes of a snapshot. NotImplementedError means that only a replay can help."""
    if strategy == STATE:
        return environment.snapshot()
    if strategy != DIRECTORY:
        raise NotImplementedError(strategy)
    tree = archive(_directory(environment), getattr(environment, "directory_limit", LIMIT))
    own = _own_bytes(environment)
    size = _NOTHING if own is None else len(own)
    return _MARK + struct.pack(">Q", size) + (own or b"") + tree


def put_back(environment: Environment, strategy: str, data: bytes) -> None:
    """Bring the environment to where `take` found it."""
    if strategy == STATE:
        environment.restore(data)
        return
    if strategy != DIRECTORY:
        raise SnapshotRefused(f"a snapshot of strategy {strategy!r} is not one that can be put back from its bytes")
    start = len(_MARK) + 8
    if not data.startswith(_MARK) or len(data) < start:
        raise SnapshotRefused("this is not a snapshot of a directory: its beginning is missing")
    size = struct.unpack(">Q", data[len(_MARK) : start])[0]
    end = start if size == _NOTHING else start + size
    unpack(data[end:], _directory(environment))
    if size != _NOTHING:
        environment.restore(data[start:end])


def _directory(environment: Environment) -> Path:
    directory = getattr(environment, "directory", None)
    if directory is None:
        raise SnapshotRefused('snapshots = "directory" needs an attribute `directory`: the tree that is its state')
    return Path(directory)


def _own_bytes(environment: Environment) -> bytes | None:
    """What the environment keeps besides its directory, if anything."""
    if not hasattr(environment, "snapshot"):
        return None
    try:
        return environment.snapshot()
    except NotImplementedError:
        return None


Log = list[tuple[Action, str]]
"""What an episode has done: each action with the text that came back."""


def record(log: Sequence[tuple[Action, str]], digest: str = "") -> Snapshot:
    """A snapshot that holds what was done and, where the environment has one, the digest of the resulting state."""
    steps = [[action.to_json(), text] for action, text in log]
    data = {"log": steps, "digest": digest} if digest else steps
    return Snapshot(REPLAY, json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def log_of(snapshot: Snapshot) -> Log:
    """The log in a snapshot made by `record`."""
    data = _read(snapshot)
    return [(Action.from_json(action), text) for action, text in (data["log"] if isinstance(data, dict) else data)]


def digest_of(snapshot: Snapshot) -> str:
    """The digest of the state, or nothing where the environment had none."""
    data = _read(snapshot)
    return str(data["digest"]) if isinstance(data, dict) else ""


def _read(snapshot: Snapshot) -> Any:
    return json.loads(snapshot.data.decode("utf-8", "surrogatepass"))


async def replay(
    log: Sequence[tuple[Action, str]],
    step: Callable[[Action], Awaitable[Observation]],
    agrees: Callable[[str, str], Awaitable[bool]],
) -> None:
    """Bring a fresh episode to the end of the log.

    `agrees` compares a recorded text with the one seen now, ignoring what the environment masks.
    """
    for number, (action, expected) in enumerate(log, 1):
        seen = (await step(action)).text
        if not await agrees(expected, seen):
            before, now = excerpts(expected, seen)
            raise EnvironmentFailed(
                f"replay differs at action {number} ({action.name or 'text'}): recorded {before!r}, now {now!r}"
            )
