"""From an assessment to a page, in the style of the report: its style sheet, its strict content policy."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from recompact.audit import words
from recompact.audit.masking import safe, safe_line
from recompact.audit.scoring import Assessment
from recompact.errors import InputError
from recompact.texts import visible
from recompact.version import __version__

SUMMARY = 16_000  # characters of a summary that are shown
LISTED = 200  # compactions in the list


def render(assessment: Assessment, *, top: int = 10, date: str = "") -> str:
    """The page as text."""
    style = (files("recompact.report.html") / "page.css").read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    worst = assessment.scored[:top] or assessment.ranked[:top]
    return (
        _environment()
        .get_template("audit.html.jinja")
        .render(
            assessment=assessment,
            worst=worst,
            listed=assessment.ranked[:LISTED],
            unlisted=max(len(assessment.ranked) - LISTED, 0),
            style=Markup(style),
            policy=policy,
            version=__version__,
            date=date,
        )
    )


def write(assessment: Assessment, path: Path, *, top: int = 10, date: str = "") -> int:
    """Write the page, whole or not at all, and say how many bytes it has."""
    check_name(path)
    data = render(assessment, top=top, date=date).encode("utf-8")
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}): give another --out") from None
    return len(data)


def check_name(path: Path) -> None:
    """Refuse a name that is no page's: a transcript must not be written over by mistake."""
    if path.suffix not in (".html", ".htm"):
        raise InputError(f"{path} is no name for a page: give --out a name that ends with .html")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("recompact.audit.html", "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
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
    environment.globals.update(words=words, counted=words.counted)
    return environment


def _shown(value: Any) -> Any:
    """What every expression of the template goes through before it is escaped."""
    return value if isinstance(value, Markup) else "" if value is None else visible(str(value))
