"""Drawings that can stand inside a page: taken apart and put together again with nothing in them but shapes and text.

Comes in: SVG text. Goes out: SVG text with ids of its own, so that two drawings on a page do not get in each other's
way, without style sheets, scripts, foreign content and links that lead out of it.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
SCALE = 1.5  # pixels for a point of the drawing
STRUCTURE = ("svg", "g", "defs", "symbol", "use", "title", "desc", "text", "tspan")
SHAPES = ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon")
PAINT = ("clipPath", "mask", "pattern", "marker", "linearGradient", "radialGradient", "stop")
ALLOWED = frozenset((*STRUCTURE, *SHAPES, *PAINT))

_REFERENCE = re.compile(r"url\(\s*['\"]?([^)'\"]*)['\"]?\s*\)")


def inlined(text: str, label: str) -> str:
    """A drawing for a page. The element with the id `label` says what it shows; its own ids begin like that."""
    root = ElementTree.fromstring(text)
    _clean(root, f"{label}-")
    root.attrib |= {"role": "img", "aria-labelledby": label}
    if len(box := root.attrib.get("viewBox", "").split()) == 4:
        # As large as its letters read well beside the text, whatever size it was drawn for.
        root.attrib["width"] = f"{float(box[2]) * SCALE:.0f}"
        root.attrib.pop("height", None)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(element: ElementTree.Element, prefix: str) -> None:
    for name, value in list(element.attrib.items()):
        if (kept := _attribute(name, value, prefix)) is None:
            del element.attrib[name]
        else:
            element.attrib[name] = kept
    for child in list(element):
        if isinstance(child.tag, str) and child.tag.removeprefix(f"{{{SVG}}}") in ALLOWED:
            _clean(child, prefix)
        else:
            element.remove(child)


def _attribute(name: str, value: str, prefix: str) -> str | None:
    """The attribute as it may stay, or None."""
    local = name.rpartition("}")[2].lower()
    if local.startswith("on"):
        return None
    if local == "id":
        return prefix + value
    if local == "href":
        return f"#{prefix}{value[1:]}" if value.startswith("#") else None
    if "url(" not in value.lower():
        return value
    targets = _REFERENCE.findall(value)
    if not targets or not all(target.startswith("#") for target in targets):
        return None
    return _REFERENCE.sub(lambda found: f"url(#{prefix}{found[1][1:]})", value)
