"""Plans: how a task is done, written against a tiny interface so that the oracle and any agent can follow the same one.

A plan is a plain function from an `Api` and the parameters of the task to the answer. It is deterministic, touches
nothing but the `Api`, ignores what mutations return, and may be run again from its start. Most wrong plans are right
ones with a bent `Api`: a page is missed, a condition dropped, a mutation repeated or left out. The oracle plays a plan
in an episode, and logs in where that is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from recompact.environments.protocol import Environment, Observation
from recompact.suites.pocket.apps import CATALOGUE
from recompact.suites.pocket.apps.account import LOGINS
from recompact.suites.pocket.prompt import Owner, read_task_message
from recompact.suites.pocket.spec import PAGE_SIZE_MAX
from recompact.values.trajectory import Action, Score

Parameters = Mapping[str, str]
Records = list[dict[str, Any]]


class Api(Protocol):
    """Makes the calls of a plan. It sees to tokens itself: a plan never passes one."""

    def call(self, app: str, name: str, /, **arguments: Any) -> Any: ...


Plan = Callable[[Api, Parameters], str | None]
OWNER = "owner"
"""What plans call as an app to speak to the owner: `ask` with a question, answered in plain text."""


def pages(api: Api, app: str, name: str, /, **arguments: Any) -> Records:
    """All records of a list, one call for each page, in order."""
    records: Records = []
    page = last = 1
    while page <= last:
        result = api.call(app, name, **arguments, page=page, page_size=PAGE_SIZE_MAX)
        records.extend(result["items"])
        page, last = page + 1, result["pages"]
    return records


def first_page(api: Api, app: str, name: str, /, **arguments: Any) -> Records:
    """The records of a list that is known to be short: one call, without paging arguments."""
    records: Records = api.call(app, name, **arguments)["items"]
    return records


def cents(amount: float) -> int:
    return round(amount * 100)


def total(records: Records) -> str:
    """The sum of the amounts, as an answer."""
    return in_dollars(sum(cents(record["amount"]) for record in records))


def in_dollars(amount: int) -> str:
    return f"{amount / 100:.2f}"


Call = Callable[..., Any]
"""One call of the API that is bent, with its arguments."""


@dataclass
class _Bent:
    """An `Api` in front of another one that treats the calls of one API differently, counting them."""

    api: Api
    app: str
    name: str
    treat: Callable[[Call, dict[str, Any], int], Any]
    number: int = 0  # of the call, from 1

    def call(self, app: str, name: str, /, **arguments: Any) -> Any:
        if (app, name) != (self.app, self.name):
            return self.api.call(app, name, **arguments)
        self.number += 1
        return self.treat(partial(self.api.call, app, name), arguments, self.number)


def _bent(
    plan: Plan, app: str, name: str, treat: Callable[[Call, dict[str, Any], int], Any]
) -> Plan:  # a fresh wrapper for every run, so that a wrong plan can be run again too
    return lambda api, parameters: plan(_Bent(api, app, name, treat), parameters)


def missing_last_page(plan: Plan, app: str, name: str) -> Plan:
    """The plan, but stopping one page early."""

    def treat(call: Call, arguments: dict[str, Any], _: int) -> Any:
        result = call(**arguments)
        return {**result, "pages": max(1, result["pages"] - 1)}

    return _bent(plan, app, name, treat)


def dropping(plan: Plan, app: str, name: str, argument: str) -> Plan:
    """The plan, but with one condition forgotten."""
    return _bent(plan, app, name, lambda call, given, _: call(**{k: v for k, v in given.items() if k != argument}))


def repeating(plan: Plan, app: str, name: str) -> Plan:
    """The plan, but doing the first of these mutations twice."""

    def treat(call: Call, arguments: dict[str, Any], number: int) -> Any:
        if number == 1:
            call(**arguments)
        return call(**arguments)

    return _bent(plan, app, name, treat)


def skipping(plan: Plan, app: str, name: str) -> Plan:
    """The plan, but leaving out the first of these mutations."""
    return _bent(plan, app, name, lambda call, arguments, number: {} if number == 1 else call(**arguments))


def altering(plan: Plan, app: str, name: str, **changed: Any) -> Plan:
    """The plan, but with other values for some arguments."""
    return _bent(plan, app, name, lambda call, arguments, _: call(**{**arguments, **changed}))


@dataclass
class _Sized:
    """An `Api` in front of another one that asks for pages of another size."""

    api: Api
    size: int

    def call(self, app: str, name: str, /, **arguments: Any) -> Any:
        sized = {"page_size": self.size} if "page_size" in arguments else {}
        return self.api.call(app, name, **{**arguments, **sized})


def in_pages_of(size: int, plan: Plan) -> Plan:
    """The plan, with lists read in pages of that size; what it does stays the same."""
    return lambda api, parameters: plan(_Sized(api, size), parameters)


def after_gathering(gather: Callable[[Api, Parameters], object], plan: Plan) -> Plan:
    """The plan, but gathering some of what it reads before all else; what it does stays the same."""

    def gathered(api: Api, parameters: Parameters) -> str | None:
        gather(api, parameters)
        return plan(api, parameters)

    return gathered


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
        if app == OWNER:
            return self.act(Action("", text=arguments["question"])).text
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
