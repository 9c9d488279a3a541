"""All task families, and reading a request back into its family and parameters."""

from __future__ import annotations

from recompact.suites.pocket.families import one_app, three_apps, two_apps
from recompact.suites.pocket.families.family import Family

FAMILIES: tuple[Family, ...] = (
    one_app.CONTACT_DETAIL,
    two_apps.RELATION_INCOME,
    three_apps.SPLIT_BILLS,
    one_app.EVENT_TIME,
    two_apps.APPROVE_RELATED,
    three_apps.PARTY_SHARES,
    one_app.BILL_TOTAL,
    two_apps.TRIP_DEBTS,
    three_apps.EXPENSE_MAILS,
    one_app.RECEIVED_SINCE,
    two_apps.INVITATIONS,
    three_apps.SEND_AGENDA,
    one_app.APPROVE_ONE,
    two_apps.ARCHIVE_MAIL,
    three_apps.CLUB_DUES,
)
"""In the order in which tasks are dealt out: the three difficulties take turns."""

RULED: tuple[Family, ...] = (two_apps.APPROVE_WITH_RULE,)
"""Families with a standing rule, which have a split of their own."""

BY_NAME = {family.name: family for family in (*FAMILIES, *RULED)}


def parse(instruction: str) -> tuple[Family, dict[str, str]] | None:
    """The family and the parameters of a request; None where no family could have written it."""
    for family in BY_NAME.values():
        parameters = family.parse(instruction)
        if parameters is not None:
            return family, parameters
    return None
