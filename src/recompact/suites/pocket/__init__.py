"""Pocket: a small world of our own, in which an agent does a person's errands in seven apps.

Everything is made from a seed and lives in one in-memory database, so an episode needs no network and no process of
its own, and a snapshot is a handful of bytes. `PocketSuite` hands out the tasks; `parse` reads a request back.
"""

from recompact.suites.pocket.apps import APPS as APPS, CATALOGUE as CATALOGUE
from recompact.suites.pocket.apps.account import LOGINS as LOGINS
from recompact.suites.pocket.environment import PocketEnvironment as PocketEnvironment
from recompact.suites.pocket.families import BY_NAME as BY_NAME, FAMILIES as FAMILIES, RULED as RULED, parse as parse
from recompact.suites.pocket.families.family import Family as Family
from recompact.suites.pocket.plans import (
    Api as Api,
    DirectApi as DirectApi,
    Parameters as Parameters,
    Plan as Plan,
    PlanFailed as PlanFailed,
    Playthrough as Playthrough,
    first_page as first_page,
    pages as pages,
    play as play,
)
from recompact.suites.pocket.prompt import (
    RECORD_ID as RECORD_ID,
    SYSTEM as SYSTEM,
    TOKEN as TOKEN,
    TOOLS as TOOLS,
    Owner as Owner,
    read_task_message as read_task_message,
)
from recompact.suites.pocket.spec import Parameter as Parameter, Spec as Spec
from recompact.suites.pocket.suite import PocketSuite as PocketSuite
