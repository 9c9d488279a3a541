"""A task, from a seed and a family, and one episode of it. All state is in the database, so a snapshot is its bytes.

A task is a pure function of its seed and its family, so what is made of them is cached and can be made again anywhere.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any

from recompact.environments.protocol import Observation, Opening
from recompact.suites.pocket import owner
from recompact.suites.pocket.database import Contents, as_tables, connect, contents, create
from recompact.suites.pocket.families import BY_NAME
from recompact.suites.pocket.grader import Expected, problems
from recompact.suites.pocket.prompt import TOOLS
from recompact.suites.pocket.service import brief, execute
from recompact.suites.pocket.spec import ApiError
from recompact.suites.pocket.world import Draft, Person, draft, pristine_rows
from recompact.values.chat import Message
from recompact.values.trajectory import Action, Score


@dataclass(frozen=True)
class TaskWorld:
    """A world with one task in it."""

    world: Draft
    parameters: dict[str, str]
    instruction: str

    @property
    def owner(self) -> Person:
        return self.world.owner


@lru_cache(maxsize=64)
def compose(seed: str, family: str) -> TaskWorld:
    rng = Random(f"pocket/{family}/{seed}")
    world = draft(seed)
    parameters = dict(BY_NAME[family].make(rng, world))
    return TaskWorld(world, parameters, BY_NAME[family].instruction(parameters, rng.randrange(12)))


@lru_cache(maxsize=64)
def pristine(seed: str, family: str) -> bytes:
    """The state in which an episode starts."""
    return create(pristine_rows(compose(seed, family).world))


@lru_cache(maxsize=64)
def goal(seed: str, family: str) -> tuple[Contents, Expected]:
    """The contents at the start, and what the task must make of them."""
    db = connect(pristine(seed, family))
    before = contents(db)
    db.close()
    return before, BY_NAME[family].expect(as_tables(before), compose(seed, family).parameters)


class PocketEnvironment:
    """An `Environment`: the world of a seed with the task of a family in it."""

    def __init__(self, seed: str, family: str, prefix: tuple[Message, ...]) -> None:
        self._seed, self._family, self._prefix = seed, family, prefix
        self._speaks = BY_NAME[family].speaks
        self._db = connect(pristine(seed, family))

    def start(self) -> Opening:
        self.restore(pristine(self._seed, self._family))
        return Opening(self._prefix, TOOLS, text_actions=self._speaks, judged_at_limit=self._speaks)

    def step(self, action: Action) -> Observation:
        if _answer(self._db) is not None:
            return _error("the task is finished already", done=True)
        if self._speaks and not action.name:
            return Observation(owner.answer(self._db, action.text or ""))
        try:
            if action.name == "finish":
                _finish(self._db, action.arguments)
                return Observation(as_text({"finished": True}), done=True)
            return Observation(as_text(self._call(action)))
        except ApiError as error:
            return _error(str(error))

    def score(self) -> Score:
        before, expected = goal(self._seed, self._family)
        mistakes = problems(expected, before, contents(self._db), _answer(self._db))
        broken = {"violations": owner.violations(self._db, before)} if self._speaks else {}
        return Score.of(not mistakes, problems=mistakes, **broken)

    def snapshot(self) -> bytes:
        return self._db.serialize()

    def restore(self, state: bytes) -> None:
        self._db.deserialize(state)

    def close(self) -> None:
        self._db.close()

    def _call(self, action: Action) -> Any:
        if action.name != "call_api":
            raise ApiError(f"there is no tool {brief(action.name)}; the tools are call_api and finish")
        unknown = [name for name in action.arguments if name not in ("app", "api", "arguments")]
        if unknown:
            raise ApiError(f"call_api takes app, api and arguments, not {brief(unknown[0])}: put it inside arguments")
        for name in ("app", "api"):
            if name not in action.arguments:
                raise ApiError(f"call_api needs {name}: call_api(app, api, arguments)")
        arguments = _as_object(action.arguments.get("arguments"))
        return execute(self._db, action.arguments["app"], action.arguments["api"], arguments)


def as_text(value: Any) -> str:
    """A result as the agent reads it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _as_object(arguments: Any) -> Any:
    """The inner arguments; some models leave them out, or write the object as text."""
    if arguments is None:
        return {}
    if isinstance(arguments, str):
        try:
            return json.loads(arguments)
        except (ValueError, RecursionError):
            return arguments
    return arguments


def _error(text: str, done: bool = False) -> Observation:
    return Observation(as_text({"error": text}), done=done, error=True)


def _answer(db: sqlite3.Connection) -> str | None:
    row = db.execute("select value from episode where id = 'answer'").fetchone()
    return None if row is None else str(row[0])


def _finish(db: sqlite3.Connection, arguments: Mapping[str, Any]) -> None:
    unknown = [name for name in arguments if name != "answer"]
    if unknown:
        raise ApiError(f"finish takes answer only, not {brief(unknown[0])}")
    answer = arguments.get("answer")
    if answer is not None and (isinstance(answer, bool) or not isinstance(answer, str | int | float)):
        raise ApiError(f"answer must be a string, not {brief(answer)}")
    text = "" if answer is None else answer if isinstance(answer, str) else brief(answer)
    db.execute("insert into episode values ('answer', ?)", (text.encode("utf-8", "replace").decode("utf-8"),))
