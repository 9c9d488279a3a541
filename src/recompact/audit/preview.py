"""A compaction before it happens: where a harness would cut a session, and what is at stake in the part that goes.

Everything follows from rules, so no model is needed. With a summary at hand, the same rules say what of it is lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from recompact.compressors.prompted import Prompted
from recompact.compressors.protocol import CompressorInputs
from recompact.values.call_effects import CallEffect, effect_of, in_reading_phase
from recompact.values.chat import ToolCall, Usage, assistant
from recompact.values.context import Context, Pin, Turn
from recompact.values.literals import exact_values, says
from recompact.values.receipt import Receipt, distinct, receipt, rules_of, shown_text
from recompact.values.session import Call, Tail
from recompact.values.tokens import TokenCounter

RECENT = 20
"""Calls. What was read no longer ago than this before it was dropped is fetched again most often (docs/audit.md)."""
_OPEN = frozenset({"pending", "in_progress", "inprogress", "open", "todo", "not_started"})


@dataclass(frozen=True)
class StakedValue:
    """An exact value that the agent used in calls, all of which would go."""

    text: str
    uses: int
    age: int  # calls since its last use

    @property
    def likely(self) -> bool:
        """Whether the agent is likely to use it again."""
        return self.uses > 1 or self.age <= RECENT


@dataclass(frozen=True)
class StakedFile:
    """A file whose text would go."""

    path: str
    tokens: int  # of the last result that showed it
    age: int  # calls since then


@dataclass(frozen=True)
class Preview:
    """A session as a compaction would find it. `bare` is what would stay without a summary."""

    pre: Context
    bare: Context
    dropped: tuple[Turn, ...]
    values: tuple[StakedValue, ...]
    files: tuple[StakedFile, ...]
    rules: tuple[str, ...]
    steps: tuple[str, ...]  # open ones, of the agent's own plan
    reading: bool  # whether it would happen in the middle of reading

    @property
    def likely(self) -> tuple[StakedValue, ...]:
        return tuple(value for value in self.values if value.likely)

    def losses(self, post: Context) -> Losses:
        """What of all that is at stake another context does not show."""
        shown = shown_text(post)
        return Losses(
            tuple(value for value in self.likely if value.text not in shown),
            tuple(rule for rule in self.rules if not says(shown, rule)),
            tuple(step for step in self.steps if step.casefold() not in shown.casefold()),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "before": self.pre.size,
            "kept": self.bare.size,
            "turns": len(self.pre.turns),
            "dropped_turns": len(self.dropped),
            "values": [asdict(value) | {"likely": value.likely} for value in self.values],
            "files": [asdict(file) for file in self.files],
            "rules": list(self.rules),
            "open_steps": list(self.steps),
            "reading_phase": self.reading,
        }


@dataclass(frozen=True)
class Losses:
    """What a summary does not carry: values that are likely to be used again, rules, and open steps (word for word)."""

    values: tuple[StakedValue, ...]
    rules: tuple[str, ...]
    steps: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "values": [value.text for value in self.values],
            "rules": list(self.rules),
            "open_steps": list(self.steps),
        }


@dataclass(frozen=True)
class SummaryTrial:
    """What a template made of a session: the summary, what it loses, and its receipt."""

    template: str
    summary: str
    losses: Losses
    receipt: Receipt

    def to_json(self) -> dict[str, Any]:
        return {
            "template": self.template,
            "summary": self.summary,
            "losses": self.losses.to_json(),
            "receipt": self.receipt.to_json(),
        }


def preview(pre: Context, tail: Tail, count: TokenCounter) -> Preview:
    """What is at stake if a session were compacted now by a harness that leaves such a tail.

    What the user said before the first answer goes like everything else: only system messages are a harness's prefix.
    """
    pre = _with_opening_as_turn(pre, count)
    cut = _cut(pre.turns, tail)
    dropped, kept = pre.turns[:cut], pre.turns[cut:]
    bare = Context(pre.prefix, None, kept, tuple(_latest_words(dropped, tail.said, count)))
    shown = shown_text(bare)
    effects = [(turn, call, _effect(call)) for turn in dropped for call in turn.message.calls]
    return Preview(
        pre,
        bare,
        dropped,
        tuple(value for value in _values(effects) if value.text not in shown),
        tuple(_files(effects, {read for turn in kept for read in _read_paths(turn)}, count)),
        tuple(rule for rule in rules_of(dropped) if not says(shown, rule)),
        _open_steps([call for turn in pre.turns for call in turn.message.calls], shown),
        in_reading_phase([_effect(call).kind for turn in pre.turns for call in turn.message.calls]),
    )


async def try_template(name: str, session: Preview, inputs: CompressorInputs, budget: int) -> SummaryTrial:
    """Let a model write the summary of what would be dropped."""
    settings = {each: getattr(inputs, each) for each in inputs.__dataclass_fields__ if each != "inner"}
    nothing = Turn(assistant(""), (), 0)  # the compressor leaves the last turn alone; where to cut is the harness's
    consumed = replace(session.pre, turns=(*session.dropped, nothing))
    compaction = await Prompted(**settings).compress(consumed, budget)
    return trial_of(name, session, replace(session.bare, summary=compaction.context.summary), compaction.usage)


def trial_of(name: str, session: Preview, post: Context, usage: Usage = Usage()) -> SummaryTrial:
    """What a summary that is there makes of a session: that of a template, or the harness's own."""
    summary = post.summary.text if post.summary else ""
    return SummaryTrial(name, summary, session.losses(post), receipt(session.pre, post, usage))


