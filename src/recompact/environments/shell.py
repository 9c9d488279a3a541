"""Shell commands of an agent: sandboxed, limited in what they use, and watched.

A command sees the system's programs, the directory of its episode and one for temporary files; it has no network and no
variables of ours, and everything it started ends with it. Kernel limits hold for one process and, where possible, for
how many there are; processes, memory and disk of all together are watched from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recompact.environments.control_groups import ControlGroup
from recompact.environments.files import ActionError, tree_excess
from recompact.environments.process_tree import descendants, held_open, kill_all, resident, stop_tree, wait_readable
from recompact.environments.protection import limit_inside, new_group, setting
from recompact.environments.sandbox import (
    SandboxPolicy,
    find_bubblewrap,
    make_mount_points,
    remove_mount_points,
    system_call_filter,
    wrap_command,
)

TEMPORARY = "tmp"
"""The directory beside the one that a command runs in, which it sees as /tmp."""

_POLL = 0.02  # seconds between two looks at a running command
_CHUNK = 65_536
_LONGEST = 100_000  # bytes of a command; the kernel takes little more
_PATIENCE = 60.0  # seconds for the kernel to end what was killed
_VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC"}


@dataclass(frozen=True)
class CommandLimits:
    """For one command. Sizes are in bytes."""

    seconds: float = 30.0
    cpu: int = 20
    memory: int = 1024**3
    processes: int = 64
    file: int = 32 * 1024**2
    disk: int = 48 * 1024**2
    output: int = 1024**2


@dataclass(frozen=True)
class CommandResult:
    """`stopped` says why a command was killed; it is empty where the command ended by itself."""

    output: str
    code: int
    stopped: str = ""


def observe_command(command: str, run: Callable[[str], CommandResult], shown: Callable[[str], str]) -> str:
    """Run an agent's command, and return what the agent is told of it; `shown` is what it sees of an output."""
    if "\0" in command or len(command.encode("utf-8", "replace")) > _LONGEST:
        raise ActionError(f"a command has at most {_LONGEST:,} bytes, none of them zero")
    result = run(command)
    output = shown(result.output)
    if result.stopped:
        raise ActionError(f"the command was stopped: {result.stopped}. Its output:\n{output}")
    if result.code:
        raise ActionError(f"the command failed with exit code {result.code}. Its output:\n{output}")
    return output or "The command has finished without output."


@dataclass(frozen=True)
class Shell:
    """Runs commands in a directory, which they see as `mount`. `refused` is the reason why it must not; `readable` are
    further places that they may read, and `hidden` those kept out of sight."""

    bubblewrap: str | None
    mount: str
    limits: CommandLimits = field(default_factory=CommandLimits)
    refused: str = ""
    readable: tuple[tuple[Path, str], ...] = ()
    hidden: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)  # besides those that every command has
    shared_memory: bool = False

    @staticmethod
    def of_this_machine(
        unsafe: bool, mount: str, limits: CommandLimits, *, readable: Sequence[Path] = (), hidden: Sequence[Path] = ()
    ) -> Shell:
        """Sandboxed where that is possible; otherwise refused, unless the user takes the risk."""
        program, problem = find_bubblewrap()
        refused = "" if program or unsafe else f"{problem}; unsafe_shell = true in [suite.options] does without"
        places = tuple((path.resolve(), str(path)) for path in readable if path.exists())
        return Shell(program, mount, limits, refused, places, tuple(path.resolve() for path in hidden))

    def run(self, command: str, directory: Path) -> CommandResult:
        """Run a command with `directory` as its working directory and the directory TEMPORARY beside it as /tmp."""
        if self.refused:
            raise ActionError("the shell is not available on this machine")
        temporary = directory.parent / TEMPORARY
        temporary.mkdir(exist_ok=True)
        tasks = None if self.bubblewrap is None else limit_inside(self.limits.processes)
        limited = _limit_command(command, self.limits, tasks)
        variables = _VARIABLES | dict(self.variables)
        if self.bubblewrap is None:
            own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(temporary), "TMPDIR": str(temporary)}
            # nothing else of ours: there may be keys
            return _watch(limited, directory, variables | own, self.limits, False)
        policy = SandboxPolicy(
            directory=self.mount,
            readable=self.readable,
            writable=((temporary, "/tmp"), (directory, self.mount)),
            hidden=self.hidden,
            searched=[place for place, _ in self.readable],
            shared_memory=self.shared_memory,
            variables=variables,
        )
        points = make_mount_points(policy)
        try:
            with system_call_filter() as filters:
                arguments = wrap_command(self.bubblewrap, limited, policy, filters)
                return _watch(arguments, directory, _VARIABLES, self.limits, True, filters)
        finally:
            remove_mount_points(points)


