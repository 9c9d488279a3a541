"""A host as a process: how it is started, in a sandbox or without one, with private directories and few variables.

It ends with everything it started, and its directories are removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from recompact.environments import host
from recompact.environments.async_channel import AsyncChannel, Lifeline, socket_pair
from recompact.environments.control_groups import ControlGroup
from recompact.environments.own_directory import own_directory, remove_tree
from recompact.environments.process_tree import (
    children_of,
    descendants,
    kill_all,
    open_in_memory,
    stop_tree,
    wait_readable,
)
from recompact.environments.protection import limit_inside, new_group
from recompact.environments.sandbox import (
    HostLimits,
    SandboxMode,
    SandboxPolicy,
    find_bubblewrap,
    is_private,
    system_call_filter,
    wrap_command,
)
from recompact.errors import InputError

_END_PATIENCE = 10.0  # seconds for the kernel to end what was killed
_FILES = 1024  # open files of one process in a host
_HOME = "/home/episode"


@dataclass(frozen=True)
class HostSettings:
    """How a host is started. `timeout` is for one verb, in seconds; paths are relative to `directory`."""

    spec: str
    options: Mapping[str, Any] = field(default_factory=dict)
    directory: Path = Path()
    python: str = sys.executable
    timeout: float = 120.0
    sandbox: SandboxMode = "auto"
    network: bool = False
    env: Sequence[str] = ()  # names of variables that it gets besides PATH and the locale
    readable: Sequence[str | Path] = ()  # places that it may read besides the suite's directory
    hidden: Sequence[Path] = ()  # places that it must not see though they lie within others, such as the run
    limits: HostLimits = field(default_factory=HostLimits)


def bubblewrap_for(settings: HostSettings) -> str | None:
    """The program that sandboxes these hosts; None where they should not be sandboxed, or cannot and need not be."""
    if settings.sandbox == "off":
        return None
    program, problem = find_bubblewrap()
    if program is None and settings.sandbox == "require":
        raise InputError(f'[suite] sandbox = "require", but {problem}')
    return program


class HostProcess:
    """A running host, and the channel to it."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        private: Path,
        group: ControlGroup,
        *,
        sandboxed: bool,
        scratch: Mapping[str, int],
        channel: AsyncChannel,
        lifeline: Lifeline,
    ) -> None:
        self.private, self.channel = private, channel
        self.scratch: list[int] = []  # descriptors of its file systems in memory
        self._sizes = scratch
        self._process, self._group, self._sandboxed, self._lifeline = process, group, sandboxed, lifeline
        self._first: int | None = None  # a handle on the first process inside the sandbox, with which all others end

    def note_ready(self) -> None:
        """To be called once the host has answered: from then on its sandbox is complete."""
        if self._sandboxed and self._first is None:
            with contextlib.suppress(OSError, IndexError):
                self._first = os.pidfd_open(children_of(self._process.pid)[0])
            self.scratch = open_in_memory(self.pids() if self._sizes else (), self._sizes)

    def pids(self) -> list[int]:
        """The host and every process below it."""
        return descendants(self._process.pid)

    def kill(self) -> None:
        """End its processes at once; `end` has still to be called."""
        kill_all(stop_tree(self._process.pid))

    async def exit_code(self) -> int | None:
        """How it ended by itself; negative where a signal ended it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = await asyncio.to_thread(self._process.wait, 2)
            return 128 - code if code > 128 else code  # as a sandbox and a guard tell it
        return None

    def out_of_memory(self) -> bool:
        """Whether the kernel has ended one of its processes for its memory."""
        return self._group.out_of_memory()

    async def end(self) -> None:
        """Kill all of it: an environment may have left children behind."""
        try:
            await asyncio.shield(asyncio.to_thread(self._end))
        finally:
            self.channel.close()  # after it was killed: once it has ended by itself, its daemons can no longer be found
            self._lifeline.close()

    def _end(self) -> None:
        self.note_ready()
        if not self._sandboxed:
            kill_all(stop_tree(self._process.pid))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        if self._first is not None:
            wait_readable(self._first, _END_PATIENCE)  # until the kernel has ended every process inside
            os.close(self._first)
        while self.scratch:
            os.close(self.scratch.pop())
        self._group.remove()
        remove_tree(self.private)


def start_host(settings: HostSettings, log: int) -> HostProcess:
    """Start a host that prints to `log`. Raises OSError where it cannot be started."""
    program = bubblewrap_for(settings)
    scratch = settings.limits.in_memory(program, "/tmp", _HOME)
    private = Path(tempfile.mkdtemp(dir=own_directory()))
    channel, theirs = socket_pair()
    lifeline = Lifeline()
    try:
        with (
            theirs,
            new_group(settings.limits.processes, settings.limits.memory).kept_on_success() as group,
            system_call_filter() as filters,
        ):
            command, started = _command(settings, program, private, scratch, theirs.fileno(), lifeline.theirs, filters)
            process = subprocess.Popen(
                group.entered(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=(theirs.fileno(), lifeline.theirs, *filters),
                **started,
            )
    except BaseException:
        channel.close()
        lifeline.close()
        remove_tree(private)
        raise
    finally:
        lifeline.hand_over()
    sandboxed = program is not None
    return HostProcess(
        process, private, group, sandboxed=sandboxed, scratch=scratch, channel=channel, lifeline=lifeline
    )


def _command(
    settings: HostSettings,
    program: str | None,
    private: Path,
    scratch: Mapping[str, int],
    channel: int,
    lifeline: int,
    filters: Sequence[int],
) -> tuple[list[str], dict[str, Any]]:
    """The command line of a host, and where and with which variables it is started."""
    home, temporary = private / "home", private / "tmp"
    home.mkdir()
    temporary.mkdir()
    directory = settings.directory.resolve()
    python = _python(settings)
    if shutil.which(python) is None:  # a sandbox or a control group would start, and fail later
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), python)
    tasks = None if program is None else limit_inside(settings.limits.processes)
    limits = asdict(settings.limits) | {"files": _FILES, "tasks": tasks}
    command = [python, host.__file__, "--suite", settings.spec, "--options", json.dumps(dict(settings.options))]
    command += ["--directory", str(directory), "--parent", str(os.getpid()), "--lifeline", str(lifeline)]
    command += ["--channel", str(channel), "--limits", json.dumps(limits)]
    if program is None:
        command.append("--guarded")
        return command, {"cwd": directory, "env": host_variables(settings, str(home), str(temporary))}
    policy = _policy(settings, directory, python, private, scratch)
    return wrap_command(program, command, policy, filters), {"cwd": "/", "env": {}}


def host_variables(settings: HostSettings, home: str, temporary: str) -> dict[str, str]:
    """All variables of a host: a short list, since an environment may run anything and must not find a key.

    One host among many needs no pool of threads either. The order of sets is the same in all of them, or a replay
    would differ.
    """
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    names = ["PATH", "LANG", "LANGUAGE", "TZ", *(name for name in os.environ if name.startswith("LC_")), *settings.env]
    chosen = {name: os.environ[name] for name in names if name in os.environ}
    fixed = {"PATH": os.defpath, "PYTHONHASHSEED": "0"}
    return single | fixed | chosen | {"HOME": home, "TMPDIR": temporary}


def _texts(value: Any) -> Iterator[str]:
    """All texts in the options of a suite."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(inner)


