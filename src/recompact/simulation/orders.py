"""Sentences that tell the agent how to act, as a language model would take them: by what they ask for.

A summary is a record. Where it carries orders instead, the agent follows them, and that costs steps or does damage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Order = Literal["check", "log in", "look up", "repeat"]

_VERBS: Mapping[Order, str] = {
    "log in": r"(?:re-?)?authenticate|log(?: back)? in(?:to)?|sign in|re-?login"
    r"|(?:renew|refresh) (?:the |every |each )?tokens?",
    "look up": r"look up|(?:re-?)?read (?:the )?(?:documentation|docs)|consult the documentation"
    r"|study the documentation",
    "repeat": r"repeat|redo|re-?run|retry|re-?send|do (?:it|them) again|make (?:it|them) again",
    "check": r"(?:double-|re-?|cross-?)?check|verify|re-?verify|confirm|validate|make sure|re-?read|review"
    r"|inspect|fetch"
    r" (?:it |them )?again|compare .* (?:with|against) the (?:app|data|source)|reconcile",
}
_WHEN = (
    r"(?:(?:before|after|when|whenever|once|if|as soon as|at the end|from now on|always|then|first|finally)\b"
    r"[^,]*,?\s+)?"
)
_BIDDING = (
    r"(?:(?:tell|ask|remind|instruct|advise|warn|urge) (?:the agent|it|them) to"
    r"|(?:the )?agent (?:should|must|has to|needs to|is to|ought to)"
    r"|next steps? (?:to|must be to|should be to)|(?:you )?(?:should|must|need to|have to)|please"
    r"|(?:be sure|remember) to)"
)
_OWN = re.compile(
    r"(?i)\b(?:summary|record the|section|heading|in this record|write|keep|retain|preserve|copy|include|omit)\b"
)
_PATTERNS = {
    order: re.compile(
        rf"(?i)^\W*(?:\d+[.)]\s*)?{_WHEN}(?:{_BIDDING}\s+(?:\w+ly )?)?(?:always |never fail to )?(?:{verbs})\b"
    )
    for order, verbs in _VERBS.items()
}
_BIDDEN = {order: re.compile(rf"(?i)\b{_BIDDING}\s+(?:\w+ly )?(?:{verbs})\b") for order, verbs in _VERBS.items()}
_ANY = re.compile(rf"(?i)\b(?:{'|'.join(_VERBS.values())})\b")
_AND = re.compile(r"(?i)\band (?:then |to )?(?:repeat|redo|re-?run|retry|re-?send)\b")


def orders_in(sentence: str) -> tuple[Order, ...]:
    """What a sentence tells the agent to do; a sentence about the record itself is meant for whoever writes it.

    >>> orders_in("Before finishing, check all results once more and repeat any call that looks doubtful.")
    ('check', 'repeat')
    >>> orders_in("Keep every token, so that the agent need not log in again.")
    ()
    """
    if not _ANY.search(sentence):
        return ()
    orders = [order for order in _VERBS if _PATTERNS[order].search(sentence) or _BIDDEN[order].search(sentence)]
    if _OWN.search(sentence) and not any(_BIDDEN[order].search(sentence) for order in orders):
        return ()
    if orders and "repeat" not in orders and _AND.search(sentence):
        orders.append("repeat")
    return tuple(orders)
