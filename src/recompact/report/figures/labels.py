"""Names beside points, none on top of another; one that had to move away has a thin line to its point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import cos, hypot, pi, sin
from typing import Any

from recompact.report.figures.style import INK

Box = tuple[float, float, float, float]
"""Left, bottom, right, top, in points."""

RADII = (6.0, 11.0, 17.0, 24.0, 32.0, 42.0)
ANGLES = (0.0, 180.0, 90.0, 270.0, 45.0, 135.0, 315.0, 225.0)


@dataclass(frozen=True)
class Named:
    """A point with its name, in data coordinates."""

    x: float
    y: float
    text: str
    color: str = INK


def place(axes: Any, points: Sequence[Named], size: float = 7.0, avoid: Sequence[Sequence[Named]] = ()) -> None:
    """Write the names, crowded ones first, each where it covers least. `avoid` are lines that names keep off."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = axes.figure
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()  # lays out the axes, so that data has a place
    scale = 72 / figure.dpi
    frame = axes.get_window_extent()
    inside = tuple(v * scale for v in (frame.x0, frame.y0, frame.x1, frame.y1))
    spots = [tuple(float(v) * scale for v in axes.transData.transform((p.x, p.y))) for p in points]
    taken: list[Box] = [(x - 3.5, y - 3.5, x + 3.5, y + 3.5) for x, y in spots]
    for line in avoid:
        ends = [tuple(float(v) * scale for v in axes.transData.transform((p.x, p.y))) for p in line]
        taken += [box for a, b in pairwise(ends) for box in _along(a, b)]
    order = sorted(range(len(points)), key=lambda n: (-_crowd(spots, n), n))
    for n in order:
        x, y = spots[n]
        width, height = _size(axes, canvas, points[n].text, size, scale)
        dx, dy = _best(x, y, width, height, taken, inside)
        centre = (x + dx, y + dy)
        taken.append((centre[0] - width / 2, centre[1] - height / 2, centre[0] + width / 2, centre[1] + height / 2))
        away = hypot(max(abs(dx) - width / 2, 0), max(abs(dy) - height / 2, 0)) > RADII[1]
        axes.annotate(
            points[n].text,
            (points[n].x, points[n].y),
            xytext=(dx, dy),
            textcoords="offset points",
            ha="center",
            va="center_baseline",
            fontsize=size,
            color=points[n].color,
            arrowprops={"arrowstyle": "-", "color": INK, "alpha": 0.4, "lw": 0.5, "shrinkB": 3.0} if away else None,
        )


def _size(axes: Any, canvas: Any, text: str, size: float, scale: float) -> tuple[float, float]:
    trial = axes.text(0, 0, text, fontsize=size)
    box = trial.get_window_extent(canvas.get_renderer())
    trial.remove()
    return box.width * scale + 2, box.height * scale + 1


def _along(a: Sequence[float], b: Sequence[float]) -> list[Box]:
    """A line as small boxes."""
    steps = max(1, int(hypot(b[0] - a[0], b[1] - a[1]) / 5))
    spots = [(a[0] + (b[0] - a[0]) * n / steps, a[1] + (b[1] - a[1]) * n / steps) for n in range(steps + 1)]
    return [(x - 0.7, y - 0.7, x + 0.7, y + 0.7) for x, y in spots]


def _crowd(spots: Sequence[tuple[float, ...]], n: int) -> int:
    return sum(hypot(x - spots[n][0], y - spots[n][1]) < 40 for x, y in spots)


def _best(
    x: float, y: float, width: float, height: float, taken: Sequence[Box], inside: Sequence[float]
) -> tuple[float, float]:
    """Where the middle of the name goes, seen from the point: near, free, and within the axes."""

    def cost(place: tuple[int, float, float]) -> tuple[float, int]:
        rank, dx, dy = place
        box = (x + dx - width / 2, y + dy - height / 2, x + dx + width / 2, y + dy + height / 2)
        out = max(0.0, inside[0] - box[0]) + max(0.0, box[2] - inside[2])
        out += max(0.0, inside[1] - box[1]) + max(0.0, box[3] - inside[3])
        return sum(_overlap(box, other) for other in taken) + 20 * out + 0.4 * rank, rank

    places: list[tuple[int, float, float]] = []
    for radius in RADII:
        for angle in ANGLES:
            c, s = cos(angle * pi / 180), sin(angle * pi / 180)
            dx = (radius + width / 2) * c if abs(c) > 0.1 else 0.0
            dy = (radius + height / 2) * s if abs(s) > 0.1 else 0.0
            places.append((len(places), dx, dy))
    _, dx, dy = min(places, key=cost)
    return dx, dy


def _overlap(a: Box, b: Box) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
