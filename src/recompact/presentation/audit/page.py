"""An audit as one self-contained page, made as the report is: no script, no network, every text of a transcript masked
and escaped."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment
from markupsafe import Markup

from recompact.audit.scoring import Assessment
from recompact.audit.worth import recorded_worth, sentences
from recompact.presentation.audit import words
from recompact.presentation.report.html.page import page_environment, page_style
from recompact.values.masking import safe, safe_line
from recompact.values.outputs import content_policy
from recompact.version import __version__

SUMMARY = 16_000  # characters of a summary that are shown
LISTED = 200  # compactions in the list


def render(assessment: Assessment, *, top: int = 10, date: str = "") -> str:
    """The page as text."""
    style = page_style()
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
    environment = page_environment("recompact.presentation.audit")
    environment.filters.update(
        masked=safe_line,
        excerpt=lambda text: safe(text, 360),
        summary=lambda text: safe(text, SUMMARY),
        amount=words.amount,
        with_interval=words.interval,
    )
    environment.globals.update(words=words)
    return environment
