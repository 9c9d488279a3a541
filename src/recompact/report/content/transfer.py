"""What evaluations with different models say together: does a template help models that it was not adapted with?

Comes in: evaluations as settings. Goes out: their transfer, or in words why there is none, and its table for a page.
Pages and figures ask here, so that both show the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recompact.errors import InputError
from recompact.evaluation.transfer import Setting, Transfer, said, transfer, transfer_table
from recompact.tables import Table, cell_text

ALIKE = ("models", "adapted_with", "scope", "budget", "arm", "against", "tasks")  # columns, if in all rows


def across_models(settings: Sequence[Setting]) -> Transfer | str:
    """The transfer between evaluations, or why there is none. Those whose models are not known take no part."""
    known = [setting for setting in settings if setting.models]
    if len(known) < 2:
        return "released records do not say which models made them"
    models = {said(setting.models) for setting in known}
    if len(models) < 2:
        return f"they were made with the same models ({models.pop()})"
    try:
        return transfer(known)
    except InputError as error:
        return str(error)


def narrow_table(found: Transfer) -> Table:
    """The table of a transfer, narrow enough for a page: what is the same in all rows stands below it."""
    table = transfer_table(found)
    same = [
        n
        for n, column in enumerate(table.columns)
        if column.key in ALIKE and len(table.rows) > 1 and len({row[n] for row in table.rows}) == 1
    ]
    kept = [n for n in range(len(table.columns)) if n not in same]
    shared = "; ".join(f"{table.columns[n].title} {cell_text(table.rows[0][n])}" for n in same)
    return replace(
        table,
        columns=tuple(table.columns[n] for n in kept),
        rows=tuple(tuple(row[n] for n in kept) for row in table.rows),
        notes=(*([f"In all rows: {shared}."] if same else []), *table.notes),
    )
