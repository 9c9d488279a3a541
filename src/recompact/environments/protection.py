"""Which protection this machine has: whether hosts are sandboxed, and who limits how many processes a command starts.

A command that doubles itself outruns whoever watches it, so the kernel has to stop it: inside the namespace of a
sandbox, or in a control group. What works is found out by trying; where nothing does, processes are only watched.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from recompact.environments.control_groups import ControlGroup, parents_of_groups
from recompact.environments.sandbox import (
    HostLimits,
    SandboxMode,
    SandboxPolicy,
    find_bubblewrap,
    kernel_limit,
    wrap_command,
)

_OWN_TASKS = 16  # of the sandbox itself, at most
_ROOM = 16  # tasks in a trial that is to succeed
_FORK = ("timeout", "60", "true")  # a program that starts another one, and fails at once where it cannot
_TRIAL = 120  # seconds, which is long enough even on a busy machine


@dataclass(frozen=True)
class ProcessLimit:
    """How the kernel limits processes here: by a limit that is set `inside` a sandbox, or by control groups that are
    made in the directory `groups`. With neither they are only watched."""

    inside: bool = False
    groups: Path | None = None
    memory: bool = False  # whether these groups limit memory too
    memory_groups: Path | None = None  # where, if that is another directory


@cache
def process_limit() -> ProcessLimit:
    """What works on this machine."""
    program, _ = find_bubblewrap()
    if program is not None and _holds_inside(program):
        return ProcessLimit(inside=True)
    groups = next(filter(_holds_in_groups, parents_of_groups()), None)
    if groups is None:
        return ProcessLimit()
    elsewhere = next(filter(lambda place: place != groups, parents_of_groups(controller="memory")), None)
    return ProcessLimit(groups=groups, memory=_holds_memory(groups, elsewhere), memory_groups=elsewhere)


def most_tasks(processes: int) -> int:
    """Where the kernel stops a command that may have that many processes: later than the watcher, so that the excess is
    noticed and reported. Threads, which the kernel counts too, need room as well."""
    return 2 * processes + _OWN_TASKS


def limit_inside(processes: int) -> int | None:
    """What to set as RLIMIT_NPROC in a sandbox; None where it does not hold, or would count what is outside too.

    For root there is no such limit; before Linux 5.14 it counts all processes of a user.
    """
    return most_tasks(processes) if process_limit().inside else None


def setting(tasks: int) -> str:
    """The shell code that sets this limit: not all shells call it the same."""
    return f"{{ ulimit -u {tasks} || ulimit -p {tasks}; }} 2>/dev/null"


def new_group(processes: int, memory: int) -> ControlGroup:
    """A control group for a command that may have that many processes and bytes, where such groups are what limits them
    here. The kernel stops it later than the watcher, so that the excess is noticed and reported."""
    limit = process_limit()
    if limit.groups is None:
        return ControlGroup()
    most = kernel_limit(memory) if limit.memory else 0
    return ControlGroup.new(limit.groups, most_tasks(processes), most, limit.memory_groups)


def describe(mode: SandboxMode = "auto", network: bool = False, limits: HostLimits | None = None) -> str:
    """Which protection hosts have here, in one line."""
    program, problem = find_bubblewrap()
    if mode == "off":
        text = 'hosts are not sandboxed ([suite] sandbox = "off"): they run with your rights, without your variables'
    elif program is None:
        text = f"hosts are not sandboxed, they run with your rights, without your variables: {problem}"
    else:
        text = f"hosts are sandboxed by bubblewrap, {'with' if network else 'without'} network"
    return f"{text}; {describe_limit(mode != 'off' and program is not None, limits or HostLimits())}"


def describe_limit(sandboxed: bool, limits: HostLimits, *watched: str) -> str:
    """What of it the kernel limits and what is only watched, in a few words: how many processes are started, what they
    use, and what else is always `watched`."""
    limit, program = process_limit(), find_bubblewrap()[0] if sandboxed else None
    held = {
        "how many processes they start": limit.groups is not None or (limit.inside and sandboxed),
        "their memory": limit.groups is not None and limit.memory,
        "what they write to their home and /tmp": bool(limits.in_memory(program, "/tmp")),
        **dict.fromkeys(watched, False),
    }
    by_kernel, by_us = (", ".join(what for what in held if held[what] is kind) for kind in (True, False))
    return "; ".join(
        [f"limited by the kernel: {by_kernel or 'nothing'}", *([f"only watched: {by_us}"] if by_us else [])]
    )


def _holds_inside(program: str) -> bool:
    def forks(tasks: int) -> bool:
        command = ["/bin/sh", "-c", f'{setting(tasks)}; exec "$0" "$@"', *_FORK]
        return _succeeds(wrap_command(program, command, SandboxPolicy("/", variables={"PATH": "/usr/bin:/bin"})))

    return not forks(1) and forks(_ROOM)


def _holds_in_groups(parent: Path) -> bool:
    def forks(tasks: int) -> bool:
        group = ControlGroup.new(parent, tasks)
        try:
            return _succeeds(group.entered(_FORK))
        finally:
            group.remove()

    try:
        return forks(_ROOM) and not forks(1)
    except OSError:  # this process may not make any
        return False


def _holds_memory(parent: Path, elsewhere: Path | None) -> bool:
    """Whether a program that keeps 64 MiB ends in a group with half of that, and not in one with room."""

    def keeps(memory: int) -> bool:
        group = ControlGroup.new(parent, _ROOM, memory, elsewhere)
        try:
            return _succeeds(group.entered(("/bin/sh", "-c", "head -c 67108864 /dev/zero | tail > /dev/null")))
        finally:
            group.remove()

    return keeps(1 << 30) and not keeps(1 << 25)


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=_TRIAL, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
