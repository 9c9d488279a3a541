"""The method `causes`: guidance from causes that interventions showed, not from suspicions.

Every retained compaction is bisected. The kinds of what had to be put back get a clause with its proof, those that
brought success back first. A kind without a tested cause keeps its place in a general list, and its clause says so;
what the template demands in absolute words, with no tested cause behind it, is asked for without them. Where there are
too few tested causes, more training tasks are collected first. Options turn each of these off, or put something else in
the place of tested causes, to show what each is worth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Annotated, Literal

from annotated_types import Ge

from recompact.adaptation.cause_kinds import Trials, kinds_of, lost_kinds, word_clauses
from recompact.adaptation.evidence import nothing_retained, retained_evidence
from recompact.adaptation.facts import ENTRIES, SPARING, Form, clause_of, instances_of, section_of, with_clauses
from recompact.adaptation.lock import locked_candidate
from recompact.adaptation.method import Method, MethodInputs
from recompact.adaptation.missing_facts import KINDS, Kind, kinds_named
from recompact.adaptation.pair import diagnose_boundaries
from recompact.adaptation.placement import without_absolutes
from recompact.attribution.bisection.bisect import PHASE
from recompact.attribution.bisection.cause import KIND, Cause, read_causes
from recompact.attribution.bisection.pieces import Piece, dropped_pieces
from recompact.attribution.judgement import read_verdicts
from recompact.engine.store.records import read_boundary, read_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.values.candidate import Candidate, Clause, EvidenceCounts, Proposal, Reason
from recompact.values.outcome import BoundaryId
from recompact.values.template import Template
from recompact.values.texts import quantity

ENOUGH = 4  # tested causes of lost success: a kind behind half of all losses is among four in 94 of 100 cases
NEEDED = 1.0  # weight that a clause rests on
STEPS = 0.5  # weight of a cause that only cost steps: one alone is not enough

Evidence = Literal["tested", "suspected", "random pieces", "random compactions"]
"""What the clauses come from: causes that interventions showed, what the optimizer suspects, or chance."""


Wording = Literal["sparing", "entries", "both", "optimizer"]
"""Whose words the clauses are in: fixed ones, without absolutes or with them, or the optimizer's. With "both", each
fixed wording has candidates of its own: runs tell which of them this compressor follows."""


@dataclass(frozen=True)
class Settings:
    """The options of the method."""

    evidence: Evidence = "tested"
    contrast: bool = True
    weights: bool = True
    more_tasks: int | None = None
    wording: Wording = "sparing"
    prior: bool = True


@dataclass(frozen=True)
class KindOfCause:
    """What causes say about one kind: where it was put back, and what that brought back."""

    kind: Kind
    causes: tuple[Cause, ...] = field(default=())

    @property
    def success(self) -> int:
        return sum(cause.loss == "success" for cause in self.causes)

    @property
    def weight(self) -> float:
        return self.success + STEPS * (len(self.causes) - self.success)

    @property
    def answers(self) -> tuple[str, ...]:
        return tuple(sorted(str(cause.boundary) for cause in self.causes))

    @property
    def proof(self) -> str:
        """What interventions showed, with its numbers; empty where nothing was tested.

        >>> from recompact.attribution.bisection.cause import Trial
        >>> from recompact.values.outcome import Outcome
        >>> trials = {"closing": Trial((Outcome(1.0, 3),)), "placebo": Trial((Outcome(0.0, 9),))}
        >>> success = Cause(BoundaryId("collect/a", 1), "found", "success", 12, (), 5, 100, **trials)
        >>> KindOfCause("page", (success, success)).proof
        'put right at 2 compactions: success returned at 2; a placebo closed none of 2'
        """
        if not all(cause.closing.draws for cause in self.causes):
            return ""
        steps, tried = len(self.causes) - self.success, sum(cause.placebo.draws > 0 for cause in self.causes)
        parts = [f"success returned at {self.success}"] if self.success else []
        parts += [f"steps were saved at {steps}"] if steps else []
        placebo = f"; a placebo closed none of {tried}" if tried else ""
        return f"put right at {quantity(len(self.causes), 'compaction')}: {', '.join(parts)}{placebo}"


async def propose(inputs: MethodInputs, settings: Settings, name: str) -> Proposal:
    """Find what retained compactions should have kept, and write clauses against its loss."""
    inputs, known, added = await _gather(inputs, settings)
    store = inputs.records
    evidence = retained_evidence(store)
    if not evidence:
        return Proposal((), statement=nothing_retained(store))
    kinds = weigh_kinds(known, settings)
    refused = frozenset[Kind]()
    if settings.contrast:
        refused = common_kinds(inputs, [kind.kind for kind in kinds])
        kinds = tuple(each for each in kinds if each.kind not in refused)
    counts = EvidenceCounts("compaction", len(evidence), len(known), outcome=_OUTCOMES[settings.evidence])
    statement = _statement(len(known), len(evidence), added, refused)
    if not kinds:
        unsearched = _say_unsearched(store, [each.id for each in evidence]) if settings.evidence == "tested" else ""
        return Proposal((), counts, f"{statement}{unsearched} Not enough for a clause: the original stays.")
    instances = instances_of(inputs, evidence)
    wordings: Mapping[Kind, str] = {}
    if settings.wording == "optimizer":
        causes = {each.kind: each.causes for each in kinds}
        wordings = await word_clauses(inputs, causes, instances, name)
    forms = {name: SPARING} if settings.wording != "entries" else {name: ENTRIES}
    if settings.wording == "both":
        forms[f"{name}-entries"] = ENTRIES
    candidates = [
        candidate
        for prefix, form in forms.items()
        for candidate in candidates_from(
            inputs.template, kinds, instances, prefix, wordings, form, prior=settings.prior
        )
    ]
    return Proposal(tuple(candidates), counts, statement)


async def _gather(inputs: MethodInputs, settings: Settings) -> tuple[MethodInputs, Known, int]:
    """Causes, after as many further training tasks as it takes until they are enough, and how many those were."""
    find = _FINDERS[settings.evidence]
    most = inputs.spare_tasks if settings.more_tasks is None else settings.more_tasks
    added = len(inputs.records.metadata.added)
    batch = max(1, (len(inputs.tasks) - added) // 2)
    known = await find(inputs)
    while sum(cause.loss == "success" and bool(kinds) for cause, kinds in known) < ENOUGH and added < most:
        more = await inputs.collect_more(min(batch, most - added))
        if not more:
            break
        added += len(more)
        inputs = replace(inputs, tasks=(*inputs.tasks, *more))
        known = await find(inputs)
    return inputs, known, added


Known = Sequence[tuple[Cause, tuple[Kind, ...]]]
"""Causes with the kinds of what they brought back."""


def _statement(known: int, evidence: int, added: int, refused: Iterable[Kind]) -> str:
    text = f"{quantity(known, 'cause')} at {quantity(evidence, 'harmful compaction')}."
    if added:
        text += f" They were too few at first, so it collected and verified {quantity(added, 'more training task')}."
    if common := sorted(refused):
        text += f" No cause counts for {', '.join(common)}: harmless compactions lose that as often."
    return text


def _say_unsearched(store: Store, boundaries: Sequence[BoundaryId]) -> str:
    """At how many compactions the searches could not tell: there the lack of a cause means nothing."""
    causes = read_causes(store)
    endings = Counter(causes[id].ending if id in causes else "not searched" for id in boundaries)
    parts = [f"{endings['not searched']:,} got no search"] if endings["not searched"] else []
    if endings["out of draws"]:
        parts.append(f"at {endings['out of draws']:,} the search used up its continuations before it could tell")
    return f" Of these compactions, {', and '.join(parts)}." if parts else ""


# --- where causes come from


async def find_tested(inputs: MethodInputs) -> Known:
    """The causes that interventions show; the compactions that cost success are searched first."""
    ids = [verdict.id for verdict in read_verdicts(inputs.records).retained]
    return await _bisect_all(inputs, sorted(ids, key=lambda id: _loss(inputs, id) != "success"))


async def find_in_random(inputs: MethodInputs) -> Known:
    """The same search at as many compactions drawn at random, harmful or not."""
    verification = read_verdicts(inputs.records)
    ids = sorted(verdict.id for verdict in verification.examined)
    drawn = Random(f"random compactions/{inputs.seed}").sample(ids, len(verification.retained))
    return await _bisect_all(inputs, drawn)


async def _bisect_all(inputs: MethodInputs, boundaries: Sequence[BoundaryId]) -> Known:
    return _with_kinds(inputs.records, [cause for cause in await inputs.bisect(boundaries) if cause.known])


async def find_random_pieces(inputs: MethodInputs) -> Known:
    """A random dropped piece of each retained compaction, as if it were the cause."""
    causes = []
    for id in (verdict.id for verdict in read_verdicts(inputs.records).retained):
        if pieces := dropped_pieces(read_boundary(inputs.records, id), inputs.count):
            piece = Random(f"random cause/{id}").choice(pieces)
            causes.append(_assumed_cause(id, _loss(inputs, id), piece))
    return _with_kinds(inputs.records, causes)


async def find_suspected(inputs: MethodInputs) -> Known:
    """What the optimizer holds responsible: the kind of the first finding of each diagnosis."""
    diagnoses = [each for each in await diagnose_boundaries(inputs) if each.causes]
    return [
        (_assumed_cause(each.id, _loss(inputs, each.id)), kinds_named(each.causes[0].kind)[:1]) for each in diagnoses
    ]


def _assumed_cause(id: BoundaryId, loss: Literal["success", "steps"], *pieces: Piece) -> Cause:
    return Cause(id, "found", loss, 0, pieces, 0, 0)


def _loss(inputs: MethodInputs, id: BoundaryId) -> Literal["success", "steps"]:
    verification = read_verdicts(inputs.records)
    effect = verification.of(id).effect
    return "success" if effect and effect.hazard >= verification.settings.hazard - 1e-9 else "steps"


def _with_kinds(store: Store, causes: Iterable[Cause]) -> Known:
    """Causes with their kinds, by what the continuations of searches did: those from the summary as it was, and those
    that succeeded with a change."""
    units: dict[str, tuple[list[str], list[str]]] = {}
    for row in trajectories(store, phase=PHASE):
        _, index, key, _ = row.unit.rsplit("/", 3)
        lost, closing = units.setdefault(f"{row.task}#{index}", ([], []))
        if key == "post":
            lost.append(row.unit)
        elif row.value > 0:
            closing.append(row.unit)
    known = []
    for cause in causes:
        both = units.get(str(cause.boundary), ([], []))
        trials = Trials(*(tuple(read_trajectory(store, unit) for unit in each) for each in both))
        known.append((cause, kinds_of(cause, read_boundary(store, cause.boundary), trials)))
    return known


_FINDERS: Mapping[Evidence, Callable[[MethodInputs], Awaitable[Known]]] = {
    "tested": find_tested,
    "suspected": find_suspected,
    "random pieces": find_random_pieces,
    "random compactions": find_in_random,
}
_OUTCOMES: Mapping[Evidence, str] = {
    "tested": "traced to a cause by intervention",
    "suspected": "diagnosed",
    "random pieces": "given a random piece for a cause",
    "random compactions": "traced to a cause by intervention, where chance chose the compactions",
}


# --- from causes to clauses


def weigh_kinds(known: Known, settings: Settings) -> tuple[KindOfCause, ...]:
    """The kinds that enough causes have, those that brought success back most often first, then those of steps.

    Without weights every cause counts the same, and two make a clause.
    """
    of: dict[Kind, list[Cause]] = {}
    for cause, kinds in known:
        for kind in kinds:
            of.setdefault(kind, []).append(cause)
    every = [KindOfCause(kind, tuple(own)) for kind, own in of.items()]
    if not settings.weights:
        enough = [each for each in every if STEPS * len(each.causes) >= NEEDED]
        return tuple(sorted(enough, key=lambda each: (-len(each.causes), each.kind)))
    enough = [each for each in every if each.weight >= NEEDED]
    return tuple(sorted(enough, key=lambda each: (-each.success, -each.weight, each.kind)))


def common_kinds(inputs: MethodInputs, kinds: Sequence[Kind]) -> frozenset[Kind]:
    """Those of the kinds that harmless compactions lose as often as harmful ones do, as far as a form tells."""
    losses: dict[bool, list[frozenset[Kind]]] = {True: [], False: []}
    for verdict in read_verdicts(inputs.records).examined:
        losses[verdict.retained].append(lost_kinds(read_boundary(inputs.records, verdict.id), inputs.count))
    harmful, harmless = _shares(losses[True]), _shares(losses[False])
    return frozenset(kind for kind in kinds if harmless[kind] and harmful[kind] <= harmless[kind])


def _shares(losses: Sequence[frozenset[Kind]]) -> Mapping[Kind, float]:
    counts = Counter(kind for lost in losses for kind in lost)
    return {kind: counts[kind] / max(1, len(losses)) for kind in KINDS}


UNTESTED = "no cause was tested: from the general list"
SOFTENED = "no tested cause is of this kind: asked for without an absolute"
"""What stands in the place of a proof."""


def candidates_from(
    template: Template,
    kinds: Sequence[KindOfCause],
    instances: frozenset[str],
    name: str,
    wordings: Mapping[Kind, str] | None = None,
    form: Form = SPARING,
    *,
    prior: bool = False,
) -> tuple[Candidate, ...]:
    """The merged candidate with a clause for each kind, and one against lost success alone where that is less.

    With the `prior`: one with a clause for every kind there is and without needless absolutes, and one that leaves
    those alone.
    """
    clauses = _clauses(template, kinds, wordings, form)
    if not prior:
        success = [clause for clause, each in zip(clauses, kinds, strict=True) if each.success]
        sets = [clauses, *([success] if 0 < len(success) < len(kinds) else [])]
        return tuple(_candidate(f"{name}-{n}", template, template, own, instances) for n, own in enumerate(sets, 1))
    tested = [each.kind for each in kinds]
    clauses += [
        (kind, Clause(clause_of(kind, form=form), section_of(kind, template.first), (), UNTESTED))
        for kind in form.clauses
        if kind not in tested
    ]
    softer, changed = without_absolutes(template, tested)
    whole = _candidate(f"{name}-1", template, softer, clauses, instances)
    if not changed:
        return (whole,)
    if whole.template is not None:
        softened = tuple(Clause(text, section, (), SOFTENED) for section, text in changed)
        whole = replace(whole, clauses=(*whole.clauses, *softened))
    return whole, _candidate(f"{name}-2", template, template, clauses, instances)


def _clauses(
    template: Template, kinds: Sequence[KindOfCause], wordings: Mapping[Kind, str] | None, form: Form
) -> list[tuple[Kind, Clause]]:
    texts = {each.kind: (wordings or {}).get(each.kind) or clause_of(each.kind, form=form) for each in kinds}
    return [
        (each.kind, Clause(texts[each.kind], section_of(each.kind, template.first), each.answers, each.proof))
        for each in kinds
    ]


def _candidate(
    name: str,
    original: Template,
    template: Template,
    clauses: Sequence[tuple[Kind, Clause]],
    instances: frozenset[str],
) -> Candidate:
    """The template with the clauses, unless that breaks a rule that the original keeps."""
    revised = with_clauses(template, [(kind, clause.text) for kind, clause in clauses])
    return locked_candidate(name, original, revised, [clause for _, clause in clauses], instances)


def reasons(store: Store) -> Mapping[str, Sequence[Reason]]:
    """What an intervention showed at each compaction."""
    return {str(id): (Reason(cause.sentence()),) for id, cause in read_causes(store).items() if cause.known}


def causes(
    evidence: Evidence = "tested",
    contrast: bool = True,
    weights: bool = True,
    more_tasks: Annotated[int, Ge(0)] | None = None,
    wording: Wording = "sparing",
    prior: bool = True,
) -> Method:
    """The method with its options. `more_tasks` is how many further training tasks it may collect at most. Without the
    `prior`, only kinds with a tested cause get a clause, and the template's own words stay."""
    settings = Settings(evidence, contrast, weights, more_tasks, wording, prior)
    short = {"tested": "causes", "random pieces": "causes-random"}
    name = short.get(evidence) or f"causes-{evidence.replace(' ', '-')}"
    bisects = evidence in ("tested", "random compactions")
    return Method(
        name,
        partial(propose, settings=settings, name=name),
        needs_effects=True,
        asks_optimizer=evidence == "suspected" or wording == "optimizer",
        phases=(f"{PHASE}/", f"{KIND}/", f"word/{name}/") if bisects else (),
        cites="compaction",
        reasons=reasons if bisects else lambda store: {},
        color="#B0413E" if evidence == "tested" else "#C9A09F",
        tested=bisects,
    )


causes_random = partial(causes, evidence="random pieces")
