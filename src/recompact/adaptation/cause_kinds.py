"""What kind of thing the cause of a harmful compaction is, and a general clause for a kind in the optimizer's words.

A cause is a few pieces whose return closed the loss. What continuations then used of them or no longer did again, and
the form of the pieces, tell records from pages, tokens, changes made and the like. The same forms tell what any
compaction lost, harmful or not. A clause that names anything of a task, or tells the agent how to act, is refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recompact.adaptation.excerpts import head_and_tail
from recompact.adaptation.lock import names
from recompact.adaptation.method import MethodInputs, answers
from recompact.adaptation.missing_facts import NOUNS, Kind, kind_of, repeated_work
from recompact.adaptation.optimizer import Optimizer, ask, prompt
from recompact.attribution.bisection.cause import Cause
from recompact.attribution.bisection.pieces import Piece, dropped_pieces
from recompact.attribution.divergence import actions_of, literals, occurs, texts_of, turn_actions, visible_text
from recompact.engine.store.records import read_boundary
from recompact.engine.store.store import Store
from recompact.values.candidate import Clause
from recompact.values.chat import canonical
from recompact.values.masking import mask_secrets
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Action, Boundary, Trajectory

RECORDS = 2  # alike, that make a set
REPORTED = 3  # literals from which an entry is told to report an action
LOST = 0.5  # share of a piece's literals that are gone, from which the piece counts as lost

_PAGES = re.compile(r'(?i)"(?:\w*_)?(?:page|offset|cursor|skip)(?:_\w*)?":|\bpages?\s+\d')
_GOAL = re.compile(r"(?i)\b(?:goal|task|request|objective|aim|purpose|constraint|preference|condition|scope)")


@dataclass(frozen=True)
class Trials:
    """What continuations did at a boundary: with the loss, and with the cause put right."""

    lost: tuple[Trajectory, ...] = ()
    closing: tuple[Trajectory, ...] = ()


def kinds_of(cause: Cause, boundary: Boundary, trials: Trials) -> tuple[Kind, ...]:
    """The kinds of what a cause brought back, the most telling first; none where its form says nothing.

    A set of records counts as such: its fields need no clause each. Otherwise it is the work that continuations did
    again only while the pieces were missing, or the facts in the pieces that they used and the summary lacks. A
    statement that had to go is about the task's conditions where it stands under the goal, and else about open work.
    """
    kinds: Counter[Kind] = Counter()
    for piece in cause.pieces:
        if piece.kind == "request":
            kinds["condition"] += 1
        elif piece.kind == "line":
            kinds["condition" if _GOAL.search(piece.heading) else "open"] += 1
        elif records := _record_kinds(piece):
            kinds.update(records)
        else:
            again = _again_kinds(piece, boundary, trials)
            kinds.update(again or set(_used_kinds(piece, boundary, trials.closing)))
    return tuple(kind for kind, _ in kinds.most_common())


def lost_kinds(boundary: Boundary, count: TokenCounter) -> frozenset[Kind]:
    """The kinds of what a compaction lost, by form alone: of pieces most of whose literals are gone.

    No form tells a false statement from a true one, so conditions and open work are never among them.
    """
    visible = visible_text(boundary.post)
    kinds: set[Kind] = set()
    for piece in dropped_pieces(boundary, count):
        facts = literals(piece.text)
        lost_facts = [fact for fact in facts if not occurs(fact, visible)]
        if facts and len(lost_facts) >= LOST * len(facts):
            kinds.update(form_kinds(piece, lost_facts))
    return frozenset(kinds)


def form_kinds(piece: Piece, facts: Iterable[str]) -> frozenset[Kind]:
    """The kinds of a piece by its form alone, as a set of records or by these of its literals."""
    return _record_kinds(piece) or frozenset(_literal_kinds(facts, piece.text))


def _record_kinds(piece: Piece) -> frozenset[Kind]:
    """The kinds of a set of records, a table of an entry or a result with several objects; empty where it is none."""
    if piece.kind == "entry":
        holds = len(piece.text.splitlines()) > RECORDS
    else:
        holds = any(_objects(text) >= RECORDS for text in piece.text.splitlines())
    paged = holds and _PAGES.search(piece.text) is not None
    return frozenset(("result", "page") if paged else ("result",) if holds else ())


def _objects(text: str) -> int:
    """The most objects that a list in a JSON text has."""
    if not text.startswith(("{", "[")):
        return 0
    try:
        return max((len(each) for each in _lists(json.loads(text))), default=0)
    except (ValueError, RecursionError):
        return 0


def _lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list) and value and all(isinstance(each, dict | list) for each in value):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for each in inner:
        yield from _lists(each)


def _again_kinds(piece: Piece, boundary: Boundary, trials: Trials) -> set[Kind]:
    """The kinds of the work in a piece that continuations did again while it was missing, and not with it back."""
    used = [action for trajectory in trials.closing for action in actions_of(trajectory)]
    after = [turn for trajectory in trials.lost for turn in trajectory.turns]
    if piece.kind == "turn":
        turns = [turn for turn in boundary.pre.turns if turn.text == piece.text]
        return set(repeated_work(turns, used, after).values())
    anew = [action for turn in after for action in turn_actions(turn) if action not in used]
    return {"done"} if any(_reports(piece.text, action) for action in anew) else set()


def _reports(entry: str, action: Action) -> bool:
    """Whether an entry reports this very action: it has all of its literals, or all but one, such as a token."""
    facts = literals(canonical(dict(action.arguments)))
    missing = sum(not occurs(fact, entry) for fact in facts)
    return len(facts) >= REPORTED and missing <= 1


def _used_kinds(piece: Piece, boundary: Boundary, closing: Sequence[Trajectory]) -> Iterator[Kind]:
    """The kinds of the facts in a piece that continuations used and that the context after the compaction lacks."""
    visible = visible_text(boundary.post)
    used = "\n".join(texts_of(action for trajectory in closing for action in actions_of(trajectory)))
    facts = [fact for fact in literals(piece.text) if occurs(fact, used) and not occurs(fact, visible)]
    yield from _literal_kinds(facts, piece.text)
    if _PAGES.search(piece.text):
        yield "page"


def _literal_kinds(facts: Iterable[str], text: str) -> set[Kind]:
    hidden = mask_secrets(text)
    return {kind_of(fact, secret=not occurs(fact, hidden)) for fact in facts}


SHOWN = 3  # causes in one question
LONGEST = 1_500  # characters shown of a piece or a summary
LENGTH = 300  # characters of a clause

PROMPT = prompt("clause")

CAUSE = prompt("clause-cause")

SCHEMA = {
    "title": "clause",
    "type": "object",
    "properties": {"clause": {"type": "string"}},
    "required": ["clause"],
    "additionalProperties": False,
}


async def word_clauses(
    inputs: MethodInputs, causes: Mapping[Kind, Sequence[Cause]], instances: frozenset[str], method: str
) -> dict[Kind, str]:
    """A clause for each kind that the optimizer found words for."""

    async def answer(optimizer: Optimizer, kind: Kind) -> str:
        question = describe(inputs.records, kind, causes[kind])
        worded = await ask(optimizer, question, SCHEMA, lambda value: check_clause(value["clause"], instances))
        return worded.value or ""

    units = {kind: f"word/{method}/{kind}" for kind in causes}
    worded = await answers(inputs, "word", f"{method} clause", units, answer, useful=bool, failed=lambda answer: False)
    return {kind: text for kind, text in worded.items() if text}


def describe(store: Store, kind: Kind, causes: Sequence[Cause]) -> str:
    """The question about one kind: the pieces of its causes, the summaries that lacked them, and what changed."""
    shown = []
    for cause in sorted(causes, key=lambda cause: cause.loss != "success")[:SHOWN]:
        summary = read_boundary(store, cause.boundary).post.summary
        pieces = "\n".join(f"{piece.heading}\n{piece.text}".strip() for piece in cause.pieces)
        shown.append(
            CAUSE.format(
                pieces=head_and_tail(pieces, LONGEST).text,
                summary=head_and_tail(summary.text if summary else "", LONGEST).text,
                change=cause.sentence(),
            )
        )
    return PROMPT.format(kind=NOUNS[kind][1], causes="\n".join(shown))


def check_clause(value: Any, instances: frozenset[str]) -> str:
    """A clause as one line; raises ValueError where it cannot be used."""
    text = " ".join(str(value).split()).lstrip("-* ")
    if not text:
        raise ValueError("the clause is empty")
    if len(text) > LENGTH:
        raise ValueError(f"the clause has {len(text)} characters: at most {LENGTH} are allowed")
    if Clause(text, "", ()).tells_agent:
        raise ValueError("the clause tells the agent how to act: say what the summary has to contain")
    if named := [literal for literal in sorted(instances) if names(text, literal)]:
        raise ValueError(f"the clause names {named[0]!r}, which belongs to one task only")
    if "{{" in text or "<" in text or text.startswith("#"):
        raise ValueError("the clause is plain text: no heading, tag or placeholder")
    return text
