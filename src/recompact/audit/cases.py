"""What is behind the measures of one compaction: the calls, commands and literals themselves,
and all that is known of it once its window is complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from recompact.audit.findings import AuditedCompaction, Failure, Need, Refetch, Reread, Scene, ShownCall
from recompact.audit.measures import (
    CHARACTERS_PER_TOKEN,
    WIDE,
    Horizon,
    Point,
    Scheme,
    Step,
    failed_again,
    measure,
    refetched_of,
)
from recompact.audit.noise import built_in_names
from recompact.values.call_effects import ASIDE, READING, CallEffect
from recompact.values.literals import Literal, contains, covers, holds, literals, rules_in, says
from recompact.values.receipt import OUTPUT, READ, CompactionBill
from recompact.values.session import CompactionEvent, Size
from recompact.values.shell import join_path

SUMMARY = 24_000  # characters of a summary that a case shows
NEEDS = 400  # literals of one window that are looked up
RULES = 50  # that are looked for
COMMAND = 200  # characters of a command that a summary could be expected to carry
RUNNING = frozenset({"test", "other", "vcs-change"})


class Text(NamedTuple):
    """A text of the session: its role, and how much room it takes up."""

    number: int
    role: str
    text: str
    chars: int


def refetches(window: Sequence[Step], boundary: Horizon, known: Mapping[int, Step]) -> tuple[Refetch, ...]:
    """The calls that fetched again what the boundary had dropped, largest first."""
    last = window[0].index - 1 if window else 0  # of all calls before the boundary
    refetched_calls = []
    for position, step in enumerate(window, 1):
        chars = refetched_of(step, boundary)
        if not chars:
            continue
        place = max((p for p, _ in step.origins if boundary.dropped(p)), key=dict(step.origins).__getitem__)
        earlier = known.get(place)
        refetched_calls.append(
            Refetch(
                step.effect.line,
                step.line,
                position,
                chars,
                chars / step.chars,
                earlier.effect.line if earlier else "",
                earlier.line if earlier else 0,
                last - earlier.index if earlier else 0,
                step.effect.kind in READING,
            )
        )
    return tuple(sorted(refetched_calls, key=lambda each: -each.chars))


def rereads(window: Sequence[Step], boundary: Horizon, known: Mapping[int, Step]) -> tuple[Reread, ...]:
    """The file ranges that were read again."""
    return tuple(
        Reread(again.range, step.line, position, again.earlier, known[again.place].line if again.place in known else 0)
        for position, step in enumerate(window, 1)
        for again in step.again
        if boundary.dropped(again.place)
    )


def failures(window: Sequence[Step], boundary: Horizon) -> tuple[Failure, ...]:
    """The commands that met a known failure again."""
    return tuple(
        Failure(step.effect.line, step.line, position, step.failure.error, step.failure.line)
        for position, step in enumerate(window, 1)
        if step.failure is not None and failed_again(step, boundary)
    )


def needs(
    window: Sequence[Step],
    dropped: Sequence[Text],
    kept: Sequence[Text],
    since: Sequence[Text],
    event: CompactionEvent,
    earlier_summary: str,
    folder: str,
) -> tuple[Need, ...]:
    """The literals of the dropped part that the agent used, unless the kept part has them or somebody but the agent had
    given them again by then. The folder that the session runs in is known to every agent."""
    summary = "\n".join(filter(None, (event.summary, event.restated)))
    visible_texts = [text for text in since if text.role in ("user", "attachment", "system")]
    results = [text for text in since if text.role == "result"]
    older, kept_texts = searchable(text.text for text in dropped), searchable(text.text for text in kept)
    needs: list[Need] = []
    for position, step, used in _first_uses(window):
        here = []
        for literal in used:
            if (
                _leads_to(literal, folder)
                or _stands_in(literal, kept_texts)
                or not any(holds(t, literal) for t in older)
            ):
                continue
            if _stands_in(literal, (text.text for text in visible_texts if text.number < step.number)):
                continue
            covered = covers(summary, literal)
            again = not covered and _stands_in(literal, (text.text for text in results if text.number < step.number))
            late = not covered and bool(earlier_summary) and covers(earlier_summary, literal)
            here.append(Need(literal, step.effect.line, step.line, position, covered, again, late))
        needs += (need for need in here if not any(_within(need.literal, other.literal) for other in here))
    return tuple(needs)


def _first_uses(window: Sequence[Step]) -> Iterator[tuple[int, Step, list[Literal]]]:
    """The literals of each call's arguments, each at its first use."""
    forms: set[str] = set()
    for position, step in enumerate(window, 1):
        if step.effect.kind in ASIDE:
            continue
        new = []
        for literal in (*literals(step.effect.query), *_command(step.effect)):
            known = literal.kind == "name" and literal.form in built_in_names()
            if not known and literal.form not in forms and len(forms) < NEEDS:
                forms.add(literal.form)
                new.append(literal)
        yield position, step, new


def _within(literal: Literal, other: Literal) -> bool:
    """Whether a literal is a part of a longer one, which then counts for both."""
    return len(literal.form) < len(other.form) and contains(other.form, literal.form)


