"""The suite: tasks in five splits, dealt out to the families in turn, the environments to do them in, and what an
action is for.

With `example` the prefix carries one worked episode of another world as chat turns, which small models need.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from recompact.environments.protocol import Behaviour, Literals, Task
from recompact.suites.pocket.apps import APPS, ENTRIES
from recompact.suites.pocket.environment import PocketEnvironment, compose
from recompact.suites.pocket.families import BY_NAME, FAMILIES, RULED
from recompact.suites.pocket.families.family import Family
from recompact.suites.pocket.owner import SPEAKING
from recompact.suites.pocket.plans import play
from recompact.suites.pocket.prompt import RECORD_ID, SYSTEM, TOKEN, task_message
from recompact.values.chat import Message, ToolCall, assistant, system, user
from recompact.values.trajectory import Action

DOCUMENTATION = "documentation"  # the app in which the others are looked up
_NAMED_CALL = re.compile(rf"\b({'|'.join(APPS)})\.(\w+)(?:\(([^()]*)\))?")


def behaviour_of(action: Action) -> Behaviour | None:
    """What a call is for. A call of an API that does not exist, and ending the task, are neither.

    >>> behaviour_of(Action("call_api", {"app": "payments", "api": "send_money"}))
    'mutation'
    """
    entry = ENTRIES.get(f"{action.arguments.get('app')}.{action.arguments.get('api')}")
    if action.name != "call_api" or entry is None:
        return None
    if entry.spec.app == DOCUMENTATION:
        return "documentation"
    return "mutation" if entry.spec.changes else "read"


def literals_in(text: str) -> Literals:
    """Tokens of logins, ids of records, and the APIs whose call the text shows in full.

    >>> literals_in("Token pay-0123abcd; contacts.login(username, password); see payments.send_money")
    {'tokens': ('pay-0123abcd',), 'ids': (), 'signatures': ('contacts.login',)}
    """
    return {
        "tokens": tuple(TOKEN.findall(text)),
        "ids": tuple(RECORD_ID.findall(text)),
        "signatures": tuple(name for name, whole in named_apis(text) if whole),
    }


def named_apis(text: str) -> Iterator[tuple[str, bool]]:
    """Every mention of an API in a text, and whether it shows how the API is called.

    It does if every required argument stands in the parentheses after it; where none is required, the name is enough.
    """
    for app, api, inside in _NAMED_CALL.findall(text):
        name = f"{app}.{api}"
        if name in ENTRIES:
            required = [p.name for p in ENTRIES[name].spec.parameters if p.required]
            yield name, all(re.search(rf"\b{p}\b", inside) for p in required)


SPLITS: Mapping[str, int] = {"train": 90, "dev": 30, "test": 168, "fresh": 60, "rules": 60}
EASIEST = tuple(BY_NAME[name] for name in ("contact_detail", "event_time", "bill_total"))
"""The families of the split `fresh`: those that a small real model can do at all."""
_EXAMPLE_SEED = "pocket-example"
_EXAMPLE_FAMILY = "contact_detail"  # for families whose own episodes would be too long as an example


NEXT_TASK = """\
That task is finished. The next one comes from another person, with other passwords and tokens: begin again with \
account.show_passwords."""
"""Between the worked example and the task: without it a small model goes on with the tokens of the example."""


class PocketSuite:
    """The `Suite` of pocket. With `example`, each prefix carries a worked example."""

    name = "pocket"
    behaviour = staticmethod(behaviour_of)
    literals = staticmethod(literals_in)

    def __init__(self, example: bool = False) -> None:
        self._example = example

    def splits(self) -> Sequence[str]:
        return tuple(SPLITS)

    def tasks(self, split: str) -> Sequence[Task]:
        return _tasks(split)

    def environment(self, task: Task) -> PocketEnvironment:
        return PocketEnvironment(task.data["seed"], task.data["family"], self.prefix(task))

    def prefix(self, task: Task) -> tuple[Message, ...]:
        """The fixed messages of a task."""
        example = _worked_example(_example_family(task.data["family"])) if self._example else ()
        speaking = SPEAKING if BY_NAME[task.data["family"]].speaks else ""
        return (system(SYSTEM + speaking), *example, user(task.data["message"]))


@cache
def _tasks(split: str) -> tuple[Task, ...]:
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}: choose one of {', '.join(SPLITS)}")
    return tuple(_task(split, index) for index in range(SPLITS[split]))


def families_of(split: str) -> tuple[Family, ...]:
    """The families that the tasks of a split are dealt out to."""
    return EASIEST if split == "fresh" else RULED if split == "rules" else FAMILIES


def _task(split: str, index: int) -> Task:
    families = families_of(split)
    family = families[index % len(families)]
    seed = f"pocket-{split}-{index:03d}"
    composed = compose(seed, family.name)
    groups = {
        "difficulty": family.difficulty,
        "family": family.name,
        "apps": str(len(family.apps)),
    }
    data = {
        "seed": seed,
        "family": family.name,
        "parameters": composed.parameters,
        "message": task_message(composed.owner, composed.instruction),
    }
    return Task(seed, composed.instruction, groups, data)


def _example_family(family: str) -> str:
    """Small models need an example of the same kind of task, so an easy family is its own, in another world."""
    return family if BY_NAME[family].difficulty == "easy" else _EXAMPLE_FAMILY


@cache
def _worked_example(family: str) -> tuple[Message, ...]:
    """One episode as chat turns, played by the oracle, so that it can never disagree with the apps."""
    seed = _EXAMPLE_SEED
    composed = compose(seed, family)
    request = user(task_message(composed.owner, composed.instruction))
    environment = PocketEnvironment(seed, family, (request,))
    played = play(environment, BY_NAME[family].solve, composed.parameters, thorough=True)
    environment.close()
    messages = [request]
    for number, (action, observation) in enumerate(played.steps, start=1):
        call = ToolCall(f"example-{number}", action.name, json.dumps(dict(action.arguments)))
        messages += [assistant("", call), Message("tool", observation.text, call_id=call.id)]
    return (*messages, user(NEXT_TASK))
