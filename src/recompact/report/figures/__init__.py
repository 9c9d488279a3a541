"""Figures for papers and pages, drawn with matplotlib: an optional extra, imported only when something is drawn."""

from recompact.report.figures.figure import Figure, available
from recompact.report.figures.files import png, save, svg
from recompact.report.figures.sets import (
    boundary_figures,
    boundary_gaps,
    evaluation_figures,
    evaluation_gaps,
    transfer_figures,
)

__all__ = [
    "Figure",
    "available",
    "boundary_figures",
    "boundary_gaps",
    "evaluation_figures",
    "evaluation_gaps",
    "png",
    "save",
    "svg",
    "transfer_figures",
]
