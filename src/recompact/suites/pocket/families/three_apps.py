"""The hard families: three apps, three logins, and what is to be paid, asked for or sent depends on all of them."""

from __future__ import annotations

import re
from functools import partial
from random import Random

from recompact.suites.pocket.database import Tables
from recompact.suites.pocket.families.family import (
    Family,
    amount_after,
    emails,
    guests_of,
    members,
    payment_change,
    pick,
    quiet_day,
    related_emails,
    request_change,
    rows,
)
from recompact.suites.pocket.grader import Answer, Change, Expected
from recompact.suites.pocket.plans import (
    Api,
    Parameters,
    cents,
    dropping,
    first_page,
    in_dollars,
    missing_last_page,
    pages,
    repeating,
    skipping,
)
from recompact.suites.pocket.world import Draft, after, day, money, words

# --- split bills (the paper's case B): read bills, find the roommates, ask each for a share of each bill


def _make_bills(rng: Random, world: Draft) -> Parameters:
    first, second, third = rng.sample(words.utilities, 3)
    month = rng.choice(words.months[1:5])
    roommates = world.related("roommate")
    already_asked = rng.sample(roommates, 2)
    for roommate, utility, ago in ((already_asked[0], second, 130), (already_asked[1], third, 12)):
        content = next(f["content"] for f in world.files if f["name"] == _bill_name(utility, month))
        share = round(amount_after("Total due:", content) / (len(roommates) + 1))
        world.ask(roommate, share, day(ago), f"{utility} {month}", "outgoing")  # the older one on the last page
    before = words.months[words.months.index(month) - 1]
    for roommate in roommates:
        world.ask(roommate, money(rng), day(rng.randrange(20, 60)), f"{first} {before}", "outgoing", "approved")
    return {"first": first, "second": second, "third": third, "month": month}


def _bill_name(utility: str, month: str) -> str:
    return f"{utility.capitalize()} bill {month} 2025.txt"


def _bills(p: Parameters) -> tuple[str, str, str]:
    return p["first"], p["second"], p["third"]


def _totals(api: Api, p: Parameters) -> dict[str, int]:
    files = first_page(api, "files", "list_files", query=f"bill {p['month']} 2025")
    totals: dict[str, int] = {}
    for utility in _bills(p):
        file = pick(files, name=_bill_name(utility, p["month"]))
        content = api.call("files", "read_file", file_id=file["id"])["content"]
        totals[utility] = amount_after("Total due:", content)
    return totals


def _solve_bills(api: Api, p: Parameters, payers: int = 1, unit: int = 1, again: bool = False) -> None:
    """`payers` besides the roommates, shares rounded to `unit` cents; `again` also what was asked for before."""
    totals = _totals(api, p)
    roommates = pages(api, "contacts", "list_contacts", relationship="roommate")
    earlier = {(r["email"], r["note"]) for r in pages(api, "payments", "list_requests", direction="outgoing")}
    for utility, amount in totals.items():
        share, note = round(amount / (len(roommates) + payers) / unit) * unit, f"{utility} {p['month']}"
        for email in (roommate["email"] for roommate in roommates):
            if again or (email, note) not in earlier:
                api.call("payments", "request_money", email=email, amount=share / 100, note=note)


def _expect_bills(tables: Tables, p: Parameters) -> Expected:
    roommates = related_emails(tables, "roommate")
    changes = []
    for utility in _bills(p):
        content = rows(tables, "files", name=_bill_name(utility, p["month"]))[0]["content"]
        share, note = round(amount_after("Total due:", content) / (len(roommates) + 1)), f"{utility} {p['month']}"
        asked = {r["email"] for r in rows(tables, "requests", direction="outgoing", note=note)}
        changes += [request_change(email, share, note) for email in sorted(roommates - asked)]
    return Expected(changes=tuple(changes))


SPLIT_BILLS = Family(
    "split_bills",
    ("files", "contacts", "payments"),
    _make_bills,
    _solve_bills,
    _expect_bills,
    {
        "condition ignored": partial(_solve_bills, again=True),
        "missed page": missing_last_page(_solve_bills, "payments", "list_requests"),
        "wrong share": partial(_solve_bills, payers=0),
        "wrong rounding": partial(_solve_bills, unit=100),
        "wrong record": lambda api, p: _solve_bills(
            api, {**p, "month": words.months[words.months.index(p["month"]) - 1]}
        ),
        "repeated": repeating(_solve_bills, "payments", "request_money"),
        "widened set": dropping(_solve_bills, "contacts", "list_contacts", "relationship"),
    },
    tempting="widened set",
    gather=lambda api, _: pages(api, "contacts", "list_contacts", relationship="roommate"),
)

