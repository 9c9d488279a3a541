"""ACON, the method that PAIR is compared with: prompts adapted from whole trajectories, after arXiv 2510.00615.

UT learns from tasks that were done without compaction and failed with it; its locked variant differs only in the
section lock; UTCO continues from UT's winner and makes summaries shorter. The prompts are our own words.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any

from recompact.adaptation.acon_evidence import (
    BASELINE,
    SHORTER,
    Analysis,
    CompactionText,
    Feedback,
    analyse,
    compactions,
    contrast,
    give_feedback,
    length_introduction,
    read_list,
    run_pair,
)
from recompact.adaptation.excerpts import Excerpt
from recompact.adaptation.lock import PARTS, instances_in, lost_placeholders, problems_of, unusable
from recompact.adaptation.method import (
    Episode,
    Method,
    MethodInputs,
    answers,
    draw_candidates,
    without_usable,
)
from recompact.adaptation.optimizer import Optimizer, ask, prompt
from recompact.adaptation.revision import read_rewriting, revision_schema
from recompact.engine.collection import PHASE as COLLECT, unit_of
from recompact.engine.config import Threshold
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.environments.protocol import Task
from recompact.models.endpoint import Count
from recompact.models.journal import seed_of
from recompact.values.candidate import Candidate, Clause, EvidenceCounts, Proposal, Reason, read_record
from recompact.values.template import Template

FROM_FEEDBACK = prompt("acon-lessons")
WORK = prompt("acon-revision")

UTILITY = """\
Rewrite both parts so that runs like these succeed. Take up the remedies that would have helped most often, and put them
as concrete rules."""
FREE = """\
- You may rewrite the prompt as a whole: its wording, its headings, their order, what it asks for under them."""
LOCKED = prompt("acon-locked")

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


async def rewrite(optimizer: Optimizer, name: str, assignment: Assignment, chosen: Sequence[str]) -> Candidate:
    """One candidate from the chosen entries."""
    entries = "\n".join(json.dumps(assignment.entries[entry], ensure_ascii=False) for entry in chosen)
    introduction = assignment.introduction.format(entries=entries)
    freedom = LOCKED if assignment.locked else FREE
    original = assignment.template
    work = WORK.format(first=original.first, update=original.update, aim=assignment.aim, freedom=freedom)

    def check(value: Any) -> tuple[Template, tuple[Clause, ...]]:
        clauses = tuple(_clause(entry, chosen) for entry in read_list(value, "rules"))
        return read_rewriting(value, original, lambda revised: _broken(assignment, revised)), clauses

    answer = await ask(optimizer, f"{introduction}\n{work}", SCHEMA, check)
    template, clauses = answer.value or (None, ())
    return Candidate(name, template, clauses, answer.objections)


def _broken(assignment: Assignment, revised: Template) -> tuple[str, ...]:
    if assignment.locked:
        return problems_of(assignment.template, revised, assignment.instances)
    lost = [problem for part in PARTS for problem in lost_placeholders(part, assignment.template, revised)]
    return (*unusable(revised), *lost)


def _clause(entry: Any, chosen: Sequence[str]) -> Clause:
    """A clause as it is reported. ACON does not ask for grounds, so there may be none, but none may be made up."""
    cited = tuple(str(one) for one in read_list(entry, "entries"))
    if unknown := [one for one in cited if one not in chosen]:
        raise ValueError(f"the clause {str(entry['clause'])[:60]!r} cites {unknown}, which was not given")
    return Clause(str(entry["clause"]), str(entry["section"]), cited)


COMPRESS = "compress"  # the phase of the training runs under UT's winner
SAMPLES = 30  # feedback entries that one candidate sees
GOOD = 0.6  # with this score or more, a graded run is a success to learn brevity from (ACON's value for QA)


def acon_ut(samples: Count = SAMPLES, step_ratio: Threshold | None = None) -> Method:
    """Utility maximisation: full-context successes against compacted failures, then free rewriting.

    With a `step_ratio`, successes that took that many times the steps serve as well; ACON leaves them out by default.
    """
    return _method("acon-ut", lambda inputs: _ut(inputs, "acon-ut", samples, step_ratio), "#0B8F6A")


def acon_ut_locked(samples: Count = SAMPLES, step_ratio: Threshold | None = None) -> Method:
    """The same feedback, but a candidate must keep the section lock."""
    return _method(
        "acon-ut-locked", lambda inputs: _ut(inputs, "acon-ut-locked", samples, step_ratio, locked=True), "#A9780A"
    )


def acon_utco(samples: Count = SAMPLES, step_ratio: Threshold | None = None) -> Method:
    """UT with its selection, then one round of compression maximisation; UT's winner is a candidate as well."""
    method = _method("acon-utco", lambda inputs: _utco(inputs, samples, step_ratio), "#8E6BBF")
    return replace(method, reselects=True, training_runs=2, selections=2)


