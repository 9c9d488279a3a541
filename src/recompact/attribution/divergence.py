"""What two continuations of one boundary did differently, and what the summary between them dropped.

These are the places that a person or an optimizer wants to see marked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from recompact.values.chat import canonical
from recompact.values.context import Context, Turn, replaced_turns
from recompact.values.trajectory import Action, Boundary, Trajectory


@dataclass(frozen=True)
class Dropped:
    """What was in the consumed part of PRE and is nowhere in POST, in order of appearance."""

    lines: tuple[str, ...]
    literals: tuple[str, ...]


def actions_of(trajectory: Trajectory) -> tuple[Action, ...]:
    """What the agent wanted to do, call by call, even where it could not be executed."""
    return tuple(action for turn in trajectory.turns for action in turn_actions(turn))


def turn_actions(turn: Turn) -> tuple[Action, ...]:
    """The actions of one turn. A message without a call is plain text."""
    out: list[Action] = []
    for call in turn.message.calls:
        try:
            out.append(Action.of(call))
        except ValueError:
            out.append(Action(call.name, text=call.arguments))
    return tuple(out) or (Action("", text=turn.message.content),)


def first_divergence(one: Sequence[Action], other: Sequence[Action]) -> int | None:
    """The number of the first action (from 0) in which two lists differ; None where they are the same.

    >>> a, b = Action("look", {"page": 1}), Action("look", {"page": 2})
    >>> first_divergence([a, b], [a, a]), first_divergence([a], [a, b]), first_divergence([a], [a])
    (1, 1, None)
    """
    for number, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return number
    return None if len(one) == len(other) else min(len(one), len(other))


def repeated_actions(before: Sequence[Action], actions: Sequence[Action]) -> tuple[int, ...]:
    """The numbers (from 0) of the actions that had been done before, argument for argument: repeated work.

    >>> a, b = Action("look", {"page": 1}), Action("look", {"page": 2})
    >>> repeated_actions([a], [b, a, a])
    (1, 2)
    """
    done = {action.key for action in before}
    return tuple(number for number, action in enumerate(actions) if action.key in done)


def consumed_turns(boundary: Boundary) -> tuple[Turn, ...]:
    """The turns that the compaction replaced, or changed in their place."""
    return tuple(boundary.pre.turns[n] for n in replaced_turns(boundary.pre, boundary.post))


def find_dropped(boundary: Boundary) -> Dropped:
    """What the compaction lost, literally. Whether it mattered is for the continuations to tell."""
    texts = consumed_texts(boundary)
    visible = visible_text(boundary.post)
    lines = dict.fromkeys(line.strip() for text in texts for line in text.splitlines())
    visible_literals = set(literals(visible))
    dropped_literals = dict.fromkeys(
        literal for text in texts for literal in literals(text) if literal not in visible_literals
    )
    return Dropped(
        tuple(line for line in lines if line and not _MARK.fullmatch(line) and line not in visible),
        tuple(literal for literal in dropped_literals if not occurs(literal, visible)),
    )


def consumed_texts(boundary: Boundary) -> tuple[str, ...]:
    """What the compaction consumed: the previous summary, if there was one, and the turns it replaced."""
    previous = (boundary.pre.summary.text,) if boundary.pre.summary else ()
    return (*previous, *(turn.text for turn in consumed_turns(boundary)))


def needed_facts(boundary: Boundary, before: Sequence[Trajectory]) -> tuple[str, ...]:
    """The literals that the compaction consumed, that are missing after it, and that a continuation from before it
    used: in the arguments of an action, or in its answer."""
    texts = texts_of(action for trajectory in before for action in actions_of(trajectory))
    exact = {literal for text in texts for literal in literals(text)}
    every = "\n".join(texts)
    # A bare number counts only by itself: the 28 of a date is another 28.
    return tuple(
        literal
        for literal in find_dropped(boundary).literals
        if literal in exact or (any(map(str.isalpha, literal)) and occurs(literal, every))
    )


def texts_of(actions: Iterable[Action]) -> list[str]:
    """What actions were written with, each text once: their arguments as JSON, the texts in those, and plain text."""
    every = ((canonical(dict(a.arguments)), a.text, *strings_in(dict(a.arguments))) for a in actions)
    return list(dict.fromkeys(text for texts in every for text in texts))


def strings_in(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from strings_in(inner)


def occurs(literal: str, text: str) -> bool:
    """Whether a literal is in a text, not as part of a longer word.

    >>> occurs("t12", "paid t12."), occurs("t12", "paid t123.")
    (True, False)
    """
    return literal in text and re.search(rf"(?<!\w){re.escape(literal)}(?!\w)", text) is not None


_MARK = re.compile(r"\[(assistant|user|tool|result of [^\]]*)\]")
_LITERAL = re.compile(
    r"""
    "([^"\n\\]{2,60})"(?!\s*:)                          # a quoted text that is no key
    | (?<!\w)'([^'\n\\]{2,60})'(?!\w)
    | "[^"\n]*"(?=\s*:)()                                # a key: passed over
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+                       # an address
    | \d{4}-\d\d-\d\d(?:[T\x20]\d\d:\d\d(?::\d\d)?)?      # a date
    | \d+(?:[-:]\d+)+                                   # a phone number, a time of day
    | \$?\d[\d,]*(?:\.\d+|\d)(?![\w-])                  # a number of more than one digit
    | (?=[\w./:-]*\d)[A-Za-z_]\w*(?:[-_./:]+\w+)*       # a name with a digit in it: an id, a token, a file
    """,
    re.VERBOSE,
)


_OVERLONG = re.compile(r"[\w.,:/@$+-]{400,}")


@lru_cache(maxsize=128)  # the same texts of one boundary are searched again and again
def literals(text: str) -> tuple[str, ...]:
    """Numbers, dates, ids, addresses and quoted words of a text, each once: what cannot be guessed when it is lost.

    >>> literals('paid 12.50 to "Ada" (ada@mail.example) with pay-7f3a on 2026-03-01')
    ('12.50', 'Ada', 'ada@mail.example', 'pay-7f3a', '2026-03-01')
    """
    return tuple(dict.fromkeys(text[start:end] for start, end in literal_spans(text)))


def literal_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the literals of a text are: start and end of each."""
    # A run that long is not a literal, and looking for one from each of its positions would take forever.
    for match in _LITERAL.finditer(_OVERLONG.sub(lambda run: " " * len(run[0]), text)):
        group = match.lastindex or 0
        if match[group]:
            yield match.span(group)


def visible_text(context: Context) -> str:
    """All that the agent still sees, including the fixed prefix."""
    parts = [message.content for message in context.prefix]
    parts += [context.summary.text] if context.summary else []
    parts += [pin.message.content for pin in context.pinned]
    return "\n".join([*parts, *(turn.text for turn in context.turns)])
