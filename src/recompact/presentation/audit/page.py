"""An audit as one self-contained page, rendered as the report is, and its tables, which the terminal has as well.

Every text of a transcript is masked and escaped.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from recompact.audit.diagnosis import draft, draft_lines
from recompact.audit.findings import AuditedCompaction
from recompact.audit.scoring import Assessment, Group, RankedCompaction, SessionMean
from recompact.audit.worth import worth_of_score
from recompact.presentation.audit import words
from recompact.presentation.audit.bills import bills
from recompact.presentation.report.html.page import render_document
from recompact.values.masking import safe_line
from recompact.values.tables import Column, Number, Table, columns

LISTED = 200  # compactions in the list


def render(assessment: Assessment, exports: Collection[str] = (), *, top: int = 10, date: str = "") -> str:
    """The page as text. `exports` are the harnesses that a template can be exported to."""
    worst = assessment.scored[:top] or assessment.ranked[:top]
    latest, clauses = assessment.latest, draft(assessment)
    listing = ranking_table(assessment, assessment.ranked[:LISTED])
    totals = (("By harness and version", assessment.versions), ("By project", assessment.projects))
    return render_document(
        "audit.html.jinja",
        "recompact.presentation.audit",
        title="Audit of compactions",
        words=words,
        bills=tuple(bills(assessment)),
        assessment=assessment,
        worst=worst,
        latest=None if any(each is latest for each in worst) else latest,
        worth=worth_of_score(),
        measures=measure_table(assessment),
        listing=replace(listing, title="All compactions"),
        unlisted=max(len(assessment.ranked) - LISTED, 0),
        totals=tuple(group_table(title, groups) for title, groups in totals if groups),
        drafted=words.drafted_clauses(clauses),
        clauses=tuple(draft_lines(clauses)),
        steps=tuple(words.next_steps(assessment, clauses, exports)),
        date=date,
    )


def measure_table(assessment: Assessment) -> Table:
    """Every measure after compactions and at placebo points."""
    heads = (
        Column("measure", "measure", fold=True),
        # The verdict is the answer, so it comes first: a telephone shows two columns.
        *columns("verdict", "after", "placebo", "excess", "higher_in", higher_in="higher in"),
    )
    rows = tuple(
        (
            f"{each.measure.title}, {each.measure.unit}",
            words.verdict(each),
            _number(each.real),
            _number(each.placebo),
            _estimate(each.difference),
            f"{each.higher} of {each.unequal}",
        )
        for each in assessment.contrasts
    )
    notes = (
        "Means of sessions, with 95 % intervals over sessions. * the interval of the excess lies above zero.",
        "Higher in: sessions where the measure is higher after compactions, of those where it differs at all.",
    )
    return Table("After compactions and at placebo points", heads, rows, notes)


def ranking_table(assessment: Assessment, ranked: Sequence[RankedCompaction]) -> Table:
    """Compactions, the worst first, one to a row."""
    heads = (
        Column("compaction", "compaction", fold=True),
        *columns("score", "tokens", "excess", "covered"),
        Column("what", "what followed", fold=True),
    )
    rows = tuple(
        (
            words.place(each.session, each.compaction),
            None if each.score is None else Number(each.score, 2),
            short_size(each.compaction),
            None if each.excess_chars is None else _number(each.excess_chars),
            None if each.compaction.coverage is None else f"{each.compaction.coverage:.0%}",
            words.outline(each),
        )
        for each in ranked
    )
    notes = [
        "Excess: characters fetched again, beyond placebo. Covered: the share of the literals used afterwards that the"
        " summary carried."
    ]
    if assessment.scored:
        notes.insert(0, "Score: how rare such an excess is at placebo points; 1 is one in ten, 2 one in a hundred.")
    return Table(words.ranking(assessment), heads, rows, tuple(notes))


def group_table(title: str, groups: Sequence[Group]) -> Table:
    """Totals of harnesses or projects."""
    heads = (
        Column("name", "", fold=True),
        *columns("sessions", "compactions", "scored", "excess", "failures", "covered", failures="failures again"),
    )
    rows = tuple(
        (
            safe_line(each.name, 120) or "(not recorded)",
            each.sessions,
            each.compactions,
            each.scored,
            _estimate(each.excess_chars) if each.excess_chars else None,
            each.failures,
            f"{each.covered} of {each.needed}" if each.needed else None,
        )
        for each in groups
    )
    notes = (
        "Excess: characters fetched again per compaction, beyond placebo, as the mean of sessions. Covered: literals"
        " that were used afterwards and that a readable summary carried.",
        "Tasks, models and phases of work differ between harnesses and projects, so this is no ranking of them.",
    )
    return Table(title, heads, rows, notes)


def _number(value: float) -> Number:
    """Three digits at most behind the point, none of a large figure."""
    return Number(value, _digits(value))


def _estimate(mean: SessionMean) -> Number:
    ends = None if mean.low is None or mean.high is None else (mean.low, mean.high)
    # Less than the control is no harm, however clear it is.
    return Number(mean.value, _digits(mean.value), interval=ends, signed=True, unmarked=not mean.positive)


def _digits(value: float) -> int:
    """
    >>> [_digits(value) for value in (8371.4, 12.5, 1.234, 0.0)]
    [0, 1, 2, 0]
    """
    return 0 if abs(value) >= 100 or value == 0 else 1 if abs(value) >= 10 else 2


def short_size(compaction: AuditedCompaction) -> str:
    """Tokens before and after in thousands, such as `155k → 17k`; `~` where they are estimated from characters."""
    mark = "~" if compaction.estimated else ""
    sizes = (compaction.before, compaction.after)
    return " → ".join("?" if size is None else f"{mark}{size / 1000:.0f}k" for size in sizes)
