"""What evaluations with different models say together: does a template help models that it was not adapted with?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recompact.errors import InputError
from recompact.evaluation.transfer import Setting, Transfer, describe_models, transfer, transfer_table
from recompact.values.tables import Table, cell_text

SHARED = ("models", "adapted_with", "scope", "budget", "arm", "against", "tasks")  # columns that may be the same


def across_models(settings: Sequence[Setting]) -> Transfer | str:
    """The transfer between evaluations, or why there is none. Those whose models are unknown take no part."""
    known = [setting for setting in settings if setting.models]
    if len(known) < 2:
        return "released records do not say which models made them"
    models = {describe_models(setting.models) for setting in known}
    if len(models) < 2:
        return f"they were made with the same models ({models.pop()})"
    try:
        return transfer(known)
    except InputError as error:
        return str(error)


def narrow_table(across: Transfer) -> Table:
    """The table of a transfer, narrow enough for a page: what is the same in all rows becomes a note."""
    table = transfer_table(across)
    numbers = range(len(table.columns))
    same = [n for n in numbers if table.columns[n].key in SHARED and len({row[n] for row in table.rows}) == 1]
    if len(table.rows) < 2 or not same:
        return table
    shared = "; ".join(f"{table.columns[n].title} {cell_text(table.rows[0][n])}" for n in same)
    narrow = table.select([n for n in numbers if n not in same])
    return replace(narrow, notes=(f"In all rows: {shared}.", *table.notes))
