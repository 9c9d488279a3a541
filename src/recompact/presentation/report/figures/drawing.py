"""How figures are drawn and written: their value, their look, and SVG, PNG and CSV with the same bytes each time.

In a page a drawing is one `<svg>` with nothing in it but shapes and text. It takes its ink and font from the page,
styles nothing but itself, shares no id with its neighbours, and has no style sheets, scripts, foreign content or links
that lead out of it.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recompact.errors import InputError
from recompact.values.outputs import add_files
from recompact.values.tables import Table, as_csv
from recompact.values.texts import visible_line
from recompact.version import install_command

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Figure:
    """One drawing with the words that belong to it."""

    name: str  # stem of a file name: "budget-sweep"
    title: str  # one line: what it shows
    caption: str  # how to read it, and what it says here
    drawing: Any  # matplotlib.figure.Figure, made without pyplot, so that nothing is global
    data: Table | Callable[[], Table] | None = None  # the numbers in it, so that others can draw it themselves


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """Raise an error that says how to install matplotlib if it is missing."""
    if not available():
        raise InputError(f"figures are drawn with matplotlib, which is not installed: {install_command('figures')}")


INK = "#1b1b1c"
"""Texts and lines that follow the page in an HTML report. Of the data only the arm `none` has this colour."""
HARM = "#b2182b"  # also for defaults: lines across a panel
FINE = 6.5  # points: the smallest text
WIDE = 7.2  # inches: two columns of a paper
NAME = 26  # characters of a name in a legend


@contextmanager
def drawing_style() -> Iterator[None]:
    """Draw in here: with our settings, and afterwards matplotlib's own again."""
    require_matplotlib()
    import matplotlib

    style = files("recompact.presentation.report.figures").joinpath("figures.mplstyle")
    with as_file(style) as path, matplotlib.rc_context(fname=path), warnings.catch_warnings():
        # A name in a script that the font lacks gives boxes in a PNG; a browser has other fonts for the SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@contextmanager
def drawing(width: float, height: float) -> Iterator[Any]:
    """A drawing to fill, shared with nobody else; sizes are in inches."""
    with drawing_style():
        from matplotlib.figure import Figure

        # Many dots per inch: with few of them, letters are measured wider or narrower than they come out.
        figure = Figure(figsize=(width, height), dpi=300, layout="constrained")
        yield figure
        figure.draw_without_rendering()
        # Everything is in its final place now: laying it out again at each save would move it a little.
        figure.set_layout_engine("none")


def short_label(text: str, most: int = 40) -> str:
    """A text from anywhere as one short line that every image format can hold.

    >>> short_label("a\\x00b$x$\\ud800"), short_label("a-very-long-name-of-a-task", 12)
    ('a␀b$x$⟨U+D800⟩', 'a-ver…a-task')
    """
    line = visible_line(text).strip()
    if len(line) <= most:
        return line
    kept = most - 1
    return f"{line[: kept // 2]}…{line[-(kept - kept // 2) :]}"


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def powers(title: str) -> str:
    """A metric's title as it is set in print.

    >>> powers("Pass^12"), powers("Pass@3")
    ('Pass¹²', 'Pass@3')
    """
    return re.sub(r"\^(\d+)", lambda m: m[1].translate(_RAISED), title)


@dataclass(frozen=True)
class Look:
    """The colour of an arm; its scope has a marker and a kind of line."""

    color: str

    def marker(self, scope: str | None) -> str:
        return {"history": "o", "prefix": "s"}.get(scope or "", "D")

    def line(self, scope: str | None) -> str:
        return "--" if scope == "prefix" else "-"

    def entry(self, name: str, scope: str | None) -> Any:
        """Its line in a legend."""
        from matplotlib.lines import Line2D

        style: Any = {"color": self.color, "ls": self.line(scope), "lw": 1.2, "marker": self.marker(scope)}
        return Line2D([], [], **style, markersize=4, label=short_label(name, NAME))


# After Okabe and Ito, whose colours people with any colour vision can distinguish. Names have the colour of their arm,
# so each is dark enough to be read on white and light enough to be read on black.
_KNOWN = {
    "none": INK,
    "fifo": "#B8558F",
    "prompting": "#1F7FC4",
    "pair": "#D55E00",
    "acon-ut": "#0B8F6A",
    "acon-utco": "#8E6BBF",
    "acon-ut-locked": "#A9780A",
}
_OTHERS = ("#0B8F6A", "#A9780A", "#8E6BBF", "#B8558F", "#7A8A1E", "#C0504D", "#4F8FA8", "#1F7FC4")


def looks(names: Iterable[str]) -> dict[str, Look]:
    """A look for each arm by its name without budget and scope: the usual ones always the same, others in order."""
    wanted = list(dict.fromkeys(names))
    colours = {name: _KNOWN[name.lower()] for name in wanted if name.lower() in _KNOWN}
    free = [color for color in _OTHERS if color not in colours.values()] or list(_OTHERS)
    others = [name for name in wanted if name not in colours]
    colours |= {name: free[n % len(free)] for n, name in enumerate(others)}
    return {name: Look(colours[name]) for name in wanted}


def grid(axes: Axes, axis: str = "y") -> None:
    axes.grid(axis=axis, color=INK, alpha=0.13, linewidth=0.6)  # type: ignore[arg-type]


def columns(names: Sequence[str], width: float) -> int:
    """How many columns the names of a legend take in this width (inches), in rows of much the same length."""
    fit = max(1, int(width / (0.55 + 0.065 * max(map(len, names)))))
    return -(-len(names) // -(-len(names) // fit))


def legend_height(names: Sequence[str], width: float) -> float:
    """The height of that legend, in inches."""
    return 0.1 + 0.155 * -(-len(names) // columns(names, width))


def legend(figure: Any, entries: Sequence[Any]) -> None:
    """Put a legend below the panels."""
    for entry in entries:
        if entry.get_label().startswith("_"):  # matplotlib would leave it out
            entry.set_label(f" {entry.get_label()}")
    across = columns([entry.get_label() for entry in entries], figure.get_size_inches()[0])
    figure.legend(handles=list(entries), loc="outside lower center", ncols=across, columnspacing=1.4)


def note(axes: Axes, text: str, **options: Any) -> None:
    """Words beside data, in the smallest size."""
    axes.text(s=text, **{"fontsize": FINE, "color": INK, **options})


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
