"""The views of a run: which template shows which value, and what an address may ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from recompact.engine.store.pages import ORDERS, TrajectoryQuery
from recompact.engine.store.store import Store
from recompact.presentation.view.calls import call_page, calls_page
from recompact.presentation.view.case import case_page
from recompact.presentation.view.compare import OUTCOMES as COMPARED, CompareQuery, compare_page
from recompact.presentation.view.figures import arm_figures, boundary_figures
from recompact.presentation.view.run import run_page
from recompact.presentation.view.runs import RunLine
from recompact.presentation.view.templates import templates_page
from recompact.presentation.view.trajectory import trajectory_view
from recompact.values.outcome import BoundaryId

Parameters = Mapping[str, str]
View = Callable[[Store, RunLine, Parameters], tuple[str, dict[str, Any]]]

OUTCOMES = ("success", "failure")
BY_OUTCOME = (
    "You chose these tasks by their outcome. The figures hold for them alone and say nothing about the arms, so no"
    " difference is judged here."
)
LONGEST = 300  # characters of a filter


def _run(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    default = "harm" if line.counts and line.counts.continuations else "task"
    order = parameters.get("order", default)
    query = replace(
        _filter(parameters), order=order if order in ORDERS else default, offset=_number(parameters, "offset")
    )
    return "run.html.jinja", {"page": run_page(store, line, query), "orders": tuple(ORDERS)}


def _filter(parameters: Parameters) -> TrajectoryQuery:
    task, arm, outcome, group = (_text(parameters, key) for key in ("task", "arm", "outcome", "group"))
    return TrajectoryQuery(task=task, arm=arm, outcome=outcome if outcome in OUTCOMES else "", group=group)


def _figures(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    """The figures of what the list that links here shows, so the address has the same filter."""
    page = (
        arm_figures(store, line, _compare_query(parameters))
        if line.evaluation
        else boundary_figures(store, line, _filter(parameters))
    )
    values = {"page": page, "filter": _filled_parameters(parameters), "chosen_by_outcome": BY_OUTCOME}
    return "figures.html.jinja", values


def _filled_parameters(parameters: Parameters) -> dict[str, str]:
    """What the address asks for, to link to another view of the same."""
    keys = ("task", "arm", "outcome", "group", "first", "second")
    return {key: text for key in keys if (text := _text(parameters, key))}


def _trajectory(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    page = trajectory_view(store, line, parameters.get("unit", ""), _number(parameters, "start"))
    return "trajectory.html.jinja", {"page": page}


def _case(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    id = BoundaryId(parameters.get("unit", ""), _number(parameters, "index"))
    return "case-page.html.jinja", {"page": case_page(store, line, id)}


def _calls(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    page = calls_page(store, line, parameters.get("unit", ""), _number(parameters, "start"))
    return "calls-page.html.jinja", {"page": page}


def _call(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    ordinal = max(1, _number(parameters, "ordinal"))  # addresses count from 1, as pages do
    return "call-page.html.jinja", {"page": call_page(store, line, parameters.get("unit", ""), ordinal - 1)}


def _templates(
    harnesses: Sequence[str], store: Store, line: RunLine, parameters: Parameters
) -> tuple[str, dict[str, Any]]:
    return "templates.html.jinja", {"page": templates_page(store, line, harnesses)}


def _compare(store: Store, line: RunLine, parameters: Parameters) -> tuple[str, dict[str, Any]]:
    page = compare_page(store, line, _compare_query(parameters))
    more = {"outcomes": COMPARED, "filter": _filled_parameters(parameters), "chosen_by_outcome": BY_OUTCOME}
    return "compare.html.jinja", {"page": page, **more}


def _compare_query(parameters: Parameters) -> CompareQuery:
    return CompareQuery(*(_text(parameters, key) for key in ("group", "task", "outcome", "first", "second")))


def _text(parameters: Parameters, key: str) -> str:
    return parameters.get(key, "")[:LONGEST]


def _number(parameters: Parameters, key: str) -> int:
    text = parameters.get(key, "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


def views_of(harnesses: Sequence[str] = ()) -> Mapping[str, View]:
    """All views by the last part of their addresses; `harnesses` are those that templates can be exported to."""
    return {
        "": _run,
        "trajectory": _trajectory,
        "case": _case,
        "calls": _calls,
        "call": _call,
        "templates": partial(_templates, harnesses),
        "compare": _compare,
        "figures": _figures,
    }
