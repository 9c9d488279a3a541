"""A container of one episode, run by podman or docker: its image, its commands, its files, and its state as bytes.

The container's first process waits on a pipe that this process holds. The container ends and is removed when the pipe
closes, which it does however this process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import resource
import selectors
import shlex
import shutil
import subprocess
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recompact.environments.files import FILE_LIMIT, ActionError, tree_hash
from recompact.environments.protocol import EnvironmentFailed
from recompact.environments.shell import CommandLimits, CommandResult

PROGRAMS = ("podman", "docker")

_VARIABLES = (
    *("PATH", "LANG", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF"),
)
# Only to fetch and build: podman hands them on to containers, and they may hold a password.
_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")

_POLL = 0.05
_MANAGEMENT = 60.0  # seconds for what podman or docker does by itself
_PATIENCE = 10.0  # seconds for a container to end by itself
_SIZE_INTERVAL = 1.0  # seconds between two looks at how much a container has written, at the least
_ANSWER = 64 * 1024**2  # bytes that podman or docker itself may print
_RUNTIME = (
    *("/dev", "/proc", "/sys", "/run/secrets", "/run/.containerenv", "/.dockerenv"),
    *("/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab"),
)
_FEW = 64_000  # characters of names that fit into a command line
_FIRST = "pwd; while read -r line; do :; done"
_COMMAND = 'echo $$; exec 2>&1; command -v bash >/dev/null && exec bash -c "$1"; exec sh -c "$1"'
_READ = 'test -f "$1" || exit 44; exec cat -- "$1"'
_WRITE = '{ test ! -e "$1" || test -f "$1"; } || exit 44; mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
_REMOVE = 'while IFS= read -r name; do rm -rf -- "$name" || exit; done'
_QUIET = "set -- /proc/[0-9]*; echo $#; ls -A /dev/shm 2>/dev/null"


@dataclass(frozen=True)
class ContainerSpec:
    """What a task says of its container. `reason` is why it needs one; without an `image`, `context` is built."""

    reason: str
    context: Path
    image: str = ""
    workdir: str = ""
    user: str = ""
    verifier_user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    verifier_variables: Mapping[str, str] = field(default_factory=dict)
    network: bool = False
    cpus: float = 0.0
    build_seconds: float = 600.0


@dataclass(frozen=True)
class _ProgramResult:
    output: bytes
    errors: str
    code: int
    stopped: str


@dataclass(frozen=True)
class Engine:
    """podman or docker: the beginning of its command line."""

    command: tuple[str, ...]

    @staticmethod
    def of_this_machine(chosen: str = "") -> tuple[Engine | None, str]:
        """The first that answers, or the reasons why none does. `chosen` is a command line to use instead."""
        problems = []
        for command in [tuple(shlex.split(chosen))] if chosen else [(name,) for name in PROGRAMS]:
            if shutil.which(command[0]) is None:
                problems.append(f"{command[0]} is not installed")
                continue
            outcome = _talk((*command, "ps", "--quiet"), seconds=_MANAGEMENT)
            if not outcome.code:
                return Engine(command), ""
            problems.append(f"{command[0]} does not work: {_last_line(outcome)}")
        return None, " and ".join(problems)

    def ask(self, *arguments: str | bytes, input: bytes = b"", seconds: float = _MANAGEMENT) -> bytes:
        """What it prints. Raises EnvironmentFailed with its last words where it fails."""
        outcome = _talk((*self.command, *arguments), input=input, seconds=seconds)
        if outcome.code or outcome.stopped:
            raise EnvironmentFailed(f"{self.command[0]} {arguments[0]!s} failed: {_last_line(outcome)}")
        return outcome.output

    def image(self, spec: ContainerSpec) -> str:
        """The image of a task, fetched or built unless it is there. Episodes that begin together wait for one of them
        to build it."""
        name = spec.image or f"localhost/recompact-task:{tree_hash(spec.context)[:24]}"
        with (spec.context.parent / "task.toml").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _talk((*self.command, "image", "inspect", name), seconds=_MANAGEMENT).code:
                return name
            place = ["pull", "--quiet", name] if spec.image else ["build", "--quiet", "--tag", name, str(spec.context)]
            outcome = _talk((*self.command, *place), seconds=spec.build_seconds, names=(*_VARIABLES, *_PROXIES))
        if outcome.code or outcome.stopped:
            what = f"image {name} cannot be fetched" if spec.image else f"{spec.context} cannot be built"
            raise EnvironmentFailed(f"{what} by {self.command[0]}: {_last_line(outcome)}")
        return name


class Container:
    """A running container. `place` is the directory that commands start in."""

    def __init__(self, engine: Engine, spec: ContainerSpec, limits: CommandLimits) -> None:
        self._engine, self._spec, self._limits = engine, spec, limits
        self._name = f"recompact-{uuid.uuid4().hex[:16]}"
        options = ["--rm", "--interactive", "--name", self._name, "--log-driver", "none", "--label", "recompact"]
        options += ["--hostname", "container"]
        options += ["--network", "bridge" if spec.network else "none", "--memory", str(limits.memory)]
        options += ["--pids-limit", str(limits.processes)]
        options += [part for limit in _limits_of_processes(limits) for part in ("--ulimit", limit)]
        options += ["--cpus", f"{spec.cpus:g}"] if spec.cpus else []
        options += ["--workdir", spec.workdir] if spec.workdir else []
        options += [part for pair in spec.variables.items() for part in ("--env", "=".join(pair))]
        command = (*engine.command, "run", *options, engine.image(spec), "sh", "-c", _FIRST)
        scratch = tempfile.mkdtemp(prefix="recompact-container-")  # podman's monitor may leave a file where it starts
        self._process = subprocess.Popen(
            command,
            cwd=scratch,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,  # what it prints later stays in the pipes, so none of it reaches a disk
            stderr=subprocess.PIPE,
            env=_surroundings(_VARIABLES),
            start_new_session=True,
        )
        self.close = weakref.finalize(self, _end, engine, self._name, self._process, scratch)
        self.place = self._start()
        self._calm = self._activity()

    def _start(self) -> str:
        """Wait for the first line of its first process."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            line = self._process.stdout.readline(4096) if selector.select(_MANAGEMENT) else b""
        if line.endswith(b"\n"):
            return line.decode(errors="replace").strip()
        self._process.kill()
        words = self._process.stderr.read(64_000).decode(errors="replace").strip().splitlines() or ["it says nothing"]
        self.close()
        raise EnvironmentFailed(
            f"{self._engine.command[0]} cannot start a container: {words[-1]}. Try it by hand, and choose another with"
            f' [suite.options] container, such as "{self._engine.command[0]} --runtime runc"'
        )

    def run(
        self, command: str, seconds: float, *, user: str | None = None, variables: Mapping[str, str] | None = None
    ) -> CommandResult:
        """Run a command. What it leaves running goes on; a command that is stopped ends with its process group."""
        script = self._exec(_COMMAND, _sayable(command), user=user, variables=variables or {})
        most = self._limits.output
        outcome = _talk(script, seconds=seconds, most=most, look=self._look())
        first, _, output = outcome.output.partition(b"\n")
        stopped = outcome.stopped
        if stopped and first.isdigit():
            _talk(self._exec("kill -9 -- -$1 $1", first.decode(), user="0"), seconds=_MANAGEMENT)
        if not first.isdigit() and not self.runs:
            raise EnvironmentFailed(f"the container has ended: {_last_line(outcome)}")
        if not first.isdigit():
            stopped = f"the container runs no commands any more ({_last_line(outcome)})"
        return CommandResult(output.decode(errors="replace"), outcome.code, stopped)

    @property
    def runs(self) -> bool:
        """Whether it is there. It may still run no command, if the episode has removed its shell."""
        return self._process.poll() is None

    def read(self, name: str) -> bytes:
        outcome = self._file(_READ, name, most=FILE_LIMIT)
        if outcome.stopped:
            raise ActionError(f"the file {name[:200]} cannot be read: {outcome.stopped}")
        return outcome.output

    def write(self, name: str, data: bytes) -> None:
        if len(data) > FILE_LIMIT:
            raise ActionError(f"{name[:200]} would be larger than {FILE_LIMIT:,} bytes")
        if stopped := self._file(_WRITE, name, input=data).stopped:
            raise ActionError(f"the file {name[:200]} cannot be written: {stopped}")

    def _file(self, script: str, name: str, *, input: bytes = b"", most: int = _ANSWER) -> _ProgramResult:
        if "\0" in name or len(name) > 4096:
            raise ActionError("a path has at most 4,096 characters, none of them zero")
        outcome = _talk(self._exec(script, _sayable(name)), input=input, seconds=self._limits.seconds, most=most)
        if outcome.code == 44:
            raise ActionError(f"there is no regular file {name[:200]}")
        if outcome.code and not outcome.stopped:
            raise ActionError(f"{name[:200]}: {_last_line(outcome)}")
        return outcome

    def unpack(self, archive: bytes, place: str) -> None:
        """Put the files of a tar archive below a directory."""
        self.command_of_ours('mkdir -p -- "$1" && exec tar -x -p -f - -C "$1"', place, input=archive)

    def excess(self) -> str:
        """What is too large of what the episode has written, or nothing."""
        size = int(self._engine.ask("inspect", "--type", "container", "--size", "--format", "{{.SizeRw}}", self._name))
        return f"more than {self._limits.disk:,} bytes of new files" if size > self._limits.disk else ""

    def state(self, most: int) -> tuple[tuple[str, ...], bytes]:
        """What differs from the image: names that are gone, and an archive of the rest. Raises NotImplementedError
        where that is not all of the state, or too large: the episode has to be replayed."""
        if self._activity() != self._calm:
            raise NotImplementedError("programs that run in the container are in no copy")
        lines = self._engine.ask("diff", self._name).decode("utf-8", "surrogateescape").split("\n")
        changes = [(line[:1], line[2:]) for line in lines if line]
        if any(kind not in "ACD" or not name.startswith("/") or "\\" in name for kind, name in changes):
            raise NotImplementedError("names of files that cannot be told apart")
        own = [pair for pair in changes if not any(pair[1] == p or pair[1].startswith(f"{p}/") for p in _RUNTIME)]
        names = [f".{name}" for kind, name in own if kind != "D"]
        few = sum(map(len, names)) < _FEW  # -T is not in every busybox
        words, listed = (names, "") if few else (["-T", "-"], "".join(f"{name}\n" for name in names))
        script = self._exec('exec tar -c -f - -C / --no-recursion "$@"', *words, user="0")
        name_bytes = listed.encode("utf-8", "surrogateescape")
        outcome = (
            _talk(script, input=name_bytes, seconds=_MANAGEMENT, most=most) if names else _ProgramResult(b"", "", 0, "")
        )
        if outcome.code or outcome.stopped:
            raise NotImplementedError(f"no archive: {_last_line(outcome)}")
        return tuple(name for kind, name in own if kind == "D"), outcome.output

    def put_back(self, removed_names: Sequence[str], archive: bytes) -> None:
        """Bring a fresh container to a state."""
        self.command_of_ours(
            _REMOVE, input="".join(f"{name}\n" for name in removed_names).encode("utf-8", "surrogateescape")
        )
        if archive:
            self.unpack(archive, "/")

    def _activity(self) -> bytes:
        """How many processes there are, and what lies in shared memory."""
        return self.command_of_ours(_QUIET)

    def command_of_ours(self, script: str, *words: str, input: bytes = b"") -> bytes:
        """What a script prints that root runs. Raises EnvironmentFailed where it fails."""
        return self._engine.ask(*self._exec(script, *words, user="0")[len(self._engine.command) :], input=input)

    def _exec(
        self, script: str, *words: str, user: str | None = None, variables: Mapping[str, str] | None = None
    ) -> tuple[str | bytes, ...]:
        user = self._spec.user if user is None else user
        options = ["--user", user] if user else []
        options += [part for pair in (variables or {}).items() for part in ("--env", "=".join(pair))]
        arguments = [word.encode("utf-8", "surrogateescape") for word in words]
        return (
            *self._engine.command,
            "exec",
            "--interactive",
            *options,
            self._name,
            "sh",
            "-c",
            script,
            "sh",
            *arguments,
        )

    def _look(self) -> Callable[[], str]:
        """Looks at the size from time to time, at most a fifth of the time."""
        after = time.monotonic() + _SIZE_INTERVAL

        def look() -> str:
            nonlocal after
            if (start := time.monotonic()) < after:
                return ""
            excess = self.excess()
            after = time.monotonic() + max(_SIZE_INTERVAL, 4 * (time.monotonic() - start))
            return f"it filled the disk with {excess}" if excess else ""

        return look


