"""Where a host lives: its process in a sandbox or without one, its private directories and its variables.

A lodging outlives its host as long as frozen copies of the host are kept or episodes continue from them. After that
everything still running in it is killed and its directories are removed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from recompact.environments import host
from recompact.environments.control_groups import ControlGroup
from recompact.environments.own_directory import own_directory, remove_tree
from recompact.environments.process_tree import (
    children_of,
    descendants,
    kill_all,
    stop_tree,
    wait_readable,
)
from recompact.environments.protection import limit_inside, new_group
from recompact.environments.sandbox import HostLimits, SandboxMode, Walls, enclose, find_bubblewrap, is_private
from recompact.errors import InputError

_log = logging.getLogger(__name__)

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


class Lodging:
    """The processes of one host and of what was forked from it. The first one is ended with everything it started."""

    def __init__(
        self, process: subprocess.Popen[bytes], private: Path, status: int | None, group: ControlGroup
    ) -> None:
        self.process = process
        self.private = private
        self._group = group
        self._status = status  # a pipe that carries the exit code of a sandboxed host
        self._episodes = 0
        self._holders: set[int] = set()
        self._ended = False
        self._lock = threading.Lock()  # `leave` is called in threads, since ending takes a moment

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def enclosed(self) -> bool:
        return self._status is not None

    def enter(self) -> None:
        self._episodes += 1

    def leave(self) -> None:
        with self._lock:
            self._episodes -= 1
            self._end_if_empty()

    def add_holder(self, pid: int) -> None:
        self._holders.add(pid)

    def drop_holder(self, pid: int) -> None:
        with self._lock:
            self._holders.discard(pid)
            self._end_if_empty()

    def pids(self) -> list[int]:
        """Every process in it except holders and what continues from them."""
        return self.below(self.pid)

    def below(self, pid: int) -> list[int]:
        """A process and what it started, except holders and what continues from them."""
        return descendants(pid, without=self._holders - {pid})

    def stop(self, pid: int) -> list[int]:
        """Stop those before they are killed, so that they start no others meanwhile."""
        return stop_tree(pid, without=self._holders - {pid})

    def exit_code(self) -> int | None:
        """The exit code of the host, once it has ended by itself."""
        if self._status is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
            return self.process.returncode
        text = os.read(self._status, 16) if wait_readable(self._status, 2) else b""
        return int(text) if re.fullmatch(rb"-?\d{1,3}\n", text) else None

    def kill_host(self, host_pid: int | None) -> None:
        """End the host with everything it started; holders and what continues from them stay. Without holders a sandbox
        ends as a whole, when its last episode leaves."""
        if not self.enclosed:
            kill_all(self.stop(self.pid))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        elif self._holders and host_pid is not None:
            kill_all(self.stop(host_pid))

    def _end_if_empty(self) -> None:
        if self._episodes or self._ended:
            return
        if self._holders:
            self._sweep()
            return
        self._ended = True
        firsts = _handles(children_of(self.pid)[:1]) if self.enclosed else []  # the first process inside the sandbox
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        for first in firsts:
            wait_readable(first, _END_PATIENCE)  # until the kernel has ended every process inside
            os.close(first)
        if self._status is not None:
            os.close(self._status)
        self._group.remove()
        remove_tree(self.private)

    def _sweep(self) -> None:
        """Only holders are to remain: end whatever episodes have left behind, except what keeps the sandbox up."""
        if self.enclosed:
            first = children_of(self.pid)[:1]
            keep = [self.pid, *first, *(children_of(first[0])[:1] if first else ())]  # the last is the one that stays
            kill_all([pid for pid in self.pids() if pid not in keep])


def lodge(settings: HostSettings, channel: int, log: int, lifeline: int) -> Lodging:
    """Start a host that serves `channel`. Raises OSError where it cannot be started."""
    program = bubblewrap_for(settings)
    private = Path(tempfile.mkdtemp(dir=own_directory()))
    try:
        with new_group(settings.limits.processes).kept_on_success() as group:
            return _lodge(settings, program, private, group, (channel, log, lifeline))
    except BaseException:
        remove_tree(private)
        raise


def _lodge(
    settings: HostSettings, program: str | None, private: Path, group: ControlGroup, files: tuple[int, int, int]
) -> Lodging:
    channel, log, lifeline = files
    home, temporary = private / "home", private / "tmp"
    home.mkdir()
    temporary.mkdir()
    directory = settings.directory.resolve()
    python = _python(settings)
    tasks = None if program is None else limit_inside(settings.limits.processes)
    limits = asdict(settings.limits) | {"files": _FILES, "tasks": tasks}
    command = [python, host.__file__, "--suite", settings.spec, "--options", json.dumps(dict(settings.options))]
    command += ["--directory", str(directory), "--parent", str(os.getpid()), "--lifeline", str(lifeline)]
    command += ["--channel", str(channel), "--limits", json.dumps(limits)]
    if program is None:
        variables = host_variables(settings, str(home), str(temporary))
        process = subprocess.Popen(
            group.entered(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=directory,
            start_new_session=True,
            pass_fds=(channel, lifeline),
            env=variables,
        )
        return Lodging(process, private, None, group)
    walls = _walls(settings, directory, python, private)
    shut_in = enclose(program, [*command, "--stay"], walls)
    status, writing = os.pipe()
    try:
        process = subprocess.Popen(
            group.entered(shut_in),
            stdin=subprocess.DEVNULL,
            stdout=writing,
            stderr=log,
            cwd="/",
            start_new_session=True,
            pass_fds=(channel, lifeline),
            env={},
        )
    except BaseException:
        os.close(status)
        raise
    finally:
        os.close(writing)
    return Lodging(process, private, status, group)


def host_variables(settings: HostSettings, home: str, temporary: str) -> dict[str, str]:
    """All variables of a host: a short list, since an environment may run anything and must not find a key.

    One host among many needs no pool of threads either, which would keep it from being forked. The order of sets is the
    same in all of them, or a replay would differ.
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