def _command(effect: CallEffect) -> Iterator[Literal]:
    """The command of a call that builds, tests or otherwise runs something: the agent must know how."""
    form = " ".join(effect.query.split())
    if effect.line.startswith("$ ") and effect.kind in RUNNING and " " in form and len(form) <= COMMAND:
        yield Literal("command", form, form)


def searchable(texts: Iterable[str]) -> list[str]:
    """Texts joined into few, to make searching fast. Those with wide characters stay separate: they are slower."""
    narrow: list[str] = []
    wide: list[str] = []
    for each in texts:
        (narrow if each.isascii() else wide).append(each)
    return ["\n".join(narrow), *wide]


def lost_rules(dropped: Sequence[Text], kept: Sequence[Text], event: CompactionEvent) -> tuple[str, ...]:
    """The rules that the user had stated in the dropped part and that neither the summary nor what was kept has."""
    if event.summary is None:
        return ()
    shown = "\n".join((event.summary, event.restated, *(text.text for text in kept if text.role == "user")))
    stated = dict.fromkeys(rule for text in dropped if text.role == "user" for rule in rules_in(text.text))
    return tuple(rule for rule in list(stated)[:RULES] if not says(shown, rule))


def _leads_to(literal: Literal, folder: str) -> bool:
    """Whether a path is this folder, or one that it lies in."""
    return literal.kind == "path" and f"{join_path('', folder)}/".startswith(f"{join_path('', literal.text)}/")


def _stands_in(literal: Literal, texts: Iterable[str]) -> bool:
    """Whether one of the texts has it, with the same benefit of the doubt as a summary gets."""
    return any(covers(text, literal) for text in texts)


def scene(tail: Sequence[Step], event: CompactionEvent, asked: str) -> Scene:
    """A compaction in readable form, with the calls before it."""
    before = tuple(ShownCall(step.line, step.effect.line, step.excerpt) for step in tail)
    return Scene(before, "\n\n".join(filter(None, (event.summary, event.restated)))[:SUMMARY], asked)


@dataclass
class PendingCompaction:
    """A compaction whose window is still open."""

    compaction: AuditedCompaction  # as far as it is known
    event: CompactionEvent
    boundary: Horizon
    before: int | None
    after: int | None
    chars_before: int  # 0 where the file does not hold what was compacted
    chars_after: int
    dropped: list[Text]
    kept: list[Text]
    known: dict[int, Step]
    earlier_summary: str
    folder: str  # that the session runs in
    first: Size | None = None  # what the file reports of the first reply after it


def settle(
    pending: PendingCompaction, steps: Sequence[Step], since: Sequence[Text], schemes: Sequence[Scheme]
) -> AuditedCompaction:
    """What a compaction and the calls after it show; `since` are the texts after it."""
    boundary, event, compaction = pending.boundary, pending.event, pending.compaction
    window = steps[: WIDE.window]
    points, measured = {}, {}
    starts_turn = steps[0].starts_turn if steps else None
    for scheme in schemes:
        counted = [step for step in steps[: scheme.window] if step.effect.kind not in ASIDE]
        measured[scheme.name] = len(counted)
        if len(counted) >= scheme.least and compaction.dropped_calls:
            values = measure(steps[: scheme.window], boundary)
            points[scheme.name] = Point(values, compaction.dropped_calls, bool(starts_turn), len(counted))
    before, after, estimated = _sizes(pending)
    shown = (
        ShownCall(step.line, step.effect.line, step.excerpt, refetched_of(step, boundary), failed_again(step, boundary))
        for step in window
    )
    return replace(
        compaction,
        scene=replace(compaction.scene, after=tuple(shown)),
        before=before,
        after=after,
        estimated=estimated,
        following=len(steps),
        starts_turn=starts_turn,
        points=points,
        measured=measured,
        refetches=refetches(window, boundary, pending.known),
        rereads=rereads(window, boundary, pending.known),
        failures=failures(window, boundary),
        needs=needs(window, pending.dropped, pending.kept, since, event, pending.earlier_summary, pending.folder),
        lost_rules=lost_rules(pending.dropped, pending.kept, event),
        bill=_bill(pending, before, after),
    )


def _bill(pending: PendingCompaction, before: int | None, after: int | None) -> CompactionBill | None:
    """From what the first reply after it read. What the summary itself cost, files do not tell: at least its own text,
    and reading the context from the cache."""
    first = pending.first
    if first is None or first.read is None or first.written is None or not before or not after:
        return None
    summary = OUTPUT * (len(pending.event.summary or "") // CHARACTERS_PER_TOKEN) + READ * before
    return CompactionBill(first.read, first.written, before - after, summary)


def _sizes(pending: PendingCompaction) -> tuple[int | None, int | None, bool]:
    """Tokens before and after, and whether they are estimated. What the file does not tell is None.

    A context that grew by being compacted was not all in the file; a summary that cannot be read has no known size.
    """
    if pending.before:
        return pending.before, pending.after or None, False
    before, after = pending.chars_before, pending.chars_after
    readable = pending.event.summary is not None or pending.event.kind == "clearing"
    return (
        before // CHARACTERS_PER_TOKEN if before >= max(after, 1) else None,
        after // CHARACTERS_PER_TOKEN if readable else None,
        True,
    )
