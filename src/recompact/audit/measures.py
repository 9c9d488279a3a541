"""What is measured after a boundary, the same at real ones and at placebos: points of a session at which nothing was
compacted, measured as if something had been. Agents read files twice without any compaction; what a compaction costs is
what comes on top of that.

Each measure is one function of the calls in the window and of what the boundary dropped; the table at the end is the
only list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from recompact.audit.index import KnownFailure, RepeatedRead
from recompact.audit.visibility import Visible
from recompact.values.call_effects import ASIDE, READING, CallEffect

PER = 10  # rates are per this many calls
CHARACTERS_PER_TOKEN = 4  # about, where the harness does not count


@dataclass(slots=True)
class Step:
    """A call with its result, as far as the measures need it. Filled in when the result arrives."""

    number: int  # of the call's event
    index: int  # among the session's calls
    effect: CallEffect
    line: int
    starts_turn: bool
    starts_batch: bool
    result: int = -1  # the result's event number; -1 while there is none
    failed: bool | None = None
    chars: int = 0  # of the whole result
    origins: tuple[tuple[int, int], ...] = ()
    again: tuple[RepeatedRead, ...] = ()
    failure: KnownFailure | None = None
    repeat: int = -1  # the last result of exactly the same call
    unchanged: bool = False  # nothing was edited since that one
    excerpt: str = ""

    @property
    def done(self) -> bool:
        """Whether it had a result. An interrupted call counts neither as a read nor as an edit."""
        return self.result >= 0


@dataclass(frozen=True, slots=True)
class Horizon:
    """A point in a session, and what could be seen right before and right after it."""

    number: int
    before: Visible
    after: Visible

    def dropped(self, number: int) -> bool:
        return number < self.number and self.before.holds(number) and not self.after.holds(number)


def refetched_of(step: Step, boundary: Horizon) -> int:
    """Characters of a result's lines that the boundary dropped and that were neither kept nor seen since."""
    number = boundary.number
    return sum(chars for place, chars in step.origins if place < number and boundary.dropped(place))


def failed_again(step: Step, boundary: Horizon) -> bool:
    """Whether a command hit an error that it had hit before, where this boundary dropped what last told of it."""
    return step.failure is not None and boundary.dropped(step.failure.last)


@dataclass(frozen=True, slots=True)
class View:
    """The calls after a boundary that count, and how much each fetched again."""

    window: Sequence[Step]
    boundary: Horizon
    refetched: Sequence[int]
    agents: Sequence[Step] = ()  # calls of subagents and skills: counted only where they repeat one another

    def rate(self, count: float) -> float:
        return PER * count / len(self.window)


def _refetched_by_reading(view: View) -> float:
    pairs = zip(view.window, view.refetched, strict=True)
    return view.rate(sum(chars for step, chars in pairs if step.effect.kind in READING))


def _refetched_by_any(view: View) -> float:
    return view.rate(sum(view.refetched))


def _share(view: View) -> float | None:
    total = sum(step.chars for step in view.window)
    return sum(view.refetched) / total if total else None


def _read_again(view: View) -> float:
    dropped = view.boundary.dropped
    return view.rate(sum(any(dropped(again.place) for again in step.again) for step in view.window))


def _failures(view: View) -> float:
    return view.rate(sum(failed_again(step, view.boundary) for step in view.window))


def _reading(view: View) -> float:
    return view.rate(sum(step.done and step.effect.kind in READING for step in view.window))


def _until_edit(view: View) -> float:
    for place, step in enumerate(view.window):
        if step.done and step.effect.kind == "edit":
            return float(place)
    return float(len(view.window))


def _repeats(view: View) -> float:
    """Changes have a measure of their own; plans and polls are not in the window, since they are meant to repeat."""
    dropped = view.boundary.dropped
    calls = [*view.window, *view.agents]
    repeats = (step.unchanged and step.effect.kind != "edit" and dropped(step.repeat) for step in calls)
    return PER * sum(repeats) / len(calls)


def _changes(view: View) -> float:
    dropped = view.boundary.dropped
    return view.rate(sum(step.effect.kind == "edit" and dropped(step.repeat) for step in view.window))


@dataclass(frozen=True)
class Measure:
    """A measure: more of it after a compaction than at placebo points is a cost."""

    name: str
    title: str
    unit: str
    of: Callable[[View], float | None]
    scored: bool = False  # whether it enters the score of a compaction
    within_phase: bool = False  # compared only with placebo points of the same phase


