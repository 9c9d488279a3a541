"""Bubblewrap around a command: what it can see, what it may use, and whether bubblewrap works on this machine.

Used for hosts, and for any environment that runs commands of an agent. Needs nothing but the standard library.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from recompact.environments.files import Tree, TreeLimits, TreeRefused, TreeTooLarge
from recompact.errors import InputError
from recompact.values.reading import key

_log = logging.getLogger(__name__)

SandboxMode = Literal["auto", "require", "off"]
"""Sandboxed where the machine can, otherwise not; refuse to run where it cannot; never sandboxed."""

_MIB = 1024**2
_SEARCH_AGAIN = 60.0  # seconds after which a directory is searched again


@dataclass(frozen=True)
class HostLimits:
    """What one host may use. Sizes are in bytes; memory and processes count for the host and all its children."""

    cpu_seconds: int = key(3600, "of one process")
    memory: int = key(4096 * _MIB, "bytes of all processes together")
    processes: int = key(256, "at once")
    file: int = key(1024 * _MIB, "bytes of one file")
    disk: int = key(4096 * _MIB, "bytes of all files in its own directories")
    message: int = key(96 * _MIB, "bytes of one value that it returns: an observation, a snapshot")

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")

    def in_memory(self, program: str | None, *places: str) -> dict[str, int]:
        """Those places of a sandbox that are to be file systems of their own, with their sizes: all, where `program`
        can make such ones and `memory` has room for what may be written there; otherwise none."""
        if program is None or self.disk > self.memory or "--size" not in _help(program):
            return {}
        return dict.fromkeys(places, kernel_limit(self.disk))


def kernel_limit(limit: int) -> int:
    """Where the kernel stops what is watched as well: later than the watcher, who can say what the matter is."""
    return limit + limit // 4


@dataclass(frozen=True)
class SandboxPolicy:
    """What a sandboxed command sees: the system's programs, and what is named here.

    Later entries of `readable` and `writable` lie over earlier ones, and `hidden` ones over all of them, except for
    what `readable` names within a hidden one.
    """

    directory: str  # where it starts, as seen from inside
    readable: Sequence[tuple[Path, str]] = ()  # a place, and where it is inside: nothing below it can be changed
    writable: Sequence[tuple[Path, str]] = ()
    scratch: Mapping[str, int] = field(default_factory=dict)  # places that are empty, in memory and end with it: bytes
    hidden: Sequence[Path] = ()  # places below others that are to seem empty
    searched: Sequence[Path] = ()  # readable places whose pipes and sockets are hidden: others may listen there
    network: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)  # all that it has
    hostname: str = "sandbox"
    shared_memory: bool = True  # whether /dev/shm can be written: a little memory that belongs to no process


_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime"),
    *("/etc/mime.types", "/etc/fonts", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/pki"),
)
_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/services", "/etc/protocols")
_NAMES_OF_KEYS = ("/proc/keys", "/proc/key-users")  # whoever has the user's number may list the user's
_SHARED_MEMORY = 64 * _MIB

_UNSHARED = (
    *("--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"),
    *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--new-session", "--die-with-parent"),
)
_INSTALL = "install it (Debian and Ubuntu: apt-get install bubblewrap, or make sandbox)"


def wrap_command(program: str, command: Sequence[str], policy: SandboxPolicy, filters: Sequence[int] = ()) -> list[str]:
    """The command line that runs a command under this policy; `program` is what `find_bubblewrap` found, and `filters`
    what `system_call_filter` gave, which the process has to inherit.

    Everything that the command starts ends with the process that this command line becomes.
    """
    refused = [word for handle in filters if _can_filter(program) for word in ("--seccomp", str(handle))]
    return [program, *_arguments(program, policy), *refused, "--", *command]


def make_mount_points(policy: SandboxPolicy) -> list[Path]:
    """Make the missing mount points of `readable` places within `writable` ones; returns what was made. Bubblewrap
    would make them as well, and an empty directory would be left in what is looked at afterwards."""
    points: list[Path] = []
    for place, inside in policy.readable:
        mounts = [(outside, Path(mount)) for outside, mount in policy.writable if Path(inside).is_relative_to(mount)]
        if not mounts:
            continue
        outside, mount = max(mounts, key=lambda each: len(each[1].parts))
        root = outside.resolve()
        point = root / Path(inside).relative_to(mount)
        for each in (*(above for above in reversed(point.parents) if above.is_relative_to(root)), point):
            if each.exists() or not _is_reached_directly(each):
                continue
            with contextlib.suppress(OSError):  # bubblewrap will say why it cannot be made
                each.mkdir() if each != point or place.is_dir() else each.touch()
                points.append(each)
    return points


def remove_mount_points(points: Sequence[Path]) -> None:
    """To be called when the sandbox is gone. Points that something was put into stay."""
    for place in filter(_is_reached_directly, reversed(points)):
        with contextlib.suppress(OSError):
            if place.is_dir():
                place.rmdir()
            elif not place.lstat().st_size:
                place.unlink()


def _is_reached_directly(place: Path) -> bool:
    """Not through a link, which whoever was inside may have made and which may lead anywhere."""
    return place.parent.resolve() == place.parent and not place.is_symlink()


@cache
def find_bubblewrap() -> tuple[str | None, str]:
    """The program, or why there is none that works here."""
    if sys.platform != "linux":
        return None, "bubblewrap needs Linux"
    program = shutil.which("bwrap")
    if program is None:
        return None, f"bubblewrap (bwrap) is not installed: {_INSTALL}"
    trial = wrap_command(program, ["/bin/true"], SandboxPolicy("/", variables={"PATH": "/usr/bin:/bin"}))
    try:
        tried = subprocess.run(trial, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"bubblewrap is installed but does not run here: {error}"
    if tried.returncode:
        reason = tried.stderr.strip()[:200] or f"exit code {tried.returncode}"
        return None, f"bubblewrap is installed but this machine does not let it make a sandbox ({reason})"
    return program, ""


@cache
def _can_filter(program: str) -> bool:
    """Whether the kernel takes a filter of system calls."""
    with system_call_filter() as filters:
        trial = [program, "--ro-bind", "/", "/", "--seccomp", *map(str, filters), "--", "/bin/true"]
        tried = subprocess.run(trial, capture_output=True, timeout=30, check=False, pass_fds=filters)
    return tried.returncode == 0


def _refuse_covered(policy: SandboxPolicy) -> None:
    for place, inside in policy.readable:
        for mount in (*(mount for _, mount in policy.writable), *policy.scratch):
            if Path(mount).is_relative_to(inside):
                raise InputError(
                    f"{place} cannot be shown in a sandbox: as {inside} it would lie over {mount}, which a sandbox has"
                    " for itself. Name a place within it, or put what is needed somewhere else"
                )


def _arguments(program: str, policy: SandboxPolicy) -> Iterator[str]:
    _refuse_covered(policy)
    yield from _UNSHARED
    if not policy.network:
        yield "--unshare-net"
    if "--disable-userns" in _help(program):
        yield "--disable-userns"
    yield from ("--hostname", policy.hostname)
    for shared in (*_SYSTEM, *_SETTINGS, *(_NETWORK if policy.network else ())):
        yield from _show_place(Path(shared), shared)
    # To the kernel a sandboxed root still owns the kernel's settings: it could change them in a writable /proc.
    yield from ("--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
    for names in _NAMES_OF_KEYS:
        if os.path.exists(names):
            yield from ("--ro-bind", "/dev/null", names)
    if policy.shared_memory and "--size" in _help(program):
        yield from ("--size", str(_SHARED_MEMORY), "--tmpfs", "/dev/shm")
    yield from ("--remount-ro", "/dev")
    for place_inside, size in policy.scratch.items():
        yield from ("--size", str(size), "--tmpfs", place_inside)
    for place_outside, inside in policy.writable:
        yield from ("--bind", str(place_outside), inside)
    for place_outside, inside in policy.readable:
        yield from ("--ro-bind", str(place_outside), inside)
    yield from _hide_places(policy)
    for place in _places_of_others(policy):
        yield from ("--ro-bind", "/dev/null", str(place))
    yield from ("--remount-ro", "/", "--chdir", policy.directory, "--clearenv")
    for name, value in policy.variables.items():
        yield from ("--setenv", name, value)


def _show_place(place: Path, inside: str) -> tuple[str, ...]:
    if place.is_symlink() and inside in _SYSTEM:
        return ("--symlink", os.readlink(place), inside)
    return ("--ro-bind", str(place.resolve()), inside) if place.exists() else ()


def _hide_places(policy: SandboxPolicy) -> Iterator[str]:
    """Empty what is hidden, the outermost first, and show again what is named within it."""
    mounts = [
        *((Path(place).resolve(), Path(place)) for place in _SYSTEM),
        *((outside.resolve(), Path(inside)) for outside, inside in (*policy.writable, *policy.readable)),
    ]
    hidden = {place: each for each in policy.hidden for place in _places_inside(each, mounts)}
    gone: list[Path] = []  # nothing is left in them to be hidden, and nothing can be laid over it
    for place in sorted(hidden, key=lambda place: len(place.parts)):
        if _is_needed(place, policy) or any(_is_gone_with(place, other, policy) for other in gone):
            continue
        if not hidden[place].is_dir():
            yield from ("--ro-bind", "/dev/null", str(place))
            continue
        gone.append(place)
        yield from ("--tmpfs", str(place))
        for outside, inside in policy.readable:
            if Path(inside).is_relative_to(place):
                yield from ("--ro-bind", str(outside), inside)
        yield from ("--remount-ro", str(place))


def _places_inside(hidden: Path, mounts: Sequence[tuple[Path, Path]]) -> Iterator[Path]:
    """Where this place can be seen from inside; only there can something be laid over it.

    A mount point may bear the name of a directory outside that it has nothing to do with.
    """
    if not hidden.exists():
        return
    hidden = hidden.resolve()
    for index, (outside, inside) in enumerate(mounts):
        if hidden.is_relative_to(outside):
            place = inside / hidden.relative_to(outside)
            if not any(place.is_relative_to(later) for _, later in mounts[index + 1 :]):
                yield place


def _is_needed(hidden: Path, policy: SandboxPolicy) -> bool:
    """Whether it was named to be seen, or can be written somewhere within; then only what is named besides can be
    hidden."""
    named = any(Path(inside) == hidden for _, inside in policy.readable)
    writable = (*(inside for _, inside in policy.writable), *policy.scratch)
    return named or any(Path(inside).is_relative_to(hidden) for inside in writable)


def _is_gone_with(hidden: Path, other: Path, policy: SandboxPolicy) -> bool:
    """Whether a place went with an outer one that was emptied: not if it is in something that was shown again there."""
    shown = (Path(inside) for _, inside in policy.readable if Path(inside).is_relative_to(other))
    return hidden.is_relative_to(other) and not any(hidden.is_relative_to(inside) for inside in shown)


def _places_of_others(policy: SandboxPolicy) -> Iterator[Path]:
    """Where the pipes and sockets in `searched` places are seen inside: a place that cannot be written to does not keep
    anybody from writing to them."""
    hidden = [place.resolve() for place in policy.hidden]
    mounts = [(outside.resolve(), Path(inside)) for outside, inside in (*policy.writable, *policy.readable)]
    for root in dict.fromkeys(place.resolve() for place in policy.searched):
        for other in pipes_and_sockets(root, int(time.monotonic() / _SEARCH_AGAIN)):
            if other.exists() and not any(other.is_relative_to(place) for place in hidden):
                yield from _places_inside(other, mounts)


@lru_cache(64)
def pipes_and_sockets(root: Path, moment: int) -> tuple[Path, ...]:
    """The pipes and sockets below a directory, as they were when it was first asked for at this moment."""
    places: list[Path] = []
    try:
        with Tree(root, TreeLimits(0, entries=200_000, seconds=10.0), lenient=True) as tree:
            for entry in tree.walk():
                if stat.S_ISFIFO(entry.status.st_mode) or stat.S_ISSOCK(entry.status.st_mode):
                    places.append(root / entry.name)
    except TreeTooLarge as error:
        _log.warning("pipes and sockets below %s may be seen in sandboxes: it has %s", root, error.what)
    except TreeRefused:  # it is a file, or gone
        pass
    return tuple(places)


@cache
def _help(program: str) -> str:
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=False).stdout


def is_private(place: Path) -> bool:
    """Whether a place holds much more than a suite: the root, a home directory, the shared temporary directory."""
    private = {Path.home().resolve(), Path(tempfile.gettempdir()).resolve()}
    return any(each.is_relative_to(place.resolve()) for each in private)


_ARCHITECTURES = {  # as in linux/audit.h; then the numbers of socket, shmget, semget, msgget and the calls for keys
    "x86_64": (0xC000003E, 41, 29, 64, 68, 248, 249, 250),
    "aarch64": (0xC00000B7, 198, 194, 190, 186, 217, 218, 219),
    "riscv64": (0xC00000F3, 198, 194, 190, 186, 217, 218, 219),
}
_SEGMENT, _SEMAPHORES = (
    16 * 1024,
    32,
)  # of a namespace's 4,096 and 32,000, as nobody can count them: no process has them
_IO_URING_SETUP = 425
_OTHER_ABI = 0x40000000  # x32 on x86_64; no call anywhere has a higher number
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # of classic BPF
_NUMBER, _ARCHITECTURE, _ARGUMENT, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data, on little-endian machines
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000


def filter_program(machine: str) -> bytes | None:
    """The program for a machine, as bubblewrap takes it; None where the numbers of its calls are not known here."""
    if machine not in _ARCHITECTURES:
        return None
    architecture, socket, shmget, semget, *refused = _ARCHITECTURES[machine]
    none = _REFUSE | errno.ENOSYS
    steps = [
        *((_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, none)),
        *((_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _OTHER_ABI), (_RETURN, 0, 0, none)),
        *((_EQUAL, 0, 1, _IO_URING_SETUP), (_RETURN, 0, 0, none)),
    ]
    for call, most in ((shmget, _SEGMENT), (semget, _SEMAPHORES)):
        steps += [(_EQUAL, 0, 6, call), (_LOAD, 0, 0, _SECOND + 4), (_EQUAL, 0, 2, 0), (_LOAD, 0, 0, _SECOND)]
        steps += [(_AT_LEAST, 0, 1, most + 1), (_RETURN, 0, 0, _REFUSE | errno.EINVAL), (_RETURN, 0, 0, _ALLOW)]
    for call in refused:
        steps += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    steps += [(_EQUAL, 1, 0, socket), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _ARGUMENT)]
    for family in _FAMILIES:
        steps += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    steps.append((_RETURN, 0, 0, _REFUSE | errno.EAFNOSUPPORT))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


@contextlib.contextmanager
def system_call_filter() -> Iterator[tuple[int, ...]]:
    """A descriptor of the program, for one sandbox, to be passed on to it; none where there is no such program."""
    program = filter_program(os.uname().machine)
    if program is None:
        yield ()
        return
    handle = os.memfd_create("filter")
    try:
        os.write(handle, program)
        os.lseek(handle, 0, os.SEEK_SET)
        yield (handle,)
    finally:
        os.close(handle)
