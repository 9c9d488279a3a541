"""Figures for papers and pages, drawn with matplotlib: an optional extra, imported only when something is drawn."""
