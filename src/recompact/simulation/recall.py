"""How a plan is followed from memory: what the context shows is answered from there, anything else has to be called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from recompact.simulation.knowledge import Knowledge
from recompact.simulation.notes import SPECS, argument_key
from recompact.simulation.parameters import Traits
from recompact.suites.pocket import LOGINS, Owner

ENDS_HERE = "I take the list {name} for complete after page {page}."
TAKEN_DONE = "I take {call} for done."
_ENDS = re.compile(r"I take the list (\S+) for complete after page (\d+)\.")
_TAKEN = re.compile(r"I take (\S+\(.*\)) for done\.")


class Need(Exception):
    """The plan needs the result of a call that is not in the context."""

    def __init__(self, app: str, api: str, arguments: Mapping[str, Any], thought: str) -> None:
        super().__init__(thought)
        self.app, self.api, self.arguments, self.thought = app, api, dict(arguments), thought


@dataclass
class Recall:
    """An `Api` for plans that answers from what is known and asks for what is not, one call at a time."""

    knowledge: Knowledge
    owner: Owner
    rng: Random
    traits: Traits
    used: Counter[tuple[str, str]] = field(default_factory=Counter)

    def call(self, app: str, name: str, /, **arguments: Any) -> Any:
        full = f"{app}.{name}"
        key = (full, argument_key(arguments))
        spec = SPECS[full]
        if spec.changes:
            self.used[key] += 1
            if self._is_done(full, key, arguments):
                return {}
        elif (result := self._visible_result(full, key, arguments)) is not None:
            return result
        if self.knowledge.errors[key] > 2:
            raise LookupError(f"{full} does not work")
        self._prepare(app, name, spec.needs_token)
        given = {"token": self.knowledge.tokens[app], **arguments} if spec.needs_token else arguments
        raise Need(app, name, given, _thought(full, arguments))

    def _is_done(self, full: str, key: tuple[str, str], arguments: Mapping[str, Any]) -> bool:
        if self.knowledge.done[key] >= self.used[key]:
            return True
        if any(taken == f"{full}({key[1]})" for t in self.knowledge.thoughts for taken in _TAKEN.findall(t)):
            return True
        return self.knowledge.says_done(full, arguments)

    def _visible_result(self, full: str, key: tuple[str, str], arguments: Mapping[str, Any]) -> Any:
        """A result in the context; a list that the agent once took to be complete ends there."""
        result = self.knowledge.reads.get(key)
        page = arguments.get("page", 1)
        for thought in self.knowledge.thoughts:
            for name, last in _ENDS.findall(thought):
                if name == full and result is not None and page >= int(last):
                    return {**result, "pages": min(int(last), result["pages"])}
        return result

    def _prepare(self, app: str, name: str, needs_token: bool) -> None:
        """What has to be known before a call: how it is written, and a token."""
        if needs_token and app not in self.knowledge.tokens:
            self._log_in(app)
        self._look_up(app, name)

    def _log_in(self, app: str) -> None:
        if app not in self.knowledge.passwords:
            raise Need(
                "account",
                "show_passwords",
                {},
                "To log in anywhere I need the passwords first, so I look at them before anything else.",
            )
        if f"{app}.login" not in self.knowledge.signatures and self.rng.random() < self.traits.look_up_login:
            self._look_up(app, "login")
        given = login_arguments(app, self.owner, self.knowledge)
        raise Need(
            app,
            "login",
            given,
            f"I have no token for {app} in front of me, so I log in there; its other APIs want one.",
        )

    def _look_up(self, app: str, name: str) -> None:
        full = f"{app}.{name}"
        if app in ("account", "documentation") or full in self.knowledge.signatures:
            return
        if app not in self.knowledge.listed and full not in self.knowledge.names:
            raise Need(
                "documentation",
                "show_apis",
                {"app": app},
                f"I do not know what {app} can do, so I look at the list of its APIs and pick what fits the task.",
            )
        raise Need(
            "documentation",
            "show_api",
            {"app": app, "api": name},
            f"Before I call {full} I look up how it is called, so that I get its arguments right the first time.",
        )


def _thought(full: str, arguments: Mapping[str, Any]) -> str:
    """What an agent says before a call: what it is about to do and why now."""
    app, api = full.split(".")
    page = arguments.get("page", 1)
    if SPECS[full].changes:
        return (
            f"I have what I need for the next change in {app}. I call {api} now, exactly once,"
            " and then see what is left."
        )
    if page > 1:
        return f"The list goes on, so I read page {page} of it before I draw any conclusion from what I have seen."
    return f"Next I need what {api} of {app} tells me, and then I will see what that means for the task."


def login_arguments(app: str, owner: Owner, knowledge: Knowledge) -> dict[str, str]:
    username = {"email": owner.email, "phone": owner.phone}[LOGINS[app]]
    return {"username": username, "password": knowledge.passwords[app]}
