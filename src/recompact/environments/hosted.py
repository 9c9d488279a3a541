"""Environments that live in a process of their own, under their own interpreter, with a kill timer outside."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from recompact.environments.host_client import HostClient
from recompact.environments.host_process import HostSettings, bubblewrap_for
from recompact.environments.protocol import (
    AsyncAsk,
    Behaviour,
    EnvironmentFailed,
    Episode,
    Literals,
    Observation,
    Opening,
    Strategy,
    SuiteFailed,
    Task,
)
from recompact.environments.shaping import (
    BEHAVIOURS,
    WrongShape,
    as_literals,
    fields_of,
    shape_observation,
    shape_opening,
    shape_score,
    shape_tasks,
    shape_texts,
    shape_traits,
)
from recompact.environments.snapshots import REPLAY, Log, digest_of, log_of, record, replay
from recompact.values.chat import Message, ToolCall, ToolSpec, Usage
from recompact.values.trajectory import Action, Score, Snapshot

T = TypeVar("T")

_GRADING = Task("grading", "Judge the evidence of an episode.")

_DIGEST = 200  # characters of a digest
_MANY = 2000  # actions or texts that go in one message: few messages, each well within the timeout of a verb


@dataclass(frozen=True)
class HostedSuite(HostSettings):
    """A suite whose environments each get a process."""

    grader: HostedSuite | None = None  # whose episodes judge the evidence that episodes of this suite leave

    def __post_init__(self) -> None:
        bubblewrap_for(self)  # which refuses what this machine cannot do

    @property
    def name(self) -> str:
        return self.spec

    def graded_by(self, options: Mapping[str, Any]) -> HostedSuite:
        """This suite with a grader: the same suite in other hosts, with these options."""
        return replace(self, grader=replace(self, options=options))

    async def tasks(self, split: str) -> Sequence[Task]:
        process = HostClient(self, f"suite {self.name}")
        try:
            data = await process.call("tasks", split=split)
            return list(shape_tasks([Task(*fields_of(each, 4)) for each in _list(data)], travels=True))
        except WrongShape as error:
            raise SuiteFailed(f"suite {self.name}: tasks returned the wrong thing: {error}") from None
        except EnvironmentFailed as failure:
            raise SuiteFailed(str(failure), failure.option) from failure
        finally:
            await process.end()

    def episode(self, task: Task, ask: AsyncAsk | None = None) -> Episode:
        return HostedEpisode(self, task, ask)

    async def behaviours(self, actions: Sequence[Action]) -> Sequence[Behaviour | None] | None:
        answers = await self._hook_answers("behaviours", "actions", [action.to_json() for action in actions])
        if answers is not None and not all(each is None or each in BEHAVIOURS for each in answers):
            raise EnvironmentFailed(f"suite {self.name}: behaviour must be {', '.join(BEHAVIOURS)} or None")
        return answers

    async def literals(self, texts: Sequence[str]) -> Sequence[Literals] | None:
        answers = await self._hook_answers("literals", "texts", texts)
        try:
            return None if answers is None else [as_literals(answer) for answer in answers]
        except ValueError as error:
            raise EnvironmentFailed(f"suite {self.name}: {error}") from None

    async def _hook_answers(self, verb: str, what: str, items: Sequence[Any]) -> list[Any] | None:
        """What the suite's hook answers for each item, many to a message; None where it has no such hook."""
        process = HostClient(self, f"what the suite says of its {what}")
        answers: list[Any] = []
        try:
            for start in range(0, max(1, len(items)), _MANY):
                answer = await process.call(verb, **{what: items[start : start + _MANY]})
                if answer is None:
                    return None
                if not isinstance(answer, list) or len(answer) != len(items[start : start + _MANY]):
                    raise EnvironmentFailed(f"suite {self.name}: {verb}: one answer for each was expected")
                answers += answer
            return answers
        finally:
            await process.end()


