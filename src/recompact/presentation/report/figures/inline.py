"""Drawings for a page: one `<svg>` with nothing in it but shapes and text.

It takes its ink and font from the page, styles nothing but itself, shares no id with its neighbours, and has no style
sheets, scripts, foreign content or links that lead out of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from recompact.presentation.report.figures.style import INK

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SCALE = 1.5  # pixels per point of the drawing, so that its letters read well beside the page's
SVG = "http://www.w3.org/2000/svg"
XLINK = "{http://www.w3.org/1999/xlink}"
STRUCTURE = ("svg", "g", "defs", "symbol", "use", "title", "desc", "text", "tspan")
SHAPES = ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon")
PAINT = ("clipPath", "mask", "pattern", "marker", "linearGradient", "radialGradient", "stop")
ALLOWED = frozenset((*STRUCTURE, *SHAPES, *PAINT))

_REFERENCE = re.compile(r"url\(\s*['\"]?([^)'\"]*)['\"]?\s*\)")


def inline_drawing(text: str, prefix: str, label: str) -> str:
    """A drawing for a page: its ids begin with `prefix`, and `label` says what it shows to those who cannot see it."""
    from xml.etree import ElementTree

    root = ElementTree.fromstring(text)
    _clean(root, f"{prefix}-")
    if len(box := root.attrib.get("viewBox", "").split()) == 4:
        root.attrib["width"] = f"{float(box[2]) * SCALE:.0f}"
    for name in ("height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-label": label}
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}  # what the style sheet said
    ElementTree.register_namespace("", SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: Element, prefix: str) -> None:
    """Keep only what is allowed of an element and of everything in it."""
    styled = _presentation(element.attrib.pop("style", ""))  # attributes instead of styles, which a page may forbid
    given = {name.removeprefix(XLINK): value for name, value in element.attrib.items()} | styled
    kept = ((name, _attribute(name, value, prefix)) for name, value in given.items())
    element.attrib.clear()
    element.attrib.update({name: value for name, value in kept if value is not None})
    if element.tag == f"{{{SVG}}}text" and "fill" not in element.attrib:
        element.attrib["fill"] = "currentColor"
    for child in list(element):
        if isinstance(child.tag, str) and child.tag.removeprefix(f"{{{SVG}}}") in ALLOWED:
            _clean(child, prefix)
        else:
            element.remove(child)


def _attribute(name: str, value: str, prefix: str) -> str | None:
    """The value that may stay, or None."""
    if name.lower().startswith(("on", "{")):  # "{": of another namespace
        return None
    if name == "id":
        return prefix + value
    if name == "href":
        return f"#{prefix}{value[1:]}" if value.startswith("#") else None
    if value.lower() == INK:
        return "currentColor"
    if "url(" not in value.lower():
        return value
    targets = _REFERENCE.findall(value)
    if not targets or not all(target.startswith("#") for target in targets):
        return None
    return _REFERENCE.sub(lambda match: f"url(#{prefix}{match[1][1:]})", value)


def _presentation(style: str) -> dict[str, str]:
    """A style as attributes. The font family is left to the page."""
    attributes: dict[str, str] = {}
    for name, value in (entry.split(":", 1) for entry in style.split(";") if ":" in entry):
        key, setting = name.strip(), value.strip()
        if key != "font":
            attributes |= {key: setting} if key != "font-family" else {}
            continue
        if size := re.search(r"[\d.]+px", setting):
            attributes["font-size"] = size[0]
            attributes |= {"font-weight": "bold"} if re.search(r"\b(bold|[6-9]00)\b", setting[: size.start()]) else {}
            attributes |= {"font-style": "italic"} if "italic" in setting[: size.start()] else {}
    return attributes
