"""Why a clause is there: of what was found where it answers, the findings about the kind of information it names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from recompact.adaptation.missing_facts import Kind
from recompact.values.candidate import Clause, Reason
from recompact.values.texts import markdown_text

_WORDS: Mapping[Kind, str] = {
    "secret": r"tokens?\b|credential|password|log-?ins?\b|logged in|session|authenti|authori[sz]|secret|sign-?in",
    "condition": (
        r"condition|restrict|criteri|filter|qualif|constraint|predicate|(?:wording|words) of the (?:request|task)"
    ),
    "result": r"retrieved|rows?\b|records\b|results?\b|entries\b|data\b|subset",
    "identifier": r"identifier|ids?\b|literals?\b|references?\b|(?:email )?address",
    "interface": (
        r"signature|parameter|apis?\b|documentation|docs\b|endpoint|call form|how (?:calls|each|to call)|interface"
    ),
    "page": r"pages?\b|paginat|paged\b|cursor",
    "done": (
        r"mutation|completed|finished|changes?\b|side effects?|actions?\b|already (?:sent|made|done|paid)|payments?\b"
    ),
    "open": r"open\b|unresolved|remain|pending|to be done|unfinished",
    "error": r"errors?\b|fail",
    "amount": r"amounts?\b|prices?\b|totals?\b|counts?\b|numbers?\b",
    "date": r"dates?\b|times?\b|deadline",
    "path": r"paths?\b|files?\b|director|links?\b",
}
"""How texts name one kind of information, whoever chose the words."""

_KINDS = {kind: re.compile(rf"(?i)\b(?:{words})") for kind, words in _WORDS.items()}
_WORD = re.compile(r"[a-zà-öø-ÿ]{4,}")


def kinds_named(text: str) -> tuple[Kind, ...]:
    """The kinds of information that a text names, in the order in which it names them.

    >>> kinds_named("login state"), kinds_named("pages of a list"), kinds_named("the weather")
    (('secret',), ('page',), ())
    """
    places = {kind: match.start() for kind, words in _KINDS.items() if (match := words.search(text))}
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
        return any(_KINDS[each].search(clause) for each in meant)
    named, wanted = ({word.removesuffix("s") for word in _WORD.findall(text.lower())} for text in (clause, kind))
    return not kind or bool(named & wanted)


def clause_lines(clauses: Sequence[Clause], reasons: Mapping[str, Sequence[Reason]]) -> list[str]:
    """Every clause with what it answers, as Markdown; where nothing there is of its kind, that is written instead."""
    lines = []
    for clause in clauses:
        flag = " **(tells the agent how to act: look at this one)**" if clause.tells_agent else ""
        proof = f" ({markdown_text(clause.proof)})" if clause.proof else ""
        lines.append(f"- “{markdown_text(clause.text)}”{flag}{proof}")
        for place in clause.answers:
            known = reasons.get(place, ())
            matching = [reason.text for reason in known if answers_kind(clause.text, reason.kind)]
            others = ", ".join(dict.fromkeys(reason.kind for reason in known))
            nothing = f"no finding of this kind; findings there: {others}" if others else "no diagnosis on record"
            lines += [f"  - {markdown_text(place)}: {markdown_text(text)}" for text in matching or [nothing]]
    return lines
