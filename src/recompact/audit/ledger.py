"""One session, taken in event by event: what is visible, what each call repeats, and the measures at its boundaries.

Only the stretch since the last compaction is held, with the text that the model could see; both are bounded by a
context window, not by the length of the file.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean

from recompact.audit.cases import PendingCompaction, Text, scene, settle
from recompact.audit.findings import AuditedCompaction, Session
from recompact.audit.index import FailureIndex, LineIndex, ReadIndex
from recompact.audit.measures import SCHEMES, WIDE, Horizon, Point, Scheme, Step, far_enough, placebos
from recompact.audit.noise import without_reminders
from recompact.audit.visibility import Visible, intervals, visible_numbers
from recompact.values.call_effects import ASIDE, PHASE, effect_of, in_reading_phase
from recompact.values.session import (
    Call,
    CompactionEvent,
    Event,
    Info,
    KeptBut,
    KeptFrom,
    KeptKeys,
    Passage,
    Result,
    Rewind,
    Size,
    Tally,
)

TEXT_LIMIT = 32_000_000  # characters of visible text that are held: more than any context window
EXCERPT = 400  # characters of a result that a case shows
SETTLING = 8  # calls after a window by which its parallel calls' results are in
_OWN = frozenset({"assistant", "call", "result", "summary"})  # roles of texts that only a session under way has


@dataclass
class _Stretch:
    """The calls since the last compaction."""

    earlier: list[Step] = field(default_factory=list)  # from before it, still visible
    steps: list[Step] = field(default_factory=list)


class Ledger:
    """Takes in the events of one session; `close` returns what was found."""

    def __init__(self, tally: Tally, schemes: tuple[Scheme, ...] = SCHEMES) -> None:
        self._schemes = schemes
        self._info = Info()
        self._number = 0
        self._keys: dict[str, tuple[int, int]] = {}
        self._visible = Visible()
        self._shown = self._visible  # since the last compaction, before any rewind
        self._rewound: list[tuple[int, int]] = []  # since then: up to where and when, for what was visible in between
        self._lines = LineIndex()
        self._reads = ReadIndex()
        self._failures = FailureIndex()
        self._last: dict[int, tuple[int, int]] = {}  # call key -> its last result, and how many edits there had been
        self._open: dict[str, Step] = {}  # calls waiting for their results
        self._known: dict[int, Step] = {}  # visible results
        self._in_view: list[Step] = []  # calls of any kind that are visible, with their results
        self._texts: deque[Text] = deque()
        self._text_chars = 0
        self._stretch = _Stretch()
        self._pending: PendingCompaction | None = None
        self._compactions: list[AuditedCompaction] = []
        self._points: dict[str, list[Point]] = {scheme.name: [] for scheme in schemes}
        self._kept_calls: list[int] = []
        self._calls = self._edits = self._rewinds = 0
        self._last_edit: int | None = None  # its place among the calls
        self._recent: deque[str] = deque(maxlen=PHASE)
        self._user_spoke = False
        self._asked = ""
        self._batch = ""
        self._size: int | None = None
        self._replies = 0  # since the last compaction, as far as the file reports their sizes
        self._summary = ""
        self._summary_number = -1  # of the compaction that wrote it
        self.tally = tally

    def take(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case Result():
                self._take_result(event)
            case Call():
                self._take_call(event)
            case Passage():
                self._take_message(event)
            case Size():
                self._take_size(event)
            case Info():
                self._take_info(event)
            case CompactionEvent():
                self._take_compaction(event)
            case Rewind():
                self._take_rewind(event)

    def _next(self, key: str) -> int:
        number = self._number
        self._number += 1
        if key:
            first, _ = self._keys.get(key, (number, number))
            self._keys[key] = (first, number)
        return number

    def _hold(self, text: Text) -> None:
        self._texts.append(text)
        self._text_chars += text.chars
        while self._text_chars > TEXT_LIMIT and len(self._texts) > 1:
            self._text_chars -= self._texts.popleft().chars
            self.tally.notes["text too old to be searched for literals"] += 1

    def _take_info(self, event: Info) -> None:
        old = self._info
        self._info = Info(
            old.session or event.session,
            event.version or old.version,
            old.project or event.project,
            event.model or old.model,
            old.standing or event.standing,
            old.parent or event.parent,
            event.score if event.score is not None else old.score,
            event.task or old.task,
        )

    def _take_message(self, event: Passage) -> None:
        number = self._next(event.key)
        if event.role == "user":
            self._user_spoke = True
            self._asked = event.text[:2_000]
        elif event.role == "attachment":
            self._lines.add(event.text, number)
        if event.text:
            self._hold(Text(number, event.role, event.text, len(event.text)))

    def _take_size(self, event: Size) -> None:
        self._size = event.tokens
        self._replies += 1
        if self._pending is not None:
            if self._pending.after is None:
                self._pending.after = event.tokens
            if self._pending.first is None and (event.read or event.written):
                self._pending.first = event

    def _take_call(self, event: Call) -> None:
        number = self._next(event.key)
        done = effect_of(event)
        batch = event.batch or str(number)
        step = Step(number, self._calls, done, event.line, self._user_spoke, batch != self._batch)
        self._calls += 1
        self._batch, self._user_spoke = batch, False
        self._stretch.steps.append(step)
        self._in_view.append(step)
        self._open[event.id] = step
        self._hold(Text(number, "call", done.query, _weight(event)))
        if done.kind not in ASIDE:
            self._recent.append(done.kind)
        if self._pending is not None and len(self._stretch.steps) >= WIDE.window + SETTLING:
            self._settle()

    def _take_result(self, event: Result) -> None:
        number = self._next(event.key)
        step = self._open.pop(event.call, None)
        if step is None:
            self.tally.orphans += 1
            return
        done = step.effect
        step.result, step.failed = number, event.failed
        self._hold(Text(number, "result", event.text, len(event.text)))
        step.repeat, edits = self._last.get(done.key, (-1, -1))
        step.unchanged = edits == self._edits
        self._last[done.key] = (number, self._edits)
        if done.kind in ASIDE:
            return
        own = without_reminders(event.text)
        step.origins, step.chars = self._lines.add(own, number), len(own)
        step.again = self._reads.add(done.reads, number)
        step.failure = self._failures.add(done, event.text, event.failed, number, step.line, self._edits)
        step.excerpt = event.text[:EXCERPT]
        if done.kind == "edit" and event.failed is not True:
            self._edits += 1
            self._last_edit = max(step.index, self._last_edit or 0)
            self._reads.forget(done.changes)
        self._known[number] = step

    def _take_rewind(self, event: Rewind) -> None:
        place = self._keys.get(event.key)
        if place is None:
            self.tally.notes["rewind to a record that is not in the file"] += 1
            return
        self._rewinds += 1
        self._rewound.append((place[1] + 1, self._number))
        self._visible = self._visible.until(place[1] + 1).onwards(self._number)

    def _visible_at(self, number: int) -> Visible:
        return self._shown.after_rewinds((end, since) for end, since in self._rewound if since <= number)

    def _take_compaction(self, event: CompactionEvent) -> None:
        if self._pending is not None:
            self._settle()
        boundary = self._boundary(event)
        known = {number: step for number, step in self._known.items() if boundary.before.holds(number)}
        kept_calls = sum(boundary.after.holds(number) for number in known)
        self._close_stretch(kept_calls if event.kind == "summary" else None, compacted=True)
        kept: list[Text] = []
        dropped: list[Text] = []
        for text in self._texts:
            (kept if boundary.after.holds(text.number) else dropped).append(text)
        after = sum(text.chars for text in kept) + len(_words_of(event))
        dropped_in_all, kept_in_all = self._count_calls(boundary)
        compaction = AuditedCompaction(
            ordinal=len(self._compactions) + 1,
            line=event.line,
            kind=event.kind,
            trigger=event.trigger,
            identity=event.identity,
            summary_chars=None if event.summary is None else len(event.summary),
            dropped_calls=len(known) - kept_calls,
            kept_calls=kept_calls,
            dropped_in_all=dropped_in_all,
            kept_in_all=kept_in_all,
            since_edit=None if self._last_edit is None else self._calls - 1 - self._last_edit,
            reading_phase=in_reading_phase(tuple(self._recent)),
            scene=scene(sorted(known.values(), key=lambda step: step.number)[-PHASE:], event, self._asked),
        )
        self._pending = PendingCompaction(
            compaction,
            event,
            boundary,
            event.tokens_before if event.tokens_before is not None else self._size,
            event.tokens_after,
            self._text_chars if any(text.role in _OWN for text in self._texts) else 0,
            after,
            [text for text in dropped if boundary.before.holds(text.number)],
            kept,
            known,
            self._summary,
            self._info.project,
        )
        self._size = None
        if event.kind == "summary":
            self._summary, self._summary_number = _words_of(event), boundary.number
            self._failures.take_summary(self._summary, boundary.number)
        self._lines.compacted(boundary.before)
        self._forget(boundary, kept)
        if words := _words_of(event):
            self._hold(Text(boundary.number, "summary", words, len(words)))
        self._stretch = _Stretch(list(self._known.values()))

    def _boundary(self, event: CompactionEvent) -> Horizon:
        """What was visible right before a compaction, and right after it."""
        number = self._next(event.key)
        before = self._visible.until(number)
        match event.kept:
            case KeptFrom(key):
                after = before.since(self._keys[key][0]) if key in self._keys else intervals(())
                if key not in self._keys:
                    self.tally.notes["compaction whose kept part is not in the file"] += 1
            case KeptKeys(keys):
                after = visible_numbers(n for key in keys for n in self._span(key) if before.holds(n))
            case KeptBut(keys):
                after = before.without(n for key in keys for n in self._span(key))
            case _:
                after = intervals(())
        if event.system_stays:
            system = (text.number for text in self._texts if text.role == "system")
            after = after.including(number for number in system if before.holds(number))
        # A result whose call is gone is gone as well: no harness can send one without the other.
        after = after.without(n for n, step in self._known.items() if not after.holds(step.number))
        if event.kind == "summary":
            after = after.without([self._summary_number])  # one summary replaces the other
        return Horizon(number, before, after.onwards(number))

    def _count_calls(self, boundary: Horizon) -> tuple[int, int]:
        """How many calls of any kind a compaction dropped and kept; those that it dropped are forgotten."""
        seen = [step for step in self._in_view if boundary.before.holds_call(step.number, step.result)]
        self._in_view = [step for step in seen if boundary.after.holds_call(step.number, step.result)]
        return len(seen) - len(self._in_view), len(self._in_view)

    def _span(self, key: str) -> range:
        first, last = self._keys.get(key, (0, -1))
        return range(first, last + 1)

    def _forget(self, boundary: Horizon, kept: list[Text]) -> None:
        """Forget what is no longer visible."""
        holds = boundary.after.holds
        self._texts = deque(kept)
        self._text_chars = sum(text.chars for text in kept)
        self._known = {number: step for number, step in self._known.items() if holds(number)}
        self._keys = {key: span for key, span in self._keys.items() if holds(span[0]) or holds(span[1])}
        self._shown = self._visible = boundary.after
        self._rewound = []
        self._open = {key: step for key, step in self._open.items() if holds(step.number)}

    def _settle(self) -> None:
        """Measure a real boundary, now that its window is complete."""
        if self._pending is not None:
            since = [text for text in self._texts if text.number >= self._pending.boundary.number]
            self._compactions.append(settle(self._pending, self._stretch.steps, since, self._schemes))
            self._pending = None

    def _close_stretch(self, kept_calls: int | None, *, compacted: bool) -> None:
        """Measure the placebo points since the last compaction."""
        stretch = self._stretch
        if self._compactions:
            self._compactions[-1] = replace(self._compactions[-1], following=len(stretch.steps), replies=self._replies)
        self._replies = 0
        if kept_calls is not None:
            self._kept_calls.append(kept_calls)
        if not self._kept_calls:
            return  # a session without compactions has nothing to compare placebos with
        kept = round(fmean(self._kept_calls)) if kept_calls is None else kept_calls
        for scheme in self._schemes:
            self._points[scheme.name] += placebos(
                stretch.steps,
                self._visible_at,
                earlier=stretch.earlier,
                kept=kept,
                after_compaction=bool(self._compactions),
                before_compaction=compacted,
                scheme=scheme,
            )

    def close(self, path: Path, member: str, harness: str) -> Session:
        """What was found, in the widest window; `in_scheme` narrows it."""
        self._settle()
        self._close_stretch(None, compacted=False)
        # A narrower scheme is only for sessions where the wider ones find no room.
        scheme = next((each for each in self._schemes if self._points[each.name]), self._schemes[0])
        smallest = min(
            (compaction.dropped_calls for compaction in self._compactions if compaction.kind == "summary"), default=0
        )
        return Session(
            path,
            member,
            harness,
            replace(self._info, standing=self._info.standing or "main"),
            self._calls,
            tuple(self._compactions),
            {name: tuple(far_enough(points, smallest)) for name, points in self._points.items()},
            self._rewinds,
            scheme.name,
            self.tally,
        )


def _weight(event: Call) -> int:
    """About how many characters a call takes up in the context."""
    return sum(len(value) if isinstance(value, str) else 20 for value in event.arguments.values()) + 20


def _words_of(event: CompactionEvent) -> str:
    """What a compaction tells in place of the dropped part."""
    return "\n".join(filter(None, (event.summary, event.restated)))