# --- party shares: guests of an event, of two relationships, without those who have paid


def _make_party(rng: Random, world: Draft) -> Parameters:
    relation, other, third = rng.sample(("coworker", "friend", "roommate"), 3)
    date, title, amount = quiet_day(world, rng.randrange(13, 17)), rng.choice(words.parties), money(rng, 9, 40)
    inside = [*rng.sample(world.related(relation), 2), *rng.sample(world.related(other), 2)]
    inside += rng.sample([p for p in world.related(relation, other) if p not in inside], 1)
    outside = [rng.choice(world.related(third)), rng.choice(world.related("sibling", "parent"))]
    guests = [*inside, *outside]
    rng.shuffle(guests)
    world.plan(title, date, "19:00", "22:30", rng.choice(words.places), ",".join(g.email for g in guests))
    early, late = rng.sample(inside, 2)
    world.pay("received", early, amount, date, title)  # alone on its day, so on the last page
    world.pay("received", late, amount, after(date, 11), title)
    unpaid = next(p for p in inside if p not in (early, late))
    world.pay("received", unpaid, amount, after(date, 4), "coffee")
    return {
        "title": title,
        "date": date,
        "relation": relation,
        "other_relation": other,
        "amount": in_dollars(amount),
    }


def _solve_party(api: Api, p: Parameters, restricted: bool = True, settled: bool = True) -> None:
    """Without `restricted` every guest is asked, without `settled` also those who have paid."""
    guests = guests_of(api, p["title"], p["date"])
    inside = members(api, p["relation"], p["other_relation"])
    received = pages(api, "payments", "list_transactions", direction="received", since=p["date"])
    paid = emails(r for r in received if r["note"] == p["title"]) if settled else set()
    for guest in guests:
        if (guest in inside or not restricted) and guest not in paid:
            api.call("payments", "request_money", email=guest, amount=float(p["amount"]), note=p["title"])


def _expect_party(tables: Tables, p: Parameters) -> Expected:
    guests = rows(tables, "events", title=p["title"], date=p["date"])[0]["guests"].split(",")
    payments = rows(tables, "transactions", direction="received", note=p["title"])
    paid = {r["email"] for r in payments if r["date"] >= p["date"]}
    asked = related_emails(tables, p["relation"], p["other_relation"]) - paid
    amount = cents(float(p["amount"]))
    return Expected(changes=tuple(request_change(g, amount, p["title"]) for g in guests if g in asked))


PARTY_SHARES = Family(
    "party_shares",
    ("calendar", "contacts", "payments"),
    _make_party,
    _solve_party,
    _expect_party,
    {
        "widened set": partial(_solve_party, restricted=False),
        "condition ignored": partial(_solve_party, settled=False),
        "missed page": missing_last_page(_solve_party, "payments", "list_transactions"),
        "repeated": repeating(_solve_party, "payments", "request_money"),
        "skipped": skipping(_solve_party, "payments", "request_money"),
    },
    tempting="widened set",
    gather=lambda api, p: pages(api, "payments", "list_transactions", direction="received", since=p["date"]),
)


# --- expense mails: amounts in messages, paid to people of two relationships


def _make_expenses(rng: Random, world: Draft) -> Parameters:
    relation, other = rng.sample(("coworker", "friend", "roommate"), 2)
    project, since = rng.choice(words.projects), day(rng.randrange(24, 32))
    inside, outside = world.related(relation, other), world.others(relation, other)
    senders = [rng.choice(world.related(relation)), rng.choice(world.related(other))]
    senders += [rng.choice(inside) for _ in range(3)] + [rng.choice(outside) for _ in range(7)]
    rng.shuffle(senders)
    dated = [(who, after(since, n)) for who, n in zip(senders, rng.sample(range(1, 24), 12), strict=True)]
    dated += [(rng.choice(inside), since), (rng.choice(inside), after(since, -3))]
    amounts = rng.sample(range(1200, 9000, 5), len(dated))
    for (who, when), amount in zip(dated, amounts, strict=True):
        body = (
            f"Hello, here is what I spent on {project}. Parking was {money(rng, 2, 9) / 100:.2f}, the rest went "
            f"into material and food. All of it together: {amount / 100:.2f}. I have kept the receipts in case "
            "that you want to see them. Thanks!"
        )
        world.mail(who, f"Expenses {project}", body, when)
    return {"relation": relation, "other_relation": other, "project": project, "since": since}


