"""The inside of an environment's own process: it waits for verbs on a pipe and answers them with one environment.

Runs under any interpreter, with nothing but the standard library and the suite's own packages. Messages are JSON, each
after its length in four bytes. It ends when the pipe closes or the harness dies.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import signal
import struct
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

if __name__ == "__main__":  # started as a file by a foreign interpreter: make our own package importable, last
    sys.path[0] = str(Path.cwd())
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from recompact.chat import Reply, Request
from recompact.environments.loading import load_suite
from recompact.environments.protocol import Environment, Suite, Task
from recompact.environments.wire import request_to_json
from recompact.trajectory import Action


class Host:
    """Answers verbs. `ask` goes the other way: the environment needs a model and the harness has it."""

    def __init__(self, suite: Suite, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._suite = suite
        self._in = incoming
        self._out = outgoing
        self._environment: Environment | None = None

    def serve(self) -> None:
        while (message := receive(self._in)) is not None:
            try:
                answer = {"ok": self._do(message["verb"], message)}
            except NotImplementedError:
                answer = {"error": "not implemented", "kind": "NotImplementedError"}
            except Exception as error:
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}", "kind": type(error).__name__}
            send(self._out, answer)
            if message["verb"] == "close":
                return

    def _do(self, verb: str, message: Mapping[str, Any]) -> Any:
        if verb == "tasks":
            tasks = self._suite.tasks(message["split"])
            return [[t.id, t.text, dict(t.groups), dict(t.data)] for t in tasks]
        if verb == "open":
            self._environment = self._suite.environment(Task(*message["task"]))
            if hasattr(self._environment, "ask"):
                self._environment.ask = self._ask
            return None
        if verb == "close" and self._environment is None:
            return None
        environment = self._environment
        if environment is None:
            raise RuntimeError("no environment is open")
        if verb == "start":
            opening = environment.start()
            return {
                "prefix": [m.to_json() for m in opening.prefix],
                "tools": [t.to_json() for t in opening.tools],
                "text_actions": opening.text_actions,
            }
        if verb == "step":
            observation = environment.step(Action.from_json(message["action"]))
            return [observation.text, observation.done, observation.error]
        if verb == "score":
            score = environment.score()
            return [score.success, score.value, dict(score.details)]
        if verb == "snapshot":
            return base64.b64encode(environment.snapshot()).decode()
        if verb == "restore":
            return environment.restore(base64.b64decode(message["state"]))
        if verb == "close":
            return environment.close()
        raise RuntimeError(f"unknown verb {verb!r}")

    def _ask(self, role: str, request: Request) -> Reply:
        send(self._out, {"ask": role, "request": request_to_json(request)})
        answer = receive(self._in)
        if answer is None:
            raise EOFError("the harness went away")
        if "failure" in answer:
            raise RuntimeError(answer["failure"])
        return Reply.from_json(answer["reply"])


def send(stream: BinaryIO, message: Mapping[str, Any]) -> None:
    data = json.dumps(message).encode()
    stream.write(struct.pack(">I", len(data)) + data)
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message, or None where the other side has gone."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = struct.unpack(">I", head)[0]
    data = stream.read(size)
    if len(data) < size:
        return None
    message: dict[str, Any] = json.loads(data)
    return message


def _die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process with the harness, even while the environment hangs."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        return  # not Linux: the closed pipe still ends us at the next message
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description="Host one environment of a suite (started by recompact itself).")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--options", default="{}")
    parser.add_argument("--parent", type=int, required=True)
    args = parser.parse_args()
    _die_with_parent(args.parent)
    # The protocol keeps the two pipes for itself: whatever the environment prints goes to the log.
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    try:
        suite = load_suite(args.suite, json.loads(args.options), Path.cwd())
    except Exception as error:
        send(outgoing, {"error": f"{type(error).__name__}: {error}", "kind": "load"})
        return
    send(outgoing, {"ok": "ready"})
    Host(suite, incoming, outgoing).serve()


if __name__ == "__main__":
    main()
