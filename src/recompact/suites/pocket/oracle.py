"""Plays a plan in an episode, right or wrong on purpose, and logs in where that is needed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from recompact.environments.protocol import Environment, Observation
from recompact.suites.pocket.apps import CATALOGUE
from recompact.suites.pocket.apps.account import LOGINS
from recompact.suites.pocket.plans import Parameters, Plan
from recompact.suites.pocket.prompt import Owner, read_task_message
from recompact.values.trajectory import Action, Score

SPECS = {spec.full_name: spec for spec in CATALOGUE}


class PlanFailed(Exception):
    """A call of the plan was refused; the text is the app's own."""


@dataclass
class DirectApi:
    """An `Api` that makes every call at once.

    With `thorough` it first looks up what the app offers and how each API is called, as a new agent would have to.
    """

    environment: Environment
    owner: Owner
    thorough: bool = False
    steps: list[tuple[Action, Observation]] = field(default_factory=list)
    _tokens: dict[str, str] = field(default_factory=dict)
    _passwords: dict[str, str] = field(default_factory=dict)
    _looked_up: set[str] = field(default_factory=set)

    def call(self, app: str, name: str, /, **arguments: Any) -> Any:
        if SPECS[f"{app}.{name}"].needs_token:
            arguments = {"token": self._token(app), **arguments}
        if self.thorough and app not in ("documentation", "account"):
            self._look_up(app, name)
        return self._do(app, name, arguments)

    def _look_up(self, app: str, name: str) -> None:
        if app not in self._looked_up:
            self._do("documentation", "show_apis", {"app": app})
        if f"{app}.{name}" not in self._looked_up:
            self._do("documentation", "show_api", {"app": app, "api": name})
        self._looked_up |= {app, f"{app}.{name}"}

    def _token(self, app: str) -> str:
        if app not in self._tokens:
            username = {"email": self.owner.email, "phone": self.owner.phone}[LOGINS[app]]
            result = self.call(app, "login", username=username, password=self._password(app))
            self._tokens[app] = result["token"]
        return self._tokens[app]

    def _password(self, app: str) -> str:
        # An example for a small model asks for one at a time: out of five it would pick the wrong one.
        if app not in self._passwords:
            self._passwords |= self._do("account", "show_passwords", {"app": app} if self.thorough else {})
        return self._passwords[app]

    def _do(self, app: str, name: str, arguments: dict[str, Any]) -> Any:
        observation = self.act(Action("call_api", {"app": app, "api": name, "arguments": arguments}))
        result = json.loads(observation.text)
        if observation.error:
            raise PlanFailed(result["error"])
        return result

    def act(self, action: Action) -> Observation:
        observation = self.environment.step(action)
        self.steps.append((action, observation))
        return observation


@dataclass(frozen=True)
class Playthrough:
    """A whole episode: actions with their observations, and the score."""

    steps: tuple[tuple[Action, Observation], ...]
    score: Score


def play(environment: Environment, plan: Plan, parameters: Parameters, thorough: bool = False) -> Playthrough:
    """Run a plan from the start to `finish`. A plan whose call is refused, or that finds nothing, gives up."""
    read = read_task_message(environment.start().prefix[-1].content)
    if read is None:
        raise ValueError("the prefix does not end with a task message")
    api = DirectApi(environment, read[0], thorough)
    try:
        answer = plan(api, parameters)
    except (PlanFailed, LookupError):
        answer = "failed"
    api.act(Action("finish", {"answer": "done" if answer is None else answer}))
    return Playthrough(tuple(api.steps), environment.score())
