"""The medium families: two apps, several pages, and sets that are restricted by what the other app knows.

The last one has a standing rule that the owner tells only when asked, so that it stands in the history and not in the
task: what a summary may lose.
"""

from __future__ import annotations

import re
from functools import partial
from random import Random

from recompact.suites.pocket.database import Tables
from recompact.suites.pocket.families.family import (
    Family,
    approval_changes,
    approve,
    members,
    payment_change,
    quiet_day,
    related_emails,
    rows,
)
from recompact.suites.pocket.grader import Answer, Change, Expected
from recompact.suites.pocket.owner import LIMIT, QUESTION, ask, decisions_in, limit_in, may_be_approved
from recompact.suites.pocket.plans import (
    Api,
    Parameters,
    Records,
    altering,
    cents,
    dropping,
    first_page,
    in_dollars,
    missing_last_page,
    pages,
    repeating,
    skipping,
    total,
)
from recompact.suites.pocket.world import Draft, after, day, money, words

_LARGE = ("coworker", "friend", "roommate")

# --- income from a relationship (the paper's case A): who sent it is known here, who they are only in contacts


def _make_income(rng: Random, world: Draft) -> Parameters:
    relation = rng.choice(_LARGE)
    members, since = world.related(relation), quiet_day(world, rng.randrange(16, 21))
    world.pay("received", rng.choice(members), money(rng), since, "lunch")
    world.pay("received", rng.choice(members), money(rng), after(since, 20), "cinema")
    world.pay("received", rng.choice(members), money(rng), after(since, -2), "museum")
    world.pay("received", rng.choice(world.others(relation)), money(rng), after(since, 9), "parking")
    world.pay("sent", rng.choice(members), money(rng), after(since, 5), "coffee")
    return {"relation": relation, "since": since}


def _solve_income(api: Api, p: Parameters) -> str:
    received = pages(api, "payments", "list_transactions", direction="received", since=p["since"])
    senders = members(api, p["relation"])
    return total([r for r in received if r["email"] in senders])


def _expect_income(tables: Tables, p: Parameters) -> Expected:
    inside = related_emails(tables, p["relation"])
    received = rows(tables, "transactions", direction="received")
    amounts = [r["cents"] for r in received if r["date"] >= p["since"] and r["email"] in inside]
    return Expected(Answer("money", in_dollars(sum(amounts))))


_TRANSACTIONS = ("payments", "list_transactions")
RELATION_INCOME = Family(
    "relation_income",
    ("payments", "contacts"),
    _make_income,
    _solve_income,
    _expect_income,
    {
        "unrestricted": lambda api, p: total(pages(api, *_TRANSACTIONS, direction="received", since=p["since"])),
        "missed page": missing_last_page(_solve_income, *_TRANSACTIONS),
        "date ignored": dropping(_solve_income, *_TRANSACTIONS, "since"),
        "condition ignored": dropping(_solve_income, *_TRANSACTIONS, "direction"),
    },
    tempting="unrestricted",
    gather=lambda api, p: pages(api, "contacts", "list_contacts", relationship=p["relation"]),
)

# --- requests from two relationships: everybody asks, only some are to be paid


def make_requests(rng: Random, world: Draft) -> Parameters:
    relation, other = rng.sample(_LARGE, 2)
    inside, outside = world.related(relation, other), (*world.others(relation, other), *world.strangers)
    chosen = [rng.choice(world.related(relation)), rng.choice(world.related(other))]
    chosen += [rng.choice(inside) for _ in range(5)]
    senders = chosen[1:] + [rng.choice(outside) for _ in range(rng.randrange(7, 10))]
    notes = [rng.choice(words.request_notes) for _ in senders]
    for sender, note, ago in zip(senders, notes, rng.sample(range(1, 37), len(senders)), strict=True):
        world.ask(sender, money(rng), day(ago), note)
    world.ask(chosen[0], money(rng), day(38), "museum")  # the oldest, so on the last page
    return {"relation": relation, "other_relation": other}


def _pending(api: Api) -> Records:
    return pages(api, "payments", "list_requests", direction="incoming", status="pending")


def _solve_requests(api: Api, p: Parameters) -> None:
    pending, inside = _pending(api), members(api, p["relation"], p["other_relation"])
    approve(api, [request for request in pending if request["email"] in inside])


def _expect_requests(tables: Tables, p: Parameters) -> Expected:
    inside = related_emails(tables, p["relation"], p["other_relation"])
    pending = rows(tables, "requests", direction="incoming", status="pending")
    changes = [change for r in pending if r["email"] in inside for change in approval_changes(r)]
    return Expected(changes=tuple(changes))


APPROVE_RELATED = Family(
    "approve_related",
    ("payments", "contacts"),
    make_requests,
    _solve_requests,
    _expect_requests,
    {
        "widened set": lambda api, p: approve(api, _pending(api)),
        "condition ignored": lambda api, p: _solve_requests(api, {**p, "other_relation": p["relation"]}),
        "missed page": missing_last_page(_solve_requests, "payments", "list_requests"),
        "skipped": skipping(_solve_requests, "payments", "approve_request"),
    },
    tempting="widened set",
    gather=lambda api, p: pages(api, "contacts", "list_contacts", relationship=p["other_relation"]),
)

