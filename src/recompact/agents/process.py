"""The process of an agent: sandboxed by bubblewrap with its own home, workspace and network, and watched.

Inside, its paths and the address of its gateway are the same every time. It ends with its episode, whatever it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from recompact.agents import launcher
from recompact.agents.server import AgentCallbacks, Gateway
from recompact.agents.settings import (
    HOME,
    PORT,
    TEMPORARY,
    WORKSPACE,
    AgentSettings,
    Places,
    find_program,
    server_variables,
    variables_of,
)
from recompact.environments.control_groups import ControlGroup
from recompact.environments.host_process import interpreter_places
from recompact.environments.host_usage import excess, memory_excess
from recompact.environments.own_directory import empty_directory, own_directory, remove_tree
from recompact.environments.process_tree import descendants, kill_all, open_in_memory, stop_tree, wait_readable
from recompact.environments.protection import limit_inside, new_group
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.sandbox import (
    HostLimits,
    SandboxPolicy,
    find_bubblewrap,
    is_private,
    make_mount_points,
    system_call_filter,
    wrap_command,
)
from recompact.errors import InputError

_TAIL = 4000  # bytes of what an agent prints that are kept
_BURST = 1 << 20  # bytes that are read at once; whoever prints more waits
_PAUSE = 0.05  # seconds between two bursts
_START = 30.0  # seconds for a sandbox to come up
_END = 10.0  # seconds for the kernel to end what was killed
_PYTHON = os.path.realpath(sys.executable)  # without the packages of a virtual environment
_LAUNCHER = "/run/recompact/launcher.py"  # as seen from inside: the package itself may be where a workspace is seen
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True)
class AgentDirectories:
    """The private directories of one episode, outside, and the key to its gateway where others could reach that."""

    root: Path
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @staticmethod
    def new() -> AgentDirectories:
        directories = AgentDirectories(Path(tempfile.mkdtemp(dir=own_directory())))
        directories.clear()
        return directories

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    def clear(self) -> None:
        """Make all of it empty."""
        empty_directory(self.root)
        for place in (self.home, self.workspace, self.temporary):
            place.mkdir()

    def remove(self) -> None:
        remove_tree(self.root)


def sandbox_for(settings: AgentSettings) -> str | None:
    """The program that sandboxes agents; None where the user does without."""
    if settings.unsafe or settings.in_place is not None:
        return None
    program, problem = find_bubblewrap()
    if program is None:
        raise InputError(
            f'[agent] command needs a sandbox, but {problem}. To run it with your own rights, set sandbox = "off"'
        )
    return program


class AgentProcess:
    """A running agent, and the gateway that answers it on `listener`; with a `key` it answers whoever has that."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        listener: socket.socket,
        settings: AgentSettings,
        group: ControlGroup,
        key: str = "",
        scratch: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._process, self._settings, self._group = process, settings, group
        self._scratch = open_in_memory(descendants(process.pid), scratch) if scratch else []
        self._listener, self._key = listener, key
        self._gateway: Gateway | None = None
        self.ended = asyncio.ensure_future(process.wait())
        self.printed, self.complained = b"", b""
        self._readers = [asyncio.ensure_future(self._read(name)) for name in ("stdout", "stderr")]

    @staticmethod
    async def start(settings: AgentSettings, directories: AgentDirectories, task: str) -> AgentProcess:
        program = sandbox_for(settings)
        if program is None:
            listener = socket.create_server(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            workspace = str(settings.in_place or directories.workspace)
            places = Places(url, str(directories.home), workspace, directories.key)
        else:
            places = Places(f"http://127.0.0.1:{PORT}", HOME, WORKSPACE)
        for name, content in settings.files.items():
            _write(directories.home, name, places.fill(content, task))
        if settings.in_place is not None:
            return await _in_place(settings, places, listener)
        command = tuple(places.fill(part, task) for part in settings.command)
        executable = _program(command[0])
        path = ":".join(dict.fromkeys([str(Path(executable).parent), *_SYSTEM_PATH.split(":")]))
        if program is None:
            path = os.environ.get("PATH", path)
            variables = variables_of(settings, places, task, str(directories.temporary), path)
            arguments = [_PYTHON, "-I", "-S", launcher.__file__, "-", "0", _limits(settings.limits, False)]
            arguments += [executable, *command[1:]]
            with new_group(settings.limits.processes, settings.limits.memory).kept_on_success() as group:
                process = await _spawn(group.entered(arguments), directories.workspace, variables)
            return AgentProcess(process, listener, settings, group, places.key)
        variables = variables_of(settings, places, task, TEMPORARY, path)
        return await _start_sandboxed(program, (executable, *command[1:]), settings, directories, variables)

    async def serve(self, callbacks: AgentCallbacks) -> None:
        """Answer what it asks its model from now on."""
        self._gateway = Gateway(callbacks, self._key)
        await self._gateway.listen(self._listener)

    @property
    def url(self) -> str:
        """Where its gateway is, as an agent outside a sandbox sees it."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def last_line(self) -> str:
        return telling_line((self.complained or self.printed).decode(errors="replace"))

    def excess(self) -> str:
        """What it uses too much of, or nothing."""
        limits = self._settings.limits
        if reason := excess(self._group.pids() or descendants(self._process.pid), limits, self._scratch):
            return reason.replace("[suite.limits]", "[agent.limits]")
        if not (self.ended.done() and self.ended.result()):
            return ""
        if self._group.out_of_memory():  # it failed before anybody looked
            return memory_excess(limits).replace("[suite.limits]", "[agent.limits]")
        if self._group.refused():
            return (
                f"it had more than {limits.processes} processes or threads, and the kernel refused it another"
                " ([agent.limits] processes)"
            )
        return ""

    async def end(self) -> None:
        """Kill it and all it started, and wait until they are gone."""
        try:
            await self._end()
        finally:
            if self._gateway is not None:
                await self._gateway.close()
            self._listener.close()

    async def _end(self) -> None:
        if self._process.returncode is None:
            await asyncio.to_thread(self.kill)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END):
                await self.ended
                await asyncio.gather(*self._readers, return_exceptions=True)
        for reader in self._readers:
            reader.cancel()
        await asyncio.to_thread(self._group.remove)
        while self._scratch:
            os.close(self._scratch.pop())

    def kill(self) -> None:
        pids = stop_tree(self._process.pid)
        handles = [handle for pid in pids if (handle := _handle(pid)) is not None]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        kill_all(pids)
        for handle in handles:
            with contextlib.suppress(OSError):
                wait_readable(handle, _END)
            os.close(handle)

    async def _read(self, name: str) -> None:
        stream: asyncio.StreamReader = getattr(self._process, name)
        burst = 0
        while part := await stream.read(1 << 16):
            if name == "stdout":
                self.printed = (self.printed + part)[-_TAIL:]
            else:
                self.complained = (self.complained + part)[-_TAIL:]
            if self._settings.in_place is not None:
                os.write(self._settings.shown_on if name == "stdout" else 2, part)
            burst += len(part)
            if burst > _BURST:
                burst = 0
                await asyncio.sleep(_PAUSE)


_COMPLAINT = re.compile(r"(?i)\b\w*(?:error|exception)\b\s*[:\[(]|\b(?:fatal|panicked|cannot find|not found)\b")


def telling_line(text: str) -> str:
    """The line of a program's last words that says what was wrong, or else the last one.

    >>> telling_line("node:internal/x:1\\nError: Cannot find module 'y'\\n    at z (a.js:1)\\n\\nNode.js v20.20.2\\n")
    "Error: Cannot find module 'y'"
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    complaints = [line for line in lines if _COMPLAINT.search(line)]
    return (complaints or lines or [""])[-1][:300]


def _handle(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.pidfd_open(pid)
    return None


async def _in_place(settings: AgentSettings, places: Places, listener: socket.socket) -> AgentProcess:
    """Start it as its user would, except for its model's address."""
    command = [places.fill(part, "") for part in settings.command]
    own = {name: places.fill(value, "") for name, value in settings.variables.items()}
    variables = {**os.environ, "PWD": places.workspace, **server_variables(places), **own}
    process = await _spawn([_program(command[0]), *command[1:]], Path(places.workspace), variables)
    return AgentProcess(process, listener, settings, ControlGroup(), places.key)


async def _start_sandboxed(
    program: str,
    command: tuple[str, ...],
    settings: AgentSettings,
    directories: AgentDirectories,
    variables: dict[str, str],
) -> AgentProcess:
    ours, theirs = socket.socketpair()
    policy = _policy(settings, command[0], directories, variables)
    inner = [_PYTHON, "-I", "-S", _LAUNCHER, str(theirs.fileno()), str(PORT)]
    process = None
    try:
        with new_group(settings.limits.processes, settings.limits.memory).kept_on_success() as group:
            with theirs, system_call_filter() as filters:
                inner += [_limits(settings.limits, True), *command]
                arguments = wrap_command(program, inner, policy, filters)
                process = await _spawn(group.entered(arguments), Path("/"), {}, theirs.fileno(), *filters)
            listener = await _handed_over(ours)
    except BaseException as error:
        complaint = ""
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            assert process.stderr is not None
            complaint = (await process.stderr.read(2000)).decode(errors="replace").strip()
            await process.wait()
        if not isinstance(error, OSError | TimeoutError):
            raise
        raise EnvironmentFailed(f"the agent's sandbox did not come up: {complaint or error!r}") from error
    finally:
        ours.close()
    return AgentProcess(process, listener, settings, group, scratch=policy.scratch)


def mount_points(settings: AgentSettings, directories: AgentDirectories) -> list[Path]:
    """Make the mount points within the agent's directories, such as its own where it is installed below /workspace;
    returns what was made. To be removed when the agent has ended, so that no check sees it."""
    if sandbox_for(settings) is None:
        return []
    return make_mount_points(_policy(settings, _program(settings.command[0]), directories, {}))


async def _spawn(
    arguments: list[str], directory: Path, variables: dict[str, str], *files: int
) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=variables,
            pass_fds=files,
            start_new_session=True,
        )
    except OSError as error:
        raise EnvironmentFailed(f"the agent could not be started: {error}") from error


async def _handed_over(channel: socket.socket) -> socket.socket:
    """The socket that the launcher has opened in the agent's network."""
    channel.setblocking(False)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(channel, ready.set)
    try:
        async with asyncio.timeout(_START):
            await ready.wait()
    finally:
        loop.remove_reader(channel)
    _, files, _, _ = socket.recv_fds(channel, 16, 1)
    if len(files) != 1:
        raise OSError("it ended before the agent was started")
    return socket.socket(fileno=files[0])


def _limits(limits: HostLimits, sandboxed: bool) -> str:
    kernel = {"CORE": 0, "CPU": limits.cpu_seconds, "FSIZE": limits.file, "NOFILE": 4096}
    tasks = limit_inside(limits.processes) if sandboxed else None
    return json.dumps(kernel | ({"NPROC": tasks} if tasks else {}))


def _program(name: str) -> str:
    """The program of a command, by the user's own PATH."""
    path, problem = find_program(name)
    if path is None:
        raise EnvironmentFailed(f"[agent] command: {problem}")
    return path


def _policy(
    settings: AgentSettings, program: str, directories: AgentDirectories, variables: dict[str, str]
) -> SandboxPolicy:
    settled = {
        "passwd": f"agent:x:1000:1000::{HOME}:/bin/sh\n",
        "group": "agent:x:1000:\n",
        "hosts": "127.0.0.1 localhost\n",
    }
    etc = directories.root / "etc"
    etc.mkdir(exist_ok=True)
    for name, content in settled.items():
        (etc / name).write_text(content)
    shown = [*installation(program), *settings.readable]
    places = [*interpreter_places(_PYTHON), *shown]
    readable = [(etc / name, f"/etc/{name}") for name in settled]
    readable.append((Path(launcher.__file__).resolve(), _LAUNCHER))
    readable += [(place, str(place)) for place in dict.fromkeys(places) if place.exists()]
    own = {TEMPORARY: directories.temporary, HOME: directories.home}
    scratch = settings.limits.in_memory(sandbox_for(settings), *own)
    if scratch:
        readable.append((directories.home, launcher.FILES))
    return SandboxPolicy(
        directory=WORKSPACE,
        readable=readable,
        writable=[
            *((place, inside) for inside, place in own.items() if not scratch),
            (directories.workspace, WORKSPACE),
        ],
        scratch=scratch,
        hidden=(*settings.hidden, Path(tempfile.gettempdir())),  # where other episodes are
        searched=shown,
        variables=variables,
        hostname="agent",
    )


def installation(program: str) -> list[Path]:
    """Where a program is and what is with it: the directory above `bin`, for it and for what it links to; all of
    node_modules for one of its `.bin`, where its packages and perhaps its own Node are."""
    places = []
    for path in (Path(program), Path(program).resolve()):
        place = path.parent.parent if path.parent.name in ("bin", ".bin") else path.parent
        if not path.is_relative_to("/usr") and not path.is_relative_to("/bin"):
            covers = any(Path(mount).is_relative_to(place) for mount in (HOME, WORKSPACE, TEMPORARY))
            places.append(path if covers or is_private(place) else place)
    return places


def _write(home: Path, name: str, content: str) -> None:
    if name.startswith("/") or ".." in name.split("/"):  # whoever made the settings should have refused it
        raise EnvironmentFailed(f"[agent] files: {name!r} is not a path below the agent's home")
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    if content.startswith("#!"):
        path.chmod(0o755)
