"""Hard families in which mail, files and contacts decide what is to be paid, sent or answered."""

from __future__ import annotations

import re
from functools import partial
from random import Random

from recompact.suites.pocket import vocabulary as words
from recompact.suites.pocket.database import Tables
from recompact.suites.pocket.families.common import (
    amount_after,
    emails,
    payment_change,
    pick,
    quiet_day,
    related_emails,
    rows,
)
from recompact.suites.pocket.families.family import Family
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
)
from recompact.suites.pocket.world import Draft, after, day, money

# --- expense mails: amounts in messages, paid to people of two relationships


def _make_expenses(rng: Random, world: Draft) -> Parameters:
    relation, other = rng.sample(("coworker", "friend", "roommate"), 2)
    project, since = rng.choice(words.PROJECTS), day(rng.randrange(24, 32))
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
    members = emails(pages(api, "contacts", "list_contacts", relationship=p["relation"]))
    members |= emails(pages(api, "contacts", "list_contacts", relationship=p["other_relation"]))
    due: list[tuple[str, int]] = []
    for message in messages:
        if message["sender"] in members or not restricted:
            body = api.call("mail", "read_message", message_id=message["id"])["body"]
            due.append((message["sender"], amount_after(label, body)))
    for email, amount in due:
        api.call("payments", "send_money", email=email, amount=amount / 100, note=p["project"])


def _expect_expenses(tables: Tables, p: Parameters) -> Expected:
    members = related_emails(tables, p["relation"], p["other_relation"])
    mails = rows(tables, "messages", folder="inbox", subject=f"Expenses {p['project']}")
    wanted = [m for m in mails if m["sender"] in members and m["date"] >= p["since"]]
    return Expected(
        changes=tuple(payment_change(m["sender"], amount_after("together:", m["body"]), p["project"]) for m in wanted)
    )


EXPENSE_MAILS = Family(
    "expense_mails",
    "hard",
    ("mail", "contacts", "payments"),
    (
        'People have mailed me their expenses under the subject "Expenses {project}". Pay back all that came since '
        "{since} (that day included) from my {relation}s and {other_relation}s: one payment per message, the sum "
        'that it gives for everything together, with the note "{project}".',
        'Please reimburse my {relation}s and {other_relation}s for the messages "Expenses {project}" in my inbox '
        "that are dated {since} or later. Send one payment per message over its sum for everything together, with "
        'the note "{project}".',
    ),
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
    title, date = rng.choice(words.MEETINGS), day(-rng.randrange(3, 13))
    later, latest = after(date, 28), after(date, 56)
    guests = rng.sample(world.people, 8)
    invited = ",".join(g.email for g in guests)
    for when in (date, later, latest):
        world.plan(title, when, "14:00", "15:30", rng.choice(words.PLACES), invited)
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
    points = rng.sample(words.AGENDA_POINTS, 7)
    world.file("meetings", f"Agenda {title} draft.txt", "; ".join(points[:4]), day(9))
    world.file("meetings", f"Agenda {title} final.txt", "; ".join(points), day(2))
    return {"title": title, "date": date}


def _solve_agenda(api: Api, p: Parameters, of_date: bool = True, file: str = "final") -> None:
    """Without `of_date` a refusal of any date counts."""
    event = pick(
        first_page(api, "calendar", "list_events", query=p["title"], since=p["date"], until=p["date"]), title=p["title"]
    )
    guests = api.call("calendar", "show_event", event_id=event["id"])["guests"]
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
    "hard",
    ("calendar", "mail", "files"),
    (
        "Mail the final agenda of the {title} meeting on {date} to each of its guests who has not declined for "
        'that date (the replies are in my inbox). The agenda is in my files. Use the subject "Agenda {title}" and '
        "exactly the text of the file as the message.",
        "The {title} meeting on {date} is in my calendar and its final agenda in my files. Please send the text of "
        'that file, under the subject "Agenda {title}", to every guest one by one, but not to those whose reply in '
        "my inbox says that they declined for that date.",
    ),
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
    club, since = rng.choice(words.CLUBS), quiet_day(world, rng.randrange(14, 18))
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
    "hard",
    ("files", "contacts", "payments"),
    (
        'My file "{club} dues" says what each member has to pay this season. How much do my {relation}s among them '
        'still owe in all? They pay me on payments with the note "{club}"; count what came since {since}, that day '
        "included.",
        'How much of the dues in my file "{club} dues" is still missing from my {relation}s, all together? What '
        'they have paid this season came to me on payments with the note "{club}", on {since} or later.',
    ),
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
