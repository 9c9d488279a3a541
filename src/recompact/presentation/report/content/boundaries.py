"""The boundaries of a verified run as tables: the paper's counts, and the list with effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recompact.attribution.counts import counts, unequal_note
from recompact.attribution.judgement import Verification
from recompact.attribution.legend import entry_of
from recompact.attribution.posterior import Thresholds
from recompact.attribution.registry import describe_allocation
from recompact.engine.store.verdicts import Verdict, effect_numbers
from recompact.values.effect import Effect
from recompact.values.tables import Column, Number, Row, Table, columns, format_signed

BOUNDARY_COLUMNS = (
    Column("boundary", "boundary", fold=True),
    *columns("step", "H", "H_interval", "B", "B_interval", "draws", "channel", H_interval="95 %", B_interval="95 %"),
)
LISTED = 300  # boundaries in the list of a page


def counts_table(verification: Verification, success: Mapping[str, bool]) -> Table:
    """The paper's counts, for all trajectories, the failed and the successful ones; `success` is by unit."""
    effects = {f.id: f.effect for f in verification.verdicts if f.effect is not None}
    limits = Thresholds(verification.settings.hazard, verification.settings.burden)
    heads = columns(
        *("group", "trajectories", "boundaries", "reduced", "severe_hazard", "longer", "severe_burden", "harmful"),
        "trajectories_with_harmful",
        group="outcome",
        reduced="H > 0",
        severe_hazard=f"H ≥ {limits.hazard:g}",
        longer="B > 0",
        severe_burden=f"B ≥ {limits.burden:g}",
        harmful="either",
        trajectories_with_harmful="trajectories with either",
    )
    rows = tuple(tuple(getattr(row, column.key) for column in heads) for row in counts(effects, success, limits))
    notes = ["By the estimates of all draws; an allocation that gives some boundaries fewer draws can retain fewer."]
    if unequal := unequal_note(effects.values()):
        notes.append(unequal)
    if helped := sum(e.helped and e.burden >= limits.burden for e in effects.values()):
        notes.append(f"Not under “either”, since the compaction clearly helped: {helped:,} with B ≥ {limits.burden:g}.")
    return Table("Boundaries by the outcome of their trajectories", heads, rows, tuple(notes))


def boundary_table(verification: Verification) -> Table:
    """Every boundary with an effect, most harmful first, for a page."""
    known = verification.examined
    rows = tuple(
        (
            *_row(f),
            Number(f.effect.p_harmful, 2) if f.effect else None,
            entry_of(f).label,
        )
        for f in known[:LISTED]
    )
    notes = [f"The first {LISTED:,} of {len(known):,}."] * (len(known) > LISTED)
    notes.append("Draws are PRE + POST.")
    if any(f.confirmed for f in known[:LISTED]):
        notes.append("H, B and draws of a boundary that has fresh pairs are of those alone, its P(harmful) is not.")
    meaning = "P(harmful) is the probability, after the draws of the verification, that H or B reaches its threshold."
    if describe_allocation(verification.settings).by_probability:
        notes.append(f"{meaning} The verdict goes by it.")
    else:
        notes.append(
            f"{meaning} The verdict goes by the estimates, so with few draws a boundary can count as harmful although"
            " P(harmful) is low."
        )
    heads = (*BOUNDARY_COLUMNS, *columns("P(harmful)", "verdict"))
    return Table("All boundaries, most harmful first", heads, rows, tuple(notes))


def brief_boundary_table(boundaries: Sequence[Verdict]) -> Table:
    """Boundaries in 80 columns, including those without draws, each with the symbol of its verdict."""
    rows = (_row(verdict, brief=True) for verdict in boundaries)
    marked = ((f"{row[0]} {entry_of(f).symbol}", *row[1:]) for row, f in zip(rows, boundaries, strict=True))
    return Table("", BOUNDARY_COLUMNS, tuple(marked))


def _row(verdict: Verdict, *, brief: bool = False) -> Row:
    """A brief row has one digit less in its intervals."""
    effect, outcomes = verdict.reported_effect, verdict.outcomes
    if effect is None:
        draws = f"{len(outcomes.pre)}+{len(outcomes.post)}"
        return str(verdict.id), verdict.row.step, None, "", None, "", draws, "left out" if verdict.left_out else None
    h, b = effect.hazard_estimate, effect.burden_estimate
    return (
        str(verdict.id),
        verdict.row.step,
        Number(effect.hazard, 2, signed=True),
        _interval(h.low, h.high, 1 if brief else 2, brief),
        Number(effect.burden, 1, signed=True),
        _interval(b.low, b.high, 0 if brief else 1, brief),
        f"{effect.pre}+{effect.post}",
        effect.channel if effect.channel != "none" else None,
    )


def _interval(low: float, high: float, digits: int, brief: bool) -> str:
    text = f"{format_signed(low, digits)} to {format_signed(high, digits)}"
    return text.replace("−", "-") if brief else text  # a terminal's numbers have a hyphen


def exact_boundary_table(verification: Verification) -> Table:
    """Every boundary with all its numbers, for programs; there is at least one. H and B are those of the verification;
    what fresh pairs say comes last."""
    rows = [{"boundary": str(f.id), **f.flat(), **_confirmation(f.confirmed)} for f in verification.verdicts]
    cells = tuple(tuple(Number(v) if isinstance(v, float) else v for v in row.values()) for row in rows)
    return Table("boundary-effects", columns(*rows[0]), cells)


def _confirmation(effect: Effect | None) -> dict[str, Any]:
    """The effect of fresh pairs alone, for a row of numbers."""
    return {
        **effect_numbers(effect, "confirmed_"),
        "confirmed_pre_draws": effect and effect.pre,
        "confirmed_post_draws": effect and effect.post,
    }