def _talk(
    command: Sequence[str | bytes],
    *,
    input: bytes = b"",
    seconds: float,
    most: int = _ANSWER,
    look: Callable[[], str] = lambda: "",
    names: Sequence[str] = _VARIABLES,
) -> _ProgramResult:
    """Run a program, and keep no more of its output than `most`; `look` gives a reason to stop it."""
    output, stopped, end = bytearray(), "", time.monotonic() + seconds
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as errors:
        source.write(input)
        source.seek(0)
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_surroundings(names),
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                while not stopped:
                    if selector.select(_POLL):
                        if not (chunk := os.read(process.stdout.fileno(), 65_536)):
                            break
                        output += chunk
                    if len(output) > most:
                        stopped = f"it printed more than {most:,} bytes"
                    elif time.monotonic() > end:
                        stopped = f"it took longer than {seconds:g} s"
                    else:
                        stopped = look()
            if not stopped:
                process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            stopped = f"it took longer than {seconds:g} s"
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        errors.seek(0)
        return _ProgramResult(bytes(output), errors.read(64_000).decode(errors="replace"), process.returncode, stopped)


def _limits_of_processes(limits: CommandLimits) -> Iterator[str]:
    """Limits of each process. None is above our own, as podman's defaults may be: it could not grant that."""
    wanted = {"nofile": 4096, "nproc": 4096, "core": 0, "fsize": limits.disk}
    for name, most in wanted.items():
        own = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))[1]
        value = most if own == resource.RLIM_INFINITY else min(own, most)
        yield f"{name}={value}:{value}"


