"""An assessment as plain values for JSON. Strings of transcripts are masked and made visible here too."""

from __future__ import annotations

from typing import Any

from recompact.audit.findings import AuditedCompaction
from recompact.audit.scoring import Assessment, Contrast, Group, RankedCompaction, SessionMean, proportion
from recompact.audit.worth import worth_of_score
from recompact.presentation.audit import words
from recompact.presentation.audit.bills import bills
from recompact.values.masking import safe, safe_line
from recompact.values.shell import END

EXCERPT = 2_000


def plain(assessment: Assessment) -> dict[str, Any]:
    """Everything that the page shows, except its texts before and after."""
    findings = assessment.findings
    return {
        "scope": words.scope(assessment),
        "answer": list(words.answer(assessment)),
        "outcomes": list(words.outcomes(assessment)),
        "costs": list(bills(assessment)),
        "observational": list(words.OBSERVATIONAL),
        "worth_of_the_score": list(worth_of_score()),
        "sessions": len(findings.sessions),
        "bytes": findings.size,
        "placebo_points": assessment.placebo_points,
        "measures": [_contrast(each) for each in assessment.contrasts],
        "excess_characters": _estimate(assessment.excess_chars),
        "proportion": _proportion(assessment),
        "compactions": [_plain_ranked(each) for each in assessment.ranked],
        "harnesses": [_group(each) for each in assessment.harnesses],
        "versions": [_group(each) for each in assessment.versions],
        "projects": [_group(each) for each in assessment.projects],
        "left_out": list(words.left_out(assessment)),
    }


def _estimate(estimate: SessionMean | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "sessions": estimate.sessions}


def _proportion(assessment: Assessment) -> dict[str, Any] | None:
    each = proportion(assessment.ranked)
    if each is None:
        return None
    return {"tokens_dropped": each.dropped, "tokens_fetched_again": each.fetched_again, "compactions": each.compactions}


def _contrast(each: Contrast) -> dict[str, Any]:
    return {
        "name": each.measure.name,
        "title": each.measure.title,
        "unit": each.measure.unit,
        "after_compactions": each.real,
        "at_placebo_points": each.placebo,
        "ratio": each.ratio,
        "excess": _estimate(each.difference),
        "sessions_higher": each.higher,
        "sessions_unequal": each.unequal,
        "real_points": each.real_points,
        "placebo_points": each.placebo_points,
        "shown_as_harm": each.separates,
        "verdict": words.verdict(each),
    }


def _plain_ranked(each: RankedCompaction) -> dict[str, Any]:
    session, compaction, info = each.session, each.compaction, each.session.info
    return {
        "score": each.score,
        "unscored_because": words.reason_unscored(each) if each.score is None else None,
        "harness": session.harness,
        "version": safe_line(info.version),
        "project": safe_line(info.project),
        "session": safe_line(info.session),
        "standing": info.standing,
        "session_score": info.score,
        "file": safe_line(str(session.path), 1000) + (f"/{safe_line(session.member)}" if session.member else ""),
        "line": compaction.line,
        "kind": compaction.kind,
        "trigger": safe_line(compaction.trigger),
        "tokens_before": compaction.before,
        "tokens_after": compaction.after,
        "sizes_estimated": compaction.estimated,
        "dropped_calls": compaction.dropped_in_all,
        "kept_calls": compaction.kept_in_all,
        "calls_after": compaction.following,
        "starts_turn": compaction.starts_turn,
        "calls_since_edit": compaction.since_edit,
        "reading_phase": compaction.reading_phase,
        "control": each.control,
        "measures": dict(each.point.values) if each.point else {},
        "excess": dict(each.excess),
        "excess_characters": each.excess_chars,
        "summary_readable": compaction.readable,
        "summary_characters": compaction.summary_chars,
        **_again(compaction),
        "literals_needed": len(compaction.needs),
        "literals_covered": sum(need.covered for need in compaction.needs) if compaction.readable else None,
        "literals_missing": _missing(compaction) if compaction.readable else None,
        "rules_missing": [safe_line(rule, 240) for rule in compaction.lost_rules] if compaction.readable else None,
        "bill": {**compaction.bill.to_json(), "calls_after": compaction.replies} if compaction.bill else None,
        "summary": safe(compaction.scene.summary, EXCERPT) if compaction.readable else None,
    }


def _missing(compaction: AuditedCompaction) -> list[dict[str, Any]]:
    """The literals that were used afterwards and that the summary lacks, which only a readable one tells."""
    return [
        {
            "literal": safe_line(need.literal.text),
            "kind": need.literal.kind,
            "line": need.line,
            "found_again": need.found_again,
            "in_an_earlier_summary": need.lost_late,
        }
        for need in compaction.needs
        if not need.covered
    ]


def _again(compaction: AuditedCompaction) -> dict[str, Any]:
    """What was done again: fetched, read, failed."""
    return {
        "fetched_again": [
            {
                "call": safe_line(refetch.call, 240),
                "line": refetch.line,
                "position": refetch.position,
                "characters": refetch.chars,
                "share": round(refetch.share, 3),
                "earlier_call": safe_line(refetch.earlier, 240),
                "earlier_line": refetch.earlier_line,
                "age_in_calls": refetch.age,
                "reading": refetch.reading,
            }
            for refetch in compaction.refetches
        ],
        "read_again": [
            {
                "path": safe_line(reread.range.path),
                "first": reread.range.first,
                "last": reread.range.last if reread.range.last < END else None,
                "line": reread.line,
                "earlier_first": reread.earlier.first,
                "earlier_last": reread.earlier.last if reread.earlier.last < END else None,
                "earlier_line": reread.earlier_line,
            }
            for reread in compaction.rereads
        ],
        "failures_again": [
            {
                "call": safe_line(failure.call, 240),
                "line": failure.line,
                "error": safe_line(failure.error),
                "first_line": failure.earlier_line,
            }
            for failure in compaction.failures
        ],
    }


def _group(each: Group) -> dict[str, Any]:
    return {
        "name": safe_line(each.name),
        "sessions": each.sessions,
        "compactions": each.compactions,
        "scored": each.scored,
        "excess_characters": _estimate(each.excess_chars),
        "failures_again": each.failures,
        "literals_needed": each.needed,
        "literals_covered": each.covered,
    }
