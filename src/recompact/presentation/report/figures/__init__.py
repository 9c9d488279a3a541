"""Figures for papers and pages, drawn with matplotlib: an optional extra, imported only when something is drawn."""

from recompact.presentation.report.figures.drawing import Figure, available, png, save, svg
from recompact.presentation.report.figures.sets import (
    boundary_figures,
    boundary_gaps,
    breakdown_figures,
    evaluation_figures,
    evaluation_gaps,
)

__all__ = [
    "Figure",
    "available",
    "boundary_figures",
    "boundary_gaps",
    "breakdown_figures",
    "evaluation_figures",
    "evaluation_gaps",
    "png",
    "save",
    "svg",
]
