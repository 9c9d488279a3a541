"""How all figures look: sizes, colours, a look for each arm, and labels from any text."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recompact.presentation.report.figures.figure import require_matplotlib
from recompact.values.texts import visible_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK = "#1b1b1c"
"""Texts and lines that follow the page in an HTML report. Of the data only the arm `none` has this colour."""
HARM = "#b2182b"  # also for defaults: lines across a panel
FINE = 6.5  # points: the smallest text
WIDE = 7.2  # inches: two columns of a paper
NAME = 26  # characters of a name in a legend

RC: Any = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib, so a figure is the same on every machine
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 7.0,
    "axes.labelsize": 8.0,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "text.color": INK,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "text.usetex": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.facecolor": "none",
    "figure.facecolor": "white",
    "savefig.facecolor": "auto",
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "xtick.major.size": 3.0,
    "ytick.major.size": 3.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "lines.linewidth": 1.4,
    "lines.markersize": 5.0,
    "legend.frameon": False,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "svg.fonttype": "none",  # texts stay texts: small, searchable, in the font of the page
}


@contextmanager
def drawing_style() -> Iterator[None]:
    """Draw in here: with our settings, and afterwards matplotlib's own again."""
    require_matplotlib()
    import matplotlib

    with matplotlib.rc_context(RC), warnings.catch_warnings():
        # A name in a script that the font lacks gives boxes in a PNG; a browser has other fonts for the SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@contextmanager
def drawing(width: float, height: float, *, constrained: bool = True) -> Iterator[Any]:
    """A drawing to fill, shared with nobody else; sizes are in inches."""
    with drawing_style():
        from matplotlib.figure import Figure

        # Many dots per inch: with few of them, letters are measured wider or narrower than they come out.
        figure = Figure(figsize=(width, height), dpi=300, layout="constrained" if constrained else None)
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
