"""A report as one HTML file that needs nothing else and runs nothing.

Every value that a template prints is made visible and escaped, whoever wrote it, except our own drawings and style
sheet. A content security policy forbids scripts and every request.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from recompact.adaptation.selection import fit_table
from recompact.attribution.statement import legend_text
from recompact.evaluation.breakdown import Breakdown, breakdown_table
from recompact.presentation.report.content.answer import harm_details
from recompact.presentation.report.content.report import Report
from recompact.presentation.report.content.runs import without_notes
from recompact.presentation.report.document import shorten, shorten_plain
from recompact.presentation.report.figures.drawing import available, short_label, svg
from recompact.presentation.report.figures.sets import FigureSet, boundary_set, evaluation_set, model_set
from recompact.values.masking import safe, safe_line
from recompact.values.outputs import content_policy
from recompact.values.tables import Cell, Number, Table, cell_text, text_columns
from recompact.values.texts import quantity, visible
from recompact.version import __version__

QUOTE = 400  # characters of a quote, or of a cell, that are shown
BRIEF = 30  # characters of a name in the contents and on the timeline
WRAPPED = 28  # characters of a cell beyond which it may be wrapped


def render(report: Report) -> str:
    """The page as text."""
    sets = tuple(_figure_sets(report))
    return render_document(
        "page.html.jinja",
        title=report.title,
        report=report,
        drawable=available(),
        figures=tuple(drawn_figures(sets)),
        gaps=tuple(figure_gaps(sets)),
        model_table=_model_table(report),
    )


def render_document(template: str, *packages: str, **values: Any) -> str:
    """A template that extends `document.html.jinja` as one file, with the style sheet and the policy in it."""
    style = page_style()
    shared = {"style": Markup(style), "policy": content_policy(style), "version": __version__}
    return page_environment(*packages).get_template(template).render({**shared, **values})


def _figure_sets(report: Report) -> Iterator[tuple[str, FigureSet]]:
    """The figures of all runs, in order; where there are several runs of a kind, with the short name of each."""
    for run in report.evaluations:
        name = run.name if len(report.evaluations) > 1 else ""
        yield name, evaluation_set(run.provenance.name, run.evaluation)
    if report.models:
        yield "", model_set("", report.models)
    for verified in report.verified:
        name = verified.name if len(report.verified) > 1 else ""
        yield name, boundary_set(verified.provenance.name, verified.verification, verified.provenance.simulated)


def drawn_figures(sets: Sequence[tuple[str, FigureSet]]) -> Iterator[tuple[str, str, Markup]]:
    """Title, caption and drawing of each figure, in the sets' order; a set may have the name of its run."""
    named = [(name, figure) for name, group in sets for figure in group.figures]
    for number, (name, figure) in enumerate(named, 1):
        title = f"{figure.title}: {name}" if name else figure.title
        drawing = svg(replace(figure, name=f"figure-{number}", title=title), inline=True)
        yield title, figure.caption, Markup(visible(drawing))


def figure_gaps(sets: Sequence[tuple[str, FigureSet]]) -> Iterator[tuple[str, str]]:
    """The figures that are missing: which, of which run, and what they need."""
    for _, group in sets:
        for why in dict.fromkeys(group.gaps.values()):
            missing = " and ".join(figure for figure, reason in group.gaps.items() if reason == why)
            whose = f", {group.source}" if group.source else ""
            yield f"{missing}{whose}", why.replace("RUN", shlex.quote(group.source))


def _model_table(report: Report) -> Table | None:
    models = report.models
    return without_notes(breakdown_table(models), report.warnings) if isinstance(models, Breakdown) else None


@cache
def page_style() -> str:
    """The style sheet of all pages."""
    return (files("recompact.presentation.report.html") / "page.css").read_text(encoding="utf-8")


@cache
def page_environment(*packages: str) -> Environment:
    """How pages are made from templates: those of other packages first, then those of the report. Every value is made
    visible and escaped."""
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader(package, ".") for package in (*packages, "recompact.presentation.report.html")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_print_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        cell=_cell,
        cut=shorten,
        cell_class=_cell_class,
        interval=_interval,
        short=_short,
        brief=_brief,
        tidy=_tidy,
        masked=safe_line,
        masked_text=safe,
    )
    environment.globals.update(
        quantity=quantity,
        fit_table=fit_table,
        harm_details=harm_details,
        legend_text=legend_text,
        text_columns=text_columns,
    )
    return environment


def _print_value(value: Any) -> Any:
    """What every expression of a template passes through before it is escaped."""
    return value if isinstance(value, Markup) else "" if value is None else visible(str(value))


def _cell(cell: Cell) -> str:
    """A text, cut where it is very long, or a number as tables show it, without its interval."""
    if cell is None:
        return "–"
    if isinstance(cell, str):
        return _short(cell)
    if isinstance(cell, Number) and cell.interval is not None:
        return _minus(replace(cell, interval=None).text) + "*" * cell.strong
    return _minus(cell_text(cell))


def _interval(cell: Cell) -> str:
    """The interval of a number, which is shown below it."""
    if not isinstance(cell, Number) or cell.interval is None:
        return ""
    ends = (replace(cell, value=end, interval=None, spread=None).text for end in cell.interval)
    return _minus(f"[{', '.join(ends)}]")


def _cell_class(cell: Cell, texts: bool) -> str:
    """Numbers are right-aligned, bold where they are strong or best; long texts may be wrapped."""
    if texts:
        return "long" if isinstance(cell, str) and len(cell) > WRAPPED else ""
    return "num strong" if isinstance(cell, Number) and (cell.strong or cell.best) else "num"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _tidy(text: str) -> str:
    """Our own words, with a number and its per cent sign on the same line."""
    return text.replace(" %", "\u00a0%")


def _brief(value: object) -> str:
    """A name cut to fit into a column."""
    return short_label(str(value), BRIEF)


def _short(value: object) -> str:
    """As much of what others wrote as fits into a line or two."""
    return shorten_plain(str(value), QUOTE)