MEASURES = (
    Measure(
        "refetched", "text fetched again by reading", "characters per 10 calls", _refetched_by_reading, scored=True
    ),
    Measure("refetched_any", "text fetched again by any call", "characters per 10 calls", _refetched_by_any),
    Measure("refetched_share", "share of results already known", "share", _share),
    Measure("read_again", "file ranges read again", "calls per 10", _read_again),
    Measure("failures", "known failures hit again", "calls per 10", _failures, scored=True),
    Measure("reading", "reading calls", "calls per 10", _reading, within_phase=True),
    Measure("until_edit", "calls until the next edit", "calls", _until_edit, within_phase=True),
    Measure("repeats", "exact repeats, nothing changed", "calls per 10", _repeats),
    Measure("changes", "changes made twice", "calls per 10", _changes),
)

Values = Mapping[str, float]


def measure(window: Sequence[Step], boundary: Horizon) -> Values:
    """All measures at a boundary; those that are not defined there are left out."""
    counted = [step for step in window if step.effect.kind not in ASIDE]
    if not counted:
        return {}
    agents = [step for step in window if step.effect.kind == "agent"]
    view = View(counted, boundary, [refetched_of(step, boundary) for step in counted], agents)
    values = ((each.name, each.of(view)) for each in MEASURES)
    return {name: value for name, value in values if value is not None}


@dataclass(frozen=True)
class Scheme:
    """How many calls after a boundary are looked at, and how far a placebo stays away from real boundaries."""

    name: str
    window: int
    guard: int
    least: int  # calls below which a window says nothing
    history: int  # calls that a placebo must drop


WIDE = Scheme("wide", window=20, guard=40, least=5, history=15)
# For sessions that compact so often that the wide one finds no room between two compactions.
NARROW = Scheme("narrow", window=10, guard=8, least=5, history=8)
SCHEMES = (WIDE, NARROW)
# For runs of Recompact, whose budgets are often so small that only a few calls separate two compactions.
SHORT = Scheme("short", window=10, guard=4, least=2, history=4)
RUN_SCHEMES = (*SCHEMES, SHORT)


@dataclass(frozen=True)
class Point:
    """The measures at one boundary, real or placebo."""

    values: Values
    dropped: int  # calls that it dropped
    starts_turn: bool
    calls: int = 0  # that count in the window; real ones only


EVERY = 5  # calls from one candidate to the next
MOST = 24  # points of one stretch between compactions; more would overlap and say nothing new
RELATIVE_HISTORY = 0.4  # of the smallest real history dropped in the session


def placebos(
    steps: Sequence[Step],
    visible_at: Callable[[int], Visible],
    *,
    earlier: Sequence[Step],
    kept: int,
    after_compaction: bool,
    before_compaction: bool,
    scheme: Scheme,
) -> Iterator[Point]:
    """The placebo points of one stretch between compactions.

    `earlier` calls, from before the stretch, were still visible at its start; a placebo keeps as many of the latest
    calls (`kept`) as the session's real compactions do.
    """
    first = scheme.guard if after_compaction else 0
    last = len(steps) - (scheme.guard if before_compaction else scheme.window)
    candidates: list[int] = []
    for place in range(first, min(last + 1, len(steps)), EVERY):
        while place > first and not steps[place].starts_batch:
            place -= 1  # not between the calls of one response
        if len(earlier) + place - kept >= scheme.history and place not in candidates[-1:]:
            candidates.append(place)
    thin = -(-len(candidates) // MOST) if candidates else 1
    behind = [*earlier, *steps]
    for place in candidates[::thin]:
        number = steps[place].number
        before = visible_at(number).until(number)
        tail = behind[len(earlier) + place - kept].number if kept else number
        after = before.since(tail).onwards(number)
        window = steps[place : place + scheme.window]
        values = measure(window, Horizon(number, before, after))
        if values:
            yield Point(values, len(earlier) + place - kept, steps[place].starts_turn)


def far_enough(points: Sequence[Point], smallest: int) -> list[Point]:
    """Points with enough history, relative to the least that a real compaction of the session dropped."""
    return [point for point in points if point.dropped >= RELATIVE_HISTORY * smallest]
