"""What a compressor adds to a fact where its kind is demanded: all there is about it, which takes room from the rest.

The additions are what such a demand asks for in so many words. They follow the line that the fact stands in, so that
whoever reads the summary knows no more and no less by them; only the summary is longer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from recompact.simulation.notes import Event, conditions_in, write_call
from recompact.suites.pocket import Spec


def of_conditions(task: str) -> str:
    """The conditions one by one, and the request in its own words."""
    return f"- Conditions: {', '.join(conditions_in(task)) or 'as in the request'}. The request says: {task}"


def of_login(login: Event) -> str:
    return f"\n  obtained as {login.given.get('username')}, by {login.app} login"


def of_signature(spec: Spec) -> str:
    """What the documentation says about each parameter and the result."""
    parameters = "; ".join(f"{p.signature} ({p.description or 'as named'})" for p in spec.parameters)
    return f"\n  documented as: {spec.description} Takes {parameters}. Returns {spec.returns}"


def of_change(event: Event) -> str:
    return f"\n  returned {json.dumps(event.result, ensure_ascii=False)}"


def of_error(event: Event) -> str:
    return f"- {write_call(event.name, event.given)}: {event.error}"


def of_identifiers(pages: Sequence[dict[str, Any]]) -> str:
    """The ids and addresses of a list once more, by themselves."""
    rows = [row for page in pages for row in page["items"]]
    ids = [str(row[name]) for row in rows for name in ("id", "email") if name in row]
    return f"\n- identifiers: {', '.join(ids)}" if ids else ""


def of_pages(pages: Sequence[dict[str, Any]]) -> str:
    read = ", ".join(f"page {number} with {len(page['items'])} records" for number, page in enumerate(pages, 1))
    return f"\n- read so far: {read}; there are {pages[-1]['pages']} pages"


def of_open_work(goal: str) -> str:
    return f"\n- [ ] Not settled yet: {goal}"
