"""One episode of our own loop in a container, judged there by the task's `tests/test.sh`, as Harbor does it.

A snapshot is what differs from the image, or the actions themselves where programs are left running.
"""

from __future__ import annotations

import io
import json
import math
import tarfile
from dataclasses import asdict

from recompact.environments.protocol import EnvironmentFailed, Observation, Opening
from recompact.environments.snapshots import VOLATILE
from recompact.suites.workspace.container import Container, ContainerSpec, Engine
from recompact.suites.workspace.environment import Progress, system_prompt, tools_for
from recompact.suites.workspace.folder import CheckFailed, TaskFolder, read_score
from recompact.values.chat import system, user
from recompact.values.trajectory import Action, Score

LARGEST = 256 * 1024**2
"""Bytes of a snapshot; an episode that has written more is restored by replaying it."""

_LEFT_RUNNING = "what it leaves running in the background goes on"
_NETWORK = {True: "There is a network.", False: "There is no network."}
_EMPTY = "rm -rf /tests /logs/verifier && mkdir -p /tests /logs/verifier /logs/agent && chmod 777 /logs/verifier"
_TEST = "chmod +x /tests/test.sh; /tests/test.sh > /logs/verifier/test-stdout.txt 2>&1 < /dev/null"
_REWARD = "cd /logs/verifier && if test -e reward.json; then cat reward.json; else cat reward.txt; fi"


class ContainerEnvironment:
    """An `Environment` in a container of its own."""

    snapshots = "state"
    mask = VOLATILE

    def __init__(self, folder: TaskFolder, spec: ContainerSpec, engine: Engine) -> None:
        self._folder, self._spec, self._engine = folder, spec, engine
        self._container: Container | None = None
        self._progress = Progress()

    def start(self) -> Opening:
        place, self._progress = self._fresh().place, Progress()
        prompt = system_prompt(place, _NETWORK[self._spec.network])
        return Opening((system(prompt), user(self._folder.instruction)), tools_for(place, _LEFT_RUNNING))

    def step(self, action: Action) -> Observation:
        container, seconds = self._running(), self._folder.limits.seconds
        observation = self._progress.step(
            action, container, lambda command: container.run(command, seconds), container.excess
        )
        if self._progress.misuse:
            self.close()  # give the space back at once
        return observation

    def score(self) -> Score:
        if self._progress.misuse:
            return Score.of(False, reason=self._progress.misuse)
        container, seconds = self._running(), self._folder.check.seconds
        try:
            container.command_of_ours(_EMPTY)
            container.unpack(_archive_of(self._folder), "/tests")
        except EnvironmentFailed as error:
            if container.runs:  # the episode has removed what every command needs
                return Score.of(False, reason=f"the container cannot be judged: {error}")
            raise
        user, variables = self._spec.verifier_user or None, self._spec.verifier_variables
        if stopped := container.run(_TEST, seconds, user=user, variables=variables).stopped:
            return Score.of(False, reason=f"the check was stopped: {stopped}")
        return self._reward(container.run(_REWARD, seconds, user="0").output)

    def _reward(self, text: str) -> Score:
        try:
            data = json.loads(text)
            rewards = data if isinstance(data, dict) else {"reward": data}
            if not all(isinstance(value, int | float) and math.isfinite(value) for value in rewards.values()):
                raise ValueError("not a number")
            return read_score({"score": rewards["reward"]} | {k: v for k, v in rewards.items() if k != "reward"})
        except (ValueError, KeyError, TypeError, RecursionError):
            way_out = (
                ""
                if self._spec.network
                else ('; it had no network: if it needs one, say network_mode = "public" in [environment] of task.toml')
            )
            raise CheckFailed(
                f"tests/test.sh of task {self._folder.id} must write a number from 0 to 1 to"
                f" /logs/verifier/reward.txt, or reward.json with the key 'reward', and did not{way_out}"
            ) from None

    def snapshot(self) -> bytes:
        gone, archive = ((), b"") if self._progress.misuse else self._running().state(LARGEST)
        return json.dumps({**asdict(self._progress), "gone": gone}).encode() + b"\n" + archive

    def restore(self, state: bytes) -> None:
        head, _, archive = state.partition(b"\n")
        data = json.loads(head)
        gone = data.pop("gone")
        self._progress = Progress(**data)
        if not self._progress.misuse:
            self._fresh().put_back(gone, archive)

    def close(self) -> None:
        if self._container is not None:
            self._container.close()
            self._container = None

    def _fresh(self) -> Container:
        self.close()
        self._container = Container(self._engine, self._spec, self._folder.limits)
        return self._container

    def _running(self) -> Container:
        if self._container is None:
            raise EnvironmentFailed(f"the container of task {self._folder.id} is not there: it was not started")
        return self._container


def _archive_of(folder: TaskFolder) -> bytes:
    """The task's tests, owned by root there."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(folder.path / folder.judge, ".", filter=_of_root)
    return buffer.getvalue()


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
