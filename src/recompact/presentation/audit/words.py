"""What an audit says: the same sentences for the terminal, the page and the JSON, each backed by its numbers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from statistics import fmean

from recompact.agents.settings import PROFILES
from recompact.audit.diagnosis import Draft
from recompact.audit.findings import AuditedCompaction, Reread, Session
from recompact.audit.measures import CHARACTERS_PER_TOKEN, RUN_SCHEMES
from recompact.audit.scoring import (
    LEAST,
    Assessment,
    Contrast,
    RankedCompaction,
    SessionMean,
    proportion,
)
from recompact.engine.config import AdaptConfig
from recompact.presentation.audit.bills import bill
from recompact.values.masking import safe_line
from recompact.values.session import SkippedFile
from recompact.values.shell import END, FROM_THE_END, Range
from recompact.values.tables import format_signed
from recompact.values.texts import quantity

OBSERVATIONAL = (
    "This is observational: it shows what agents did after compactions, beside what the same agents did at placebo "
    "points, where nothing was compacted.",
    "It can show that agents did work again which the dropped part of the context had made unnecessary. It cannot show "
    "that the task would have gone better without the compaction: a new topic also needs reading, and a fact that was "
    "lost without a trace leaves none here. Sessions, tasks and models differ, so this does not rank harnesses.",
)


def drafted_clauses(draft: Draft) -> str:
    """What the clauses of a draft rest on; nothing where there are none."""
    if not draft.clauses:
        return ""
    return (
        f"Not verified: from what {quantity(draft.readable, 'readable summary')} lacked and the agent then used, the"
        " method facts would ask a summary for the following. Whether it helps, only a run on tasks can tell."
    )


def next_steps(assessment: Assessment, draft: Draft, exports: Collection[str]) -> Iterator[tuple[str, str]]:
    """What to do next, each step with its command, for the harness of most of these compactions. `exports` are those
    that a template can be exported to."""
    harnesses = Counter(each.session.harness for each in assessment.ranked)
    harness = next((name for name, _ in harnesses.most_common()), "")
    target = harness if harness in exports else "HARNESS"
    if draft.clauses:
        yield "Write the default template with these clauses, unverified, with", "recompact audit PATH --draft"
        yield "Use it in your agent with", f"recompact export audit-template --to {target}"
    yield (
        "To know whether a compaction did harm, try both: continue from the same state with the context before it and "
        "with the context after it. Write a config and two sample tasks from a repository of yours with",
        f"recompact init --agent {harness if harness in PROFILES else 'AGENT'} --repo DIR",
    )
    yield "See that a task can be played and restored with", "recompact check mine.toml --play"
    yield "Record the tasks with", "recompact collect mine.toml"
    yield "Test every compaction with", "recompact verify mine.toml"
    yield "Revise the prompt against those that hurt with", "recompact adapt mine.toml"
    yield "Use what helped with", f"recompact export runs/mine-{AdaptConfig().method} --to {target}"


def amount(value: float) -> str:
    """A figure, as short as is readable.

    >>> amount(8371.4), amount(1.234), amount(0.0), amount(-152.3)
    ('8,371', '1.23', '0', '−152')
    """
    text = f"{value:,.0f}" if abs(value) >= 100 or value == 0 else f"{value:.3g}"
    return text.replace("-", "−")


def interval(estimate: SessionMean) -> str:
    """
    >>> interval(SessionMean(2.0, 1.0, 3.0, 9)), interval(SessionMean(2.0, None, None, 3))
    ('+2 [+1, +3]', '+2')
    """
    ends = (estimate.value,) if estimate.low is None or estimate.high is None else (estimate.low, estimate.high)
    texts = [("+" if value > 0 else "") + amount(value) for value in (estimate.value, *ends)]
    return texts[0] if estimate.low is None else f"{texts[0]} [{texts[1]}, {texts[2]}]"


def scope(assessment: Assessment) -> str:
    """What was read."""
    sessions = assessment.findings.sessions
    harnesses = Counter(session.harness for session in sessions)
    listed = ", ".join(f"{name} {number}" for name, number in harnesses.most_common())
    read = assessment.findings.size
    size = f"{read / 1e6:,.{0 if read >= 1e7 else 1}f} MB" if read >= 1e5 else f"{read / 1e3:,.1f} KB"
    return (
        f"{quantity(len(assessment.ranked), 'compaction')} in {quantity(len(sessions), 'session')} "
        f"({listed or 'none'}), {size} read."
    )


def answer(assessment: Assessment) -> Iterator[str]:
    """The main finding: text fetched again, beyond placebo, or why nothing can be said about it."""
    if not assessment.ranked:
        yield "No compaction was found, so there is nothing to compare."
        return
    main = assessment.contrast("refetched")
    if main is None:
        yield (
            "No session has both a compaction with calls after it and placebo points to compare it with, so "
            "nothing here shows harm. The list below gives the raw amounts."
        )
        return
    figures = (
        f"{amount(main.real)} characters per 10 calls after compactions, {amount(main.placebo)} at placebo points"
        f"{f' ({main.ratio:.1f} times)' if main.ratio else ''}; excess {interval(main.difference)} "
        f"over {quantity(main.difference.sessions, 'session')}"
    )
    if main.separates:
        if (share := proportion(assessment.ranked)) is not None:
            yield (
                f"A compaction took {share.dropped:,.0f} tokens out of the context on average (of "
                f"{share.compactions} with known sizes); agents fetched about {share.fetched_again:,.0f} of them again "
                f"that they would not have fetched anyway: {100 * share.share:.1f} %."
            )
        yield f"After compactions, agents fetched text again that a dropped result had held: {figures}."
        if (per := assessment.excess_chars) is not None:
            yield f"That is {interval(per)} characters per compaction beyond placebo, within at most 20 calls."
    elif main.difference.low is None:
        yield (
            f"Text fetched again: {figures}. With fewer than {LEAST} sessions there is no interval, so this does "
            "not show harm."
        )
    else:
        yield (
            f"Text fetched again does not separate compactions from placebo points here ({figures}), so it does "
            "not show harm."
        )


def outcomes(assessment: Assessment) -> Iterator[str]:
    """Scores of sessions with and without compactions, where the files have scores."""
    means = []
    for name, compacted in (("with a compaction", True), ("without one", False)):
        sessions = [each for each in assessment.findings.sessions if bool(each.compactions) is compacted]
        if scores := [each.info.score for each in sessions if each.info.score is not None]:
            means.append(f"{fmean(scores):.2f} for {quantity(len(scores), 'session')} {name}")
    if means:
        reason = "; longer tasks compact more often, so the groups differ in more than that" * (len(means) > 1)
        yield f"Mean score: {', '.join(means)}{reason}."
    if differences := _differences_within_tasks(assessment.findings.sessions):
        yield (
            f"Within {quantity(len(differences), 'task')} with sessions of both kinds, those with a compaction scored "
            f"{format_signed(fmean(differences), 2)} on average."
        )


def _differences_within_tasks(sessions: Iterable[Session]) -> list[float]:
    """Mean score with a compaction minus without, of each task of one harness that has scores of both."""
    tasks: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    for each in sessions:
        info = each.info
        if info.score is not None and info.task and info.standing == "main":
            without, compacted = tasks.setdefault((each.harness, info.task), ([], []))
            (compacted if each.compactions else without).append(info.score)
    return [fmean(compacted) - fmean(without) for without, compacted in tasks.values() if compacted and without]


def savings(compaction: AuditedCompaction) -> str | None:
    """What a compaction took out of the context, and what that saved; None where the sizes are not known."""
    if not compaction.before or compaction.after is None or compaction.before <= compaction.after:
        return None
    dropped = compaction.before - compaction.after
    again = sum(refetch.chars for refetch in compaction.refetches) // CHARACTERS_PER_TOKEN
    return (
        f"It took {dropped:,} tokens out of the context, which each of the {quantity(compaction.following, 'call')} "
        f"after it would have carried along; about {again:,} ({100 * again / dropped:.1f} %) were fetched again."
    )


def verdict(contrast: Contrast) -> str:
    """Whether a measure is higher after compactions."""
    if contrast.separates:
        return "excess"
    if contrast.difference.low is None:
        return "too few sessions"
    return "no clear difference"


def size(compaction: AuditedCompaction) -> str:
    """
    Tokens before and after, e.g. `155,377 → 16,970`; with `~` where they are estimated from characters.
    """
    mark = "~" if compaction.estimated else ""
    before = f"{mark}{compaction.before:,}" if compaction.before is not None else "?"
    return f"{before} → {f'{mark}{compaction.after:,}' if compaction.after is not None else '?'}"


def place(session: Session, compaction: AuditedCompaction) -> str:
    """Where a compaction is: its file and line."""
    return f"{session.label}:{compaction.line}"


def reason_unscored(each: RankedCompaction) -> str:
    """Why a compaction has no score."""
    compaction = each.compaction
    if compaction.kind == "clearing":
        return "old results were cleared, no summary was written"
    if compaction.dropped_in_all and not compaction.dropped_calls:
        return f"it dropped {quantity(compaction.dropped_in_all, 'call')}, none that read, ran or changed anything"
    if compaction.kept_in_all and not compaction.dropped_calls:
        return "it dropped no call"
    if not compaction.dropped_calls:
        return "no call since the last compaction" if compaction.ordinal > 1 else "no call before it is in the file"
    if each.point is None:
        return _reason_unmeasured(each)
    return "no placebo points to compare it with"


def _reason_unmeasured(each: RankedCompaction) -> str:
    """Why too little came after a compaction: too few calls, or too few that the measures count."""
    following, measured = each.compaction.following, each.compaction.measured[each.session.scheme]
    if following <= measured:
        return f"only {quantity(following, 'call')} after it" if following else "no call after it"
    if following == 1:
        return "the only call after it read, ran or changed nothing"
    scheme = next(scheme for scheme in RUN_SCHEMES if scheme.name == each.session.scheme)
    whole = following <= scheme.window
    calls = f"the {quantity(following, 'call')}" if whole else f"the first {quantity(scheme.window, 'call')}"
    return f"{f'only {measured}' if measured else 'none'} of {calls} after it read, ran or changed anything"


def gist(each: RankedCompaction) -> str:
    """What is worst about a compaction, in one line."""
    compaction = each.compaction
    parts = []
    if compaction.failures:
        parts.append(f"known failure hit again: {safe_line(compaction.failures[0].call, 80)}")
    reading = [refetch for refetch in compaction.refetches if refetch.reading]
    if reading:
        chars = sum(refetch.chars for refetch in reading)
        parts.append(f"{chars:,} characters fetched again in {quantity(len(reading), 'call')}")
    lost = [need for need in compaction.needs if not need.covered]
    if compaction.readable and lost:
        parts.append(f"{quantity(len(lost), 'literal')} used that the summary lacks")
    if not parts and compaction.following and compaction.dropped_calls:
        parts.append("nothing was fetched again")
    return "; ".join(parts) or reason_unscored(each)  # where nothing can be known about it


def outline(each: RankedCompaction) -> str:
    """A compaction in one line of a list: what is worst about it, and why it has no score."""
    worst, reason = gist(each), "" if each.score is not None else reason_unscored(each)
    return f"no score: {reason}" if reason == worst else f"{worst}; no score: {reason}" if reason else worst


def ranking(assessment: Assessment) -> str:
    """What the list of compactions, the worst first, may be called."""
    return "The worst compactions" if assessment.scored else "The compactions, most text fetched again first"


def details(each: RankedCompaction) -> Iterator[str]:
    """What else is known about a compaction."""
    compaction = each.compaction
    phase = "" if compaction.starts_turn is None else "in the middle of a turn, "
    if compaction.starts_turn:
        phase = "at the start of a user turn, "
    edit = "with no edit before it in the file"
    if compaction.since_edit is not None:
        edit = (
            f"{quantity(compaction.since_edit, 'call')} after the last edit"
            if compaction.since_edit
            else "right after an edit"
        )
    reading = "; the calls before it were mostly reading" if compaction.reading_phase else ""
    yield (
        f"It happened {phase}{edit}{reading}. It dropped {quantity(compaction.dropped_in_all, 'call')} and kept "
        f"{compaction.kept_in_all}."
    )
    if (saved := savings(compaction)) is not None:
        yield saved
    if (paid := bill(compaction)) is not None:
        yield paid
    if each.control:
        whose = {"own": "of this session", "harness": "of this harness's sessions", "pooled": "of all sessions"}
        yield f"The control: the placebo points {whose[each.control]}."
    if not compaction.readable:
        yield "The summary is not readable in the file, so what it covered is unknown."
    elif compaction.coverage is not None:
        late = sum(need.lost_late for need in compaction.needs)
        more = f" {quantity(late, 'literal')} had survived an earlier summary and not this one." if late else ""
        yield (
            f"Of {quantity(len(compaction.needs), 'literal')} from the dropped part that the agent used afterwards,"
            f" the summary carried {sum(need.covered for need in compaction.needs)}.{more}"
        )

    if rules := compaction.lost_rules:
        quoted = "; ".join(f"“{safe_line(rule, 160)}”" for rule in rules[:3])
        more = f"; and {len(rules) - 3} more" if len(rules) > 3 else ""
        yield f"The summary lacks {quantity(len(rules), 'rule')} that the user had stated: {quoted}{more}."


def reread(again: Reread) -> str:
    """
    >>> reread(Reread(Range("/a/b.py"), 7, 1, Range("/a/b.py", 10, 90), 3))
    '/a/b.py, whole, at line 7; before lines 10 to 90, at line 3'
    """
    now, before = _lines_of(again.range), _lines_of(again.earlier)
    return f"{safe_line(again.range.path)}, {now}, at line {again.line}; before {before}, at line {again.earlier_line}"


def _lines_of(lines: Range) -> str:
    """
    >>> _lines_of(Range("b.py", 20)), _lines_of(Range("b.py", END - 50, END))
    ('from line 20 on', 'the last 50 lines')
    """
    if lines.first > FROM_THE_END:
        return f"{'some of ' if lines.last < END else ''}the last {END - lines.first} lines"
    if lines.last < END:
        return f"lines {lines.first} to {lines.last}"
    return f"from line {lines.first} on" if lines.first > 1 else "whole"


def unread(skipped: Sequence[SkippedFile], most: int = 20) -> Iterator[str]:
    """Which files were not read, and why; at most so many are named one by one."""
    by_reason: dict[str, list[SkippedFile]] = defaultdict(list)
    for file in skipped:
        by_reason[file.reason].append(file)
    if links := by_reason["link"]:
        yield f"{quantity(len(links), 'link')} inside the folders not followed."
    if special := by_reason["special"]:
        yield f"{quantity(len(special), 'special file')} skipped."
    if foreign := by_reason["foreign"]:
        yield f"{quantity(len(foreign), 'JSON file')} of no known transcript format: {_list_paths(foreign)}."
    if empty := by_reason["empty"]:
        yield f"{quantity(len(empty), 'empty file')}: {_list_paths(empty)}."
    unreadable = by_reason["unreadable"]
    for file in unreadable[:most]:
        yield f"{safe_line(str(file.path))}: {safe_line(file.why)}."
    if len(unreadable) > most:
        yield f"{quantity(len(unreadable) - most, 'more file')} could not be read."


def left_out(assessment: Assessment) -> Iterator[str]:
    """What was not read, or not understood, and why."""
    yield from unread(assessment.findings.skipped)
    sessions = assessment.findings.sessions
    unknown: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    for session in sessions:
        unknown.update(session.tally.unknown)
        notes.update(session.tally.notes)
    if unknown:
        listed = ", ".join(f"{safe_line(kind, 60)} {number}" for kind, number in unknown.most_common(8))
        more = f" and {len(unknown) - 8} more types" if len(unknown) > 8 else ""
        yield f"{quantity(sum(unknown.values()), 'record')} of unknown types: {listed}{more}."
    tallies = [session.tally for session in sessions]
    for number, what in (
        (sum(tally.broken for tally in tallies), "record that could not be read: not JSON, or not of its type's shape"),
        (sum(tally.long for tally in tallies), "line over the limit of 32 MB"),
        (sum(tally.cut for tally in tallies), "file whose last line is cut: normal for a session that was running"),
        (sum(tally.subagent for tally in tallies), "record of subagents inside a main agent's file, left out"),
        (sum(tally.orphans for tally in tallies), "result without a call"),
        (sum(session.rewinds for session in sessions), "branch left behind, kept apart"),
        (
            sum(session.copies for session in sessions),
            "compaction copied into a fork or a resumed session, counted once",
        ),
        (sum(session.info.standing == "subagent" for session in sessions), "session of a subagent"),
    ):
        if number:
            first, _, rest = what.partition(" ")
            yield f"{quantity(number, first)} {rest}."
    for what, number in notes.items():
        first, _, rest = what.partition(" ")
        yield f"{quantity(number, first)} {rest}."


def _list_paths(files: list[SkippedFile]) -> str:
    shown = ", ".join(safe_line(file.path.name, 80) for file in files[:5])
    return shown + (f" and {len(files) - 5} more" if len(files) > 5 else "")