def _with_opening_as_turn(context: Context, count: TokenCounter) -> Context:
    asked = tuple(message for message in context.prefix if message.role != "system")
    prefix = tuple(message for message in context.prefix if message.role == "system")
    first = (Turn.measured(assistant(""), asked, count),) if asked else ()
    return replace(context, prefix=prefix, turns=(*first, *context.turns))


def _cut(turns: Sequence[Turn], tail: Tail) -> int:
    """The number of the first turn that stays.

    >>> turns = [Turn(assistant("x"), (), 10)] * 5
    >>> _cut(turns, Tail(turns=0)), _cut(turns, Tail(turns=1)), _cut(turns, Tail(tokens=35)), _cut(turns[:1], Tail())
    (5, 4, 2, 0)
    """
    cut, room = len(turns), tail.tokens
    while cut and (len(turns) - cut < tail.turns or turns[cut - 1].tokens <= room):
        cut -= 1
        room -= turns[cut].tokens
    return cut


def _latest_words(turns: Sequence[Turn], room: int, count: TokenCounter) -> Iterator[Pin]:
    """The latest of what the user said, in order."""
    pins: list[Pin] = []
    for message in reversed([each for turn in turns for each in turn.results if each.role == "user"]):
        pin = Pin(message, count(message.content) + 4)
        if pin.tokens > room:
            break
        room -= pin.tokens
        pins.append(pin)
    return reversed(pins)


_Effects = Sequence[tuple[Turn, ToolCall, CallEffect]]


def _effect(call: ToolCall) -> CallEffect:
    return effect_of(Call(call.id, call.name, call.readable))


def _values(effects: _Effects) -> list[StakedValue]:
    """Values of calls, the most recently used first. Bodies of edits are left out: nobody has to know them by heart."""
    uses: dict[str, int] = {}
    last: dict[str, int] = {}
    for number, (_, _, effect) in enumerate(effects):
        for value in exact_values(effect.query):
            uses[value] = uses.get(value, 0) + 1
            last[value] = number
    values = [StakedValue(text, uses[text], len(effects) - last[text]) for text in distinct(uses)]
    return sorted(values, key=lambda value: (not value.likely, value.age, -value.uses))


def _read_paths(turn: Turn) -> Iterator[str]:
    for call in turn.message.calls:
        yield from (read.path for read in _effect(call).reads)


def _files(effects: _Effects, kept: set[str], count: TokenCounter) -> Iterator[StakedFile]:
    """Files that were read lately, and not since: the latest first."""
    seen = set(kept)
    for age, (turn, call, effect) in enumerate(reversed(effects), 1):
        if age > RECENT:
            return
        results = [result.content for result in turn.results if result.call_id == call.id]
        for path in dict.fromkeys(read.path for read in effect.reads):
            if path not in seen and results:
                seen.add(path)
                yield StakedFile(path, count(results[0]), age)


def _open_steps(calls: Sequence[ToolCall], shown: str) -> tuple[str, ...]:
    """The open items of the latest plan that the agent noted by a tool, unless they stay in view."""
    for call in reversed(calls):
        if items := list(_plan_items(call.readable)):
            steps = (text for text, status in items if status in _OPEN)
            return tuple(step for step in dict.fromkeys(steps) if step not in shown)
    return ()


def _plan_items(arguments: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Items with a status, as the plan tools of harnesses take them: `todos`, `plan`, `tasks`."""
    for value in arguments.values():
        for item in value if isinstance(value, list) else ():
            status = str(item.get("status", "")).casefold() if isinstance(item, dict) else ""
            texts = [item[key] for key in ("content", "step", "title", "subject") if item.get(key)] if status else []
            if texts and isinstance(texts[0], str):
                yield texts[0], status
