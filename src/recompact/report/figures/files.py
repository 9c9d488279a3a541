"""Figures as bytes: SVG for files and for pages, PNG; the same bytes each time.

Comes in: a figure. Goes out: text or bytes, or files. An inline SVG is meant to stand in an HTML page: it takes its ink
and font from there, styles nothing but itself, and shares no id with its neighbours.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recompact.errors import InputError
from recompact.report.figures.drawn import Figure, needed
from recompact.report.figures.style import INK, shown, styled
from recompact.report.tables import as_csv

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

FORMATS = ("svg", "png", "csv")
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"


def svg(figure: Figure, inline: bool = False) -> str:
    """The figure as SVG: a whole document, or with `inline` one element for an HTML page."""
    needed()
    import matplotlib

    out = io.StringIO()
    # The salt makes the names of markers and clip paths; without one they are drawn by chance.
    with styled(), matplotlib.rc_context({"svg.hashsalt": figure.name}):
        paper = "none" if inline else "auto"
        figure.drawing.savefig(out, format="svg", facecolor=paper, metadata={"Date": None, "Creator": "Recompact"})
    return _inline(out.getvalue(), figure) if inline else out.getvalue()


def png(figure: Figure, dpi: int = 200) -> bytes:
    """The figure as PNG, on white."""
    out = io.BytesIO()
    with styled():
        figure.drawing.savefig(out, format="png", dpi=dpi, metadata={"Software": None})
    return out.getvalue()


def save(figures: Iterable[Figure], directory: Path, formats: Sequence[str] = ("svg", "png")) -> list[Path]:
    """Write figures into a directory, one file for each format; `csv` is the numbers in them."""
    if unknown := [form for form in formats if form not in FORMATS]:
        raise InputError(f"{unknown[0]!r} is no format of a figure: choose from {', '.join(FORMATS)}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        written = []
        for figure in figures:
            for form in formats:
                if form == "csv" and figure.data is None:
                    continue
                path = directory / f"{slug(figure.name)}.{form}"
                path.write_bytes(_bytes(figure, form))
                written.append(path)
        return written
    except OSError as error:
        raise InputError(f"figures cannot be written to {directory}: {error}") from None


def slug(name: str) -> str:
    """A name that can stand in a file name and in an id.

    >>> slug("../a b/c.d")
    'a-b-c.d'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "figure"


def _bytes(figure: Figure, form: str) -> bytes:
    if form == "png":
        return png(figure)
    if form == "csv" and figure.data is not None:
        return as_csv(figure.data).encode("utf-8", "replace")
    return svg(figure).encode()


def _inline(text: str, figure: Figure) -> str:
    from xml.etree import ElementTree

    ElementTree.register_namespace("", _SVG.strip("{}"))
    root = ElementTree.fromstring(text)
    for parent in root.iter():
        for child in [c for c in parent if c.tag in (f"{_SVG}metadata", f"{_SVG}style")]:
            parent.remove(child)  # a <style> here would hold for the whole page
    for element in root.iter():
        _own_attributes(element, slug(figure.name))
    for name in ("height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"width": "100%", "role": "img", "aria-label": shown(figure.title, 200)}
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}  # what the <style> said
    return ElementTree.tostring(root, encoding="unicode")


def _own_attributes(element: Element, prefix: str) -> None:
    """Ids of its own, and attributes instead of styles, which a page may forbid."""
    if style := element.attrib.pop("style", ""):
        element.attrib |= _presentation(style)
    if _LINK in element.attrib:
        element.attrib["href"] = element.attrib.pop(_LINK)
    for name, value in element.attrib.items():
        if name == "id":
            element.attrib[name] = f"{prefix}-{value}"
        elif name == "href":
            element.attrib[name] = re.sub(r"^#", f"#{prefix}-", value)
        elif "url(#" in value:
            element.attrib[name] = value.replace("url(#", f"url(#{prefix}-")
        elif value.lower() == INK:
            element.attrib[name] = "currentColor"
    if element.tag == f"{_SVG}text" and "fill" not in element.attrib:
        element.attrib["fill"] = "currentColor"


def _presentation(style: str) -> dict[str, str]:
    """A style as attributes. The font's family is left to the page."""
    found: dict[str, str] = {}
    for name, value in (entry.split(":", 1) for entry in style.split(";") if ":" in entry):
        key, said = name.strip(), value.strip()
        if key != "font":
            found |= {key: said} if key != "font-family" else {}
            continue
        if size := re.search(r"[\d.]+px", said):
            found["font-size"] = size[0]
            found |= {"font-weight": "bold"} if re.search(r"\b(bold|[6-9]00)\b", said[: size.start()]) else {}
            found |= {"font-style": "italic"} if "italic" in said[: size.start()] else {}
    return found
