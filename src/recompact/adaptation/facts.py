"""The methods `facts` and `facts-entries`: guidance from what retained boundaries lack, counted by kind.

No model is asked: they are baselines for optimizers, and a way to adapt a template for those who have none. Each kind
of fact has one clause, a fixed sentence, worded as an order or as the entry that is wanted: whatever the evidence says,
none of it can get into a prompt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import cast

from recompact.adaptation.evidence import nothing_retained, retained_evidence
from recompact.adaptation.lock import instances_in, locked_candidate
from recompact.adaptation.method import Method, MethodInputs
from recompact.adaptation.missing_facts import (
    AGAIN,
    KIND_TEXTS,
    KINDS,
    Kind,
    MissingFacts,
    missing_facts,
    number_of_facts,
)
from recompact.adaptation.placement import leaves, with_lines
from recompact.attribution.boundary_view import BoundaryView
from recompact.attribution.divergence import consumed_texts
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.store import Store
from recompact.values.candidate import Candidate, Clause, EvidenceCounts, MissingKind, Proposal, Reason
from recompact.values.chat import canonical
from recompact.values.template import Section, Template, parse_sections
from recompact.values.texts import quantity


@dataclass(frozen=True)
class Form:
    """How the clauses are worded: one for each kind of fact, and what is added against altered values."""

    clauses: Mapping[Kind, str]
    unaltered: str


def _form(name: str) -> Form:
    wordings = KIND_TEXTS[name]
    return Form({kind: wordings[kind] for kind in wordings if kind != "unaltered"}, wordings["unaltered"])


ORDERS, ENTRIES, SPARING = map(_form, ("orders", "entries", "sparing"))
CLAUSES, UNALTERED = ORDERS.clauses, ORDERS.unaltered


_KEEPING = r"context|reference|data|state|fact|detail|information|knowledge|note"
_WORK = (r"done\b|complete|finish|accomplish", r"progress|status|history|so far", _KEEPING)
_PLACES: Mapping[Kind, tuple[str, ...]] = {
    "path": (r"file|artifact|path|resource|link", _KEEPING),
    "page": _WORK,
    "done": _WORK,
}


def clause_of(kind: Kind, contradicted: int = 0, form: Form = ORDERS) -> str:
    """The clause against the loss of such facts."""
    return form.clauses[kind] + (form.unaltered if contradicted and kind not in AGAIN else "")


ALL_CLAUSES = tuple(
    clause_of(kind, wrong, form) for form in (ORDERS, ENTRIES, SPARING) for kind in form.clauses for wrong in (0, 1)
)
"""Every sentence that can get into a prompt."""


def section_of(kind: Kind, text: str) -> str:
    """The title of the section under which a fact of this kind would go; empty where there is no heading."""
    sections = parse_sections(text)
    return sections[_place(kind, sections)].title


def with_clauses(template: Template, clauses: Sequence[tuple[Kind, str]]) -> Template:
    """The template with each clause as a line of its section, in both parts, in the order given."""
    return with_lines(template, lambda sections: [(_place(kind, sections), clause) for kind, clause in clauses])


def _place(kind: Kind, sections: Sequence[Section]) -> int:
    """The section: the first whose title says so, among those that hold text, or else the last."""
    holding = leaves(sections)
    for words in _PLACES.get(kind, (_KEEPING,)):
        for at in holding:
            if re.search(rf"(?i)\b(?:{words})", sections[at].title):
                return at
    return holding[-1] if holding else len(sections) - 1


OUTCOME = "found to lack facts that were used later"


def method(name: str, form: Form, color: str) -> Method:
    """A method that writes clauses of this form; its records and candidates begin with its name."""
    return Method(
        name,
        lambda inputs: propose(inputs, name, form),
        needs_effects=True,
        asks_optimizer=False,
        phases=(f"{name}/",),
        cites="compaction",
        reasons=lambda store: reasons(store, name),
        color=color,
    )


async def propose(inputs: MethodInputs, name: str = "facts", form: Form = ORDERS) -> Proposal:
    """Count what each retained boundary lacks, and write clauses against it."""
    store = inputs.records
    evidence = retained_evidence(store)
    if not evidence:
        return Proposal((), statement=nothing_retained(store))
    lacks = [_lack(store, each) for each in evidence]
    _write(store, name, lacks)
    kinds = missing_kinds(lacks, inputs.template)
    lacking = sum(bool(lack.missing) for lack in lacks)
    counts = EvidenceCounts("compaction", len(lacks), lacking, missing=kinds, outcome=OUTCOME)
    if not kinds:
        statement = (
            f"At {quantity(len(lacks), 'retained boundary')} nothing that was used before the compaction is missing"
            " after it, so there is nothing to adapt: the original stays."
        )
        return Proposal((), counts, statement)
    instances = instances_of(inputs, evidence)
    most = inputs.settings.candidates
    candidates = candidates_from(inputs.template, lacks, kinds, most, instances, name=name, form=form)
    refused = dict.fromkeys(reason for candidate in candidates for reason in candidate.objections)
    usable = any(candidate.template for candidate in candidates)
    statement = "" if usable else f"No clause can be put into this template: {'; '.join(refused)}"
    return Proposal(candidates, counts, statement)


def instances_of(inputs: MethodInputs, evidence: Sequence[BoundaryView]) -> frozenset[str]:
    """What in these compactions belongs to one task alone; what a clause says of its own accord does not."""
    texts = [text for each in evidence for text in (*consumed_texts(each.boundary), *each.needed)]
    return instances_in(texts, (*inputs.template.parts().values(), *ALL_CLAUSES))


def missing_kinds(lacks: Sequence[MissingFacts], template: Template) -> tuple[MissingKind, ...]:
    """What is lacking by kind, with the section it belongs under, the kind that most boundaries lack first."""
    kinds = []
    for kind in KINDS:
        boundaries = [lack for lack in lacks if lack.missing.get(kind)]
        if boundaries:
            facts = sum(lack.missing[kind] for lack in boundaries)
            wrong = sum(lack.contradicted.get(kind, 0) for lack in boundaries)
            section = section_of(kind, template.first)
            kinds.append(MissingKind(kind, number_of_facts(kind, facts), section, facts, wrong, len(boundaries)))
    return tuple(sorted(kinds, key=lambda each: (-each.boundaries, -each.facts)))


def candidates_from(
    template: Template,
    lacks: Sequence[MissingFacts],
    kinds: Sequence[MissingKind],
    most: int,
    instances: frozenset[str] = frozenset(),
    *,
    name: str = "facts",
    form: Form = ORDERS,
) -> tuple[Candidate, ...]:
    """Up to `most` candidates, each against more of the kinds than the one before, the last against all of them."""
    candidates = []
    for number, size in enumerate(sizes(len(kinds), most), 1):
        chosen = [
            (cast(Kind, each.kind), clause_of(cast(Kind, each.kind), each.contradicted, form)) for each in kinds[:size]
        ]
        clauses = tuple(
            Clause(
                text,
                section_of(kind, template.first),
                tuple(sorted(str(lack.id) for lack in lacks if lack.missing.get(kind))),
            )
            for kind, text in chosen
        )
        revised = with_clauses(template, chosen)
        candidates.append(locked_candidate(f"{name}-{number}", template, revised, clauses, instances))
    return tuple(candidates)


def sizes(kinds: int, most: int) -> tuple[int, ...]:
    """How many kinds each candidate covers.

    >>> sizes(3, 5), sizes(9, 5), sizes(1, 5)
    ((1, 2, 3), (2, 4, 6, 8, 9), (1,))
    """
    number = min(kinds, most)
    return tuple(ceil(kinds * n / number) for n in range(1, number + 1))


def _lack(store: Store, view: BoundaryView) -> MissingFacts:
    turns = read_trajectory(store, view.id.unit).turns
    step = view.boundary.step
    return missing_facts(view, turns[:step], turns[step:])


def _write(store: Store, name: str, lacks: Sequence[MissingFacts]) -> None:
    """Record what was counted, in place of an earlier count: further draws may have changed it."""
    store.forget_units((f"{name}/",))
    with store.transaction():
        for lack in lacks:
            store.finish(f"{name}/{lack.id}", name, canonical(lack.to_json()), 0.0)


def reasons(store: Store, name: str = "facts") -> Mapping[str, Sequence[Reason]]:
    """What each boundary lacks, in one line."""
    lacks = (MissingFacts.from_json(store.result(unit)) for unit in sorted(store.finished(name)))
    return {str(lack.id): (Reason(lack.sentence),) for lack in lacks}


FACTS = method("facts", ORDERS, "#7A8A1E")
FACTS_ENTRIES = method("facts-entries", ENTRIES, "#4F6D2F")