def _is_place(path: Path) -> bool:
    """Whether a text in the options names something that exists; none is taken to mean a home directory or more."""
    try:
        return path.exists() and not is_private(path)
    except (OSError, ValueError):  # too long for a name, or with a character that no name has
        return False


def _policy(
    settings: HostSettings, directory: Path, python: str, private: Path, scratch: Mapping[str, int]
) -> SandboxPolicy:
    (private / "passwd").write_text(f"episode:x:1000:1000::{_HOME}:/bin/sh\n")
    (private / "group").write_text("episode:x:1000:\n")
    named = [(directory / place).resolve() for place in settings.readable]
    # What a suite's options name, such as a tree of tasks, is meant to be read.
    named += [path.resolve() for path in map(directory.joinpath, _texts(settings.options)) if _is_place(path)]
    own = [*named]
    file = directory / settings.spec.rpartition(":")[0]
    if file.suffix == ".py" and file.is_file():
        own.append(file if is_private(file.parent) else file.parent)
    if not is_private(directory):
        own.append(directory)
    places = [*interpreter_places(python), Path(host.__file__).resolve().parents[1], *own]
    # A directory that is laid over others may hold only a link to what lay there.
    places += [real for place in places if (real := place.resolve()) != place]
    readable = [(private / name, f"/etc/{name}") for name in ("passwd", "group")]
    readable += [(place, str(place)) for place in dict.fromkeys(places) if place.exists()]
    return SandboxPolicy(
        directory=str(directory) if any(directory == place for place, _ in readable) else "/tmp",
        readable=readable,
        writable=[] if scratch else [(private / "tmp", "/tmp"), (private / "home", _HOME)],
        scratch=scratch,
        hidden=[place.resolve() for place in settings.hidden],
        searched=own,
        network=settings.network,
        variables=host_variables(settings, _HOME, "/tmp"),
    )


def _python(settings: HostSettings) -> str:
    """The interpreter, relative to the suite's directory like all paths in a config. Links are kept: a venv is one."""
    here = os.sep in settings.python
    program = shutil.which(os.path.abspath(settings.directory / settings.python) if here else settings.python)
    if program is None:  # looked for here, since a control group is entered by a shell, which would be what fails
        raise FileNotFoundError(f"there is no program {settings.python!r}")
    return program


@cache
def interpreter_places(python: str) -> tuple[Path, ...]:
    """The places that an interpreter needs: its own and its packages'."""
    code = (
        "import os, sys\n"
        "print(*{sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), os.path.abspath(sys.executable),"
        " *sys.path[1:]}, sep='\\n')"
    )
    variables = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/")}
    answer = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, timeout=60, env=variables, check=False
    )
    if answer.returncode:
        raise OSError(f"it does not run ({answer.stderr.strip()[-200:]})")
    places = sorted({Path(line) for line in answer.stdout.splitlines() if line}, key=lambda place: len(place.parts))
    kept: list[Path] = []
    for place in (*places, Path(python)):
        covered = any(place.is_relative_to(other) for other in (Path("/usr"), *kept))
        if place.exists() and not is_private(place) and not covered:
            kept.append(place)
    return tuple(kept)
