"""The fork strategy inside a host: frozen copies of the process, from which live branches start.

A frozen copy is a holder: it does nothing but wait on its socket for requests to fork a branch, which serves verbs like
any host. It ends its branches with their children, and itself, when the harness lets go of the socket or dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

# Bound now: an environment may replace what a module offers (a frozen clock, a safety guard around `os`).
from os import _exit, close, dup2, fork, getpid, getppid, killpg, pipe, read, setsid, waitpid, write
from typing import Any, NoReturn

from recompact.environments.protocol import Environment
from recompact.environments.snapshots.channel import Channel
from recompact.environments.snapshots.directory import SnapshotRefused

_FROZEN = b"frozen"
_THREAD_PATIENCE = 200  # times 10 ms: how long threads may take to end after before_fork
_CLOSE_PATIENCE = 5  # seconds for the environment's close in a holder that ends


def freeze(environment: Environment, control: int, channel: Channel) -> int | Channel:
    """Fork a holder that listens on `control`.

    Returns several times: once with the holder's pid, in the process that goes on and owns `channel`, and once with a
    new channel in every branch that the holder forks later.
    """
    randomness = _Randomness.now()  # before any hook, so that the hooks' own use of it leaves no trace
    try:
        _quiesce(environment)
    except BaseException:
        close(control)
        randomness.put_back()
        raise
    reading, writing = pipe()
    original = getpid()
    pid = fork()
    if pid == 0:
        close(reading)
        return _holder(environment, control, channel, writing, original, randomness)
    close(writing)
    close(control)
    answer = b""
    while answer != _FROZEN and (part := read(reading, 65536)):
        answer += part
    close(reading)
    _wake(environment, False)
    randomness.put_back()
    if answer != _FROZEN:
        with contextlib.suppress(ChildProcessError):
            waitpid(pid, 0)
        raise SnapshotRefused(answer.decode(errors="replace") or "its holder died before it was frozen")
    return pid


def _holder(
    environment: Environment, control: int, channel: Channel, report: int, original: int, randomness: _Randomness
) -> Channel:
    """The rest of a holder's life: only its branches return from here."""
    try:
        die_with_parent(original)  # until it is frozen: a hook that hangs must fall to the host's kill timer
        channel.close()
        randomness.put_back()
        _wake(environment, True)  # it takes copies of what it has outside its memory, since the original goes on
        _quiesce(environment)
        die_with_parent(None)
        setsid()  # out of the group that is killed with the original
        listening = Channel(control)
        write(report, _FROZEN)
        close(report)
    except BaseException as error:
        with contextlib.suppress(OSError):
            write(report, f"{type(error).__name__}: {error}".encode())
        _exit(1)
    return _hold(environment, listening, randomness, channel.limit)


@dataclass
class _Branches:
    """The live branches of a holder: their pids, with our copy of the socket on which each answers."""

    sockets: dict[int, Channel] = field(default_factory=dict)
    handles: dict[int, int] = field(default_factory=dict)  # pid -> a descriptor that is readable when it has ended

    def add(self, pid: int, answers: Channel) -> None:
        self.sockets[pid] = answers
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self.handles[pid] = os.pidfd_open(pid)

    def reap(self) -> None:
        """Tell the harness of each one that has ended, and how; after that its socket is closed for good."""
        for pid in list(self.sockets):
            try:
                ended, status = waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended, status = pid, 0
            if ended:
                answers = self.sockets.pop(pid)
                if pid in self.handles:
                    close(self.handles.pop(pid))
                with contextlib.suppress(OSError):
                    os.set_blocking(answers.fileno(), False)
                    answers.send({"exited": os.waitstatus_to_exitcode(status)})
                answers.close()

    def kill(self, pid: int) -> None:
        if pid in self.sockets:  # not yet reaped, so the pid is still its own
            with contextlib.suppress(ProcessLookupError):
                killpg(pid, signal.SIGKILL)

    def forget(self) -> None:
        """In a branch: let go of the descriptors of its siblings."""
        for handle in self.handles.values():
            close(handle)
        for answers in self.sockets.values():
            answers.close()


def _hold(environment: Environment, control: Channel, randomness: _Randomness, limit: int) -> Channel:
    branches = _Branches()
    while True:
        poll = select.poll()
        for descriptor in (control.fileno(), *branches.handles.values()):
            poll.register(descriptor, select.POLLIN)
        patience = None if len(branches.handles) == len(branches.sockets) else 200
        ready = [descriptor for descriptor, _ in poll.poll(patience)]
        branches.reap()
        if control.fileno() not in ready:
            continue
        received = control.receive_with_files()
        if received is None:
            _end(environment, branches)
        message, files = received
        if "kill" in message:
            branches.kill(message["kill"])
        elif "fork" in message:
            branch = _fork_branch(environment, control, files, branches, randomness)
            if branch is not None:
                branch.limit = limit
                return branch


