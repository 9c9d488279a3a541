"""The method `causes`: guidance from causes that interventions showed, not from suspicions.

Every retained compaction is bisected first. The kinds of what had to be put back get a clause, those that brought
success back before those that only saved steps. No optimizer is asked. Its control, `causes-random`, takes a random
dropped piece of each compaction for its cause: what that gains is not owed to causes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from recompact.adaptation.cause_kinds import kinds_of
from recompact.adaptation.evidence import nothing_retained, retained_evidence
from recompact.adaptation.fact_clauses import ALL_CLAUSES, ENTRIES, Form, clause_of, section_of, with_clauses
from recompact.adaptation.instances import instances_in
from recompact.adaptation.lock import broken_rules, unusable
from recompact.adaptation.method import Method, MethodInputs
from recompact.adaptation.missing_facts import Kind
from recompact.attribution.bisection.bisect import PHASE
from recompact.attribution.bisection.cause import KIND, Cause, CausePiece, read_causes
from recompact.attribution.bisection.pieces import dropped_pieces
from recompact.attribution.divergence import consumed_texts
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.values.candidate import Candidate, Clause, EvidenceCounts, Proposal, Reason
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template
from recompact.values.texts import quantity

FEWEST = 2  # causes that a clause rests on


@dataclass(frozen=True)
class KindOfCause:
    """What tested causes say about one kind: where it was put back, and what that brought back."""

    kind: Kind
    causes: tuple[Cause, ...] = field(default=())

    @property
    def success(self) -> int:
        return sum(cause.loss == "success" for cause in self.causes)

    @property
    def proof(self) -> str:
        """What interventions showed, with its numbers; empty where nothing was tested.

        >>> from recompact.attribution.bisection.cause import Draws
        >>> trials = {"closing": Draws((1.0,), (3,)), "placebo": Draws((0.0,), (9,))}
        >>> success = Cause(BoundaryId("collect/a", 1), "found", "success", 12, (), 5, 100, **trials)
        >>> KindOfCause("page", (success, success)).proof
        'put back at 2 compactions: success returned at 2; a placebo closed none of 2'
        """
        if not all(cause.closing.draws for cause in self.causes):
            return ""
        steps, tried = len(self.causes) - self.success, sum(cause.placebo.draws > 0 for cause in self.causes)
        parts = [f"success returned at {self.success}"] if self.success else []
        parts += [f"steps were saved at {steps}"] if steps else []
        placebo = f"; a placebo closed none of {tried}" if tried else ""
        return f"put back at {quantity(len(self.causes), 'compaction')}: {', '.join(parts)}{placebo}"


async def propose(inputs: MethodInputs, find: FindCauses, name: str) -> Proposal:
    """Find what retained compactions should have kept, and write clauses against its loss."""
    store = inputs.records
    evidence = retained_evidence(store)
    if not evidence:
        return Proposal((), statement=nothing_retained(store))
    causes = [cause for cause in await find(inputs, [each.id for each in evidence]) if cause.known]
    kinds = weigh_kinds(store, causes)
    counts = EvidenceCounts("compaction", len(evidence), len(causes), outcome="traced to a cause by putting it back")
    if not kinds:
        statement = (
            f"{quantity(len(causes), 'tested cause')} at {quantity(len(evidence), 'harmful compaction')}: too few of"
            f" any kind for a clause, which rests on at least {FEWEST}. The original stays; more tasks may help."
        )
        return Proposal((), counts, statement)
    texts = [text for each in evidence for text in (*consumed_texts(each.boundary), *each.needed)]
    instances = instances_in(texts, (*inputs.template.parts().values(), *ALL_CLAUSES))
    return Proposal(candidates_from(inputs.template, kinds, instances, name), counts)


FindCauses = Callable[[MethodInputs, Sequence[BoundaryId]], Awaitable[Iterable[Cause]]]


async def find_tested(inputs: MethodInputs, boundaries: Sequence[BoundaryId]) -> Iterable[Cause]:
    """The causes that interventions show."""
    return await inputs.bisect(boundaries)


async def find_random(inputs: MethodInputs, boundaries: Sequence[BoundaryId]) -> Iterable[Cause]:
    """A random dropped piece of each compaction, as if it were the cause."""
    causes = []
    for id in boundaries:
        pieces = dropped_pieces(read_boundary(inputs.records, id.unit, id.index), inputs.count)
        if pieces:
            piece = CausePiece.of(Random(f"random cause/{id}").choice(pieces))
            causes.append(Cause(id, "found", "success", 0, (piece,), len(pieces), sum(p.tokens for p in pieces)))
    return causes


def weigh_kinds(store: Store, causes: Sequence[Cause]) -> tuple[KindOfCause, ...]:
    """The kinds that enough causes have, those that brought success back most often first, then those of steps."""
    of: dict[Kind, list[Cause]] = {}
    closing = _closing(store)
    for cause in causes:
        at = cause.boundary
        boundary = read_boundary(store, at.unit, at.index)
        for kind in kinds_of(cause, boundary, [read_trajectory(store, unit) for unit in closing.get(str(at), ())]):
            of.setdefault(kind, []).append(cause)
    kinds = [KindOfCause(kind, tuple(own)) for kind, own in of.items() if len(own) >= FEWEST]
    return tuple(sorted(kinds, key=lambda each: (-each.success, -len(each.causes), each.kind)))


def _closing(store: Store) -> Mapping[str, list[str]]:
    """The continuations of searches that succeeded with something put back, by boundary."""
    units: dict[str, list[str]] = {}
    for row in trajectories(store, phase=PHASE):
        _, index, key, _ = row.unit.rsplit("/", 3)
        if key != "post" and row.value > 0:
            units.setdefault(f"{row.task}#{index}", []).append(row.unit)
    return units


def candidates_from(
    template: Template, kinds: Sequence[KindOfCause], instances: frozenset[str], name: str, form: Form = ENTRIES
) -> tuple[Candidate, ...]:
    """One template against what cost success, and one against all of it where that is more."""
    merged = [each for each in kinds if each.success]
    sets = [chosen for chosen in (merged, list(kinds)) if chosen]
    if len(sets) == 2 and len(sets[0]) == len(sets[1]):
        sets.pop()
    candidates = []
    for number, chosen in enumerate(sets, 1):
        clauses = tuple(
            Clause(clause_of(each.kind, form=form), section_of(each.kind, template.first), _answers(each), each.proof)
            for each in chosen
        )
        revised = with_clauses(template, [(each.kind, clause_of(each.kind, form=form)) for each in chosen])
        broken = (*unusable(revised), *broken_rules(template, revised, instances))
        candidates.append(
            Candidate(f"{name}-{number}", None, (), broken)
            if broken
            else Candidate(f"{name}-{number}", revised, clauses)
        )
    return tuple(candidates)


def _answers(kind: KindOfCause) -> tuple[str, ...]:
    return tuple(sorted(str(cause.boundary) for cause in kind.causes))


def reasons(store: Store) -> Mapping[str, Sequence[Reason]]:
    """What putting something back showed at each compaction."""
    return {str(id): (Reason(cause.sentence()),) for id, cause in read_causes(store).items() if cause.known}


def _method(name: str, find: FindCauses, color: str) -> Method:
    return Method(
        name,
        partial(propose, find=find, name=name),
        needs_effects=True,
        asks_optimizer=False,
        phases=(f"{PHASE}/", f"{KIND}/") if find is find_tested else (),
        cites="compaction",
        reasons=reasons if find is find_tested else lambda store: {},
        color=color,
    )


CAUSES = _method("causes", find_tested, "#B0413E")
CAUSES_RANDOM = _method("causes-random", find_random, "#C9A09F")
