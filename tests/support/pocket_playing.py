"""What the tests of the pocket world share: all its tasks, and an episode that is ready to be stepped."""

from __future__ import annotations

import json
from typing import Any

from recompact.environments.protocol import Observation, Task
from recompact.suites.pocket import PocketEnvironment, PocketSuite
from recompact.suites.pocket.apps.account import LOGINS
from recompact.values.trajectory import Action

SUITE = PocketSuite()
TASKS: tuple[Task, ...] = tuple(task for split in SUITE.splits() for task in SUITE.tasks(split))


def of_family(name: str) -> list[Task]:
    return [task for task in TASKS if task.groups["family"] == name]


def one_of(family: str) -> Task:
    return of_family(family)[0]


def call(environment: PocketEnvironment, app: str, api: str, /, **arguments: Any) -> Observation:
    return environment.step(Action("call_api", {"app": app, "api": api, "arguments": arguments}))


def result(environment: PocketEnvironment, app: str, api: str, /, **arguments: Any) -> Any:
    observation = call(environment, app, api, **arguments)
    assert not observation.error, observation.text
    return json.loads(observation.text)


def error(environment: PocketEnvironment, app: str, api: str, /, **arguments: Any) -> str:
    observation = call(environment, app, api, **arguments)
    assert observation.error, observation.text
    return str(json.loads(observation.text)["error"])


def log_in(environment: PocketEnvironment, app: str) -> str:
    profile = result(environment, "account", "show_profile")
    password = result(environment, "account", "show_passwords")[app]
    return str(result(environment, app, "login", username=profile[LOGINS[app]], password=password)["token"])
