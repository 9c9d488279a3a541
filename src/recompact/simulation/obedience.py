"""What the simulated agent does because its summary tells it to: orders are followed, whether they are wise or not."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from random import Random
from typing import Any

from recompact.simulation.knowledge import Knowledge
from recompact.simulation.notes import SPECS
from recompact.simulation.orders import Order, orders_in
from recompact.simulation.parameters import Traits
from recompact.simulation.recall import login_arguments
from recompact.suites.pocket import LOGINS, Owner

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
    for line, order in _orders(knowledge):
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
    orders = {order for _, order in _orders(knowledge)}
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


def _orders(knowledge: Knowledge) -> tuple[tuple[str, Order], ...]:
    return _orders_of(knowledge.summary)


@lru_cache(maxsize=4_096)
def _orders_of(summary: str) -> tuple[tuple[str, Order], ...]:
    return tuple((line, order) for line in summary.splitlines() for order in orders_in(line))
