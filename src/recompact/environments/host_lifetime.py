"""How a host ends in time: with the harness, with all its children, and even while its environment hangs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys

# Bound now: an environment may replace what a module offers (a safety guard around `os`).
from os import _exit, getpid, killpg
from typing import NoReturn

from recompact.environments.process_tree import children_of, descendants, kill_all


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process with its parent."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        return  # not Linux: the closed socket still ends us at the next message
    if os.getppid() != parent:
        _exit(1)


def die_with_harness(lifeline: int) -> bool:
    """Have the kernel kill the whole process group once the harness's end of a pipe is gone; False where it cannot.

    Unlike the death of a parent this reaches children of the environment, and grandchildren of the harness.
    """
    try:
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    except (OSError, AttributeError):  # not Linux
        return False
    poll = select.poll()
    poll.register(lifeline, select.POLLIN)
    if poll.poll(0):  # the harness was gone before we asked
        end_group()
    return True


def leave_keyring() -> None:
    """Have an empty session keyring from now on, with all that is started: the user's may hold passwords."""
    numbers = {"x86_64": 250, "aarch64": 219, "riscv64": 219}  # of the system call keyctl
    with contextlib.suppress(ImportError, OSError, AttributeError, KeyError):
        import ctypes

        ctypes.CDLL(None).syscall(numbers[os.uname().machine], 1, None)  # KEYCTL_JOIN_SESSION_KEYRING, a new one


def adopt_orphans() -> None:
    """Adopt every process below this one whose parent dies, so that a daemon is still found when it ends."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(36, 1)


def stand_guard(lifeline: int, *descriptors: int) -> None:
    """Fork, and return in the child, which is the host. The parent stays until the host or the harness has ended, and
    then ends all that is left: a daemon is below the parent wherever it goes. It keeps none of the descriptors.

    For hosts without a sandbox, whose processes would otherwise survive a harness that is killed.
    """
    if sys.platform != "linux":
        return
    adopt_orphans()
    child = os.fork()
    if child == 0:
        return
    for descriptor in descriptors:
        os.close(descriptor)
    poll = select.poll()
    host = os.pidfd_open(child)
    poll.register(lifeline, select.POLLIN)
    poll.register(host, select.POLLIN)
    poll.poll()
    ended = os.waitid(os.P_PIDFD, host, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    while children_of(os.getpid()):
        kill_all(descendants(os.getpid())[1:])
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)
    if ended is None:
        _exit(1)
    _exit(ended.si_status if ended.si_code == os.CLD_EXITED else 128 + ended.si_status)


def end_group() -> NoReturn:
    """Exit, and kill the children that the environment may have left."""
    if os.getpgrp() == getpid():
        killpg(getpid(), signal.SIGKILL)
    _exit(1)
