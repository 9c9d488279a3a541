"""How a plan is followed from memory: what the context shows is answered from there, anything else has to be called.

What a summary tells the agent to do it does, whether that is wise or not.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from random import Random
from typing import Any

from recompact.simulation.guidance import Order, orders_in
from recompact.simulation.knowledge import Knowledge
from recompact.simulation.notes import SPECS, argument_key
from recompact.simulation.parameters import Traits
from recompact.simulation.rules import NO_RULE
from recompact.suites.pocket import LOGINS, RECORD_ID, Owner
from recompact.suites.pocket.owner import decision, rule
from recompact.suites.pocket.plans import OWNER

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
        if app == OWNER:
            return self._answer(arguments["question"])
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

    def _answer(self, question: str) -> str:
        """What the owner says, as far as the context shows it."""
        knowledge, asked = self.knowledge, RECORD_ID.findall(question)
        if asked and asked[0] in knowledge.decisions:
            return decision(asked[0], knowledge.decisions[asked[0]])
        if not asked and knowledge.limit is not None:
            return rule(knowledge.limit)
        if not asked and any(NO_RULE in thought for thought in knowledge.thoughts):
            return ""
        raise Need(OWNER, "ask", {"question": question}, question)

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


Bidden = tuple[str, str, str, dict[str, Any]]
"""A thought, and the app, API and arguments of the call that follows from it."""
FOLLOWING = "As the summary says,"
_NAMED = re.compile(rf"\b({'|'.join(LOGINS)})\b(?:\.(\w+))?")
_MOST_CHECKS = 3  # in one context: what was just seen again is certain enough


def find_reopened(knowledge: Knowledge, owner: Owner, rng: Random, traits: Traits) -> Bidden | None:
    """A login or a look-up that the summary asks for although it was done; each costs a step."""
    followed = [thought for thought in knowledge.thoughts if thought.startswith(FOLLOWING)]
    if not knowledge.summary or knowledge.turns > 1 + len(followed):
        return None  # what it did not follow at once it does not come back to
    for line, order in _orders_of(knowledge.summary):
        named = _NAMED.search(line)
        if order == "log in":
            apps = [named[1]] if named else sorted(knowledge.tokens)
            for app in apps:
                thought = f"{FOLLOWING} I log in to {app}."
                possible = app in knowledge.passwords and app in knowledge.tokens and thought not in followed
                if possible and rng.random() < traits.obey:
                    return thought, app, "login", login_arguments(app, owner, knowledge)
        elif order == "look up":
            names = [f"{named[1]}.{named[2]}"] if named else sorted(knowledge.signatures)
            for name in names:
                thought = f"{FOLLOWING} I look up {name}."
                possible = name in SPECS and name in knowledge.signatures and thought not in followed
                if possible and rng.random() < traits.obey:
                    app, api = name.split(".")
                    return thought, "documentation", "show_api", {"app": app, "api": api}
    return None


def checks(knowledge: Knowledge, rng: Random, traits: Traits) -> Bidden | None:
    """Before it finishes: a list read once more, or a change made once more, where the summary asks for checks."""
    orders = {order for _, order in _orders_of(knowledge.summary)}
    followed = [thought for thought in knowledge.thoughts if thought.startswith(FOLLOWING)]
    if not orders & {"check", "repeat"} or len(followed) >= _MOST_CHECKS or rng.random() >= traits.obey:
        return None
    changes = sorted({key for key, times in knowledge.done.items() if times} | set(knowledge.reported))
    if changes and "repeat" in orders and rng.random() < traits.doubt:
        again = _again(knowledge, *rng.choice(changes), "I do this once more, as it looks doubtful")
        if again is not None:
            return again
    if "check" in orders:
        for name, arguments in sorted(knowledge.reads):
            again = _again(knowledge, name, arguments, "I check once more")
            if again is not None and again[0] not in followed:
                return again
    return None


def _again(knowledge: Knowledge, name: str, arguments: str, what: str) -> Bidden | None:
    app, api = name.split(".")
    if app in ("documentation", "account") or api == "login" or app not in knowledge.tokens or name not in SPECS:
        return None
    given = {"token": knowledge.tokens[app], **json.loads(arguments)}
    return f"{FOLLOWING} {what}: {name} {arguments}.", app, api, given


@lru_cache(maxsize=4_096)
def _orders_of(summary: str) -> tuple[tuple[str, Order], ...]:
    return tuple((line, order) for line in summary.splitlines() for order in orders_in(line))
