"""The inside of an environment's own process: it serves verbs that arrive on a socket, with one environment.

Runs under any interpreter, with nothing but the standard library and the suite's own packages. It ends when the socket
closes or the harness dies: in time, with all its children, and even while its environment hangs.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Mapping

# Bound now: an environment may replace what a module offers (a safety guard around `os`).
from os import _exit, getpid, killpg
from pathlib import Path
from typing import Any, NoReturn

if __name__ == "__main__":  # started as a file by a foreign interpreter: make our own package importable, last
    del sys.path[0]
    sys.path += [sys.argv[sys.argv.index("--directory") + 1], str(Path(__file__).resolve().parents[2])]

from recompact.environments.channel import Channel, TooLarge
from recompact.environments.loading import load_suite
from recompact.environments.process_tree import children_of, descendants, kill_all
from recompact.environments.protocol import Environment, Strategy, Suite, Task
from recompact.environments.shaping import (
    WrongShape,
    behaviours_of,
    error_text,
    literals_of,
    request_to_json,
    shape_observation,
    shape_opening,
    shape_score,
    shape_snapshot,
    shape_tasks,
    shape_texts,
)
from recompact.environments.snapshots import Mask, mask_of, put_back, strategy_of, take
from recompact.errors import OptionError
from recompact.values.chat import Reply, Request
from recompact.values.trajectory import Action


class Host:
    """Answers verbs. `ask` goes the other way: the environment needs a model and the harness has it."""

    def __init__(self, suite: Suite, channel: Channel) -> None:
        self._suite = suite
        self._channel = channel
        self._environment: Environment | None = None
        self._strategy: Strategy = "state"
        self._mask: Mask | None = None

    def serve(self) -> NoReturn:
        """Serve until the harness kills this process or goes: ending by itself would leave its daemons behind."""
        while (message := self._channel.receive()) is not None:
            answer = self._answer(message)
            number = {"number": message["number"]}
            try:
                self._channel.send(answer | number)
            except TooLarge as error:
                self._channel.send({"error": f"returned too much: {error}", "kind": "TooLarge"} | number)
        end_group()

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Whatever the environment raises is reported: it must not end the process silently."""
        try:
            return {"ok": self._do(message["verb"], message)}
        except NotImplementedError:
            return {"error": "raised NotImplementedError", "kind": "NotImplementedError"}
        except WrongShape as error:
            return {"error": f"returned the wrong thing: {error}", "kind": "WrongShape"}
        except BaseException as error:
            with contextlib.suppress(BaseException):
                traceback.print_exc()
            return {"error": f"raised {error_text(error)}", "kind": type(error).__name__}

    def _do(self, verb: str, message: Mapping[str, Any]) -> Any:
        if verb == "tasks":
            tasks = shape_tasks(self._suite.tasks(message["split"]), travels=True)
            return [[t.id, t.text, dict(t.groups), dict(t.data)] for t in tasks]
        if verb == "behaviours":
            return behaviours_of(self._suite, [Action.from_json(action) for action in message["actions"]])
        if verb == "literals":
            return literals_of(self._suite, message["texts"])
        if verb == "open":
            return self._open(Task(*message["task"]))
        if verb == "close" and self._environment is None:
            return None
        environment = self._environment
        if environment is None:
            raise RuntimeError("no environment is open")
        if verb == "digest":
            return environment.digest() if hasattr(environment, "digest") else ""
        if verb == "restore":
            return put_back(environment, message["strategy"], base64.b64decode(message["state"]))
        if verb == "close":
            environment.close()
            return None
        return self._value(verb, environment, message)

    def _value(self, verb: str, environment: Environment, message: Mapping[str, Any]) -> Any:
        """What a verb gives, as JSON."""
        if verb == "start":
            opening = shape_opening(environment.start())
            prefix = [
                [m.role, m.content, [[c.id, c.name, c.arguments] for c in m.calls], m.call_id] for m in opening.prefix
            ]
            tools = [[tool.name, tool.description, dict(tool.parameters)] for tool in opening.tools]
            return [prefix, tools, opening.text_actions, opening.judged_at_limit]
        if verb == "step":
            observation = shape_observation(environment.step(Action.from_json(message["action"])))
            return [observation.text, observation.done, observation.error]
        if verb == "score":
            score = shape_score(environment.score())
            return [score.success, score.value, dict(score.details)]
        if verb == "snapshot":
            return base64.b64encode(shape_snapshot(take(environment, self._strategy))).decode()
        if verb == "mask":
            texts = message["texts"]
            return shape_texts([self._mask(text) if self._mask else text for text in texts], len(texts))
        raise RuntimeError(f"unknown verb {verb!r}")

    def _open(self, task: Task) -> list[Any]:
        environment = self._environment = self._suite.environment(task)
        if hasattr(environment, "ask"):
            environment.ask = self._ask
        self._strategy = strategy_of(environment)
        self._mask = mask_of(environment, self._suite)
        return [self._strategy, self._mask is not None]

    def _ask(self, role: str, request: Request) -> Reply:
        self._channel.send({"ask": role, "request": request_to_json(request)})
        answer = self._channel.receive()
        if answer is None:
            raise EOFError("the harness went away")
        if "failure" in answer:
            raise RuntimeError(answer["failure"])
        return Reply.from_json(answer["reply"])


def limit_use(limits: Mapping[str, Any]) -> None:
    """Set kernel limits, which hold for each process from now on and cannot be raised again without privileges."""
    try:
        import resource
    except ImportError:  # not a Unix
        return
    wanted = {"CORE": 0, "CPU": limits["cpu_seconds"], "DATA": limits["memory"], "FSIZE": limits["file"]}
    wanted |= {"NOFILE": limits["files"]} | ({"NPROC": limits["tasks"]} if limits["tasks"] else {})
    for name, value in wanted.items():
        with contextlib.suppress(ValueError, OSError, AttributeError):
            kind = getattr(resource, f"RLIMIT_{name}")
            most = resource.getrlimit(kind)[1]
            value = value if most == resource.RLIM_INFINITY else min(value, most)
            resource.setrlimit(kind, (value, value))


def main() -> None:
    parser = argparse.ArgumentParser(description="Host one environment of a suite (started by recompact itself).")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--options", default="{}")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--channel", type=int, required=True)
    parser.add_argument("--limits", required=True)
    parser.add_argument("--guarded", action="store_true", help="Nothing else ends what it has started.")
    args = parser.parse_args()
    limits = json.loads(args.limits)
    for descriptor in (args.lifeline, args.channel):
        os.set_inheritable(descriptor, False)
    if args.guarded:
        stand_guard(args.lifeline, args.channel)
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)  # a group that ends with the harness
    adopt_orphans()
    leave_keyring()
    limit_use(limits)
    if not die_with_harness(args.lifeline):  # not both: with its parent it would die before its children are reached
        die_with_parent(os.getppid() if args.guarded else args.parent)
    # The protocol keeps the socket for itself: whatever the environment prints goes to the log.
    channel = Channel(args.channel, limits["message"])
    os.dup2(2, 1)
    try:
        suite = load_suite(args.suite, json.loads(args.options), Path(args.directory))
    except BaseException as error:
        option = error.key if isinstance(error, OptionError) else None
        channel.send({"error": error_text(error), "kind": "load", "option": option})
        return
    channel.send({"ok": "ready"})
    Host(suite, channel).serve()


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


if __name__ == "__main__":
    main()
