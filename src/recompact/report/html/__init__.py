"""A report as one self-contained page: no script, no network, everything that was written by others escaped."""

from recompact.report.html.page import check_name, render, write

__all__ = ["check_name", "render", "write"]
