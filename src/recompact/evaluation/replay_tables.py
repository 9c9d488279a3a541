"""A replay as tables: what came of each condition, and which needed facts its summaries keep.

Comes in: a replay. Goes out: tables as values, for any format. Nothing is printed here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import fmean

from recompact.evaluation.replay import PRE, Condition, Replay
from recompact.evaluation.summary import SIMULATED
from recompact.tables import Cell, Column, Number, Table
from recompact.texts import cut

SHORT = 40  # characters of an answer or a fact that a table has room for
MANY = 20  # facts that are listed


def condition_table(found: Replay, *, simulated: bool = False) -> Table:
    """One row for each condition."""
    keys = ("condition", "success", "steps", "H", "B", "tokens", "kept", "endings", "answers")
    titles = {"steps": "mean steps", "tokens": "summary tokens", "kept": "needed facts kept"}
    rows = tuple(_row(condition, len(found.needed)) for condition in found.conditions)
    limits = found.thresholds
    notes = [
        f"H and B against PRE with 95 % intervals (* excludes zero); harmful from H {limits.hazard:g} or"
        f" B {limits.burden:g} on. POST is the summary that the run recorded, control the run's own template again."
    ]
    notes += [SIMULATED] if simulated else []
    return Table(str(found.id), tuple(Column(key, titles.get(key, key)) for key in keys), rows, tuple(notes))


def _row(condition: Condition, needed: int) -> tuple[Cell, ...]:
    draws, effect = condition.draws, condition.effect
    hazard = burden = None
    if effect is not None:
        h, b = effect.hazard_estimate, effect.burden_estimate
        hazard = Number(effect.hazard, 2, interval=(h.low, h.high), signed=True)
        burden = Number(effect.burden, 1, interval=(b.low, b.high), signed=True)
    kept = condition.kept if needed and condition.name != PRE else None
    return (
        condition.name,
        f"{sum(drawn.success for drawn in draws)}/{len(draws)}",
        Number(fmean(drawn.steps for drawn in draws)) if draws else None,
        hazard,
        burden,
        Number(fmean(drawn.tokens for drawn in draws), 0) if draws and condition.name != PRE else None,
        None if kept is None else f"{kept:.1f} of {needed}",
        counted(drawn.ending for drawn in draws),
        counted(_short(drawn.answer) for drawn in draws if drawn.answer),
    )


def fact_table(found: Replay) -> Table | None:
    """In how many of its draws each condition keeps each needed fact; None where there is no such fact."""
    if not found.needed:
        return None
    others = [condition for condition in found.conditions if condition.name != PRE]
    rows: list[tuple[Cell, ...]] = []
    for fact in found.needed[:MANY]:
        kept = (f"{sum(fact in drawn.kept for drawn in c.draws)}/{len(c.draws)}" for c in others)
        rows.append((_short(fact), *kept))
    more = len(found.needed) - MANY
    notes = ["In how many draws they are kept; PRE continuations used them, and the original summary dropped them."]
    notes += [f"{more} more: --json"] if more > 0 else []
    columns = (Column("fact", "fact"), *(Column(condition.name, condition.name) for condition in others))
    return Table("Needed facts", columns, tuple(rows), tuple(notes))


def counted(values: Iterable[str]) -> str:
    """Values with how often each occurs, the most frequent first.

    >>> counted(["finished", "step limit", "finished"])
    'finished ×2, step limit'
    """
    return ", ".join(f"{value} ×{n}" if n > 1 else value for value, n in Counter(values).most_common())


def _short(text: str) -> str:
    kept, more = cut(text, SHORT)
    return f"{kept}…" if more else kept
