"""ACON, the method that PAIR is compared with: prompts adapted from whole trajectories, after arXiv 2510.00615.

UT learns from tasks that were done without compaction and failed with it; its locked variant differs only in the
section lock; UTCO continues from UT's winner and makes summaries shorter. The prompts are our own words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from recompact.adaptation import acon_shortening as shortening
from recompact.adaptation.acon_feedback import BASELINE, Feedback, RunPair, contrast, give_feedback, run_pair
from recompact.adaptation.acon_rewriting import Assignment, rewrite, sample_entries
from recompact.adaptation.acon_shortening import Analysis, CompactionText, analyse
from recompact.adaptation.candidates import draw_candidates, without_usable
from recompact.adaptation.choice import choose
from recompact.adaptation.instances import instances_in
from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.questions import Question, answers
from recompact.engine.collection import PHASE as COLLECT, trajectory_unit, unit_of
from recompact.engine.config import Count, Threshold
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import trajectories
from recompact.engine.store.store import Store
from recompact.engine.study import Method, Study
from recompact.environments.protocol import Task
from recompact.values.candidate import ORIGINAL, Candidate, EvidenceCounts, Proposal, Reason

COMPRESS = "compress"  # the phase of the training runs under UT's winner
SAMPLES = 30  # feedback entries that one candidate sees
GOOD = 0.6  # with this score or more, a graded run is a success to learn brevity from (ACON's value for QA)


def acon_ut(samples: Count = SAMPLES, step_ratio: Threshold | None = None) -> Method:
    """Utility maximisation: full-context successes against compacted failures, then free rewriting.

    With a `step_ratio`, successes that took that many times the steps serve as well; ACON leaves them out by default.
    """
    return _method("acon-ut", lambda study: _ut(study, "acon-ut", samples, step_ratio), "#0B8F6A")


def acon_ut_locked(samples: Count = SAMPLES, step_ratio: Threshold | None = None) -> Method:
    """The same feedback, but a candidate must keep the section lock."""
    return _method(
        "acon-ut-locked", lambda study: _ut(study, "acon-ut-locked", samples, step_ratio, locked=True), "#A9780A"
    )


def acon_utco(samples: Count = SAMPLES, step_ratio: Threshold | None = None) -> Method:
    """UT with its selection, then one round of compression maximisation; UT's winner is a candidate as well."""
    method = _method("acon-utco", lambda study: _utco(study, samples, step_ratio), "#8E6BBF")
    return replace(method, reselects=True)


def _method(name: str, propose: Callable[[Study], Awaitable[Proposal]], color: str) -> Method:
    phases = ("baseline/", "feedback/", "analyse/", "compress/", "revise/acon-")
    return Method(name, propose, phases=phases, cites="task", reasons=reasons, color=color)


async def _utco(study: Study, samples: int, step_ratio: float | None) -> Proposal:
    ut = await _ut(study, "acon-ut", samples, step_ratio)
    winner = await _winner(study, ut.candidates)
    started = replace(study, template=winner.template) if winner and winner.template else study
    co = await _co(started, COLLECT if winner is None else COMPRESS, samples)
    kept = tuple(c for c in ut.candidates if c.template is None)
    candidates = (*((winner,) if winner else ()), *kept, *co.candidates)
    nothing = not any(candidate.template for candidate in candidates)
    statement = " ".join(filter(None, (ut.statement, co.statement))) if nothing else ""
    return Proposal(candidates, ut.evidence, statement, unusable=nothing and (ut.unusable or co.unusable))


async def _ut(
    study: Study, method: str, samples: int, step_ratio: float | None = None, *, locked: bool = False
) -> Proposal:
    await _run_training(study.compressing("none"), BASELINE, BASELINE)
    tasks = {task.id: task for task in await study.tasks()}
    contrasted = contrast(study.store, step_ratio)
    pairs = {task: _run_pair(study, tasks[task]) for task in contrasted.tasks if task in tasks}
    if not pairs:
        return _nothing(method, contrasted.statement)
    entries = await _feedback(study, pairs)
    usable = {task: entry.reduced() for task, entry in entries.items() if entry.remedies}
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
    instances = instances_in((pair.text for pair in pairs.values()), study.template.parts().values())
    assignment = Assignment(study.template, usable, locked=locked, instances=instances)
    return replace(await _draw(study, method, assignment, samples), evidence=counts)