# --- debts from a list in a file: one payment for each, none twice

_DEBT = re.compile(r"- (.+?): (\d+\.\d\d)( \(paid\))?")


def _make_debts(rng: Random, world: Draft) -> Parameters:
    trip = rng.choice(words.trips)
    people = rng.sample(world.people, 9)
    paid = set(rng.sample(range(1, 9), 2))
    amounts = rng.sample(range(600, 6000, 5), len(people))
    lines = [
        f"- {person.name}: {amount / 100:.2f}{' (paid)' if i in paid else ''}"
        for i, (person, amount) in enumerate(zip(people, amounts, strict=True))
    ]
    world.file("notes", f"{trip} debts.txt", "\n".join([f"What I owe for the {trip}", *lines]), day(6))
    world.file("notes", f"{trip} packing.txt", "rope, tent, lamp", day(30))
    return {"trip": trip}


def _debts(api: Api, p: Parameters) -> list[tuple[str, str, str]]:
    file = first_page(api, "files", "list_files", query=f"{p['trip']} debts")[0]
    return _DEBT.findall(api.call("files", "read_file", file_id=file["id"])["content"])


def _pay(api: Api, p: Parameters, debts: list[tuple[str, str, str]]) -> None:
    for name, amount, _ in debts:
        user = first_page(api, "payments", "find_user", query=name)[0]
        api.call("payments", "send_money", email=user["email"], amount=float(amount), note=p["trip"])


def _solve_debts(api: Api, p: Parameters) -> None:
    _pay(api, p, [debt for debt in _debts(api, p) if not debt[2]])


def _find_payees(api: Api, p: Parameters) -> None:
    for name, _, paid in _debts(api, p):
        if not paid:
            first_page(api, "payments", "find_user", query=name)


def _expect_debts(tables: Tables, p: Parameters) -> Expected:
    content = rows(tables, "files", name=f"{p['trip']} debts.txt")[0]["content"]
    addresses = {row["name"]: row["id"] for row in rows(tables, "directory")}
    unpaid = [(name, cents(float(amount))) for name, amount, paid in _DEBT.findall(content) if not paid]
    return Expected(changes=tuple(payment_change(addresses[name], amount, p["trip"]) for name, amount in unpaid))


TRIP_DEBTS = Family(
    "trip_debts",
    ("files", "payments"),
    _make_debts,
    _solve_debts,
    _expect_debts,
    {
        "repeated": repeating(_solve_debts, "payments", "send_money"),
        "skipped": skipping(_solve_debts, "payments", "send_money"),
        "widened set": lambda api, p: _pay(api, p, _debts(api, p)),
        "condition ignored": altering(_solve_debts, "payments", "send_money", note=""),
    },
    tempting="widened set",
    gather=_find_payees,
)

# --- invitations into the calendar: the month stands only in the messages

_INVITATION = re.compile(r"to (.+?) on (\d{4}-\d\d-\d\d), (\d\d:\d\d) to (\d\d:\d\d)")
_NUMBERS = {"June": "06", "July": "07", "August": "08"}


def _make_invitations(rng: Random, world: Draft) -> Parameters:
    month = rng.choice(tuple(_NUMBERS))
    others = [m for m in _NUMBERS if m != month]
    months = [month] * 3 + [rng.choice(others) for _ in range(3)]
    rng.shuffle(months)
    months.append(month)  # the oldest message, so on the last page
    days = [*sorted(rng.sample(range(1, 26), 6)), 28]
    for title, its_month, ago in zip(rng.sample(words.invited_to, 7), months, days, strict=True):
        date, hour = f"2025-{_NUMBERS[its_month]}-{rng.randrange(18, 30)}", rng.randrange(10, 20)
        when = f"{date}, {hour}:{rng.choice(('00', '30'))} to {hour + 2}:{rng.choice(('00', '30'))}"
        body = (
            f"Hello, you are invited to {title} on {when}, at {rng.choice(words.places)}. Bring a friend if you "
            "like, and let me know if there is anything that you do not eat. I hope to see you there!"
        )
        world.mail(rng.choice(world.people), f"Invitation: {title}", body, day(ago))
    return {"month": month}


def _solve_invitations(api: Api, p: Parameters) -> None:
    wanted = f"2025-{_NUMBERS[p['month']]}"
    bodies = [
        api.call("mail", "read_message", message_id=message["id"])["body"]
        for message in pages(api, "mail", "list_messages", folder="inbox", query="Invitation")
    ]
    for body in bodies:
        title, date, start, end = _INVITATION.findall(body)[0]
        if date.startswith(wanted):
            api.call("calendar", "create_event", title=title, date=date, start=start, end=end)


def _every_month(api: Api, p: Parameters) -> None:
    for month in _NUMBERS:
        _solve_invitations(api, {"month": month})


