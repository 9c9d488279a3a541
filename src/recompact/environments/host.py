"""The inside of an environment's own process: it serves verbs that come on a socket, with one environment.

Runs under any interpreter, with nothing but the standard library and the suite's own packages. It ends when the socket
closes or the harness dies. Where the environment's snapshots are forks, every branch starts here as well.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # started as a file by a foreign interpreter: make our own package importable, last
    sys.path[0] = str(Path.cwd())
    sys.path.append(str(Path(__file__).resolve().parents[2]))

from recompact.chat import Reply, Request
from recompact.environments.hooks import behaviours_of, literals_of
from recompact.environments.loading import load_suite
from recompact.environments.protocol import Environment, Strategy, Suite, Task
from recompact.environments.snapshots.channel import Channel
from recompact.environments.snapshots.fork import die_with_harness, die_with_parent, end_group, freeze
from recompact.environments.snapshots.mask import Mask, mask_of
from recompact.environments.snapshots.strategy import FORK, put_back, strategy_of, take
from recompact.environments.wire import request_to_json
from recompact.trajectory import Action


class Host:
    """Answers verbs. `ask` goes the other way: the environment needs a model and the harness has it."""

    def __init__(self, suite: Suite, channel: Channel) -> None:
        self._suite = suite
        self._channel = channel
        self._environment: Environment | None = None
        self._strategy: Strategy = "state"
        self._mask: Mask | None = None
        self._holders: list[int] = []  # our children, to be reaped
        self._branched = False

    def serve(self) -> None:
        while (received := self._channel.receive_with_files()) is not None:
            message, files = received
            self._reap()
            try:
                answer = {"ok": self._do(message["verb"], message, files)}
            except NotImplementedError:
                answer = {"error": "not implemented", "kind": "NotImplementedError"}
            except Exception as error:
                traceback.print_exc()
                answer = {"error": f"{type(error).__name__}: {error}", "kind": type(error).__name__}
            self._channel.send(answer)
            if message["verb"] == "close":
                break
        else:
            end_group()  # the harness has gone
        if self._branched:
            os._exit(0)  # what is registered for the exit of the process belongs to the one that registered it

    def _do(self, verb: str, message: Mapping[str, Any], files: list[int]) -> Any:
        if verb == "tasks":
            tasks = self._suite.tasks(message["split"])
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
            return base64.b64encode(take(environment, self._strategy)).decode()
        if verb == "freeze":
            return self._freeze(environment, files)
        if verb == "restore":
            return put_back(environment, message["strategy"], base64.b64decode(message["state"]))
        if verb == "mask":
            return [self._mask(text) if self._mask else text for text in message["texts"]]
        if verb == "close":
            return environment.close()
        raise RuntimeError(f"unknown verb {verb!r}")

    def _open(self, task: Task) -> dict[str, Any]:
        environment = self._environment = self._suite.environment(task)
        if hasattr(environment, "ask"):
            environment.ask = self._ask
        self._strategy = strategy_of(environment)
        self._mask = mask_of(environment, self._suite)
        return {"strategy": self._strategy, "masked": self._mask is not None}

    def _freeze(self, environment: Environment, files: list[int]) -> int:
        """The holder's pid; in each branch that starts from it later, the branch's own, which has its own channel."""
        if self._strategy != FORK or len(files) != 1:
            raise RuntimeError("this environment is not one to be forked")
        outcome = freeze(environment, files[0], self._channel)
        if isinstance(outcome, int):
            self._holders.append(outcome)
            return outcome
        self._channel = outcome
        self._holders = []
        self._branched = True
        return os.getpid()

    def _reap(self) -> None:
        for pid in list(self._holders):
            with contextlib.suppress(ChildProcessError):
                if not os.waitpid(pid, os.WNOHANG)[0]:
                    continue
            self._holders.remove(pid)

    def _ask(self, role: str, request: Request) -> Reply:
        self._channel.send({"ask": role, "request": request_to_json(request)})
        answer = self._channel.receive()
        if answer is None:
            raise EOFError("the harness went away")
        if "failure" in answer:
            raise RuntimeError(answer["failure"])
        return Reply.from_json(answer["reply"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Host one environment of a suite (started by recompact itself).")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--options", default="{}")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--lifeline", type=int, required=True)
    args = parser.parse_args()
    os.set_inheritable(args.lifeline, False)
    if not die_with_harness(args.lifeline):  # not both: with its parent it would die before its children are reached
        die_with_parent(args.parent)
    # The protocol keeps the socket for itself: whatever the environment prints goes to the log.
    channel = Channel(os.dup(0), args.lifeline)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    try:
        suite = load_suite(args.suite, json.loads(args.options), Path.cwd())
    except Exception as error:
        channel.send({"error": f"{type(error).__name__}: {error}", "kind": "load"})
        return
    channel.send({"ok": "ready"})
    Host(suite, channel).serve()


if __name__ == "__main__":
    main()