class HostedEpisode:
    """One environment in a process of its own."""

    def __init__(self, suite: HostedSuite, task: Task, ask: AsyncAsk | None) -> None:
        self._suite = suite
        self._task = task
        self._what = f"suite {suite.name}, task {task.id}"
        self._client = HostClient(suite, self._what, ask)
        self.changes: Mapping[str, int] = {}
        self._opening: Opening | None = None  # of the environment that is running
        self._strategy: Strategy = "state"
        self._masked = False
        self._log: Log = []
        self._whole = True  # the log begins at the start; no longer once the state was put back

    @property
    def usage(self) -> Mapping[str, Usage]:
        return self._client.usage

    async def start(self) -> Opening:
        return await self._run()

    async def step(self, action: Action) -> Observation:
        await self._run()
        observation = await self._ask_for(
            "step", lambda data: shape_observation(Observation(*fields_of(data, 3))), action=action.to_json()
        )
        self._log.append((action, observation.text))
        return observation

    async def score(self) -> Score:
        await self._run()
        score = await self._ask_for("score", lambda data: shape_score(Score(*fields_of(data, 3))))
        grader = self._suite.grader
        return score if grader is None else await grade(grader, self._task, score)

    async def snapshot(self) -> Snapshot:
        await self._run()
        try:
            if self._strategy != REPLAY:
                data = await self._ask_for("snapshot", _decode)
                return Snapshot(self._strategy, data)
        except NotImplementedError:
            pass
        if not self._whole:
            raise EnvironmentFailed(f"{self._what}: its state was put back, so its actions are not all known")
        return record(self._log, digest=await self._digest())

    async def restore(self, snapshot: Snapshot) -> None:
        if snapshot.strategy == REPLAY:
            await self._replay(snapshot)
            return
        await self._run()
        self._whole = False
        state = base64.b64encode(snapshot.data).decode()
        await self._client.call("restore", strategy=snapshot.strategy, state=state)

    async def agrees(self, recorded: str, seen: str) -> bool:
        """Whether two observations are the same, apart from what the environment masks."""
        if recorded == seen or not self._masked:
            return recorded == seen
        one, other = await self._ask_for("mask", lambda data: shape_texts(data, 2), texts=[recorded, seen])
        return one == other

    async def close(self) -> None:
        await self._client.close()

    async def _run(self) -> Opening:
        """Start the environment, unless it is running."""
        if self._opening is None:
            task = self._task
            self._strategy, self._masked = await self._ask_for(
                "open",
                lambda data: shape_traits(*fields_of(data, 2)),
                task=[task.id, task.text, dict(task.groups), dict(task.data)],
            )
            self._opening = await self._ask_for("start", lambda data: shape_opening(_opening(data)))
        return self._opening

    async def _ask_for(self, verb: str, shape: Callable[[Any], T], **values: Any) -> T:
        """What a verb gives, brought into shape; a host that answers with something else is ended.

        The host shapes values before it sends them, so anything in another shape was not sent by our code.
        """
        try:
            return shape(await self._client.call(verb, **values))
        except WrongShape as reason:
            raise await self._client.refuse(verb, reason) from None

    async def _replay(self, snapshot: Snapshot) -> None:
        """Do the recorded actions again, in a fresh process unless this one has done nothing yet."""
        if self._log or not self._whole or self._client.lost:
            await self._client.leave()
            self._opening, self._log, self._whole = None, [], True
        await self._run()
        await replay(log_of(snapshot), self.step, self.agrees)
        if (expected := digest_of(snapshot)) and expected != await self._digest():
            raise EnvironmentFailed(
                f"{self._what}: the replay gave the same observations, but the state is not the recorded one"
            )

    async def _digest(self) -> str:
        """The digest of the state, if the environment has one; a replay is compared by it, beyond what was observed."""
        digest = await self._client.call("digest")
        if not isinstance(digest, str) or len(digest) > _DIGEST:
            raise await self._client.refuse("digest", WrongShape("a short text was expected"))
        return digest


async def grade(grader: HostedSuite, task: Task, evidence: Score) -> Score:
    """The verdict on an episode whose own score holds, in its details, what is to be judged. An agent's code runs in
    its process, and could read the answers there or forge its score."""
    episode = grader.episode(_GRADING)
    try:
        await episode.start()
        await episode.step(Action("judge", {"task": task.id, **evidence.details}))
        return await episode.score()
    finally:
        await episode.close()


def _opening(data: Any) -> Opening:
    """The JSON of an opening, taken apart; whether the parts are right is checked when they are shaped."""
    prefix, tools, text_actions, judged_at_limit = fields_of(data, 4)
    return Opening(
        tuple(_message(each) for each in _list(prefix)),
        tuple(ToolSpec(*fields_of(each, 3)) for each in _list(tools)),
        text_actions,
        judged_at_limit=judged_at_limit,
    )


def _message(data: Any) -> Message:
    role, content, calls, call_id = fields_of(data, 4)
    return Message(role, content, tuple(ToolCall(*fields_of(call, 3)) for call in _list(calls)), call_id)


def _list(data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise WrongShape("a list was expected")
    return data


def _decode(data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise WrongShape("bytes in base64 were expected") from None
