"""Turns an assessment into a page, in the style of the report: its style sheet, its strict content policy."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from recompact.audit import words
from recompact.audit.masking import safe, safe_line
from recompact.audit.scoring import Assessment
from recompact.audit.worth import recorded_worth, sentences
from recompact.values.outputs import content_policy
from recompact.values.texts import quantity, visible
from recompact.version import __version__

SUMMARY = 16_000  # characters of a summary that are shown
LISTED = 200  # compactions in the list


def render(assessment: Assessment, *, top: int = 10, date: str = "") -> str:
    """The page as text."""
    style = (files("recompact.presentation.report.html") / "page.css").read_text(encoding="utf-8")
    worst = assessment.scored[:top] or assessment.ranked[:top]
    latest = assessment.latest
    return (
        _environment()
        .get_template("audit.html.jinja")
        .render(
            assessment=assessment,
            worst=worst,
            latest=None if any(each is latest for each in worst) else latest,
            worth=sentences(recorded_worth()),
            listed=assessment.ranked[:LISTED],
            unlisted=max(len(assessment.ranked) - LISTED, 0),
            style=Markup(style),
            policy=content_policy(style),
            version=__version__,
            date=date,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("recompact.audit.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_show,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        safe=safe_line,
        excerpt=lambda text: safe(text, 360),
        summary=lambda text: safe(text, SUMMARY),
        amount=words.amount,
        interval=words.interval,
    )
    environment.globals.update(words=words, quantity=quantity)
    return environment


def _show(value: Any) -> Any:
    """What every expression of the template goes through before it is escaped."""
    return value if isinstance(value, Markup) else "" if value is None else visible(str(value))
