"""ACON, the method that PAIR is compared with: prompts adapted from whole trajectories, after arXiv 2510.00615.

A method is evidence in, candidates out; collection, optimizer, budget, number of candidates and selection are those of
PAIR. UT learns from tasks that were done without compaction and failed with it; its locked variant differs in the
section lock only; UTCO goes on from UT's winner and makes summaries shorter. The prompts are our own words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from recompact.adaptation import acon_shortening as shortening
from recompact.adaptation.acon_feedback import BASELINE, Feedback, RunPair, contrast, give_feedback, run_pair
from recompact.adaptation.acon_rewriting import Assignment, rewrite, sampled
from recompact.adaptation.acon_shortening import Analysis, Compacted, analyse
from recompact.adaptation.candidates import Drawn, draw_candidates
from recompact.adaptation.optimizer import Optimizer
from recompact.adaptation.revision import Candidate
from recompact.adaptation.selection import ORIGINAL, select
from recompact.adaptation.units import Progress, as_unit
from recompact.collection import PHASE as COLLECT
from recompact.collection import run_task, unit_of
from recompact.environments.protocol import Task
from recompact.execution.schedule import Unfinished, run_units
from recompact.store.records import read_trajectory
from recompact.store.runs import trajectories
from recompact.study import Study

COMPRESS = "compress"  # the phase of the training runs under UT's winner


async def acon_ut(study: Study, progress: Progress) -> Drawn:
    """Utility maximisation: full-context successes against compacted failures, then free rewriting."""
    return await _ut(study, progress, "acon-ut", locked=False)


async def acon_ut_locked(study: Study, progress: Progress) -> Drawn:
    """The same feedback, but a candidate must keep the section lock."""
    return await _ut(study, progress, "acon-ut-locked", locked=True)


async def acon_utco(study: Study, progress: Progress) -> Drawn:
    """UT with its selection, then one round of compression maximisation; UT's winner is a candidate as well."""
    candidates, unfinished = await acon_ut(study, progress)
    if unfinished:
        return candidates, unfinished
    winner, unfinished = await _winner(study, progress, candidates)
    if unfinished:
        return candidates, unfinished
    started = replace(study, template=winner.template) if winner and winner.template else study
    shortened, unfinished = await _co(started, progress, COLLECT if winner is None else COMPRESS)
    reported = tuple(c for c in candidates if c is winner or c.template is None)
    return (*reported, *shortened), unfinished


async def _ut(study: Study, progress: Progress, method: str, *, locked: bool) -> Drawn:
    if left := await _run_training(_without_compaction(study), progress, BASELINE, BASELINE):
        return (), left
    tasks = {task.id: task for task in await study.tasks()}
    found = contrast(study.store)
    chosen = [task for task in found.tasks if task in tasks]
    if not chosen:
        return _nothing(method, found.statement)
    pairs = {task: _run_pair(study, tasks[task]) for task in chosen}
    entries, left = await _feedback(study, progress, pairs)
    usable = {task: entry.reduced() for task, entry in entries.items() if entry.remedies}
    if left:
        return (), left
    if not usable:
        return _nothing(method, f"{found.statement} The optimizer gave no usable feedback on any of them.")
    instances = frozenset(literal for pair in pairs.values() for literal in pair.instances)
    given = Assignment(study.template, usable, locked=locked, instances=instances)
    return await _draw(study, progress, method, given)


async def _co(study: Study, progress: Progress, phase: str) -> Drawn:
    """Candidates with shorter summaries, from the successes of the study's template."""
    under = study.template.hash[:16]
    if phase != COLLECT and (left := await _run_training(study, progress, phase, f"{phase}/{under}")):
        return (), left
    made = await _successes(study, phase, under)
    if not made:
        said = (
            "No training task was done with compaction under the template to start from, so nothing can be shortened."
        )
        return _nothing("acon-utco", said)
    analyses, left = await _analyses(study, progress, made, under)
    usable = {name: one.reduced() for name, one in analyses.items() if one.remove or one.keep}
    if left:
        return (), left
    if not usable:
        return _nothing("acon-utco", "The optimizer gave no usable analysis of any compaction.")
    told = shortening.told([analyses[name] for name in usable])
    given = Assignment(study.template, usable, told, shortening.AIM)
    return await _draw(study, progress, "acon-utco", given, f"{under}/")


def _nothing(method: str, statement: str) -> Drawn:
    """No candidate, and the reason in the place where reports look for one."""
    return (Candidate(method, None, (), (statement,)),), ()


