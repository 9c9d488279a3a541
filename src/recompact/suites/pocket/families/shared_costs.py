"""Hard families about costs that the owner shares with others: three apps, three logins, a request for each person."""

from __future__ import annotations

from functools import partial
from random import Random

from recompact.suites.pocket import vocabulary as words
from recompact.suites.pocket.database import Tables
from recompact.suites.pocket.families.common import (
    amount_after,
    emails,
    pick,
    quiet_day,
    related_emails,
    request_change,
    rows,
)
from recompact.suites.pocket.families.family import Family
from recompact.suites.pocket.grader import Expected
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
from recompact.suites.pocket.world import Draft, after, day, money

# --- split bills (the paper's case B): read bills, find the roommates, ask each for a share of each bill


def _make_bills(rng: Random, world: Draft) -> Parameters:
    first, second, third = rng.sample(words.UTILITIES, 3)
    month = rng.choice(words.MONTHS[1:5])
    roommates = world.related("roommate")
    already_asked = rng.sample(roommates, 2)
    for roommate, utility, ago in ((already_asked[0], second, 130), (already_asked[1], third, 12)):
        content = next(f["content"] for f in world.files if f["name"] == _bill_name(utility, month))
        share = round(amount_after("Total due:", content) / (len(roommates) + 1))
        world.ask(roommate, share, day(ago), f"{utility} {month}", "outgoing")  # the older one on the last page
    before = words.MONTHS[words.MONTHS.index(month) - 1]
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


def _month_before(api: Api, p: Parameters) -> None:
    _solve_bills(api, {**p, "month": words.MONTHS[words.MONTHS.index(p["month"]) - 1]})


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
    "hard",
    ("files", "contacts", "payments"),
    (
        "Split my {first}, {second} and {third} bills for {month} 2025 equally among me and my roommates. Ask each "
        "roommate on payments for their share of each bill, rounded to the nearest cent, one request per bill with "
        'a note like "{first} {month}". The bills are in my files. I have sent some of these requests already: do '
        "not ask anybody twice for the same bill.",
        "My roommates and I share the {first}, {second} and {third} bills for {month} 2025 equally (see my files). "
        "Please request from each roommate their share of each bill: one request per bill, to the nearest cent, "
        'with a note like "{first} {month}". Leave out what I have requested before (same person, same note).',
    ),
    _make_bills,
    _solve_bills,
    _expect_bills,
    {
        "condition ignored": partial(_solve_bills, again=True),
        "missed page": missing_last_page(_solve_bills, "payments", "list_requests"),
        "wrong share": partial(_solve_bills, payers=0),
        "wrong rounding": partial(_solve_bills, unit=100),
        "wrong record": _month_before,
        "repeated": repeating(_solve_bills, "payments", "request_money"),
        "widened set": dropping(_solve_bills, "contacts", "list_contacts", "relationship"),
    },
    tempting="widened set",
    gather=lambda api, _: pages(api, "contacts", "list_contacts", relationship="roommate"),
)

# --- party shares: guests of an event, of two relationships, without those who have paid


def _make_party(rng: Random, world: Draft) -> Parameters:
    relation, other, third = rng.sample(("coworker", "friend", "roommate"), 3)
    date, title, amount = quiet_day(world, rng.randrange(13, 17)), rng.choice(words.PARTIES), money(rng, 9, 40)
    inside = [*rng.sample(world.related(relation), 2), *rng.sample(world.related(other), 2)]
    inside += rng.sample([p for p in world.related(relation, other) if p not in inside], 1)
    outside = [rng.choice(world.related(third)), rng.choice(world.related("sibling", "parent"))]
    guests = [*inside, *outside]
    rng.shuffle(guests)
    world.plan(title, date, "19:00", "22:30", rng.choice(words.PLACES), ",".join(g.email for g in guests))
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
    event = pick(
        first_page(api, "calendar", "list_events", query=p["title"], since=p["date"], until=p["date"]), title=p["title"]
    )
    guests = api.call("calendar", "show_event", event_id=event["id"])["guests"]
    members = emails(pages(api, "contacts", "list_contacts", relationship=p["relation"]))
    members |= emails(pages(api, "contacts", "list_contacts", relationship=p["other_relation"]))
    received = pages(api, "payments", "list_transactions", direction="received", since=p["date"])
    paid = emails(r for r in received if r["note"] == p["title"]) if settled else set()
    for guest in guests:
        if (guest in members or not restricted) and guest not in paid:
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
    "hard",
    ("calendar", "contacts", "payments"),
    (
        "I paid for everybody at the {title} on {date}. Request ${amount} from each guest in the calendar who is a "
        '{relation} or a {other_relation} of mine, with the note "{title}". Leave out those who have already sent '
        'me money with the note "{title}" since that day.',
        "Please collect money for the {title} on {date}: ${amount} from every guest who is my {relation} or my "
        '{other_relation}, requested on payments with the note "{title}". Whoever has sent me money with that note '
        "since that day has paid and must not be asked.",
    ),
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
