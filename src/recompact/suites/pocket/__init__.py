"""Pocket: a small world of our own, in which an agent does a person's errands in seven apps.

Everything is made from a seed and lives in one in-memory database, so an episode needs no network and no process of
its own, and a snapshot is a handful of bytes. `PocketSuite` hands out the tasks; `parse` reads a request back.
"""

from recompact.suites.pocket.apps import APPS, CATALOGUE
from recompact.suites.pocket.apps.account import LOGINS
from recompact.suites.pocket.environment import PocketEnvironment
from recompact.suites.pocket.families import BY_NAME, FAMILIES, RULED, parse
from recompact.suites.pocket.families.family import Family
from recompact.suites.pocket.plans import (
    Api,
    DirectApi,
    Parameters,
    Plan,
    PlanFailed,
    Playthrough,
    first_page,
    pages,
    play,
)
from recompact.suites.pocket.prompt import RECORD_ID, SYSTEM, TOKEN, TOOLS, Owner, read_task_message
from recompact.suites.pocket.spec import Parameter, Spec
from recompact.suites.pocket.suite import PocketSuite

__all__ = [
    "APPS",
    "BY_NAME",
    "CATALOGUE",
    "FAMILIES",
    "LOGINS",
    "RECORD_ID",
    "RULED",
    "SYSTEM",
    "TOKEN",
    "TOOLS",
    "Api",
    "DirectApi",
    "Family",
    "Owner",
    "Parameter",
    "Parameters",
    "Plan",
    "PlanFailed",
    "Playthrough",
    "PocketEnvironment",
    "PocketSuite",
    "Spec",
    "first_page",
    "pages",
    "parse",
    "play",
    "read_task_message",
]