def _expect_invitations(tables: Tables, p: Parameters) -> Expected:
    bodies = [m["body"] for m in rows(tables, "messages") if m["subject"].startswith("Invitation: ")]
    invitations = [_INVITATION.findall(body)[0] for body in bodies]
    names = ("title", "date", "start", "end")
    wanted = [f for f in invitations if f[1].startswith(f"2025-{_NUMBERS[p['month']]}")]
    return Expected(changes=tuple(Change("events", "added", dict(zip(names, f, strict=True))) for f in wanted))


INVITATIONS = Family(
    "invitations",
    ("mail", "calendar"),
    _make_invitations,
    _solve_invitations,
    _expect_invitations,
    {
        "repeated": repeating(_solve_invitations, "calendar", "create_event"),
        "widened set": _every_month,
        "missed page": missing_last_page(_solve_invitations, "mail", "list_messages"),
    },
    tempting="widened set",
    gather=lambda api, p: first_page(
        api, "calendar", "list_events", since=f"2025-{_NUMBERS[p['month']]}-01", until=f"2025-{_NUMBERS[p['month']]}-30"
    ),
)

# --- archive old mail from a relationship: a mutation for each message


def _make_archive(rng: Random, world: Draft) -> Parameters:
    relation = rng.choice(("coworker", "friend", "roommate", "sibling", "parent"))
    members, until = world.related(relation), day(rng.randrange(74, 84))
    subject, body = rng.choice(words.topics)
    for when in (day(125), until, after(until, 1), after(until, -9)):
        world.mail(rng.choice(members), subject, body, when)
    world.mail(rng.choice(world.others(relation)), subject, body, after(until, -3))
    return {"relation": relation, "until": until}


def _solve_archive(api: Api, p: Parameters, restricted: bool = True) -> None:
    """Without `restricted` everybody's mail is archived."""
    senders = members(api, p["relation"]) if restricted else set()
    for message in pages(api, "mail", "list_messages", folder="inbox", until=p["until"]):
        if message["sender"] in senders or not restricted:
            api.call("mail", "move_message", message_id=message["id"], folder="archive")


def _expect_archive(tables: Tables, p: Parameters) -> Expected:
    inside = related_emails(tables, p["relation"])
    inbox = rows(tables, "messages", folder="inbox")
    moved = [m["id"] for m in inbox if m["sender"] in inside and m["date"] <= p["until"]]
    return Expected(changes=tuple(Change("messages", "updated", {"folder": "archive"}, key) for key in moved))


ARCHIVE_MAIL = Family(
    "archive_mail",
    ("contacts", "mail"),
    _make_archive,
    _solve_archive,
    _expect_archive,
    {
        "widened set": partial(_solve_archive, restricted=False),
        "missed page": missing_last_page(_solve_archive, "mail", "list_messages"),
        "date ignored": dropping(_solve_archive, "mail", "list_messages", "until"),
        "skipped": skipping(_solve_archive, "mail", "move_message"),
    },
    tempting="widened set",
    gather=lambda api, p: pages(api, "mail", "list_messages", folder="inbox", until=p["until"]),
)


# --- the same under a rule: large requests are approved only once the owner has agreed

_LIMITS = (5000, 4000, 3000, 2000)
_FEWEST = 3  # requests that the rule is about


def _make_ruled(rng: Random, world: Draft) -> Parameters:
    parameters = make_requests(rng, world)
    for ago, relation in enumerate(parameters.values(), start=39):  # small ones, and the oldest, so on the last page
        world.ask(rng.choice(world.related(relation)), money(rng, 4, 15), day(ago), "museum")
    people = {person.email for person in world.related(*parameters.values())}
    due = [r for r in world.requests if (r["direction"], r["status"]) == ("incoming", "pending")]
    asked = [r["cents"] for r in due if r["email"] in people]
    limits = [limit for limit in _LIMITS if sum(amount > limit for amount in asked) >= _FEWEST]
    world.settings[LIMIT] = str(limits[0] if limits else sorted(asked)[-_FEWEST] - 1)
    return parameters


def _solve_ruled(api: Api, p: Parameters, relations: tuple[str, ...] = ("relation", "other_relation")) -> None:
    """`relations` are the parameters that name whose requests are approved; with none, everybody's."""
    limit, pending = limit_in(ask(api, QUESTION)), _pending(api)
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


def _expect_ruled(tables: Tables, p: Parameters) -> Expected:
    people = related_emails(tables, p["relation"], p["other_relation"])
    pending = rows(tables, "requests", direction="incoming", status="pending")
    due = [r for r in pending if r["email"] in people and may_be_approved(tables, r["id"], r["cents"])]
    return Expected(changes=tuple(change for r in due for change in approval_changes(r)))


APPROVE_WITH_RULE = Family(
    "approve_with_rule",
    ("payments", "contacts"),
    _make_ruled,
    _solve_ruled,
    _expect_ruled,
    {
        "widened set": partial(_solve_ruled, relations=()),
        "condition ignored": partial(_solve_ruled, relations=("relation",)),
        "missed page": missing_last_page(_solve_ruled, "payments", "list_requests"),
        "skipped": skipping(_solve_ruled, "payments", "approve_request"),
    },
    tempting="widened set",
    speaks=True,
)