def _walls(settings: HostSettings, directory: Path, python: str, private: Path) -> Walls:
    (private / "passwd").write_text(f"episode:x:1000:1000::{_HOME}:/bin/sh\n")
    (private / "group").write_text("episode:x:1000:\n")
    named = [(directory / place).resolve() for place in settings.readable]
    # What a suite's options name, such as a tree of tasks, is meant to be read.
    named += [path.resolve() for path in map(directory.joinpath, _texts(settings.options)) if _is_place(path)]
    places = [*interpreter_places(python), Path(host.__file__).resolve().parents[1], *named]
    file = directory / settings.spec.rpartition(":")[0]
    if file.suffix == ".py" and file.is_file():
        places.append(file if is_private(file.parent) else file.parent)
    if not is_private(directory):
        places.append(directory)
    # A directory that is laid over others may hold only a link to what lay there.
    places += [real for place in places if (real := place.resolve()) != place]
    readable = [(private / name, f"/etc/{name}") for name in ("passwd", "group")]
    readable += [(place, str(place)) for place in dict.fromkeys(places) if place.exists()]
    return Walls(
        directory=str(directory) if any(directory == place for place, _ in readable) else "/tmp",
        readable=readable,
        writable=[(private / "tmp", "/tmp"), (private / "home", _HOME)],
        hidden=[place.resolve() for place in settings.hidden],
        network=settings.network,
        variables=host_variables(settings, _HOME, "/tmp"),
    )


def _python(settings: HostSettings) -> str:
    """The interpreter, relative to the suite's directory like all paths in a config. Links are kept: a venv is one."""
    if os.sep in settings.python:
        return os.path.abspath(settings.directory / settings.python)
    return shutil.which(settings.python) or settings.python


@cache
def interpreter_places(python: str) -> tuple[Path, ...]:
    """The places that an interpreter needs: its own and its packages'."""
    code = (
        "import os, sys\n"
        "print(*{sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), os.path.abspath(sys.executable),"
        " *sys.path[1:]}, sep='\\n')"
    )
    variables = {"PATH": os.environ.get("PATH", os.defpath), "HOME": os.environ.get("HOME", "/")}
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, env=variables, check=False)
    if asked.returncode:
        raise OSError(f"it does not run ({asked.stderr.strip()[-200:]})")
    places = sorted({Path(line) for line in asked.stdout.splitlines() if line}, key=lambda place: len(place.parts))
    kept: list[Path] = []
    for place in (*places, Path(python)):
        covered = any(place.is_relative_to(other) for other in (Path("/usr"), *kept))
        if place.exists() and not is_private(place) and not covered:
            kept.append(place)
    return tuple(kept)


def _handles(pids: Sequence[int]) -> list[int]:
    handles = []
    for pid in pids:
        with contextlib.suppress(OSError):
            handles.append(os.pidfd_open(pid))
    return handles
