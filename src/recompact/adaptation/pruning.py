"""Clauses that close nothing are dropped: each candidate is replayed at the boundaries that its clauses answer.

A boundary is closed where the candidate's own summary, put in place of the harmful one, no longer does harm by the
thresholds. A clause stays if one of its boundaries was closed, if none of them could be judged,
or if it cannot be taken out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from recompact.adaptation.lock import broken_rules
from recompact.adaptation.selection import BROKEN, PHASE
from recompact.attribution.continuations import continue_from, recompress
from recompact.attribution.effects import effect_of
from recompact.attribution.judgement import read_verdicts
from recompact.attribution.posterior import Thresholds
from recompact.attribution.records import settings_of
from recompact.compressors.protocol import CompactionFailed
from recompact.engine.collection import unit_of
from recompact.engine.execution.episodes import with_differences
from recompact.engine.execution.executor import Unit
from recompact.engine.store.records import read_boundary, write_trajectory
from recompact.engine.store.runs import TrajectoryRow, trajectories
from recompact.engine.store.verdicts import Verdict
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Opening, Task
from recompact.models.failures import ContextOverflow, Refused
from recompact.models.journal import UnitCalls
from recompact.values.candidate import Candidate, Clause
from recompact.values.outcome import Outcome, Outcomes
from recompact.values.template import Template
from recompact.values.texts import quantity
from recompact.values.trajectory import Score, Trajectory

REPLAYS = "select-replay"  # the phase of the replays


@dataclass(frozen=True)
class Pruned:
    """Candidates without the clauses that closed nothing, and what was dropped."""

    candidates: tuple[Candidate, ...]
    notes: tuple[str, ...]


async def prune(study: Study, candidates: Sequence[Candidate]) -> Pruned:
    """Replay the candidates at the retained boundaries that they answer, and drop what never helped there.

    Each boundary is replayed again, up to `[adapt] replays` times, as long as a clause that answers it has closed none.
    """
    if study.store.metadata.verified is None:
        return Pruned(tuple(candidates), ())
    retained = {str(verdict.id): verdict for verdict in read_verdicts(study.store).retained}
    tasks = {unit_of(task): task for task in await study.tasks()}
    closed: dict[Replayed, bool | None] = {}
    units: dict[Replayed, list[str]] = {}
    for draw in range(study.config.adapt.replays):
        due: dict[str, Unit[Trajectory]] = {}
        for candidate, id in _unclosed_boundaries(candidates, retained, closed):
            assert candidate.template is not None
            name = f"{PHASE}/replay/{candidate.template.hash[:16]}/{id}/{draw}"
            units.setdefault((candidate.name, id), []).append(name)
            due[name] = _unit(study, name, candidate.template, retained[id], tasks[retained[id].id.unit])
        await study.complete("replay", "trajectory", due.values())
        rows = {row.unit: row for row in trajectories(study.store, phase=REPLAYS) if row.ending != BROKEN}
        for at, names in units.items():
            closed[at] = _is_closed(study, retained[at[1]], [rows[name] for name in names if name in rows])
    outcomes = [_prune_candidate(study.template, candidate, closed) for candidate in candidates]
    return Pruned(tuple(c for c, _ in outcomes), tuple(note for _, notes in outcomes for note in notes))


Replayed = tuple[str, str]
"""A candidate's name and a boundary."""


def _unclosed_boundaries(
    candidates: Sequence[Candidate], retained: Mapping[str, Verdict], closed: Mapping[Replayed, bool | None]
) -> list[tuple[Candidate, str]]:
    """The boundaries to replay: those of clauses that have closed none so far."""
    pairs = [
        (candidate, id)
        for candidate in candidates
        if candidate.template is not None
        for clause in candidate.clauses
        if not any(closed.get((candidate.name, answer)) for answer in clause.answers)
        for id in clause.answers
        if id in retained
    ]
    return list({(candidate.name, id): (candidate, id) for candidate, id in pairs}.values())


