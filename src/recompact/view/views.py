"""The views of a run: which template shows which value, and what an address may ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from recompact.outcome import BoundaryId
from recompact.store.pages import ORDERS, TrajectoryQuery
from recompact.store.store import Store
from recompact.view.case import case_page
from recompact.view.compare import compare_page
from recompact.view.run import run_page
from recompact.view.runs import RunLine
from recompact.view.templates import templates_page
from recompact.view.trajectory import trajectory_view

Parameters = Mapping[str, str]
View = Callable[[Store, RunLine, Parameters], tuple[str, dict[str, Any]]]

LONGEST = 300  # characters of a filter


def _run(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    default = "harm" if line.reaching is not None else "task"
    order = parameters.get("order", default)
    query = TrajectoryQuery(
        task=_text(parameters, "task"),
        arm=_text(parameters, "arm"),
        outcome=_text(parameters, "outcome"),
        group=_text(parameters, "group"),
        order=order if order in ORDERS else default,
        offset=_number(parameters, "offset"),
    )
    return "run.html.jinja", {"page": run_page(store, line, query), "orders": tuple(ORDERS)}


def _trajectory(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    page = trajectory_view(store, line, parameters.get("unit", ""), _number(parameters, "start"))
    return "trajectory.html.jinja", {"page": page}


def _case(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    id = BoundaryId(parameters.get("unit", ""), _number(parameters, "index"))
    return "case-page.html.jinja", {"page": case_page(store, line, id)}


def _templates(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    return "templates.html.jinja", {"page": templates_page(store, line)}


def _compare(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    group, first, second = (_text(parameters, key) for key in ("group", "first", "second"))
    return "compare.html.jinja", {"page": compare_page(store, line, group, first, second)}


def _text(parameters: Parameters, key: str) -> str:
    return parameters.get(key, "")[:LONGEST]


def _number(parameters: Parameters, key: str) -> int:
    text = parameters.get(key, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


VIEWS: Mapping[str, View] = {
    "": _run,
    "trajectory": _trajectory,
    "case": _case,
    "templates": _templates,
    "compare": _compare,
}
"""By the last part of the address."""
