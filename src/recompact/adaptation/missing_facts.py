"""What a compaction took from what came after: facts that continuations from before it used, and work done again.

No model is asked. Facts are literals that were in the consumed part and are nowhere after it; work is what
continuations from after it did although it had been done, and no continuation from before it did. The kinds of facts
are also told from how a text names them, whoever chose its words.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.resources import files
from typing import Any, Literal, get_args

from recompact.attribution.boundary_view import BoundaryView
from recompact.attribution.divergence import consumed_texts, literals, occurs, strings_in, turn_actions, visible_text
from recompact.values.chat import canonical
from recompact.values.context import Turn
from recompact.values.literals import contains, covers, literals as audit_literals
from recompact.values.masking import mask_secrets
from recompact.values.outcome import BoundaryId
from recompact.values.trajectory import Action, Boundary

Kind = Literal[
    "secret",
    "identifier",
    "path",
    "number",
    "amount",
    "date",
    "wording",
    "interface",
    "page",
    "result",
    "done",
    "condition",
    "open",
    "error",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
KIND_TEXTS = tomllib.loads(files("recompact.adaptation").joinpath("clauses.toml").read_text(encoding="utf-8"))
"""All that is said of each kind: its nouns, the words that texts name it by, and the clauses against its loss."""
NOUNS: Mapping[Kind, tuple[str, str]] = {kind: tuple(KIND_TEXTS["nouns"][kind]) for kind in KINDS}
AGAIN: frozenset[Kind] = frozenset({"page", "result", "done"})
"""Kinds that show in what was done again, not in what is missing. Of the last three, no literal tells; of conditions,
those show that the user stated as rules."""

LONGEST = 60  # characters of a parameter's name; anything longer is not one

_AUDITED: Mapping[str, Kind] = {
    "url": "path",
    "path": "path",
    "file": "path",
    "name": "interface",
    "hash": "identifier",
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\d{1,2}:\d\d(?::\d\d)?")
_AMOUNT = re.compile(r"[$€£]\d[\d,.]*|\d[\d,]*\.\d+")
_NUMBER = re.compile(r"\d[\d,]*")
_PAGED = re.compile(r'(?i)"(?:\w*_)?(?:page|offset|cursor|skip)(?:_\w*)?":')


@dataclass(frozen=True)
class MissingFacts:
    """What one boundary lacks, by kind: how many facts are missing, and of those, how many the summary contradicts.

    A missing fact counts as contradicted where the summary has a literal of its kind that was nowhere before.
    """

    id: BoundaryId
    missing: Mapping[Kind, int] = field(default_factory=dict)
    contradicted: Mapping[Kind, int] = field(default_factory=dict)

    @property
    def sentence(self) -> str:
        """The same in words, without a single literal of the evidence.

        >>> MissingFacts(BoundaryId("collect/a", 1), {"secret": 1, "done": 2}, {"secret": 1}).sentence
        'used before and missing after: 1 token or password (1 contradicted); 2 finished actions done again'
        """
        lacking: list[str] = []
        again: list[str] = []
        for kind in KINDS:
            if number := self.missing.get(kind, 0):
                wrong = self.contradicted.get(kind, 0)
                words = number_of_facts(kind, number) + (f" ({wrong} contradicted)" if wrong else "")
                (again if kind in AGAIN else lacking).append(words)
        parts = [f"used before and missing after: {', '.join(lacking)}"] if lacking else []
        return "; ".join([*parts, *again]) or "nothing that was used before is missing after"

    def to_json(self) -> dict[str, Any]:
        return {
            "boundary": str(self.id),
            **asdict(self.id),
            "missing": dict(self.missing),
            "contradicted": dict(self.contradicted),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> MissingFacts:
        return MissingFacts(BoundaryId(data["unit"], data["index"]), data["missing"], data["contradicted"])


def number_of_facts(kind: Kind, number: int) -> str:
    """
    >>> number_of_facts("path", 1), number_of_facts("path", 2)
    ('1 path', '2 paths')
    """
    one, several = NOUNS[kind]
    return f"{number:,} {one if number == 1 else several}"


def missing_facts(view: BoundaryView, before: Sequence[Turn], rest: Sequence[Turn] = ()) -> MissingFacts:
    """What a boundary lacks. `before` are the turns up to it, `rest` those of a POST draw that has no continuation."""
    boundary = view.boundary
    arms = {
        arm: [t for c in view.continuations if c.row.arm == arm for t in c.trajectory.turns] for arm in ("PRE", "POST")
    }
    used = [action for turn in arms["PRE"] for action in turn_actions(turn)]
    facts = _literal_facts(view.needed, used)
    more = _names_and_paths(boundary, used)
    facts |= {text: kind for text, kind in more.items() if not any(text in fact for fact in facts)}
    again = repeated_work(before, used, arms["POST"] or rest, tuple(facts))
    rules: list[Kind] = ["condition"] * len(view.receipt.rules)  # what the user had ruled, and nothing says any more
    missing = Counter([*facts.values(), *again.values(), *rules])
    foreign = Counter(_foreign(boundary))
    contradicted = {kind: min(missing[kind], foreign[kind]) for kind in KINDS if missing[kind] and foreign[kind]}
    return MissingFacts(view.id, {kind: missing[kind] for kind in KINDS if missing[kind]}, contradicted)


def kind_of(literal: str, *, secret: bool = False) -> Kind:
    """The kind of a literal, by its form alone, except for a secret, which only its place reveals.

    >>> [kind_of(each) for each in ("2026-03-01", "12.50", "31", "src/a/main.py", "show_api", "pay-7f3a", "Ada")]
    ['date', 'amount', 'number', 'path', 'interface', 'identifier', 'wording']
    """
    if secret:
        return "secret"
    forms: tuple[tuple[re.Pattern[str], Kind], ...] = ((_DATE, "date"), (_AMOUNT, "amount"), (_NUMBER, "number"))
    for form, kind in forms:
        if form.fullmatch(literal):
            return kind
    for each in audit_literals(literal):
        if each.text == literal and each.kind in _AUDITED:
            return _AUDITED[each.kind]
    mixed = any(map(str.isdigit, literal)) or "@" in literal
    return "identifier" if mixed and " " not in literal else "wording"


def _literal_facts(needed: Iterable[str], used: Sequence[Action]) -> dict[str, Kind]:
    """The literals that were used and are missing, by kind."""
    masked = _mask_tokens(text for action in used for text in (canonical(dict(action.arguments)), action.text) if text)
    return {literal: kind_of(literal, secret=_secret(literal, masked)) for literal in needed}


def _names_and_paths(boundary: Boundary, used: Sequence[Action]) -> dict[str, Kind]:
    """Names and paths that a call or code was written with, and that only the consumed part could have supplied.

    The parameters of a tool itself are in its schema, which is always visible; those inside an argument are not.
    """
    consumed, visible = "\n".join(consumed_texts(boundary)), visible_text(boundary.post)
    spoken = [text for a in used for text in (a.text, *strings_in(dict(a.arguments)))]
    facts: dict[str, Kind] = {
        each.text: _AUDITED[each.kind]
        for text in dict.fromkeys(spoken)
        for each in audit_literals(text)
        if each.kind in _AUDITED and contains(consumed, each.form) and not covers(visible, each)
    }
    keys = {key for action in used for value in action.arguments.values() for key in _keys(value)}
    named = [key for key in sorted(keys) if 0 < len(key) <= LONGEST]
    lost = [key for key in named if contains(consumed, key) and not contains(visible, key)]
    return {**facts, **dict.fromkeys(lost, "interface")}


def _mask_tokens(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Texts, each with what is left of it when tokens and passwords are masked."""
    return [(text, mask_secrets(text)) for text in dict.fromkeys(texts)]


