"""Why a clause is there: of what was found where it answers, the findings about the kind of information it names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from recompact.values.candidate import Clause, Reason
from recompact.values.texts import markdown_text

_KINDS = tuple(
    re.compile(rf"(?i)\b(?:{words})")
    for words in (
        r"tokens?\b|credential|password|log-?ins?\b|logged in|session|authenti|authori[sz]|secret|sign-?in",
        r"condition|restrict|criteri|filter|qualif|constraint|predicate|(?:wording|words) of the (?:request|task)",
        r"retrieved|rows?\b|records\b|results?\b|entries\b|data\b|subset",
        r"identifier|ids?\b|literals?\b|references?\b|(?:email )?address",
        r"signature|parameter|apis?\b|documentation|docs\b|endpoint|call form|how (?:calls|each|to call)|interface",
        r"pages?\b|paginat|paged\b|cursor",
        r"mutation|completed|finished|changes?\b|side effects?|actions?\b|already (?:sent|made|done|paid)|payments?\b",
        r"open\b|unresolved|remain|pending|to be done|unfinished",
        r"errors?\b|fail",
        r"amounts?\b|prices?\b|totals?\b|counts?\b|numbers?\b",
        r"dates?\b|times?\b|deadline",
        r"paths?\b|files?\b|director|links?\b",
    )
)
"""How texts name one kind of information, whoever chose the words."""

_WORD = re.compile(r"[a-zà-öø-ÿ]{4,}")


def answers_kind(clause: str, kind: str) -> bool:
    """Whether a clause asks for the kind of information that a finding is about; a kind that nobody named fits all.

    >>> answers_kind("Keep session tokens and passwords.", "login state")
    True
    >>> answers_kind("Keep session tokens and passwords.", "documentation that was read")
    False
    >>> answers_kind("Copy every seat number.", "seat numbers"), answers_kind("Name each guest.", "guests")
    (True, True)
    """
    meant = {at for at, words in enumerate(_KINDS) if words.search(kind)}
    if meant:
        return any(_KINDS[at].search(clause) for at in meant)
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
            nothing = f"no finding of this kind; found there: {others}" if others else "no diagnosis on record"
            lines += [f"  - {markdown_text(place)}: {markdown_text(text)}" for text in matching or [nothing]]
    return lines