def _solve_expenses(api: Api, p: Parameters, restricted: bool = True, label: str = "together:") -> None:
    """Without `restricted` every sender is paid; `label` is what the figure to pay stands after."""
    messages = pages(api, "mail", "list_messages", query=f"Expenses {p['project']}", since=p["since"])
    inside = members(api, p["relation"], p["other_relation"])
    due: list[tuple[str, int]] = []
    for message in messages:
        if message["sender"] in inside or not restricted:
            body = api.call("mail", "read_message", message_id=message["id"])["body"]
            due.append((message["sender"], amount_after(label, body)))
    for email, amount in due:
        api.call("payments", "send_money", email=email, amount=amount / 100, note=p["project"])


def _expect_expenses(tables: Tables, p: Parameters) -> Expected:
    inside = related_emails(tables, p["relation"], p["other_relation"])
    mails = rows(tables, "messages", folder="inbox", subject=f"Expenses {p['project']}")
    wanted = [m for m in mails if m["sender"] in inside and m["date"] >= p["since"]]
    return Expected(
        changes=tuple(payment_change(m["sender"], amount_after("together:", m["body"]), p["project"]) for m in wanted)
    )


EXPENSE_MAILS = Family(
    "expense_mails",
    ("mail", "contacts", "payments"),
    _make_expenses,
    _solve_expenses,
    _expect_expenses,
    {
        "widened set": partial(_solve_expenses, restricted=False),
        "wrong figure": partial(_solve_expenses, label="Parking was"),
        "date ignored": dropping(_solve_expenses, "mail", "list_messages", "since"),
        "missed page": missing_last_page(_solve_expenses, "mail", "list_messages"),
        "repeated": repeating(_solve_expenses, "payments", "send_money"),
    },
    tempting="widened set",
    gather=lambda api, p: pages(api, "contacts", "list_contacts", relationship=p["relation"]),
)

# --- agenda: guests of a meeting, without those who have declined, get the text of a file


def _make_agenda(rng: Random, world: Draft) -> Parameters:
    title, date = rng.choice(words.meetings), day(-rng.randrange(3, 13))
    later, latest = after(date, 28), after(date, 56)
    guests = rng.sample(world.people, 8)
    invited = ",".join(g.email for g in guests)
    for when in (date, later, latest):
        world.plan(title, when, "14:00", "15:30", rng.choice(words.places), invited)
    replies = [(g, "Accepted") for g in guests[:4]] + [(g, "Declined") for g in guests[4:6]]
    rng.shuffle(replies)
    replies.append((guests[6], "Declined"))  # the oldest of all, so on the last page
    answered = [(*reply, date, ago) for reply, ago in zip(replies, sorted(rng.sample(range(9, 30), 7)), strict=True)]
    # two who come this time have declined for the next one
    verdicts = zip(guests[:6], rng.sample(("Declined", "Accepted") * 2, 4) + ["Accepted"] * 2, strict=True)
    answered += [(guest, verdict, later, rng.randrange(1, 9)) for guest, verdict in verdicts]
    answered += [(guest, "Accepted", latest, rng.randrange(1, 9)) for guest in guests[:2]]
    for guest, verdict, when, ago in answered:
        body = f"{guest.name} has answered your invitation."
        world.mail(guest, f"{verdict}: {title} {when}", body, day(ago))
    points = rng.sample(words.agenda_points, 7)
    world.file("meetings", f"Agenda {title} draft.txt", "; ".join(points[:4]), day(9))
    world.file("meetings", f"Agenda {title} final.txt", "; ".join(points), day(2))
    return {"title": title, "date": date}


def _solve_agenda(api: Api, p: Parameters, of_date: bool = True, file: str = "final") -> None:
    """Without `of_date` a refusal of any date counts."""
    guests = guests_of(api, p["title"], p["date"])
    replies = pages(api, "mail", "list_messages", folder="inbox", query=p["title"])
    subject = f"Declined: {p['title']} {p['date'] if of_date else ''}"
    declined = {r["sender"] for r in replies if r["subject"].startswith(subject)}
    files = first_page(api, "files", "list_files", query=f"Agenda {p['title']}")
    wanted = pick(files, name=f"Agenda {p['title']} {file}.txt")
    body = api.call("files", "read_file", file_id=wanted["id"])["content"]
    for guest in guests:
        if guest not in declined:
            api.call("mail", "send_message", to=guest, subject=f"Agenda {p['title']}", body=body)


def _every_guest(api: Api, p: Parameters) -> None:
    event = pick(
        first_page(api, "calendar", "list_events", query=p["title"], since=p["date"], until=p["date"]), title=p["title"]
    )
    file = first_page(api, "files", "list_files", query=f"Agenda {p['title']} final")[0]
    body = api.call("files", "read_file", file_id=file["id"])["content"]
    for guest in api.call("calendar", "show_event", event_id=event["id"])["guests"]:
        api.call("mail", "send_message", to=guest, subject=f"Agenda {p['title']}", body=body)