async def _co(study: Study, phase: str, samples: int) -> Proposal:
    """Candidates with shorter summaries, from the successes of the study's template."""
    under = study.template.hash[:16]
    if phase != COLLECT:
        await _run_training(study, phase, f"{phase}/{under}")
    compactions = await _successes(study, phase, under)
    if not compactions:
        statement = (
            "No training task was done with compaction under the template to start from, so nothing can be shortened."
        )
        return _nothing("acon-utco", statement)
    analyses = await _analyses(study, compactions, under)
    usable = {name: analysis.reduced() for name, analysis in analyses.items() if analysis.remove or analysis.keep}
    if not usable:
        statement = "The optimizer gave no usable analysis of any compaction."
        return replace(_nothing("acon-utco", statement), unusable=True)
    introduction = shortening.introduction([analyses[name] for name in usable])
    assignment = Assignment(study.template, usable, introduction, shortening.AIM)
    return await _draw(study, "acon-utco", assignment, samples, f"{under}/")


def _nothing(method: str, statement: str) -> Proposal:
    """No candidate, and the reason where reports look for one."""
    return Proposal((Candidate(method, None, (), (statement,)),), statement=statement)


async def _draw(study: Study, method: str, assignment: Assignment, samples: int, under: str = "") -> Proposal:
    """Candidates, each from its own sample of the entries."""
    names = sorted(assignment.entries)

    async def draw(optimizer: Optimizer, name: str) -> Candidate:
        return await rewrite(optimizer, name, assignment, sample_entries(names, samples, name, study.config.run.seed))

    candidates = await draw_candidates(study, method, draw, under)
    statement = without_usable(candidates)
    return Proposal(candidates, statement=statement, unusable=bool(statement))


# --- runs of the training tasks


async def _run_training(study: Study, phase: str, under: str) -> None:
    """Run each training task once under this study."""
    units = [
        trajectory_unit(study, f"{under}/{task.id}", task, phase=phase, snapshots=False) for task in await study.tasks()
    ]
    await study.complete(phase, "trajectory", units)


async def _winner(study: Study, candidates: Sequence[Candidate]) -> Candidate | None:
    """The selected candidate, or None where the original stays."""
    if not any(candidate.template for candidate in candidates):
        return None
    chosen, selection = await choose(study, candidates)
    by_name = {candidate.name: candidate for candidate in chosen}
    return by_name[selection.winner] if selection.winner != ORIGINAL else None


# --- what the optimizer is asked about them


def _run_pair(study: Study, task: Task) -> RunPair:
    alone = read_trajectory(study.store, f"{BASELINE}/{task.id}")
    compacted = read_trajectory(study.store, unit_of(task))
    return run_pair(task, alone, compacted, study.config.adapt.evidence_tokens, study.count)


async def _successes(study: Study, phase: str, under: str) -> dict[str, CompactionText]:
    """The compactions of all successful training runs with compaction, by name."""
    texts: dict[str, CompactionText] = {}
    for task in await study.tasks():
        unit = unit_of(task) if phase == COLLECT else f"{phase}/{under}/{task.id}"
        rows = [row for row in trajectories(study.store, task.id, phase) if row.unit == unit]
        if rows and rows[0].compactions and (rows[0].success or GOOD <= rows[0].value < 1):
            trajectory = read_trajectory(study.store, unit)
            budget = study.config.adapt.evidence_tokens
            texts |= {text.name: text for text in shortening.compactions(task, trajectory, budget, study.count)}
    return texts


async def _feedback(study: Study, pairs: Mapping[str, RunPair]) -> dict[str, Feedback]:
    def question(task: str, pair: RunPair) -> Question:
        async def answer(optimizer: Optimizer) -> Any:
            return (await give_feedback(optimizer, pair)).to_json()

        return Question(f"feedback/{task}", answer)

    questions = {task: question(task, pair) for task, pair in pairs.items()}
    entries = await answers(study, "feedback", "feedback", questions, useful=lambda entry: bool(entry["remedies"]))
    return {task: Feedback.from_json(entry) for task, entry in entries.items()}


async def _analyses(study: Study, texts: Mapping[str, CompactionText], under: str) -> dict[str, Analysis]:
    def question(name: str, text: CompactionText) -> Question:
        async def answer(optimizer: Optimizer) -> Any:
            return (await analyse(optimizer, text)).to_json()

        return Question(f"analyse/{under}/{name}", answer)

    questions = {name: question(name, text) for name, text in texts.items()}
    entries = await answers(
        study, "analyse", "analysis", questions, useful=lambda entry: bool(entry["remove"] or entry["keep"])
    )
    return {name: Analysis.from_json(entry) for name, entry in entries.items()}


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
