"""The easy families: one app besides documentation and account, four to eight calls.

Three are a look-up and an answer, which a small language model can do; one adds up two pages; one changes something.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from recompact.suites.pocket.database import Tables
from recompact.suites.pocket.families.family import (
    Family,
    amount_after,
    approval_changes,
    approve,
    pick,
    quiet_day,
    rows,
)
from recompact.suites.pocket.grader import Answer, Expected
from recompact.suites.pocket.plans import (
    Api,
    Parameters,
    Records,
    dropping,
    first_page,
    in_dollars,
    missing_last_page,
    pages,
    skipping,
    total,
)
from recompact.suites.pocket.world import Draft, after, day, money, words


def _next(values: Sequence[str], value: str) -> str:
    """Another one than was asked for."""
    return values[(values.index(value) + 1) % len(values)]


# --- contact detail: two people share a first name, the relationship tells them apart


_DETAILS = ("phone number", "email address")


def _make_contact(rng: Random, world: Draft) -> Parameters:
    firsts = [p.first for p in world.people]
    namesakes = [p for p in world.people if firsts.count(p.first) == 2]
    person = rng.choice(namesakes)
    field = rng.choice(_DETAILS)
    return {"field": field, "relation": person.relationship, "first": person.first}


def _namesakes(api: Api, p: Parameters) -> Records:
    return first_page(api, "contacts", "list_contacts", query=p["first"])


def _solve_contact(api: Api, p: Parameters) -> str:
    return str(pick(_namesakes(api, p), relationship=p["relation"])[p["field"].split()[0]])


def _expect_contact(tables: Tables, p: Parameters) -> Expected:
    match = next(
        row for row in rows(tables, "contacts", relationship=p["relation"]) if row["name"].startswith(p["first"] + " ")
    )
    phone = p["field"] == "phone number"
    return Expected(Answer("phone", match["phone"]) if phone else Answer("text", match["email"]))


CONTACT_DETAIL = Family(
    "contact_detail",
    ("contacts",),
    _make_contact,
    _solve_contact,
    _expect_contact,
    {
        "wrong record": lambda api, p: str(
            next(r for r in _namesakes(api, p) if r["relationship"] != p["relation"])[p["field"].split()[0]]
        ),
        "wrong figure": lambda api, p: _solve_contact(api, {**p, "field": _next(_DETAILS, p["field"])}),
        "own detail": lambda api, p: str(api.call("account", "show_profile")[p["field"].split()[0]]),
    },
    tempting="wrong record",
    gather=lambda api, p: first_page(api, "contacts", "list_contacts", relationship=p["relation"]),
)

# --- event time: the title comes back every week, at other times


def _make_event(rng: Random, world: Draft) -> Parameters:
    by_title: dict[str, list[dict[str, str]]] = {}
    for event in sorted(world.events, key=lambda e: str(e["date"])):
        by_title.setdefault(event["title"], []).append(event)
    days = [e["date"] for e in world.events]
    middle = [e for series in by_title.values() for e in series[2:-2] if days.count(e["date"]) <= 3]
    event = rng.choice(middle)
    # minutes that no other event has, so that every other time is a wrong one
    event["start"] = f"{event['start'][:2]}:{rng.choice(('05', '20', '40'))}"
    world.plan(f"Breakfast with {rng.choice(world.people).first}", event["date"], "07:10", "08:10", "Old Harbor")
    return {"title": event["title"], "date": event["date"]}


def _on_day(api: Api, p: Parameters) -> Records:
    return first_page(api, "calendar", "list_events", since=p["date"], until=p["date"])


def _solve_event(api: Api, p: Parameters) -> str:
    return str(pick(_on_day(api, p), title=p["title"])["start"])


def _expect_event(tables: Tables, p: Parameters) -> Expected:
    return Expected(Answer("time", rows(tables, "events", title=p["title"], date=p["date"])[0]["start"]))


EVENT_TIME = Family(
    "event_time",
    ("calendar",),
    _make_event,
    _solve_event,
    _expect_event,
    {
        "wrong figure": lambda api, p: str(pick(_on_day(api, p), title=p["title"])["end"]),
        "date ignored": lambda api, p: str(first_page(api, "calendar", "list_events", query=p["title"])[0]["start"]),
        "wrong record": lambda api, p: str(_on_day(api, p)[0]["start"]),
    },
    gather=lambda api, p: first_page(api, "calendar", "list_events", query=p["title"]),
)

# --- bill total: several figures in the file, several files of nearly the same name


def _make_bill(rng: Random, world: Draft) -> Parameters:
    totals = [amount_after("Total due:", f["content"]) for f in world.files if f["folder"] == "bills"]
    while True:
        p = {"utility": rng.choice(words.utilities), "month": rng.choice(words.months[:5])}
        name = _bill_query(p)
        content = next(f["content"] for f in world.files if f["name"].lower() == f"{name}.txt".lower())
        if totals.count(amount_after("Total due:", content)) == 1:
            return p


def _bill_query(p: Parameters) -> str:
    return f"{p['utility']} bill {p['month']} 2025"


def _bill_text(api: Api, p: Parameters) -> str:
    file = first_page(api, "files", "list_files", query=_bill_query(p))[0]
    return str(api.call("files", "read_file", file_id=file["id"])["content"])


def _solve_bill(api: Api, p: Parameters) -> str:
    return in_dollars(amount_after("Total due:", _bill_text(api, p)))


def _expect_bill(tables: Tables, p: Parameters) -> Expected:
    name = f"{p['utility'].capitalize()} bill {p['month']} 2025.txt"
    return Expected(
        Answer("money", in_dollars(amount_after("Total due:", rows(tables, "files", name=name)[0]["content"])))
    )


BILL_TOTAL = Family(
    "bill_total",
    ("files",),
    _make_bill,
    _solve_bill,
    _expect_bill,
    {
        "wrong figure": lambda api, p: in_dollars(amount_after("Usage:", _bill_text(api, p))),
        "wrong record": lambda api, p: _solve_bill(api, {**p, "month": _next(words.months[:5], p["month"])}),
        "wrong utility": lambda api, p: _solve_bill(api, {**p, "utility": _next(words.utilities, p["utility"])}),
    },
    gather=lambda api, p: first_page(api, "files", "list_files", query=f"bill {p['month']} 2025"),
)

# --- received since: two pages to add up


def _make_received(rng: Random, world: Draft) -> Parameters:
    since = quiet_day(world, rng.randrange(7, 11))
    world.pay("received", rng.choice(world.people), money(rng), since, "taxi")
    world.pay("sent", rng.choice(world.people), money(rng), after(since, 1), "taxi")
    return {"since": since}


def _solve_received(api: Api, p: Parameters) -> str:
    return total(pages(api, "payments", "list_transactions", direction="received", since=p["since"]))


def _expect_received(tables: Tables, p: Parameters) -> Expected:
    received = rows(tables, "transactions", direction="received")
    return Expected(Answer("money", in_dollars(sum(r["cents"] for r in received if r["date"] >= p["since"]))))


_TRANSACTIONS = ("payments", "list_transactions")
RECEIVED_SINCE = Family(
    "received_since",
    ("payments",),
    _make_received,
    _solve_received,
    _expect_received,
    {
        "missed page": missing_last_page(_solve_received, *_TRANSACTIONS),
        "date ignored": dropping(_solve_received, *_TRANSACTIONS, "since"),
        "condition ignored": dropping(_solve_received, *_TRANSACTIONS, "direction"),
    },
    tempting="condition ignored",
)

# --- pay one request: the same person asks twice, the same note comes from two people


def _make_request(rng: Random, world: Draft) -> Parameters:
    person, other, third = rng.sample(world.people, 3)
    note, second, extra = rng.sample(words.request_notes, 3)
    asked = [(person, note), (person, second), (other, note), (third, extra)]
    for (who, what), ago in zip(asked, rng.sample(range(1, 30), 4), strict=True):
        world.ask(who, money(rng), day(ago), what)
    return {"name": person.name, "note": note}


def _pending(api: Api) -> Records:
    return first_page(api, "payments", "list_requests", direction="incoming", status="pending")


def _solve_request(api: Api, p: Parameters) -> None:
    approve(api, [pick(_pending(api), name=p["name"], note=p["note"])])


def _pay_twice(api: Api, p: Parameters) -> None:
    request = pick(_pending(api), name=p["name"], note=p["note"])
    approve(api, [request])
    api.call("payments", "send_money", email=request["email"], amount=request["amount"], note=request["note"])


def _expect_request(tables: Tables, p: Parameters) -> Expected:
    request = rows(tables, "requests", name=p["name"], note=p["note"], status="pending")[0]
    return Expected(changes=approval_changes(request))


APPROVE_ONE = Family(
    "approve_one",
    ("payments",),
    _make_request,
    _solve_request,
    _expect_request,
    {
        "widened set": lambda api, p: approve(api, _pending(api)),
        "wrong record": lambda api, p: approve(
            api, [next(r for r in _pending(api) if r["name"] == p["name"] and r["note"] != p["note"])]
        ),
        "repeated": _pay_twice,
        "skipped": skipping(_solve_request, "payments", "approve_request"),
    },
    tempting="widened set",
    gather=lambda api, p: first_page(api, "payments", "find_user", query=p["name"]),
)
