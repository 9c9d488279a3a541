"""An audit as one self-contained page, rendered as the report is: every text of a transcript masked and escaped."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from recompact.audit.drafting import draft, lines
from recompact.audit.scoring import Assessment
from recompact.audit.worth import recorded_worth, sentences
from recompact.presentation.audit import words
from recompact.presentation.audit.bills import bills
from recompact.presentation.audit.tables import group_table, measure_table, ranking_table
from recompact.presentation.report.html.page import render_document

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
        worth=sentences(recorded_worth()),
        measures=measure_table(assessment),
        listing=replace(listing, title="All compactions"),
        unlisted=max(len(assessment.ranked) - LISTED, 0),
        totals=tuple(group_table(title, groups) for title, groups in totals if groups),
        drafted=words.drafted_clauses(clauses),
        clauses=tuple(lines(clauses)),
        steps=tuple(words.next_steps(assessment, clauses, exports)),
        date=date,
    )
