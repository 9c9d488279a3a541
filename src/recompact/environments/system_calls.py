"""The system calls that a sandbox refuses, as a program for the kernel: those that lead to what no namespace confines.

These are the user's keys, sockets of families that know no network namespace (such as AF_VSOCK, which reaches the
machine around a virtual one), and io_uring, which opens sockets without being asked. Programs for another architecture
than the machine's own do not run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Iterator

_ARCHITECTURES = {  # as in linux/audit.h; then the numbers of socket, add_key, request_key and keyctl
    "x86_64": (0xC000003E, 41, 248, 249, 250),
    "aarch64": (0xC00000B7, 198, 217, 218, 219),
    "riscv64": (0xC00000F3, 198, 217, 218, 219),
}
_IO_URING_SETUP = 425
_OTHER_ABI = 0x40000000  # x32 on x86_64; no call anywhere has a higher number
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # of classic BPF
_NUMBER, _ARCHITECTURE, _ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, on little-endian machines
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000


def filter_program(machine: str) -> bytes | None:
    """The program for a machine, as bubblewrap takes it; None where the numbers of its calls are not known here."""
    if machine not in _ARCHITECTURES:
        return None
    architecture, socket, *keys = _ARCHITECTURES[machine]
    none = _REFUSE | errno.ENOSYS
    steps = [
        *((_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, none)),
        *((_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _OTHER_ABI), (_RETURN, 0, 0, none)),
        *((_EQUAL, 0, 1, _IO_URING_SETUP), (_RETURN, 0, 0, none)),
    ]
    for call in keys:
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
