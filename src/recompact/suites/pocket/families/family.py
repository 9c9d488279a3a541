"""What a task family is: a kind of request, how it is planted in a world, how it is done, and what counts as done.

A family writes its request in several phrasings with named gaps (`requests.toml`); the same texts, read backwards, give
the parameters again. So whoever has the request in front of them has all that a plan needs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from random import Random
from typing import Any, Literal

from recompact.suites.pocket.database import Row, Tables
from recompact.suites.pocket.grader import Change, Expected
from recompact.suites.pocket.plans import (
    Api,
    Parameters,
    Plan,
    Records,
    after_gathering,
    cents,
    first_page,
    in_pages_of,
    pages,
)
from recompact.suites.pocket.spec import PAGE_SIZE_MAX
from recompact.suites.pocket.world import Draft, after

Difficulty = Literal["easy", "medium", "hard"]
_DIFFICULTIES: tuple[Difficulty, ...] = ("easy", "medium", "hard")  # by the number of apps, from one

_REQUESTS = files("recompact.suites.pocket.families") / "requests.toml"
_PHRASINGS: Mapping[str, list[str]] = tomllib.loads(_REQUESTS.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Family:
    """A kind of task.

    `make` adds to the world what the task is about, so that every wrong plan gives a wrong result, and returns the
    parameters. `expect` works out from the untouched tables what must have happened, without calling any API.
    """

    name: str
    apps: tuple[str, ...]
    make: Callable[[Random, Draft], Parameters]
    solve: Plan
    expect: Callable[[Tables, Parameters], Expected]
    wrong: Mapping[str, Plan]
    tempting: str = ""  # the wrong way that takes an aggregate, or a wider set, for the restricted one
    gather: Callable[[Api, Parameters], object] | None = None  # reads that may just as well come first
    speaks: bool = False  # the owner can be spoken to, and has a standing rule

    def route(self, plan: Plan, other_order: bool = False, page_size: int = PAGE_SIZE_MAX) -> Plan:
        """The plan in another order, or with other pages: as good a way to the same end."""
        ordered = after_gathering(self.gather, plan) if other_order and self.gather else plan
        return ordered if page_size == PAGE_SIZE_MAX else in_pages_of(page_size, ordered)

    @property
    def difficulty(self) -> Difficulty:
        return _DIFFICULTIES[len(self.apps) - 1]

    @property
    def phrasings(self) -> list[str]:
        return _PHRASINGS[self.name]

    def instruction(self, parameters: Parameters, phrasing: int = 0) -> str:
        return self.phrasings[phrasing % len(self.phrasings)].format(**parameters)

    def parse(self, instruction: str) -> dict[str, str] | None:
        """The parameters of a request of this family."""
        for pattern in self._patterns:
            match = pattern.fullmatch(instruction.strip())
            if match:
                return match.groupdict()
        return None

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(_pattern(phrasing) for phrasing in self.phrasings)


_TEXT = r"[^\n]+?"
_SHAPES = {
    "date": r"\d{4}-\d\d-\d\d",
    "since": r"\d{4}-\d\d-\d\d",
    "until": r"\d{4}-\d\d-\d\d",
    "amount": r"\d+\.\d\d",
    "relation": r"[a-z]+",
    "other_relation": r"[a-z]+",
    "month": r"[A-Z][a-z]+",
}
"""What may stand in a gap of that name; any other gap takes any text within a line."""


def _pattern(phrasing: str) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", phrasing)
    seen: set[str] = set()
    pattern = ""
    for index, part in enumerate(parts):
        if index % 2 == 0:
            pattern += re.escape(part)
        elif part in seen:
            pattern += f"(?P={part})"
        else:
            seen.add(part)
            pattern += f"(?P<{part}>{_SHAPES.get(part, _TEXT)})"
    return re.compile(pattern)


def pick(records: Records, **conditions: Any) -> dict[str, Any]:
    """The first record with these values. A plan that finds none stops here with LookupError."""
    for record in records:
        if all(record[name] == value for name, value in conditions.items()):
            return record
    raise LookupError(f"no record with {conditions}")


def emails(records: Iterable[Row]) -> set[str]:
    return {record["email"] for record in records}


def members(api: Api, *relationships: str) -> set[str]:
    """The addresses of all contacts of these relationships."""
    lists = [pages(api, "contacts", "list_contacts", relationship=relationship) for relationship in relationships]
    return emails(contact for contacts in lists for contact in contacts)


def guests_of(api: Api, title: str, date: str) -> list[str]:
    """The addresses of the guests of an event."""
    events = first_page(api, "calendar", "list_events", query=title, since=date, until=date)
    guests: list[str] = api.call("calendar", "show_event", event_id=pick(events, title=title)["id"])["guests"]
    return guests


def approve(api: Api, requests: Records) -> None:
    for request in requests:
        api.call("payments", "approve_request", request_id=request["id"])


def amount_after(label: str, text: str) -> int:
    """The amount in cents that follows the label in a text."""
    match = re.search(rf"{re.escape(label)}\s*(\d+\.\d\d)", text)
    if match is None:
        raise LookupError(f"no amount after {label!r}")
    return cents(float(match[1]))


def rows(tables: Tables, table: str, **conditions: Any) -> list[Row]:
    """The rows of a table with these values."""
    return [row for row in tables[table].values() if all(row[name] == value for name, value in conditions.items())]


def related_emails(tables: Tables, *relationships: str) -> set[str]:
    return {row["email"] for row in tables["contacts"].values() if row["relationship"] in relationships}


def payment_change(email: str, amount: int, note: str | None = None) -> Change:
    """The trace of a payment. The note counts only where the task names one."""
    values = {"direction": "sent", "email": email, "cents": amount}
    return Change("transactions", "added", values if note is None else values | {"note": note})


def request_change(email: str, amount: int, note: str) -> Change:
    values = {"direction": "outgoing", "status": "pending", "email": email, "cents": amount, "note": note}
    return Change("requests", "added", values)


def approval_changes(request: Row) -> tuple[Change, Change]:
    """The traces of an approved request: its new status, and the payment."""
    approval = Change("requests", "updated", {"status": "approved"}, request["id"])
    return approval, payment_change(request["email"], request["cents"])


def quiet_day(world: Draft, newer: int) -> str:
    """A day on which no money came in, with about that many payments received after it.

    What is planted on this day stands alone at the end of the list of payments since then, so on its last page.
    """
    days = sorted((t["date"] for t in world.transactions if t["direction"] == "received"), reverse=True)
    for later, earlier in zip(days[newer - 1 :], days[newer:], strict=False):
        candidate = after(earlier, 1)
        if candidate < later:
            return candidate
    raise LookupError("no quiet day")