def _sayable(text: str) -> str:
    """An agent's text as bytes can carry it."""
    return text.encode("utf-8", "replace").decode()


def _last_line(outcome: _ProgramResult) -> str:
    lines = (outcome.errors.strip() or outcome.output[-4000:].decode(errors="replace").strip()).splitlines()
    return outcome.stopped or (lines[-1][:400] if lines else f"exit code {outcome.code}")


def _surroundings(names: Sequence[str]) -> dict[str, str]:
    """None of our keys; and the user's own home, where the images are, not the one that a host gives to suites."""
    home = {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
    runtime = f"/run/user/{os.getuid()}"
    own = {"XDG_RUNTIME_DIR": runtime} if os.path.isdir(runtime) else {}
    return own | {name: os.environ[name] for name in names if name in os.environ} | home


def _end(engine: Engine, name: str, process: subprocess.Popen[bytes], scratch: str) -> None:
    """Close the pipe, with which the container ends; one that does not is killed."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        for order in (("kill", name), ("rm", "--force", "--volumes", name)):
            _talk((*engine.command, *order), seconds=_MANAGEMENT)
    process.kill()
    process.wait()
    for pipe in filter(None, (process.stdout, process.stderr)):
        pipe.close()
    shutil.rmtree(scratch, ignore_errors=True)
