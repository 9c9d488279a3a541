"""A world before anything happens in it: the owner, about a dozen people, and the records of half a year.

A world is drafted from a seed. A task family adds the records that its task is about, and `pristine_rows` gives the
rows of the database. The same seed always gives the same world.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from random import Random
from types import SimpleNamespace
from typing import Any

from recompact.suites.pocket.apps.account import LOGINS
from recompact.suites.pocket.database import COLUMNS, PREFIXES

TODAY = "2025-06-16"
DOMAIN = "post.example"
Fields = dict[str, Any]

_WORDS = files("recompact.suites.pocket") / "vocabulary.toml"
words = SimpleNamespace(**tomllib.loads(_WORDS.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Person:
    name: str
    email: str
    phone: str
    relationship: str = ""

    @property
    def first(self) -> str:
        return self.name.split()[0]


@dataclass(frozen=True)
class Draft:
    """A world that can still be added to. Records are the columns of their table without the id."""

    seed: str
    owner: Person
    people: tuple[Person, ...]
    strangers: tuple[Person, ...]
    passwords: Mapping[str, str]
    transactions: list[Fields] = field(default_factory=list)
    requests: list[Fields] = field(default_factory=list)
    events: list[Fields] = field(default_factory=list)
    messages: list[Fields] = field(default_factory=list)
    files: list[Fields] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)  # of the task's own

    def related(self, *relationships: str) -> list[Person]:
        return [p for p in self.people if p.relationship in relationships]

    def others(self, *relationships: str) -> list[Person]:
        return [p for p in self.people if p.relationship not in relationships]

    def pay(self, direction: str, person: Person, cents: int, day: str, note: str) -> None:
        fields = {"direction": direction, "name": person.name, "email": person.email}
        self.transactions.append(fields | {"cents": cents, "date": day, "note": note})

    def ask(
        self,
        person: Person,
        cents: int,
        day: str,
        note: str,
        direction: str = "incoming",
        status: str = "pending",
    ) -> None:
        """Somebody asks the owner for money; outgoing: the owner asks them."""
        fields = {"direction": direction, "name": person.name, "email": person.email, "status": status}
        self.requests.append(fields | {"cents": cents, "date": day, "note": note})

    def plan(self, title: str, day: str, start: str, end: str, place: str, guests: str = "") -> None:
        fields = {"title": title, "date": day, "start": start, "end": end, "place": place}
        self.events.append(fields | {"guests": guests})

    def mail(self, sender: Person, subject: str, body: str, day: str) -> None:
        """Somebody writes to the owner."""
        fields = {"folder": "inbox", "sender": sender.email, "recipient": self.owner.email}
        self.messages.append(fields | {"subject": subject, "body": body, "date": day})

    def file(self, folder: str, name: str, content: str, day: str) -> None:
        self.files.append({"folder": folder, "name": name, "content": content, "modified": day})


@cache
def day(ago: int) -> str:
    """The day that many days before today; negative for days after it."""
    return (date.fromisoformat(TODAY) - timedelta(days=ago)).isoformat()


def after(start: str, days: int) -> str:
    return (date.fromisoformat(start) + timedelta(days=days)).isoformat()


def draft(seed: str) -> Draft:
    """The world of a seed, as far as every task shares it."""
    rng = Random(f"pocket/world/{seed}")
    owner, people = _people(rng)
    strangers = tuple(
        Person(name, f"{name.lower().replace(' ', '.')}@shop.example", _phone(rng)) for name in words.strangers
    )
    passwords = {app: f"{rng.choice('bcdfgkmprst')}{rng.randrange(16**5):05x}" for app in LOGINS}
    world = Draft(seed, owner, people, strangers, passwords)
    _add_payments(rng, world)
    _add_events(rng, world)
    _add_mail(rng, world)
    _add_files(rng, world)
    return world


def _people(rng: Random) -> tuple[Person, tuple[Person, ...]]:
    """The owner and the contacts. Two contacts of different relationships share their first name."""
    numbers = {
        "coworker": rng.choice((3, 4)),
        "friend": 3,
        "roommate": rng.choice((2, 3)),
        "sibling": rng.choice((1, 2)),
        "parent": rng.choice((1, 2)),
    }
    relationships = [name for name, number in numbers.items() for _ in range(number)]
    firsts = rng.sample(words.first_names, len(relationships) + 1)
    lasts = rng.sample(words.last_names, len(relationships) + 1)
    double, original = len(relationships) - 1, rng.randrange(numbers["coworker"] + numbers["friend"])
    firsts[double] = firsts[original]
    persons = [_person(rng, *parts) for parts in zip(firsts, lasts, [*relationships, ""], strict=True)]
    people = persons[:-1]
    rng.shuffle(people)
    return persons[-1], tuple(people)


def _person(rng: Random, first: str, last: str, relationship: str) -> Person:
    return Person(f"{first} {last}", f"{first}.{last}@{DOMAIN}".lower(), _phone(rng), relationship)


def _phone(rng: Random) -> str:
    return f"555-{rng.randrange(200, 999)}-{rng.randrange(1000, 9999)}"


def money(rng: Random, low: int = 4, high: int = 80) -> int:
    """An amount in cents that is rarely a whole number of dollars."""
    return int((low + rng.random() * (high - low)) * 20) * 5 + int(rng.random() * 3)


def _add_payments(rng: Random, world: Draft) -> None:
    counterparties = (*world.people, *world.people, *world.strangers)
    for _ in range(52):
        world.pay("received", rng.choice(counterparties), money(rng), day(rng.randrange(1, 165)), _note(rng))
    for _ in range(34):
        world.pay("sent", rng.choice(counterparties), money(rng), day(rng.randrange(1, 165)), _note(rng))
    for _ in range(8):
        status = rng.choice(("approved", "declined"))
        world.ask(rng.choice(counterparties), money(rng), day(rng.randrange(40, 165)), _note(rng), status=status)
    for _ in range(18):
        status, who = rng.choice(("approved", "pending")), rng.choice(world.people)
        world.ask(who, money(rng), day(rng.randrange(3, 120)), _note(rng), "outgoing", status)


def _note(rng: Random) -> str:
    return str(rng.choice(words.payment_notes))


def _add_events(rng: Random, world: Draft) -> None:
    """Weekly events at changing times, from two months ago to six weeks ahead, at most two on a day."""
    for title, offset in zip(words.weekly_events, rng.sample((*range(7), *range(7)), 5), strict=True):
        hour = rng.randrange(9, 19)
        for week in range(15):
            start = f"{hour + rng.choice((0, 1)):02d}:{rng.choice((0, 15, 30, 45)):02d}"
            end = f"{hour + 2:02d}:{rng.choice((15, 30, 50)):02d}"
            world.plan(title, day(60 - 7 * week - offset), start, end, rng.choice(words.places))


def _add_mail(rng: Random, world: Draft) -> None:
    correspondents = (*world.people, *world.people, *world.strangers)
    for _ in range(52):
        subject, body = rng.choice(words.topics)
        world.mail(rng.choice(correspondents), subject, body, day(rng.randrange(1, 120)))
    for _ in range(10):
        subject, body = rng.choice(words.topics)
        fields = {"folder": "sent", "sender": world.owner.email, "recipient": rng.choice(world.people).email}
        world.messages.append(fields | {"subject": subject, "body": body, "date": day(rng.randrange(1, 120))})


def _add_files(rng: Random, world: Draft) -> None:
    for utility, provider in zip(words.utilities, words.providers, strict=True):
        for number, month in enumerate(words.months[:5], start=1):
            name = f"{utility.capitalize()} bill {month} 2025.txt"
            world.file("bills", name, _bill(rng, provider, month), f"2025-{number:02d}-27")
    for title in words.notes:
        text = f"{title}: {', '.join(rng.sample(words.payment_notes, 4))}"
        world.file("notes", f"{title}.txt", text, day(rng.randrange(1, 120)))


def _bill(rng: Random, provider: str, month: str) -> str:
    """A bill with several figures. Its total never splits evenly among three or four, nor at half a cent."""
    total, fees = 0, money(rng, 3, 12)
    while not all(round(total / n) % 100 for n in (3, 4)):
        total = 6 * rng.randrange(700, 2200) + rng.choice((1, 5))  # neither even nor a multiple of three
    usage = total - fees
    return "\n".join(
        (
            f"{provider} customer service, account {rng.randrange(10000, 99999)}",
            f"Your bill for {month} 2025",
            f"Balance of last month, paid in full: {money(rng, 30, 120) / 100:.2f}",
            f"Meter or line: {rng.randrange(1000, 9999)}, days in this period: {rng.randrange(28, 32)}",
            f"Usage: {usage / 100:.2f}",
            f"Fees: {fees / 100:.2f}",
            f"Total due: {total / 100:.2f}",
            "Please pay within 21 days of receiving this bill. Questions? Write to us, we answer in two days.",
        )
    )


def pristine_rows(world: Draft) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of the database. Ids are scattered, so that none can be guessed from another."""
    rng = Random(f"pocket/ids/{world.seed}")
    owner = {"name": world.owner.name, "email": world.owner.email, "phone": world.owner.phone}
    passwords = {f"password {app}": text for app, text in world.passwords.items()}
    settings = owner | passwords | {"seed": world.seed, "today": TODAY, "opening balance": "500000"} | world.settings
    contacts = [
        {
            "name": p.name,
            "email": p.email,
            "phone": p.phone,
            "relationship": p.relationship,
            "birthday": f"19{rng.randrange(60, 99)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}",
            "city": rng.choice(words.cities),
        }
        for p in world.people
    ]
    records = {
        "contacts": contacts,
        "transactions": world.transactions,
        "requests": world.requests,
        "events": world.events,
        "messages": world.messages,
        "files": world.files,
    }
    rows = {table: _number_records(rng, table, fields) for table, fields in records.items()}
    rows["directory"] = [(p.email, p.name) for p in (*world.people, *world.strangers)]
    rows["settings"] = list(settings.items())
    return rows


def _number_records(rng: Random, table: str, records: list[Fields]) -> list[tuple[Any, ...]]:
    numbers = rng.sample(range(1000, 9000), len(records))
    return [
        tuple(f"{PREFIXES[table]}{number}" if c == "id" else record[c] for c in COLUMNS[table])
        for number, record in zip(numbers, records, strict=True)
    ]
