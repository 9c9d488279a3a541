"""Step 3, second half: from diagnoses to candidates, each a revision of the guidance inside the fixed sections.

A draft that breaks the section lock, or leaves its clauses out, is redrawn with the reason. If no draft can be used,
the clauses of the last that listed any are put under their sections; where those break a rule as well, the candidate
is reported as invalid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from recompact.adaptation.diagnosis import Diagnosis
from recompact.adaptation.lock import broken_rules, unusable
from recompact.adaptation.optimizer import TEXT, Optimizer, Weak, ask, list_schema, object_schema
from recompact.adaptation.placement import with_clauses_in_place
from recompact.values.candidate import Candidate, Clause
from recompact.values.chat import assistant, user
from recompact.values.template import Template

GROUPING = """\
Below are diagnoses of compactions that did harm, one JSON object a line, each with the boundary it is about.

<diagnoses>
{diagnoses}
</diagnoses>

Group them by what went wrong with the information, across tasks: which kind of state was lost or misrepresented, and
how often. Answer with one JSON object:
{{"groups": [{{"mechanism": …, "kind": …, "boundaries": […], "lesson": …}}, …]}}, where lesson says what a summary
must contain so that this does not happen again."""

REVISION = """\
Now revise the prompt that the compressor works with. It has two parts, one for the first summary and one for later
ones.

<diagnoses>
{diagnoses}
</diagnoses>
<first>
{first}
</first>
<update>
{update}
</update>

Rules:
- Change only the guidance: the sentences under the headings, and the instructions around them. Every heading stays, in
  its words, level and order; every placeholder in double braces and every tag stays; lists keep their form, such as
  "- [x]" or "1.".
- Guidance tells the compressor what state to keep and how to represent it. It does not tell the agent how to act.
- Write for the whole family of tasks: no name, id, date or amount from a diagnosis.
- Every clause that you add answers at least one diagnosed boundary; list it with the boundaries it answers.
- Prefer few clear clauses to many. Keeping everything is impossible: the summary has a limit.

Answer with one JSON object: {{"rules": [{{"clause": …, "section": …, "boundaries": […]}}, …], "first": …,
"update": …}}, where first and update are the two parts, each in full, with your clauses in their places."""

IN_PLACE = "no draft could be used, so its clauses were put under their sections"

GROUPS_SCHEMA = {
    "title": "groups",
    "type": "object",
    "properties": {"groups": {"type": "array", "items": {"type": "object"}}},
    "required": ["groups"],
}


def revision_schema(title: str, cites: str) -> dict[str, Any]:
    """A whole new template with the clauses that were added; `cites` names what each clause answers."""
    rule = object_schema({"clause": TEXT, "section": TEXT, cites: list_schema(TEXT)})
    return object_schema({"rules": list_schema(rule), "first": TEXT, "update": TEXT}, title=title)


SCHEMA = revision_schema("revision", "boundaries")


async def revise(
    optimizer: Optimizer,
    name: str,
    original: Template,
    diagnoses: Sequence[Diagnosis],
    instances: frozenset[str],
) -> Candidate:
    """One candidate: a grouping turn, then a revision turn."""
    lines = "\n".join(json.dumps(d.lesson(), ensure_ascii=False) for d in diagnoses if d.causes)
    cited = {str(d.id) for d in diagnoses if d.causes}
    grouping = GROUPING.format(diagnoses=lines)
    grouping_answer = await ask(optimizer, grouping, GROUPS_SCHEMA, lambda value: value["groups"])
    before = (user(grouping), assistant(json.dumps({"groups": grouping_answer.value or []}, ensure_ascii=False)))
    prompt = REVISION.format(diagnoses=lines, first=original.first, update=original.update)

    def check(value: Any) -> tuple[Template, tuple[Clause, ...], str]:
        clauses = tuple(_clause(entry, cited) for entry in value["rules"])
        if not clauses:
            raise ValueError("rules is empty: list every clause that you added with the boundaries it answers")
        try:
            return _rewritten(value, original, clauses, instances), clauses, ""
        except (ValueError, KeyError) as error:
            completed = with_clauses_in_place(original, clauses)
            if _broken(completed, original, instances):
                raise
            reason = f"the answer lacks {error}" if isinstance(error, KeyError) else str(error)
            raise Weak(reason, (completed, clauses, IN_PLACE)) from None

    answer = await ask(optimizer, prompt, SCHEMA, check, before)
    objections = (*(f"grouping: {reason}" for reason in grouping_answer.objections), *answer.objections)
    if answer.value is None:
        return Candidate(name, None, (), objections)
    template, clauses, note = answer.value
    return Candidate(name, template, clauses, (*objections, note) if note else objections)


def _rewritten(value: Any, original: Template, clauses: Sequence[Clause], instances: frozenset[str]) -> Template:
    """The template as the optimizer wrote it; raises ValueError where it broke a rule, or left all its clauses out."""
    revised = replace(original, first=whole_part(value, "first"), update=whole_part(value, "update"), provenance={})
    if revised == original:
        raise ValueError("nothing was changed")
    if broken := _broken(revised, original, instances):
        raise ValueError("; ".join(broken[:5]))
    text = " ".join(f"{revised.first} {revised.update}".split())
    if not any(" ".join(clause.text.split()) in text for clause in clauses):
        raise ValueError("no clause of rules stands in first or update: put each in its place, in the same words")
    return revised


def _broken(revised: Template, original: Template, instances: frozenset[str]) -> tuple[str, ...]:
    return (*unusable(revised), *broken_rules(original, revised, instances))


def whole_part(value: Any, name: str) -> str:
    """One part of a template as an optimizer wrote it."""
    text = value[name]
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} is empty: give the whole part")
    return text if text.endswith("\n") else text + "\n"


def _clause(entry: Any, cited: set[str]) -> Clause:
    boundaries = tuple(str(b) for b in entry["boundaries"])
    unknown = [b for b in boundaries if b not in cited]
    if unknown or not boundaries:
        raise ValueError(f"the clause {str(entry['clause'])[:60]!r} must cite diagnosed boundaries, not {unknown}")
    return Clause(str(entry["clause"]), str(entry.get("section", "")), boundaries)
