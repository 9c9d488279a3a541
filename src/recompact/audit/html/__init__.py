"""An audit as one self-contained page: no script, no network, everything from a transcript masked and escaped."""

from recompact.audit.html.page import render

__all__ = ["render"]