def _expect_agenda(tables: Tables, p: Parameters) -> Expected:
    guests = rows(tables, "events", title=p["title"], date=p["date"])[0]["guests"].split(",")
    refusals = rows(tables, "messages", folder="inbox", subject=f"Declined: {p['title']} {p['date']}")
    declined = {m["sender"] for m in refusals}
    body = rows(tables, "files", name=f"Agenda {p['title']} final.txt")[0]["content"]
    fixed = {"folder": "sent", "subject": f"Agenda {p['title']}", "body": body}
    changes = [Change("messages", "added", {"recipient": g, **fixed}) for g in guests if g not in declined]
    return Expected(changes=tuple(changes))


SEND_AGENDA = Family(
    "send_agenda",
    ("calendar", "mail", "files"),
    _make_agenda,
    _solve_agenda,
    _expect_agenda,
    {
        "widened set": _every_guest,
        "missed page": missing_last_page(_solve_agenda, "mail", "list_messages"),
        "date ignored": partial(_solve_agenda, of_date=False),
        "wrong record": partial(_solve_agenda, file="draft"),
        "repeated": repeating(_solve_agenda, "mail", "send_message"),
    },
    tempting="widened set",
    gather=lambda api, p: pages(api, "mail", "list_messages", folder="inbox", query=p["title"]),
)

# --- club dues: what some of the members still owe, from a file, the contacts and the payments

_DUE = re.compile(r"- (.+?): (\d+\.\d\d)")


def _make_dues(rng: Random, world: Draft) -> Parameters:
    relation = rng.choice(("coworker", "friend"))
    club, since = rng.choice(words.clubs), quiet_day(world, rng.randrange(14, 18))
    inside = rng.sample(world.related(relation), 3)
    outside = rng.sample(world.others(relation), 5)
    members = [*inside, *outside]
    dues = {m.name: rng.randrange(80, 140) * 50 for m in members}
    shuffled = rng.sample(members, len(members))
    lines = [f"- {m.name}: {dues[m.name] / 100:.2f}" for m in shuffled]
    world.file("notes", f"{club} dues.txt", "\n".join([f"{club}, dues this season", *lines]), since)
    world.pay("received", inside[0], 2000 + rng.randrange(40) * 25, since, club)
    world.pay("received", inside[1], dues[inside[1].name], after(since, 13), club)
    world.pay("received", inside[2], 1500 + rng.randrange(40) * 25, after(since, -8), club)
    world.pay("received", outside[0], dues[outside[0].name], after(since, 6), club)
    return {"club": club, "relation": relation, "since": since}


def _solve_dues(api: Api, p: Parameters, payments: bool = True) -> str:
    """Without `payments` the dues alone."""
    file = first_page(api, "files", "list_files", query=f"{p['club']} dues")[0]
    dues = _DUE.findall(api.call("files", "read_file", file_id=file["id"])["content"])
    contacts = pages(api, "contacts", "list_contacts", relationship=p["relation"])
    addresses = {c["name"]: c["email"] for c in contacts}
    owed = {addresses[name]: cents(float(due)) for name, due in dues if name in addresses}
    received = pages(api, "payments", "list_transactions", direction="received", since=p["since"])
    paid = [r for r in received if r["note"] == p["club"] and r["email"] in owed] if payments else []
    return in_dollars(sum(owed.values()) - sum(cents(r["amount"]) for r in paid))


def _expect_dues(tables: Tables, p: Parameters) -> Expected:
    listed = _DUE.findall(rows(tables, "files", name=f"{p['club']} dues.txt")[0]["content"])
    people = {r["name"]: r["email"] for r in rows(tables, "contacts", relationship=p["relation"])}
    owed = {people[name]: cents(float(due)) for name, due in listed if name in people}
    payments = rows(tables, "transactions", direction="received", note=p["club"])
    paid = [r["cents"] for r in payments if r["date"] >= p["since"] and r["email"] in owed]
    return Expected(Answer("money", in_dollars(sum(owed.values()) - sum(paid))))


CLUB_DUES = Family(
    "club_dues",
    ("files", "contacts", "payments"),
    _make_dues,
    _solve_dues,
    _expect_dues,
    {
        "unrestricted": dropping(_solve_dues, "contacts", "list_contacts", "relationship"),
        "missed page": missing_last_page(_solve_dues, "payments", "list_transactions"),
        "date ignored": dropping(_solve_dues, "payments", "list_transactions", "since"),
        "condition ignored": partial(_solve_dues, payments=False),
    },
    tempting="unrestricted",
    gather=lambda api, p: pages(api, "contacts", "list_contacts", relationship=p["relation"]),
)