def _is_closed(study: Study, verdict: Verdict, rows: Sequence[TrajectoryRow]) -> bool | None:
    """Whether harm is no longer done; None where there is nothing to judge by."""
    post = {number: Outcome(row.value, row.steps) for number, row in enumerate(rows)}
    effect = effect_of(Outcomes(verdict.outcomes.pre, post), _thresholds(study))
    return None if effect is None else not effect.selected


def _thresholds(study: Study) -> Thresholds:
    """The thresholds that the run was verified with."""
    settings = settings_of(study.store)
    return Thresholds(settings.hazard, settings.burden)


def _prune_candidate(
    original: Template, candidate: Candidate, closed: Mapping[Replayed, bool | None]
) -> tuple[Candidate, list[str]]:
    """One candidate without what closed nothing."""
    if candidate.template is None:
        return candidate, []
    template, kept, notes = candidate.template, [], []
    for clause in candidate.clauses:
        verdicts = [closed.get((candidate.name, answer)) for answer in clause.answers]
        judged = [verdict for verdict in verdicts if verdict is not None]
        without = without_clause(template, clause) if judged and not any(judged) else None
        if without is None:
            kept.append(clause)
            continue
        template = without
        without_effect = f"it closed none of {quantity(len(judged), 'boundary')}"
        notes.append(f"{candidate.name}: “{clause.text}” was dropped: {without_effect}.")
    if template == original:
        note = f"{candidate.name}: none of its clauses closed a boundary, so it does not race."
        return replace(candidate, template=None, objections=(*candidate.objections, note)), [*notes, note]
    if notes and broken_rules(original, template):
        return candidate, []  # the clause carried something that the lock protects
    return replace(candidate, template=template, clauses=tuple(kept)), notes


def without_clause(template: Template, clause: Clause) -> Template | None:
    """The template without a clause, or None where the clause is not in it word for word."""
    parts = {}
    for part in ("first", "update"):
        lines = []
        for line in template.part(part).splitlines(keepends=True):
            if clause.text not in line:
                lines.append(line)
            elif rest := re.sub(r"^\s*(?:[-*]|\d+\.)?\s*$", "", line.replace(clause.text, "").rstrip("\n")):
                lines.append(f"{rest.rstrip()}\n")
        parts[part] = "".join(lines)
    changed = replace(template, first=parts["first"], update=parts["update"])
    return changed if changed != template else None


def _unit(study: Study, name: str, template: Template, verdict: Verdict, task: Task) -> Unit[Trajectory]:
    """One replay: the history of the boundary compressed by the template, and a continuation from there."""
    boundary = read_boundary(study.store, verdict.id.unit, verdict.id.index)

    async def play(calls: UnitCalls) -> Trajectory:
        try:
            opening = await _opening(study, calls, task)
            compressor = replace(study, template=template).compressor(calls, task, opening)
            assert compressor is not None
            replayed, usage = await recompress(boundary, compressor, study.config.compressor.budget)
        except (CompactionFailed, ContextOverflow, Refused, EnvironmentFailed) as failure:
            used = {"compressor": failure.usage} if isinstance(failure, CompactionFailed) else {}
            why = f"no summary: {failure}"
            return Trajectory(task.id, (), (), BROKEN, Score.of(False), boundary.pre, used, error=why)
        continuation = await continue_from(
            task,
            replayed,
            "POST",
            study.episodes.episode(task, study.ask(calls)),
            study.agent(calls),
            count=study.count,
            step_limit=study.config.run.step_limit,
            observation_tokens=study.config.run.observation_tokens,
            progress=study.progress,
        )
        return with_differences(replace(continuation, usage={**continuation.usage, "compressor": usage}), calls)

    def record(trajectory: Trajectory, seconds: float) -> None:
        write_trajectory(study.store, name, trajectory, phase=REPLAYS, run=0, groups=task.groups, seconds=seconds)

    return Unit(name, play, record)


async def _opening(study: Study, calls: UnitCalls, task: Task) -> Opening:
    """What a compressor needs to know of the episode: its tools, and those only where it sends them."""
    if study.config.compressor.rendering != "appended":
        return Opening((), ())
    episode = study.episodes.episode(task, study.ask(calls))
    try:
        return await episode.start()
    finally:
        await episode.close()
