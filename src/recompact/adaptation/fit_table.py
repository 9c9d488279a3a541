"""How the candidates did on the fit tasks, as one table for `recompact adapt`, CHANGES.md and the report."""

from __future__ import annotations

from recompact.values.candidate import Selection
from recompact.values.tables import Number, Table, columns

CAVEAT = "Training tasks with the most compactions. A template is selected here, so this is no evidence that it helps."


def fit_table(selection: Selection) -> Table:
    """One row for each template, and one for each that was run again on fresh seeds."""
    fits = [(fit.name, fit) for fit in selection.fits]
    fits += [(f"{fit.name}, fresh runs", fit) for fit in selection.confirmed]
    heads = ("template", "runs", "passed", "mean steps", *(("broken",) if any(fit.broken for _, fit in fits) else ()))
    rows = tuple((name, fit.runs, fit.passed, Number(fit.steps), fit.broken)[: len(heads)] for name, fit in fits)
    return Table("Selection on the fit tasks", columns(*heads), rows, (CAVEAT,))