def _method(name: str, propose: Callable[[MethodInputs], Awaitable[Proposal]], color: str) -> Method:
    phases = ("baseline/", "feedback/", "analyse/", "compress/", "revise/acon-")
    return Method(name, propose, phases=phases, cites="task", reasons=reasons, color=color, training_runs=1)


async def _utco(inputs: MethodInputs, samples: int, step_ratio: float | None) -> Proposal:
    ut = await _ut(inputs, "acon-ut", samples, step_ratio)
    winner = await inputs.select(ut.candidates)
    started = replace(inputs, template=winner.template) if winner and winner.template else inputs
    co = await _co(started, COLLECT if winner is None else COMPRESS, samples)
    kept = tuple(c for c in ut.candidates if c.template is None)
    candidates = (*((winner,) if winner else ()), *kept, *co.candidates)
    nothing = not any(candidate.template for candidate in candidates)
    statement = " ".join(filter(None, (ut.statement, co.statement))) if nothing else ""
    return Proposal(candidates, ut.evidence, statement, unusable=nothing and (ut.unusable or co.unusable))


async def _ut(
    inputs: MethodInputs, method: str, samples: int, step_ratio: float | None = None, *, locked: bool = False
) -> Proposal:
    await _run_training(inputs, BASELINE, BASELINE, compaction=False)
    tasks = {task.id: task for task in inputs.tasks}
    contrasted = contrast(inputs.records, step_ratio)
    pairs = {task: _run_pair(inputs, tasks[task]) for task in contrasted.tasks if task in tasks}
    if not pairs:
        return _nothing(method, contrasted.statement)
    entries = await _feedback(inputs, pairs)
    usable = {task: entry.lesson() for task, entry in entries.items() if entry.remedies}
    counts = EvidenceCounts(
        about="task",
        pieces=len(entries),
        diagnosed=len(usable),
        failed=len(entries) - len(usable),
        cut=sum(entry.cuts > 0 for entry in entries.values()),
        left_out=sum(entry.left_out for entry in entries.values()),
    )
    if not usable:
        statement = f"{contrasted.statement} The optimizer gave no usable feedback on any of them."
        return replace(_nothing(method, statement), evidence=counts, unusable=True)
    instances = instances_in((pair.text for pair in pairs.values()), inputs.template.parts().values())
    assignment = Assignment(inputs.template, usable, locked=locked, instances=instances)
    return replace(await _draw(inputs, method, assignment, samples), evidence=counts)


async def _co(inputs: MethodInputs, phase: str, samples: int) -> Proposal:
    """Candidates with shorter summaries, from the successes of the template to start from."""
    under = inputs.template.hash[:16]
    if phase != COLLECT:
        await _run_training(inputs, phase, f"{phase}/{under}")
    texts = _successes(inputs, phase, under)
    if not texts:
        statement = (
            "No training task was done with compaction under the template to start from, so nothing can be shortened."
        )
        return _nothing("acon-utco", statement)
    analyses = await _analyses(inputs, texts, under)
    usable = {name: analysis.lesson() for name, analysis in analyses.items() if analysis.remove or analysis.keep}
    if not usable:
        statement = "The optimizer gave no usable analysis of any compaction."
        return replace(_nothing("acon-utco", statement), unusable=True)
    introduction = length_introduction([analyses[name] for name in usable])
    assignment = Assignment(inputs.template, usable, introduction, SHORTER)
    return await _draw(inputs, "acon-utco", assignment, samples, f"{under}/")


