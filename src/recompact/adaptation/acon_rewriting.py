"""ACON's candidates: the compression prompt rewritten from sampled feedback, freely or under the section lock.

Free rewriting may change anything but the placeholders, as long as the template stays usable; the locked variant
differs only in the lock. A draft that breaks a rule is redrawn with the reason, then reported as invalid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from recompact.adaptation.acon_feedback import read_list
from recompact.adaptation.lock import PARTS, broken_rules, lost_placeholders, unusable
from recompact.adaptation.optimizer import Optimizer, ask
from recompact.adaptation.revision import revision_schema, whole_part
from recompact.models.journal import seed_of
from recompact.values.candidate import Candidate, Clause
from recompact.values.template import Template

FROM_FEEDBACK = """\
An agent works with a history that a compressor summarizes now and then. The prompt of that compressor is to become
better. Runs that failed with compaction were compared with runs that kept the whole history; here is what was found,
one JSON object a line.

<feedback>
{entries}
</feedback>
"""
WORK = """\
This is the prompt, in two parts: one for the first summary, one for later ones.

<first>
{first}
</first>
<update>
{update}
</update>

{aim}
{freedom}
- Every placeholder in double braces stays, each as often as now.
- What you write serves all tasks of this family, also those that you have not seen.
- List the clauses that are new, each with the section that it stands in and the entries that it goes back to.

Answer with one JSON object: {{"rules": [{{"clause": …, "section": …, "entries": […]}}, …], "first": …, "update": …}},
where first and update are the two parts, each in full, with your clauses in their places."""

UTILITY = """\
Rewrite both parts so that runs like these succeed. Take up the remedies that would have helped most often, and put them
as concrete rules."""
FREE = """\
- You may rewrite the prompt as a whole: its wording, its headings, their order, what it asks for under them."""
LOCKED = """\
- Every heading stays, in its words, level and order, and so does every tag; lists keep their form, such as "- [x]" or
  "1.". Only the guidance between them may change.
- Name nothing that belongs to one task: no name, id, date or amount."""

SCHEMA = revision_schema("rewriting", "entries")


@dataclass(frozen=True)
class Assignment:
    """What a candidate is made from: the template, named entries, and the words that introduce them and the aim."""

    template: Template
    entries: Mapping[str, Mapping[str, Any]]
    introduction: str = FROM_FEEDBACK
    aim: str = UTILITY
    locked: bool = False
    instances: frozenset[str] = frozenset()


def sample_entries(names: Sequence[str], count: int, candidate: str, seed: int) -> tuple[str, ...]:
    """`count` entries at random, or all; in their own order, so that all means the same for every candidate.

    >>> sample_entries(["a", "b", "c"], 30, "acon-ut-1", 0)
    ('a', 'b', 'c')
    """
    rng = Random(seed_of(f"sample/{candidate}", 0, seed))
    return tuple(names[n] for n in sorted(rng.sample(range(len(names)), min(count, len(names)))))


async def rewrite(optimizer: Optimizer, name: str, given: Assignment, chosen: Sequence[str]) -> Candidate:
    """One candidate from the chosen entries."""
    entries = "\n".join(json.dumps(given.entries[entry], ensure_ascii=False) for entry in chosen)
    introduction = given.introduction.format(entries=entries)
    freedom = LOCKED if given.locked else FREE
    original = given.template
    work = WORK.format(first=original.first, update=original.update, aim=given.aim, freedom=freedom)

    def check(value: Any) -> tuple[Template, tuple[Clause, ...]]:
        revised = replace(original, first=whole_part(value, "first"), update=whole_part(value, "update"), provenance={})
        clauses = tuple(_clause(entry, chosen) for entry in read_list(value, "rules"))
        if revised == original:
            raise ValueError("nothing was changed")
        if broken := _broken(given, revised):
            raise ValueError("; ".join(broken[:5]))
        return revised, clauses

    answer = await ask(optimizer, f"{introduction}\n{work}", SCHEMA, check)
    template, clauses = answer.value or (None, ())
    return Candidate(name, template, clauses, answer.objections)


def _broken(given: Assignment, revised: Template) -> tuple[str, ...]:
    if given.locked:
        return (*unusable(revised), *broken_rules(given.template, revised, given.instances))
    lost = [problem for part in PARTS for problem in lost_placeholders(part, given.template, revised)]
    return (*unusable(revised), *lost)


def _clause(entry: Any, chosen: Sequence[str]) -> Clause:
    """A clause as it is reported. ACON does not ask for grounds, so there may be none, but none may be made up."""
    cited = tuple(str(one) for one in read_list(entry, "entries"))
    if unknown := [one for one in cited if one not in chosen]:
        raise ValueError(f"the clause {str(entry['clause'])[:60]!r} cites {unknown}, which was not given")
    return Clause(str(entry["clause"]), str(entry["section"]), cited)
