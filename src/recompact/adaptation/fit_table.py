"""How the candidates did on the fit tasks, as one table for `recompact adapt`, CHANGES.md and the report."""

from __future__ import annotations

from recompact.candidate import Selection
from recompact.tables import Number, Table, columns

CAVEAT = "Training tasks with the most compactions. A template is selected here, so this is no evidence that it helps."


def fit_table(selection: Selection) -> Table:
    """One row for each template."""
    rows = tuple((fit.name, fit.runs, fit.passed, Number(fit.steps)) for fit in selection.fits)
    return Table("Selection on the fit tasks", columns("template", "runs", "passed", "mean steps"), rows, (CAVEAT,))
