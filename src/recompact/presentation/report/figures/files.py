"""Figures as files and inline drawings: SVG, PNG and CSV, with the same bytes each time."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from recompact.errors import InputError
from recompact.presentation.report.figures.figure import Figure, require_matplotlib
from recompact.presentation.report.figures.inline import inline_drawing
from recompact.presentation.report.figures.style import drawing_style, short_label
from recompact.values.outputs import add_files
from recompact.values.tables import as_csv

FORMATS = ("svg", "png", "csv")
FIGURES = "figures"
"""What the manifest of a directory of figures calls it."""


def svg(figure: Figure, inline: bool = False) -> str:
    """The figure as SVG: a whole document, or with `inline` one element for an HTML page, whose ids begin with the
    figure's name."""
    require_matplotlib()
    import matplotlib

    out = io.StringIO()
    # The salt makes the names of markers and clip paths; without one they are random.
    with drawing_style(), matplotlib.rc_context({"svg.hashsalt": figure.name}):
        paper = "none" if inline else "auto"
        figure.drawing.savefig(out, format="svg", facecolor=paper, metadata={"Date": None, "Creator": "Recompact"})
    return (
        inline_drawing(out.getvalue(), slug(figure.name), short_label(figure.title, 200)) if inline else out.getvalue()
    )


def png(figure: Figure, dpi: int = 200) -> bytes:
    """The figure as PNG, on white."""
    out = io.BytesIO()
    with drawing_style():
        figure.drawing.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    return out.getvalue()


def save(figures: Iterable[Figure], directory: Path, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Write figures into a directory, one file for each format; `csv` is the numbers in them."""
    if unknown := [form for form in formats if form not in FORMATS]:
        raise InputError(f"{unknown[0]!r} is not a figure format: choose from {', '.join(FORMATS)}")
    files = {
        f"{slug(figure.name)}.{form}": _bytes(figure, form)
        for figure in figures
        for form in formats
        if form != "csv" or figure.data is not None
    }
    return add_files(directory, FIGURES, files)


def slug(name: str) -> str:
    """A name that can be used in a file name and in an id.

    >>> slug("../a b/c.d")
    'a-b-c.d'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "figure"


def _bytes(figure: Figure, form: str) -> bytes:
    if form == "png":
        return png(figure)
    if form == "csv" and figure.data is not None:
        return as_csv(figure.data() if callable(figure.data) else figure.data).encode("utf-8", "replace")
    return svg(figure).encode()
