"""Figures for papers and pages, drawn with matplotlib.

Comes in: evaluations, findings about boundaries and transfers, as values. Goes out: figures with a title and a caption,
and their bytes as SVG and PNG. matplotlib is an optional extra and is imported only when something is drawn.
"""

from recompact.report.figures.drawn import Figure, available
from recompact.report.figures.files import png, save, svg
from recompact.report.figures.sets import (
    boundary_figures,
    boundary_gaps,
    evaluation_figures,
    evaluation_gaps,
    figure_estimates,
    transfer_figures,
)

__all__ = [
    "Figure",
    "available",
    "boundary_figures",
    "boundary_gaps",
    "evaluation_figures",
    "evaluation_gaps",
    "figure_estimates",
    "png",
    "save",
    "svg",
    "transfer_figures",
]
