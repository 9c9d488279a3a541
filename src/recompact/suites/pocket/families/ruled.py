"""Tasks under a standing rule that the owner tells only when asked, so that it stands in the history and not in the
task: what a summary may lose."""

from __future__ import annotations

from random import Random

from recompact.suites.pocket.database import Tables
from recompact.suites.pocket.families.family import Family, approval_changes, members, related_emails, rows
from recompact.suites.pocket.families.two_apps import make_requests
from recompact.suites.pocket.grader import Expected
from recompact.suites.pocket.owner import LIMIT, QUESTION, ask, decisions_in, limit_in, may_be_approved
from recompact.suites.pocket.plans import Api, Parameters, cents, missing_last_page, pages, skipping
from recompact.suites.pocket.world import Draft, day, money

_LIMITS = (5000, 4000, 3000, 2000)
_FEWEST = 3  # requests that the rule is about


def _make(rng: Random, world: Draft) -> Parameters:
    parameters = make_requests(rng, world)
    for ago, relation in enumerate(parameters.values(), start=39):  # small ones, and the oldest, so on the last page
        world.ask(rng.choice(world.related(relation)), money(rng, 4, 15), day(ago), "museum")
    people = {person.email for person in world.related(*parameters.values())}
    due = [r for r in world.requests if (r["direction"], r["status"]) == ("incoming", "pending")]
    asked = [r["cents"] for r in due if r["email"] in people]
    limits = [limit for limit in _LIMITS if sum(amount > limit for amount in asked) >= _FEWEST]
    world.settings[LIMIT] = str(limits[0] if limits else sorted(asked)[-_FEWEST] - 1)
    return parameters


def _solve(api: Api, p: Parameters, relations: tuple[str, ...] = ("relation", "other_relation")) -> None:
    """`relations` are the parameters that name whose requests are approved; with none, everybody's."""
    limit = limit_in(ask(api, QUESTION))
    pending = pages(api, "payments", "list_requests", direction="incoming", status="pending")
    due = members(api, *(p[name] for name in relations))
    for request in pending:
        if not relations or request["email"] in due:
            _decide(api, request["id"], cents(request["amount"]), limit)


def _decide(api: Api, request: str, amount: int, limit: int | None) -> None:
    if limit is not None and amount > limit:
        question = f"May I approve request {request} of ${amount / 100:.2f}?"
        if not decisions_in(ask(api, question)).get(request):
            return
    api.call("payments", "approve_request", request_id=request)


def _expect(tables: Tables, p: Parameters) -> Expected:
    people = related_emails(tables, p["relation"], p["other_relation"])
    pending = rows(tables, "requests", direction="incoming", status="pending")
    due = [r for r in pending if r["email"] in people and may_be_approved(tables, r["id"], r["cents"])]
    return Expected(changes=tuple(change for r in due for change in approval_changes(r)))


APPROVE_WITH_RULE = Family(
    "approve_with_rule",
    ("payments", "contacts"),
    _make,
    _solve,
    _expect,
    {
        "widened set": lambda api, p: _solve(api, p, ()),
        "condition ignored": lambda api, p: _solve(api, p, ("relation",)),
        "missed page": missing_last_page(_solve, "payments", "list_requests"),
        "skipped": skipping(_solve, "payments", "approve_request"),
    },
    tempting="widened set",
    speaks=True,
)