def _secret(literal: str, texts: Iterable[tuple[str, str]]) -> bool:
    """Whether a literal is where a token or a password would be."""
    return any(occurs(literal, text) and not occurs(literal, rest) for text, rest in texts)


def _keys(value: Any) -> Iterator[str]:
    """The keys of all objects in a JSON value."""
    if isinstance(value, dict):
        yield from map(str, value)
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _keys(inner)


def _foreign(boundary: Boundary) -> Iterator[Kind]:
    """The kinds of the literals in a summary that come from nowhere."""
    summary = boundary.post.summary.text if boundary.post.summary else ""
    source, texts = visible_text(boundary.pre), _mask_tokens([summary])
    for literal in literals(summary):
        if not occurs(literal, source):
            yield kind_of(literal, secret=_secret(literal, texts))


def repeated_work(
    before: Sequence[Turn], used: Sequence[Action], after: Sequence[Turn], facts: Sequence[str] = ()
) -> dict[str, Kind]:
    """Actions from before the compaction that POST did again and PRE did not, each once, with its kind.

    The same observation again means that something was read. An action that was repeated for the sake of a fact that
    is known to be missing says nothing more.
    """
    earlier = dict(_observations(before))
    in_both = {action.key for action in used}
    kinds: dict[str, Kind] = {}
    for key, observation in _observations(after):
        if key not in earlier or key in in_both or key in kinds:
            continue
        if _PAGED.search(key):
            kinds[key] = "page"
        elif observation == earlier[key]:
            kinds[key] = "result"
        elif not any(occurs(fact, earlier[key]) for fact in facts):
            kinds[key] = "done"
    return kinds


def _observations(turns: Iterable[Turn]) -> Iterator[tuple[str, str]]:
    """Every action with what came of it."""
    for turn in turns:
        results = {result.call_id: result.content for result in turn.results}
        plain = "\n".join(result.content for result in turn.results)
        for number, action in enumerate(turn_actions(turn)):
            call = turn.message.calls[number] if turn.message.calls else None
            yield action.key, results.get(call.id, "") if call else plain


_NAMING: Mapping[Kind, re.Pattern[str]] = {
    kind: re.compile(rf"(?i)\b(?:{words})") for kind, words in KIND_TEXTS["named"].items()
}
_WORD = re.compile(r"[a-zà-öø-ÿ]{4,}")


def kinds_named(text: str) -> tuple[Kind, ...]:
    """The kinds of information that a text names, in the order in which it names them.

    >>> kinds_named("login state"), kinds_named("pages of a list"), kinds_named("the weather")
    (('secret',), ('page',), ())
    """
    places = {kind: match.start() for kind, words in _NAMING.items() if (match := words.search(text))}
    return tuple(sorted(places, key=lambda kind: places[kind]))


def answers_kind(clause: str, kind: str) -> bool:
    """Whether a clause asks for the kind of information that a finding is about; a kind that nobody named fits all.

    >>> answers_kind("Keep session tokens and passwords.", "login state")
    True
    >>> answers_kind("Keep session tokens and passwords.", "documentation that was read")
    False
    >>> answers_kind("Copy every seat number.", "seat numbers"), answers_kind("Name each guest.", "guests")
    (True, True)
    """
    if meant := kinds_named(kind):
        return any(_NAMING[each].search(clause) for each in meant)
    named, wanted = ({word.removesuffix("s") for word in _WORD.findall(text.lower())} for text in (clause, kind))
    return not kind or bool(named & wanted)