def _limit_command(command: str, limits: CommandLimits, tasks: int | None) -> list[str]:
    """The command, run by a shell that first gives up what it does not need; `tasks` is how many it may have."""
    given_up = [
        "ulimit -c 0",
        f"ulimit -t {limits.cpu}",
        f"ulimit -d {limits.memory // 1024}",
        f"ulimit -f {limits.file // 512}",
        "ulimit -n 256",
        *([] if tasks is None else [setting(tasks)]),
    ]
    program = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    return ["/bin/sh", "-c", f'{{ {"; ".join(given_up)}; }} 2>/dev/null; exec "$0" -c "$1"', program, command]


def _watch(
    arguments: Sequence[str],
    directory: Path,
    variables: Mapping[str, str],
    limits: CommandLimits,
    sandboxed: bool,
    filters: Sequence[int] = (),
) -> CommandResult:
    output = bytearray()
    reason = ""
    with (
        _start(arguments, directory, variables, limits, sandboxed, filters) as (process, group),
        selectors.DefaultSelector() as selector,
    ):
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        selector.register(process.stdout, selectors.EVENT_READ)
        reason = _follow(process, group, selector, output, directory.parent, limits)
    return CommandResult(output[: limits.output].decode(errors="replace"), process.returncode, reason)


@contextlib.contextmanager
def _start(
    arguments: Sequence[str],
    directory: Path,
    variables: Mapping[str, str],
    limits: CommandLimits,
    sandboxed: bool,
    filters: Sequence[int],
) -> Iterator[tuple[subprocess.Popen[bytes], ControlGroup]]:
    """The process while it is watched, and its group. Afterwards it is ended, with all that a sandbox, a group or its
    tree of processes tells to be its own."""
    group = new_group(limits.processes, limits.memory)
    reader, writer = os.pipe()
    if sandboxed:
        arguments = [arguments[0], "--info-fd", str(writer), *arguments[1:]]
    arguments = ["nice", "-n", "10", *arguments]  # the watcher must get its turn
    try:
        process = subprocess.Popen(
            group.entered(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=directory,
            env=dict(variables),
            start_new_session=True,
            pass_fds=(writer, *filters) if sandboxed else (),
        )
    except BaseException:
        os.close(reader)
        group.remove()
        raise
    finally:
        os.close(writer)
    first = _first_inside(reader)
    try:
        yield process, group
    finally:
        _end(process, first)
        assert process.stdout is not None
        process.stdout.close()
        group.remove()


def _first_inside(reader: int) -> int | None:
    """A handle on the first process inside the sandbox, with which all others end; bubblewrap says who it is."""
    with os.fdopen(reader, "rb") as file, contextlib.suppress(ValueError, KeyError, OSError):
        return os.pidfd_open(json.loads(file.read())["child-pid"])
    return None


def _end(process: subprocess.Popen[bytes], first: int | None) -> None:
    """Kill it and wait until it is gone: all of it in a sandbox, elsewhere what can be found below it."""
    if first is not None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(first, signal.SIGKILL)
        wait_readable(first, _PATIENCE)  # until the kernel has ended every process inside
        os.close(first)
    elif process.poll() is None:
        kill_all(stop_tree(process.pid))
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _follow(
    process: subprocess.Popen[bytes],
    group: ControlGroup,
    selector: selectors.BaseSelector,
    output: bytearray,
    directory: Path,
    limits: CommandLimits,
) -> str:
    """Gather the output until the command ends; returns the reason to stop it early, or nothing."""
    assert process.stdout is not None
    end = time.monotonic() + limits.seconds
    look = time.monotonic() + _POLL
    open_pipe = True
    while open_pipe or process.poll() is None:
        if open_pipe and selector.select(_POLL):
            chunk = os.read(process.stdout.fileno(), _CHUNK)
            output += chunk
            open_pipe = bool(chunk)
        elif not open_pipe:
            time.sleep(_POLL / 10)
        if len(output) > limits.output:
            return f"it printed more than {limits.output:,} bytes"
        now = time.monotonic()
        if now > end:
            return f"it took longer than {limits.seconds:g} s"
        if now > look:
            if reason := _excess(group.pids() or descendants(process.pid, most=limits.processes), directory, limits):
                return reason
            after = time.monotonic()
            look = after + max(_POLL, after - now)  # at most half of the time
    return _too_much_memory(limits) if group.out_of_memory() else ""


def _too_much_memory(limits: CommandLimits) -> str:
    return f"it used more than {limits.memory:,} bytes of memory"


def _excess(processes: Sequence[int], directory: Path, limits: CommandLimits) -> str:
    if len(processes) > limits.processes:
        return f"it started more than {limits.processes} processes"
    memory, disk = held_open(processes)
    if max(sum(map(resident, processes)), memory) > limits.memory:
        return _too_much_memory(limits)
    if disk > limits.disk:
        return f"it wrote more than {limits.disk:,} bytes to files that it removed and kept open"
    excess = tree_excess(directory, limits.disk)
    return f"it filled the disk with {excess}" if excess else ""
