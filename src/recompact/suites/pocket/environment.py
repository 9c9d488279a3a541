"""A task, from a seed and a family, and one episode of it. All state is in the database, so a snapshot is its bytes.

A task is a pure function of its seed and its family, so what is made of them is cached and can be made again anywhere.
Arguments of calls come as a model wrote them. An `ApiError` says how to do better, and a call that errs has changed
nothing.
"""

from __future__ import annotations

import difflib
import json
import math
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from random import Random
from typing import Any

from recompact.environments.protocol import Observation, Opening
from recompact.suites.pocket import owner
from recompact.suites.pocket.apps import APPS, ENTRIES
from recompact.suites.pocket.database import Contents, as_tables, connect, contents, create
from recompact.suites.pocket.families import BY_NAME
from recompact.suites.pocket.grader import Expected, problems
from recompact.suites.pocket.prompt import TOOLS
from recompact.suites.pocket.spec import ApiError, Arguments, Entry, Parameter, Spec
from recompact.suites.pocket.world import Draft, Person, draft, pristine_rows
from recompact.values.chat import Message
from recompact.values.trajectory import Action, Score

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def execute(db: sqlite3.Connection, app: object, api: object, arguments: object) -> Any:
    """Make one call."""
    entry = _find(app, api)
    valid = _validate(entry.spec, arguments)
    if entry.spec.needs_token:
        _check_token(db, entry.spec.app, valid["token"])
    return entry.run(db, valid)


def _find(app: object, api: object) -> Entry:
    if not isinstance(app, str) or app not in APPS:
        raise ApiError(f"there is no app {brief(app)}; the apps are: {', '.join(APPS)}")
    entry = ENTRIES.get(f"{app}.{api}") if isinstance(api, str) else None
    if entry is not None:
        return entry
    names = [e.spec.name for e in ENTRIES.values() if e.spec.app == app]
    near = difflib.get_close_matches(api[:60], names, n=1, cutoff=0.0) if isinstance(api, str) else []
    hint = f"did you mean {near[0]}? " if near else ""
    raise ApiError(f"{app} has no API {brief(api)}; {hint}documentation.show_apis with app={app!r} lists its APIs")


def _validate(spec: Spec, arguments: object) -> Arguments:
    if not isinstance(arguments, Mapping):
        raise ApiError(f"arguments must be a JSON object, not {brief(arguments)}; expected {spec.signature}")
    names = {p.name for p in spec.parameters}
    for name in arguments:
        if name not in names:
            raise ApiError(f"{spec.full_name} has no argument {brief(name)}; expected {spec.signature}")
    return {p.name: _value(spec, p, arguments) for p in spec.parameters}


def _value(spec: Spec, parameter: Parameter, arguments: Mapping[Any, Any]) -> Any:
    value = arguments.get(parameter.name)
    if value is None:
        if not parameter.required:
            return parameter.default
        if parameter.name == "token":
            raise ApiError(f"token is missing: {_how_to_log_in(spec.app)}")
        raise ApiError(f"argument {parameter.name} is missing; expected {spec.signature}")
    expectation = _mismatch(parameter, value)
    if expectation:
        raise ApiError(f"argument {parameter.name} must be {expectation}, not {brief(value)}")
    return value


def _mismatch(parameter: Parameter, value: Any) -> str:
    """What the value should have been; empty where it is right."""
    if parameter.kind == "integer":
        right = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9
        return "" if right else "an integer"
    if parameter.kind == "number":
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if number and abs(value) < 10**9 and math.isfinite(value) else "a number"
    if not isinstance(value, str):
        return _WORDS[parameter.kind]
    if parameter.choices and value not in parameter.choices:
        return f"one of {', '.join(parameter.choices)}"
    if parameter.kind == "date" and not _is_date(value):
        return _WORDS["date"]
    if parameter.kind == "time" and not _TIME.fullmatch(value):
        return _WORDS["time"]
    if not _encodable(value):
        return "valid text"
    if parameter.required and not value.strip():
        return "a text that is not empty"
    return ""


_WORDS = {"string": "a string", "date": "a date like 2025-05-31", "time": "a time like 09:30"}


def _is_date(value: str) -> bool:
    if not _DATE.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def _encodable(value: str) -> bool:
    """Lone surrogates, which JSON may carry, cannot be stored."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_token(db: sqlite3.Connection, app: str, token: str) -> None:
    row = db.execute("select app from logins where id = ?", (token,)).fetchone()
    if row is None or row[0] != app:
        raise ApiError(f"token {brief(token)} is not valid for {app}: {_how_to_log_in(app)}")


def _how_to_log_in(app: str) -> str:
    return f"get one with {app}.login; passwords are in account.show_passwords"


def brief(value: object) -> str:
    """A value as an error text quotes it: short, and always encodable."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print an integer of thousands of digits
        return "that number"
    short = text if len(text) <= 60 else text[:57] + "..."
    return short.encode("utf-8", "replace").decode("utf-8")


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