def _nothing(method: str, statement: str) -> Proposal:
    """No candidate, and the reason where reports look for one."""
    return Proposal((Candidate(method, None, (), (statement,)),), statement=statement)


async def _draw(inputs: MethodInputs, method: str, assignment: Assignment, samples: int, under: str = "") -> Proposal:
    """Candidates, each from its own sample of the entries."""
    names = sorted(assignment.entries)

    async def draw(optimizer: Optimizer, name: str) -> Candidate:
        return await rewrite(optimizer, name, assignment, sample_entries(names, samples, name, inputs.seed))

    candidates = await draw_candidates(inputs, method, draw, under)
    statement = without_usable(candidates)
    return Proposal(candidates, statement=statement, unusable=bool(statement))


# --- runs of the training tasks


async def _run_training(inputs: MethodInputs, phase: str, under: str, *, compaction: bool = True) -> None:
    """Run each training task once."""
    episodes = [Episode(f"{under}/{task.id}", task) for task in inputs.tasks]
    await inputs.run(phase, episodes, template=inputs.template, compaction=compaction)


# --- what the optimizer is asked about them


def _run_pair(inputs: MethodInputs, task: Task) -> Excerpt:
    alone = read_trajectory(inputs.records, f"{BASELINE}/{task.id}")
    compacted = read_trajectory(inputs.records, unit_of(task))
    return run_pair(task, alone, compacted, inputs.settings.evidence_tokens, inputs.count)


def _successes(inputs: MethodInputs, phase: str, under: str) -> dict[str, CompactionText]:
    """The compactions of all successful training runs with compaction, by name."""
    texts: dict[str, CompactionText] = {}
    for task in inputs.tasks:
        unit = unit_of(task) if phase == COLLECT else f"{phase}/{under}/{task.id}"
        rows = [row for row in trajectories(inputs.records, task.id, phase) if row.unit == unit]
        if rows and rows[0].compactions and (rows[0].success or GOOD <= rows[0].value < 1):
            trajectory = read_trajectory(inputs.records, unit)
            budget = inputs.settings.evidence_tokens
            texts |= {text.name: text for text in compactions(task, trajectory, budget, inputs.count)}
    return texts


async def _feedback(inputs: MethodInputs, pairs: Mapping[str, Excerpt]) -> dict[str, Feedback]:
    async def answer(optimizer: Optimizer, task: str) -> Any:
        return asdict(await give_feedback(optimizer, task, pairs[task]))

    units = {task: f"feedback/{task}" for task in pairs}
    entries = await answers(inputs, "feedback", "feedback", units, answer, useful=lambda entry: bool(entry["remedies"]))
    return {task: read_record(Feedback, entry) for task, entry in entries.items()}


async def _analyses(inputs: MethodInputs, texts: Mapping[str, CompactionText], under: str) -> dict[str, Analysis]:
    async def answer(optimizer: Optimizer, name: str) -> Any:
        return asdict(await analyse(optimizer, texts[name]))

    units = {name: f"analyse/{under}/{name}" for name in texts}
    entries = await answers(
        inputs, "analyse", "analysis", units, answer, useful=lambda entry: bool(entry["remove"] or entry["keep"])
    )
    return {name: read_record(Analysis, entry) for name, entry in entries.items()}


def reasons(store: Store) -> Mapping[str, Sequence[Reason]]:
    """What was observed at each task and compaction that clauses go back to, one line each."""
    lines = {}
    for unit in sorted(store.finished("feedback")):
        entry = store.result(unit)
        lines[entry["task"]] = (Reason(f"{entry['divergence']} {entry['mechanism']}"),)
    for unit in sorted(store.finished("analysis")):
        entry = store.result(unit)
        spare, needed = (", ".join(item["kind"] for item in entry[key]) or "nothing" for key in ("remove", "keep"))
        lines[entry["name"]] = (Reason(f"could do without {spare}; needed {needed}"),)
    return lines