def _end(environment: Environment, branches: _Branches) -> NoReturn:
    """The harness has let go or died: leave nothing behind."""
    for pid in list(branches.sockets):
        branches.kill(pid)
    with contextlib.suppress(BaseException):
        if hasattr(environment, "after_fork"):  # it has copies of its own, to be removed
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_CLOSE_PATIENCE)
            environment.close()
    _exit(0)


def _fork_branch(
    environment: Environment, control: Channel, files: list[int], branches: _Branches, randomness: _Randomness
) -> Channel | None:
    """Fork a live process. Its files are the socket that it serves, its log, and its lifeline."""
    answers, log, lifeline = files
    holder = getpid()
    try:
        pid = fork()
    except OSError as error:
        refusal = Channel(answers)
        refusal.send({"error": f"its holder could not fork: {error}", "kind": "OSError"})
        refusal.close()
        close(log)
        close(lifeline)
        return None
    if pid:
        close(log)
        close(lifeline)
        branches.add(pid, Channel(answers))
        return None
    channel = Channel(answers, lifeline)
    try:
        die_with_parent(holder)
        setsid()  # a group of its own, which the kill timer can end with all its children
        die_with_harness(lifeline)
        adopt_orphans()
        control.close()
        branches.forget()
        dup2(log, 2)
        dup2(log, 1)
        close(log)
        randomness.put_back()
        _wake(environment, True)
        randomness.put_back()
    except BaseException as error:
        channel.send({"error": f"{type(error).__name__}: {error}", "kind": type(error).__name__})
        _exit(1)
    return channel


# -- threads, hooks and random numbers -------------------------------------------------------------------------------


def _quiesce(environment: Environment) -> None:
    """Let the environment stop its threads, since a fork takes only the one that calls it; check that it did."""
    before: Callable[[], None] | None = getattr(environment, "before_fork", None)
    if before is not None:
        before()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # or both processes would write it
    for _ in range(_THREAD_PATIENCE):
        others = _other_threads()
        if not others:
            return
        select.select([], [], [], 0.01)  # not time.sleep, which may be patched
    _wake(environment, False)
    raise SnapshotRefused(
        f"the process cannot be forked with other threads alive ({', '.join(others)}):"
        ' stop them in before_fork(), or choose snapshots = "replay"'
    )


def _other_threads() -> list[str]:
    ours = threading.get_native_id()  # a Thread object may still have the number from before a fork
    try:
        ids = {int(name) for name in os.listdir("/proc/self/task")} - {ours}
    except OSError:  # not Linux: only Python's own threads are known
        return [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    return [names.get(id) or _native_name(id) for id in sorted(ids)]


def _native_name(id: int) -> str:
    try:
        with open(f"/proc/self/task/{id}/comm") as file:
            return f"native thread {file.read().strip()}"
    except OSError:
        return f"native thread {id}"


def _wake(environment: Environment, child: bool) -> None:
    after: Callable[[bool], None] | None = getattr(environment, "after_fork", None)
    if after is not None:
        after(child)


@dataclass(frozen=True)
class _Randomness:
    """Python seeds `random` anew in a forked child; a branch must go on with the very same stream."""

    python: tuple[Any, ...]
    numpy: Any

    @staticmethod
    def now() -> _Randomness:
        loaded = sys.modules.get("numpy.random")
        return _Randomness(random.getstate(), loaded.get_state() if loaded else None)

    def put_back(self) -> None:
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy.random"].set_state(self.numpy)


# -- dying in time ---------------------------------------------------------------------------------------------------


def die_with_parent(parent: int | None) -> None:
    """Ask the kernel to end this process with its parent, even while the environment hangs; None takes it back."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, 0 if parent is None else signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        return  # not Linux: the closed socket still ends us at the next message
    if parent is not None and getppid() != parent:
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


def adopt_orphans() -> None:
    """Adopt every process below this one whose parent dies, so that a daemon is still found when it ends."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(36, 1)


def end_group() -> NoReturn:
    """Exit, and kill the children that the environment may have left."""
    if os.getpgrp() == getpid():
        killpg(getpid(), signal.SIGKILL)
    _exit(1)