async def _draw(study: Study, progress: Progress, method: str, given: Assignment, under: str = "") -> Drawn:
    """Candidates, each from its own sample of the entries."""
    names = sorted(given.entries)

    async def draw(optimizer: Optimizer, name: str) -> Candidate:
        chosen = sampled(names, study.config.adapt.samples, name, study.config.run.seed)
        return await rewrite(optimizer, name, given, chosen)

    return await draw_candidates(study, progress, method, draw, under)


# --- runs of the training tasks


def _without_compaction(study: Study) -> Study:
    config = study.config
    return replace(study, config=replace(config, compressor=replace(config.compressor, kind="none")))


async def _run_training(study: Study, progress: Progress, phase: str, under: str) -> tuple[Unfinished, ...]:
    """Each training task once under this study; what the run has already is not done again."""
    finished = study.store.finished("trajectory")
    todo = {unit: task for task in await study.tasks() if (unit := f"{under}/{task.id}") not in finished}
    progress.begin(phase, len(todo))

    async def work(unit: str, task: Task) -> None:
        await run_task(study, unit, task, phase=phase, snapshots=False, on_step=progress.step)
        progress.done()

    units = ((unit, partial(work, unit, task)) for unit, task in todo.items())
    return tuple(await run_units(units, study.config.run.concurrency))


async def _winner(
    study: Study, progress: Progress, candidates: tuple[Candidate, ...]
) -> tuple[Candidate | None, tuple[Unfinished, ...]]:
    """The selected candidate, or None where the original stays."""
    if not any(candidate.template for candidate in candidates):
        return None, ()
    selection, left = await select(
        study,
        candidates,
        on_begin=lambda total, done: progress.begin("select", total - done),
        on_done=progress.done,
        on_step=progress.step,
    )
    by_name = {candidate.name: candidate for candidate in candidates}
    return (by_name[selection.winner] if selection.winner != ORIGINAL else None), left


# --- what the optimizer is asked about them


def _run_pair(study: Study, task: Task) -> RunPair:
    alone = read_trajectory(study.store, f"{BASELINE}/{task.id}")
    compacted = read_trajectory(study.store, unit_of(task))
    return run_pair(task, alone, compacted, study.config.adapt.evidence_tokens, study.count)


async def _successes(study: Study, phase: str, under: str) -> dict[str, Compacted]:
    """The compactions of all successful training runs with compaction, by name."""
    found: dict[str, Compacted] = {}
    for task in await study.tasks():
        unit = unit_of(task) if phase == COLLECT else f"{phase}/{under}/{task.id}"
        rows = [row for row in trajectories(study.store, task.id, phase) if row.unit == unit]
        if rows and rows[0].success and rows[0].compactions:
            trajectory = read_trajectory(study.store, unit)
            budget = study.config.adapt.evidence_tokens
            found |= {one.name: one for one in shortening.compactions(task, trajectory, budget, study.count)}
    return found


@dataclass(frozen=True)
class _Question:
    """One unit of optimizer work: its name, and how an optimizer works it out."""

    unit: str
    work: Callable[[Optimizer], Awaitable[Any]]


async def _answers(
    study: Study, progress: Progress, kind: str, asked: Mapping[str, _Question]
) -> tuple[dict[str, Any], tuple[Unfinished, ...]]:
    """All questions of a kind, each once; the answers in the order of the questions."""
    progress.begin(kind, len(asked))
    found: dict[str, Any] = {}

    async def answer(name: str, question: _Question) -> None:
        async def work() -> Any:
            return (await question.work(study.optimizer(calls))).to_json()

        calls = study.calls(question.unit)
        found[name] = await as_unit(study.store, question.unit, kind, work)
        progress.done()

    left = await run_units(
        ((question.unit, partial(answer, name, question)) for name, question in asked.items()),
        study.config.run.concurrency,
    )
    return {name: found[name] for name in asked if name in found}, tuple(left)


async def _feedback(
    study: Study, progress: Progress, pairs: Mapping[str, RunPair]
) -> tuple[dict[str, Feedback], tuple[Unfinished, ...]]:
    asked = {task: _Question(f"feedback/{task}", partial(give_feedback, pair=pair)) for task, pair in pairs.items()}
    found, left = await _answers(study, progress, "feedback", asked)
    return {task: Feedback.from_json(data) for task, data in found.items()}, left


async def _analyses(
    study: Study, progress: Progress, made: Mapping[str, Compacted], under: str
) -> tuple[dict[str, Analysis], tuple[Unfinished, ...]]:
    asked = {n: _Question(f"analyse/{under}/{n}", partial(analyse, made=one)) for n, one in made.items()}
    found, left = await _answers(study, progress, "analysis", asked)
    return {name: Analysis.from_json(data) for name, data in found.items()}, left
