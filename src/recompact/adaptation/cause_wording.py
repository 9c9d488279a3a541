"""Clauses in the optimizer's words: it is shown tested causes of one kind and writes one general clause.

An answer that names anything of a task, or tells the agent how to act, is refused; where no answer can be used, the
fixed clause of that kind stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from recompact.adaptation.excerpts import head_and_tail
from recompact.adaptation.lock import names
from recompact.adaptation.method import MethodInputs, Question, answers
from recompact.adaptation.missing_facts import NOUNS, Kind
from recompact.adaptation.optimizer import Optimizer, ask
from recompact.attribution.bisection.cause import Cause
from recompact.engine.store.records import read_boundary
from recompact.engine.store.store import Store
from recompact.values.candidate import Clause

SHOWN = 3  # causes in one question
LONGEST = 1_500  # characters shown of a piece or a summary
LENGTH = 300  # characters of a clause

PROMPT = """\
A compressor summarizes the history of a working agent. Some of its summaries did harm. The cause of each was found by
trying: a few pieces were put back (or lines of the summary taken out), and from there the agent did as well as if
nothing had been summarized. Other pieces of the same size, a placebo, did not help. The causes below have one thing in
common: they concern {kind}.

{causes}

Write one clause for the compressor's prompt, so that summaries no longer lose this. It is one line that says what a
summary has to contain and in which form. It holds for all tasks: no name, number, date or id of the causes above. It
speaks to the compressor; it does not tell the agent how to act.

Answer with one JSON object: {{"clause": …}}"""

CAUSE = """\
<cause>
<pieces>
{pieces}
</pieces>
<summary>
{summary}
</summary>
<change>
{change}
</change>
</cause>"""

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
    questions = {
        kind: Question(f"word/{method}/{kind}", _asking(describe(inputs.records, kind, own), instances))
        for kind, own in causes.items()
    }
    worded = await answers(inputs, "word", f"{method} clause", questions, useful=bool, failed=lambda answer: False)
    return {kind: text for kind, text in worded.items() if text}


def describe(store: Store, kind: Kind, causes: Sequence[Cause]) -> str:
    """The question about one kind: the pieces of its causes, the summaries that lacked them, and what changed."""
    shown = []
    for cause in sorted(causes, key=lambda cause: cause.loss != "success")[:SHOWN]:
        summary = read_boundary(store, cause.boundary.unit, cause.boundary.index).post.summary
        pieces = "\n".join(f"{piece.heading}\n{piece.text}".strip() for piece in cause.pieces)
        shown.append(
            CAUSE.format(
                pieces=head_and_tail(pieces, LONGEST).text,
                summary=head_and_tail(summary.text if summary else "", LONGEST).text,
                change=cause.sentence(),
            )
        )
    return PROMPT.format(kind=NOUNS[kind][1], causes="\n".join(shown))


def _asking(prompt: str, instances: frozenset[str]) -> Any:
    async def answer(optimizer: Optimizer) -> str:
        return (
            await ask(optimizer, prompt, SCHEMA, lambda value: check_clause(value["clause"], instances))
        ).value or ""

    return answer


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
