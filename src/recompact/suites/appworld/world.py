"""One world of the installed engine, in its own process, and how code is run in it.

While a world is open, the clock of its process stands still, so nothing here may depend on the time.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import random
import signal
import sys
import tempfile

# Bound now: while an agent's code runs, the engine's guard replaces them in the modules.
from os import _exit, getpid
from pathlib import Path
from shutil import rmtree
from typing import Any

EXPERIMENT = "episode"
SHOWN = 100_000
"""Characters of an output that are kept: far more than an agent is shown, far less than it could print."""

_REFUSED = frozenset(
    (
        *("os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"),
        *("os.kill", "os.killpg", "ctypes.dlopen"),
    )
)


def private_root(data: Path) -> Path:
    """A private root for this process, where the engine may write, with the data of another root."""
    root = Path(tempfile.mkdtemp(prefix="appworld-"))
    (root / "data").symlink_to(data, target_is_directory=True)
    os.environ["APPWORLD_ROOT"] = str(root)
    os.environ["APPWORLD_CACHE"] = str(root / "cache")
    return root


class World:
    """An open world. There can be only one in a process."""

    def __init__(self, data: Path, task: str, *, seconds: int) -> None:
        self._root = private_root(data)
        engine = importlib.import_module("appworld.environment")
        self._process = getpid()
        self._guard = _Guard()
        self._world = engine.AppWorld(
            task_id=task, experiment_name=EXPERIMENT, load_ground_truth=False, timeout_seconds=seconds
        )
        self._world.environment_io = _Log(self._world.environment_io)

    @property
    def task(self) -> Any:
        return self._world.task

    def execute(self, code: str) -> tuple[str, bool]:
        """What the code printed, and whether it failed. Nothing that it raises gets past here."""
        try:
            with self._guard:
                output = str(self._world.execute(code))
            failed = output.startswith("Execution failed")
        except BaseException as error:  # such as KeyboardInterrupt, which the engine lets through
            output, failed = f"Execution failed. {type(error).__name__}: {error}"[:2000], True
            self._recover()
        if getpid() != self._process:
            _exit(1)  # the code has forked: one process answers, and it is not this one
        return _shorten(output), failed

    def completed(self) -> bool:
        return bool(self._world.task_completed())

    def evidence(self) -> dict[str, str]:
        """What the code has changed in the apps, as the engine writes it: files by name."""
        place = Path(self._world.output_db_home_path_on_disk)
        self._world._save_state(str(place))
        return {file.name: file.read_text(encoding="utf-8") for file in sorted(place.iterdir()) if file.is_file()}

    def digest(self) -> str:
        """Hashes all state that code can have changed: the apps, random numbers, revoked tokens, plain variables."""
        world = self._world
        space = {name: value for name, value in world.shell.user_ns.items() if not name.startswith("_")}
        state = {
            "apps": self.evidence(),
            "random": random.getstate(),
            "interactions": world.num_interactions,
            "requests": len(world.requester.request_tracker.requests),
            "revoked": {app: sorted(tokens) for app, tokens in self._revoked_tokens().items()},
            "names": sorted(space),
            "values": {name: text for name, value in space.items() if (text := _plain(value)) is not None},
        }
        return hashlib.sha256(json.dumps(state, sort_keys=True, default=str).encode()).hexdigest()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._world.close()
        rmtree(self._root, ignore_errors=True)

    def _recover(self) -> None:
        """After something that the engine did not catch: remove its guard and its alarm, and save the state."""
        world = self._world
        signal.alarm(0)
        if world.null_patch_unsafe_execution:
            world.safety_guard.disable()
        world.num_interactions += 1
        world._save_state(world.output_db_home_path_on_disk)
        world.requester.reset_request_count()

    def _revoked_tokens(self) -> dict[str, set[str]]:
        revoked = {}
        for app in self._world.task.allowed_apps:
            module = importlib.import_module(f"appworld.apps.{app}.apis")
            manager = getattr(module, "logging_manager", None)
            if manager is not None:
                revoked[app] = set(manager.blacklisted_tokens)
        return revoked


def _shorten(text: str) -> str:
    half = SHOWN // 2
    left_out = len(text) - SHOWN
    return text if left_out <= 0 else f"{text[:half]}\n[{left_out:,} characters left out]\n{text[-half:]}"


class _Log(list[dict[str, str]]):
    """The engine's record of what was run, which it writes to a file after every step, without floods of output."""

    def append(self, entry: dict[str, str]) -> None:
        super().append({name: _shorten(text) for name, text in entry.items()})


class _Guard(contextlib.AbstractContextManager[None]):
    """Refuses new processes while an agent's code runs, which has no use for them.

    The limits of the host apply as well, but by the time they take effect, a process that multiplies has taken all of
    the machine's time. Python code cannot remove a hook of the interpreter.
    """

    def __init__(self) -> None:
        self._active = False
        sys.addaudithook(self._audit)

    def __enter__(self) -> None:
        self._active = True

    def __exit__(self, *_: object) -> None:
        self._active = False

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._active and event in _REFUSED:
            raise PermissionError(f"{event} is not allowed here")


def _plain(value: Any) -> str | None:
    """A variable as JSON if it is plain data; anything else may look different in every process."""
    if not isinstance(value, str | int | float | bool | list | tuple | dict | None):
        return None
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None
