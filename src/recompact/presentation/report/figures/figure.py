"""A figure as a value: its name, its words, its matplotlib drawing, and the numbers it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from recompact.errors import InputError
from recompact.values.tables import Table
from recompact.version import install_command


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
