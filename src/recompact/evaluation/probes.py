"""Probes: what a continuation would need, to be asked of a compacted context.

A rule says what that is: exact values of the consumed part that later calls used, standing rules of the user, the next
call, and the work that was still open. What a context still shows is counted without a model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal as Choice

from recompact.attribution.divergence import literals, occurs, turn_actions, visible_text
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import boundary_rows, continuation_rows
from recompact.engine.store.store import Store
from recompact.values.call_effects import ASIDE, effect_of
from recompact.values.chat import canonical
from recompact.values.context import Context, Turn
from recompact.values.literals import Literal, covers, literals as audit_literals, says
from recompact.values.receipt import rules_of
from recompact.values.session import Call, SessionCompaction
from recompact.values.trajectory import Action

Kind = Choice["fact", "rule", "next", "open"]
FACTS = 20
"""Facts of one compaction that are asked for, those that are used first."""

BLANK = "____"
STEPS = 5
"""Calls that stand for the work that was still open."""

_LONG, _SHORT = 600, 160  # characters of a call that a question, and an answer, shows


@dataclass(frozen=True)
class Probe:
    """One question, and what a right answer holds: an exact value, a rule, a call, or several."""

    kind: Kind
    question: str
    answer: str
    literal: Literal | None = None  # of a fact

    def shown_in(self, text: str) -> bool:
        """Whether a text has the answer, so that an attentive reader could give it."""
        if self.kind == "rule":
            return says(text, self.answer)
        return _shows(text, self.literal) if self.literal else False

    def answered_by(self, reply: str) -> bool:
        """Whether a reply is right to the letter; only a judge can tell more."""
        if self.kind in ("next", "open"):
            return _as_call(reply) == _as_call(self.answer)
        return self.shown_in(reply)


@dataclass(frozen=True)
class CompactionPoint:
    """A place at which a session or a run compacted: the context before, the one that was recorded after, and the turns
    in which the agent went on."""

    name: str
    pre: Context
    recorded: Context | None
    later: tuple[Turn, ...]
    following: tuple[Turn, ...] = ()  # that the recorded session itself took next, up to its next compaction
    from_session: bool = False  # of a harness, whose calls hold commands and bodies of files
    budget: int | None = None  # tokens that a compaction may leave; None: as the config says

    @cached_property
    def probes(self) -> tuple[Probe, ...]:
        return tuple(_probes(self))

    @cached_property
    def facts(self) -> tuple[Probe, ...]:
        return tuple(probe for probe in self.probes if probe.kind == "fact")

    @property
    def consumed(self) -> str:
        """What a compaction takes away: the previous summary, and all turns but the last."""
        summary = [self.pre.summary.text] if self.pre.summary else []
        return "\n".join([*summary, *(turn.text for turn in self.pre.turns[:-1])])

    def latest(self, tokens: int) -> str:
        """What keeping the end would show: besides the prefix and the previous summary, if there is room for that, as
        much of the latest history as so many tokens hold."""
        summary = self.pre.summary if self.pre.summary and self.pre.summary.tokens < tokens else None
        room = tokens - (summary.tokens if summary else 0)
        history, size = self.pre.history, max(1, sum(turn.tokens for turn in self.pre.turns))
        first = len(history) - round(len(history) * min(1.0, room / size))
        return f"{visible_text(Context(self.pre.prefix, summary))}\n{history[first:]}"


def points_of_run(store: Store) -> Iterator[CompactionPoint]:
    """The compactions that a run collected. How the agent went on is taken from continuations with the whole context,
    where the run was verified, and else from the trajectory itself."""
    rows = boundary_rows(store)
    for n, row in enumerate(rows):
        after = rows[n + 1] if n + 1 < len(rows) and rows[n + 1].unit == row.unit else None
        turns = read_trajectory(store, row.unit).turns
        following = turns[row.step : after.step if after else None]
        drawn = [each for each in continuation_rows(store, row.unit, row.index) if each.arm == "PRE"]
        later = tuple(turn for each in drawn for turn in read_trajectory(store, each.name).turns)
        boundary = read_boundary(store, row.id)
        name = str(row.id)
        yield CompactionPoint(name, boundary.pre, boundary.post, later or turns[row.step :], following)


def point_of_compaction(moment: SessionCompaction, name: str, budget: int | None = None) -> CompactionPoint:
    """A compaction of a recorded session. Unless a budget is given, others have as many tokens as the harness left, or,
    where that cannot be read, a fifth."""
    left = budget or (moment.post.size if moment.post and moment.post.size else moment.pre.size // 5)
    return CompactionPoint(
        f"{name}#{moment.index}",
        moment.pre,
        moment.post,
        moment.later,
        moment.later[: len(moment.later) // 2],
        from_session=True,
        budget=max(1, left),
    )


def _probes(point: CompactionPoint) -> Iterator[Probe]:
    consumed = point.consumed
    always = visible_text(Context(point.pre.prefix, turns=point.pre.turns[-1:]))
    known: set[str] = set()
    for action in (action for turn in point.later for action in turn_actions(turn)):
        for literal in _named_by(action, point.from_session):
            if literal.form in known or not _shows(consumed, literal) or _shows(always, literal):
                continue
            if len(known) == FACTS:
                break
            known.add(literal.form)
            yield Probe("fact", _fact_question(action, literal), literal.text, literal)
    for rule in rules_of(point.pre.turns[:-1]):
        if not says(always, rule):
            yield Probe("rule", _rule_question(rule), rule)
    calls = [action for turn in (point.following or point.later)[:1] for action in turn_actions(turn) if action.name]
    if calls:
        yield Probe("next", _NEXT, _call_text(calls[0]))
    upcoming = (_call_text(action)[:_SHORT] for turn in point.later for action in turn_actions(turn) if action.name)
    steps = list(dict.fromkeys(upcoming))[:STEPS]
    if len(steps) > 1:
        yield Probe("open", _OPEN, "\n".join(steps))


def _named_by(action: Action, from_session: bool) -> Iterator[Literal]:
    """The exact values that an action was written with. Of a harness's call only what names things counts: a command,
    a path, and no body of a file."""
    if from_session:
        effect = effect_of(Call("", action.name, action.arguments))
        if effect.kind not in ASIDE:
            yield from audit_literals(effect.query)
        return
    text = canonical(dict(action.arguments)) if action.arguments else action.text
    seen = set()
    for literal in literals(text):
        seen.add(literal)
        yield Literal("value", literal, literal)
    yield from (each for each in audit_literals(text) if each.text not in seen)


def _shows(text: str, literal: Literal) -> bool:
    return occurs(literal.text, text) if literal.kind == "value" else covers(text, literal)


_UNKNOWN = "If what you were given does not tell, answer: unknown."
_NEXT = (
    "Which call should be made next? Answer with this call alone, as name({...}) with its arguments as JSON."
    f" {_UNKNOWN}"
)

_OPEN = f"Which steps are still to be made? Name the next {STEPS}, one a line, each with what it is about. {_UNKNOWN}"


def _fact_question(action: Action, literal: Literal) -> str:
    call = _call_text(action)
    place = call.find(literal.text)
    start = max(0, min(place, len(call) - _LONG))
    shown = call[start : start + _LONG].replace(literal.text, BLANK)
    return (
        f"Later in this work a call is made in which one exact value is blanked out here as {BLANK}:\n\n{shown}\n\n"
        f"Which value is it? Answer with the value alone, character for character. {_UNKNOWN}"
    )


def _rule_question(rule: str) -> str:
    begun = " ".join(rule.split()[:3])
    return f'The user gave a standing rule that begins with "{begun}". State it in full. {_UNKNOWN}'


def _call_text(action: Action) -> str:
    return f"{action.name}({canonical(dict(action.arguments))})" if action.name else action.text


def _as_call(text: str) -> str:
    """A call without what may differ in how it is written."""
    return re.sub(r"[\s`'\"]+", "", text).casefold()
