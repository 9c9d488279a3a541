"""What a compaction prompt asks for: its headings, its limit, and how strongly it demands each kind of fact.

Demands go from 0 (not mentioned) over 1 (mentioned) to 2 (demanded in so many words), with -1 where the prompt forbids.
A real compressor model does this reading by itself; here it is done with word lists that are the same for every method
that writes prompts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from recompact.template import Section, parse_sections

Kind = Literal["predicate", "set", "identifier", "token", "signature", "page", "mutation", "open", "error"]
KINDS: tuple[Kind, ...] = ("predicate", "set", "identifier", "token", "signature", "page", "mutation", "open", "error")

_WORDS: Mapping[Kind, str] = {
    "predicate": r"predicate|condition|constraint|filter|restriction|qualifier|criteri|scope|temporal|relationship"
    r"|exact (?:user )?goal",
    "set": r"subset|qualifying|restricted|aggregate|subtotal|broader|retrieved (?:records?|values?|data|results?)"
    r"|records that|row by row|\brows\b|raw results?",
    "identifier": r"identifier|\bids?\b|references?\b|literals?\b|email address|account number",
    "token": r"\btokens?\b|credential|session|authenticat|\blog-?ins?\b|password",
    "signature": r"signature|parameter|endpoint|\bapis?\b|documentation|call form|function names",
    "page": r"\bpages?\b|paginat|cursor|batch",
    "mutation": r"mutation|side effect|irreversible|payments?\b|already (?:sent|made|paid)"
    r"|completed (?:action|item|work)|finished|state change|changes? that (?:was|were) made|exactly once",
    "open": r"unresolved|open work|remaining|pending|next step|still to|to be done|not finished|incomplete",
    "error": r"errors?\b|failures?\b|blocker|stands in the way|what failed",
}
_STRONG = re.compile(
    r"(?i)\b(?:exact(?:ly)?|verbatim|preserve|keep|retain|every|each|all|never|always|must|word for word|in full"
    r"|literally)\b|^\W*record\b"
)
_FORBID = re.compile(
    r"(?i)\b(?:without copying|do not (?:copy|print|expose|include|keep|record)|never (?:expose|copy|print)|omit"
    r"|leave out|drop)\b"
)
_LIMIT = re.compile(r"(?i)\b(\d[\d,]*) tokens\b")
_STATED = re.compile(r"(?i)(?:\d[\d,]*|\{\{ budget \}\}) tokens\b")
_BLOCKS = re.compile(r"<(conversation|previous-summary|task|prefix)>\n.*?\n</\1>", re.DOTALL)
_BRIEF = re.compile(r"(?i)\b(?:brief|concise|short(?:er|est)?|compact|few words)\b")


@dataclass(frozen=True)
class Guidance:
    """A prompt as a compressor understands it."""

    sections: tuple[Section, ...]
    demands: Mapping[Kind, int]
    limit: int | None
    brevity: int  # how often it asks for brevity

    @property
    def burden(self) -> int:
        """How many things are demanded at once; attention is shared among them."""
        return sum(1 for level in self.demands.values() if level == 2)


@lru_cache(maxsize=512)
def read_guidance(prompt: str) -> Guidance:
    """The guidance of a prompt. Blocks such as the conversation are cut out already, or are marked by tags."""
    own = _BLOCKS.sub("", prompt)
    demanding = _STATED.sub("", own)  # a limit in tokens says nothing of access tokens
    sentences = [s for line in demanding.splitlines() for s in re.split(r"(?<=[.;:!?])\s+", line) if s.strip()]
    limits = [int(n.replace(",", "")) for n in _LIMIT.findall(own)]
    return Guidance(
        sections=tuple(s for s in parse_sections(own) if s.level),
        demands={kind: _demand(kind, sentences) for kind in KINDS},
        limit=limits[-1] if limits else None,
        brevity=len(_BRIEF.findall(own)),
    )


def _demand(kind: Kind, sentences: list[str]) -> int:
    level = 0
    words = re.compile(rf"(?i)(?:{_WORDS[kind]})")
    for sentence in sentences:
        if not words.search(sentence):
            continue
        if _FORBID.search(sentence) and kind in ("token", "page", "set", "error"):
            return -1
        level = max(level, 2 if _STRONG.search(sentence) else 1)
    return level
