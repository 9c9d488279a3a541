"""What a compaction prompt asks for: its headings, its limit, the kinds of facts that it demands, and its orders.

Demands go from 0 (not mentioned) over 1 (mentioned) to 2 (demanded in so many words), with -1 where the prompt forbids.
An order tells the agent how to act; where a summary carries one, the agent follows it, and that costs steps or does
damage. A real model does this reading by itself; here it is done by classes of meaning, whoever chose the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from recompact.simulation.parameters import KINDS, Kind
from recompact.values.template import Section, parse_sections

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


_MEANINGS: Mapping[Kind, str] = {
    "predicate": r"predicates?\b|conditions?\b|constraints?\b|filters?\b|restrict|qualif|criteri|scope|relationships?\b"
    r"|temporal|cut-?off|\bdates?\b|time (?:span|frame|window)|exclusion|exceptions\b"
    r"|(?:words|wording|text) of the (?:task|request|user)|(?:exact|original|full) (?:user )?(?:goal|request|task)"
    r"|\bwho,|(?:whom|who) (?:it|the task) (?:is|concerns)|since when",
    "set": r"subsets?\b|qualifying|aggregates?\b|subtotals?\b|retrieved|fetched|\brows?\b|raw results?|\brecords\b"
    r"|entries\b|\bamounts?\b|itemi[sz]ed?|listings?\b|query results?"
    r"|(?:data|results|values|figures) (?:that )?(?:were |was )?(?:read|found|obtained|returned|seen|collected)"
    r"|contents? of (?:lists?|files?|mails?|messages?)",
    "identifier": r"identifiers?\b|\bids?\b|references?\b|literals?\b|email address|account numbers?|\bkeys\b"
    r"|\bpaths?\b|\blinks\b|\btitles\b|addresses\b|exact names?\b|(?:every|each|all) names?\b",
    "token": r"\btokens?\b|credentials?\b|sessions?\b|authenticat|authori[sz]ation|\blog-?ins?\b|\blogged in"
    r"|passwords?\b"
    r"|access (?:keys?|data|details)|sign-?ins?\b",
    "signature": r"signatures?\b|parameters?\b|endpoints?\b|\bapis?\b|documentation|\bdocs\b|call form|function names"
    r"|how (?:to call|(?:calls|functions|methods|tools) (?:are|is) (?:called|made|written))"
    r"|arguments? (?:that )?(?:a|each|every|the) (?:call|function|api)"
    r"|tool (?:schemas?|usage|interfaces?)|methods? and their arguments",
    "page": r"\bpages?\b|paginat|cursors?\b|batch(?:es)?\b|how (?:far|much) of (?:a|each|every|the) list"
    r"|whether (?:a|each|the) list",
    "mutation": r"mutations?\b|side effects?|irreversible|payments?\b|already (?:sent|made|paid|done)"
    r"|(?:has|have) been done"
    r"|completed (?:actions?|items?|work|steps?)|finished|state changes?|changes? (?:that )?"
    r"(?:was |were |it )?(?:made|has made)"
    r"|exactly once|actions? (?:that )?(?:were |was )?(?:taken|performed|executed|completed)"
    r"|writes? (?:that )?(?:were )?made",
    "open": r"unresolved|open (?:work|items?|ends|questions?)|remain|pending|next steps?|"
    r"still (?:to|has to|have to|missing|open)"
    r"|to be done|not (?:yet )?(?:finished|done|complete)|incomplete|outstanding|unfinished|left to do",
    "error": r"errors?\b|failures?\b|failed|blockers?\b|stands in the way|exceptions? raised|refus(?:ed|als?)"
    r"|dead ends?",
}
_STRONG = re.compile(
    r"(?i)\b(?:exact(?:ly)?|verbatim|preserve|keep|retain|every|each|all|any|never|always|must|word for word|in full"
    r"|literal(?:ly)?|complete(?:ly)?|carry over|copy|without exception|do not "
    r"(?:lose|forget|drop|shorten|merge|generali[sz]e)"
    r"|anything|whatever"
    r"|no matter what|one by one|unchanged|precise(?:ly)?)\b|^\W*(?:record|list|state|note|write down|include)\b"
)
_FORBID = re.compile(
    r"(?i)\b(?:without copying|do not (?:copy|print|expose|include|keep|record|list)|never "
    r"(?:expose|copy|print|include)|omit|leave out|drop|no need (?:to keep|for))\b"
)
_KEEPING = re.compile(r"(?i)\b(?:do not|don't|never|not) (?:\w+ or )?(?:omit|leave out|drop)\b")
_LIMIT = re.compile(r"(?i)\b(\d[\d,]*) tokens\b")
_STATED = re.compile(r"(?i)(?:\d[\d,]*|\{\{ budget \}\}) tokens\b")
_BLOCKS = re.compile(r"<(conversation|previous-summary|task|prefix)>\n.*?\n</\1>", re.DOTALL)
_BRIEF = re.compile(r"(?i)\b(?:brief|concise|short(?:er|est)?|compact|few words)\b")
_WORDS = {kind: re.compile(rf"(?i)(?:{words})") for kind, words in _MEANINGS.items()}


@dataclass(frozen=True)
class Guidance:
    """A prompt as a compressor understands it."""

    sections: tuple[Section, ...]
    demands: Mapping[Kind, int]
    limit: int | None
    brevity: int  # how often it asks for brevity
    orders: tuple[str, ...]  # sentences that tell the agent what to do

    def share(self, kind: Kind, weights: tuple[float, float, float], rivalry: float = 1.0) -> float:
        """The attention that a kind gets, 1 where nothing is asked for.

        At a `rivalry` of 1 all of what one kind gains the others lose; at 0 a demand takes nothing from them.
        """
        levels = {k: weights[max(0, level)] for k, level in self.demands.items()}
        if rivalry == 1.0:
            return levels[kind] * len(levels) / sum(levels.values())
        share: float = levels[kind] / (sum(levels.values()) / len(levels)) ** rivalry
        return share


def read_guidance(prompt: str) -> Guidance:
    """The guidance of a prompt. Blocks such as the conversation are cut out already, or are marked by tags."""
    return _read(_BLOCKS.sub("", prompt))


@lru_cache(maxsize=512)
def _read(own: str) -> Guidance:
    demanding = _STATED.sub("", own)  # a limit in tokens says nothing of access tokens
    sentences = sentences_in(demanding)
    orders = tuple(sentence for sentence in sentences if orders_in(sentence))
    limits = [int(n.replace(",", "")) for n in _LIMIT.findall(own)]
    return Guidance(
        sections=tuple(s for s in parse_sections(own) if s.level),
        demands={kind: _demand(kind, [s for s in sentences if s not in orders]) for kind in KINDS},
        limit=limits[-1] if limits else None,
        brevity=len(_BRIEF.findall(own)),
        orders=orders,
    )


def sentences_in(text: str) -> list[str]:
    return [s for line in text.splitlines() for s in re.split(r"(?<=[.;:!?])\s+", line) if s.strip()]


def kinds_in(text: str) -> tuple[Kind, ...]:
    """The kinds of facts that a text speaks of, the one it speaks of first first."""
    places = {kind: match.start() for kind, words in _WORDS.items() if (match := words.search(text))}
    return tuple(sorted(places, key=lambda kind: places[kind]))


def _demand(kind: Kind, sentences: Iterable[str]) -> int:
    level = 0
    for sentence in sentences:
        if not _WORDS[kind].search(sentence):
            continue
        forbids = _FORBID.search(sentence) and not _KEEPING.search(sentence)
        if forbids and kind in ("token", "page", "set", "error", "signature"):
            return -1
        level = max(level, 2 if _STRONG.search(sentence) else 1)
    return level
