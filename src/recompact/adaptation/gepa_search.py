"""GEPA (arXiv 2507.19457) as a method: its official package searches; everything that it runs or asks is ours.

A candidate of the search is a whole template under the section lock. Its score is that of end-to-end runs, which are
units of work like any other; GEPA reflects on whole runs. The package is synchronous and runs in a thread.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from recompact.adaptation.evidence import shared_prefix
from recompact.adaptation.excerpts import LONG, block, head_and_tail, in_segments
from recompact.adaptation.gepa_bridge import Bridge, load_gepa
from recompact.adaptation.lock import instances_in, problems_of
from recompact.adaptation.method import Episode, Method, MethodInputs, answer_unit
from recompact.adaptation.optimizer import ask, prompt
from recompact.adaptation.revision import whole_part
from recompact.adaptation.selection import fit_tasks
from recompact.engine.execution.scheduler import Unit
from recompact.engine.store.records import read_trajectory
from recompact.engine.store.runs import failed_compactions, trajectories
from recompact.engine.store.store import Store
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.models.endpoint import Count
from recompact.models.journal import UnitCalls
from recompact.values.candidate import Candidate, Clause, EvidenceCounts, Proposal, Reason, read_record
from recompact.values.chat import canonical
from recompact.values.progress import Progress, Silent
from recompact.values.template import Template
from recompact.values.texts import quantity
from recompact.values.tokens import TokenCounter
from recompact.values.trajectory import Trajectory

NAME = PHASE = "gepa"
REFLECTION = "reflection"  # the kind of the records
COMPONENT = "prompt"  # the one text that is searched for: both parts of a template
_PARTS: tuple[Literal["first", "update"], ...] = ("first", "update")
MINIBATCH = 3  # GEPA's own default

RULES = prompt("gepa-rules")


def gepa(metric_calls: Count | None = None, minibatch: Count = MINIBATCH) -> Method:
    """GEPA with `metric_calls` end-to-end runs; by default as many as the continuations PAIR's verification would make.

    Selection comes on top of that, as for every method.
    """
    load_gepa()

    async def propose(inputs: MethodInputs) -> Proposal:
        return await _propose(inputs, metric_calls, minibatch)

    return Method(NAME, propose, phases=(f"{PHASE}/",), cites="task", reasons=reasons, color="#4F8FA8", reselects=True)


async def _propose(inputs: MethodInputs, metric_calls: int | None, minibatch: int) -> Proposal:
    store = inputs.records
    compacted = {row.task for row in trajectories(store) if row.compactions}
    learning = [task for task in inputs.tasks if task.id in compacted]
    if not learning:
        statement = "No training task was compacted, so there is nothing to learn from."
        if words := failed_compactions(store, trajectories(store)).words:
            statement = f"{statement[:-1]}: {words}."
        return Proposal((), statement=statement)
    ids = fit_tasks(store, inputs.settings.fit_tasks, inputs.seed)
    validation = [task for task in inputs.tasks if task.id in ids]
    allowed = metric_calls or inputs.expected_draws()
    if allowed < (needed := 2 * (len(validation) + minibatch)):
        few = _too_few(allowed, len(validation), needed)
        if metric_calls:
            raise InputError(few)
        return Proposal((), statement=f"{few}. Nothing was searched: the original stays.")
    inputs.progress.stage(PHASE, allowed, sum(1 for _ in trajectories(store, phase=PHASE)))
    search = GepaSearch(inputs, minibatch, _reflecting(store))
    templates = await search.run(learning, validation, allowed)
    runs = quantity(search.runs, "run")
    if not search.reflections:
        return Proposal(
            (),
            statement=f"GEPA found nothing to reflect on in {runs}: every batch that it drew was solved, or ran without"
            " a compaction. The original stays.",
        )
    usable = sum(reflection.parts is not None for reflection in search.reflections)
    counts = EvidenceCounts(
        "reflection",
        len(search.reflections),
        usable,
        failed=len(search.reflections) - usable,
        outcome="answered with a usable prompt",
    )
    candidates = tuple(
        Candidate(f"{NAME}-{number}", template, search.clauses(template))
        for number, template in enumerate(templates[: inputs.settings.candidates], 1)
    )
    if candidates:
        return Proposal(candidates, counts)
    statement = f"GEPA found no template that beat the one it came from, in {runs}: the original stays."
    return Proposal((), counts, statement, unusable=not usable)


def _too_few(allowed: int, validation: int, needed: int) -> str:
    return (
        f"GEPA may make {quantity(allowed, 'run')}, but it needs at least {needed} to try a prompt of its own:"
        f" the original and that prompt on {quantity(validation, 'fit task')} and on a batch each; set"
        f" metric_calls in [adapt] options to {needed} or more, or fewer fit_tasks"
    )


def _reflecting(store: Store) -> str:
    """How the names of this search's reflections begin: differently, and so with other seeds, if nothing came of those
    of a finished search."""
    attempts = Counter(unit.split("/")[1] for unit in store.finished(REFLECTION))
    useful = any(store.result(unit)["parts"] for unit in store.finished(REFLECTION))
    again = NAME in store.metadata.adaptations and attempts and not useful
    number = len(attempts) + 1 if again else len(attempts) or 1
    return f"{PHASE}/reflect" if number == 1 else f"{PHASE}/reflect~{number}"


@dataclass(frozen=True)
class Reflection:
    """What the optimizer made of some runs: the parts of a new template, or why there are none."""

    tasks: Mapping[str, str]  # how each ended
    parts: Mapping[str, str] | None
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class SearchRun:
    """One end-to-end run of a task under a candidate."""

    task: Task
    trajectory: Trajectory

    @property
    def outcome(self) -> str:
        """How it ended, in one sentence."""
        score = self.trajectory.score
        done = "done" if score.success else "not done"
        details = head_and_tail(canonical(dict(score.details)), LONG).text if score.details else ""
        ended = f"The task was {done} (score {score.value:g}); it ended after {quantity(self.trajectory.steps, 'step')}"
        return f"{ended}: {self.trajectory.ending}.{f' Details of the score: {details}' if details else ''}"


@dataclass
class GepaSearch:
    """One search, which is GEPA's adapter: it evaluates candidates and answers for reflections."""

    inputs: MethodInputs
    minibatch: int
    reflecting: str  # how the names of reflections begin
    reflections: list[Reflection] = field(default_factory=list)
    runs: int = 0
    _bridge: Bridge = field(default_factory=Bridge)
    _times: Counter[tuple[str, str]] = field(default_factory=Counter)  # how often a template ran on a task

    async def run(self, learning: Sequence[Task], validation: Sequence[Task], allowed: int) -> list[Template]:
        """The templates that the search accepted, the best on the validation tasks first."""
        package, original = load_gepa(), self.inputs.template
        iteration = 2 * self.minibatch + len(validation)

        def exhausted(state: Any) -> bool:
            return self._bridge.failed or state.total_num_evals + iteration > allowed

        def search() -> Any:
            return package.optimize(
                seed_candidate={COMPONENT: join_parts(original)},
                trainset=list(learning),
                valset=list(validation),
                adapter=self,
                reflection_minibatch_size=self.minibatch,
                stop_callbacks=exhausted,
                logger=_Silent(),
                seed=self.inputs.seed,
            )

        result = await self._bridge.run(search)
        ranked = sorted(range(1, len(result.candidates)), key=lambda n: (-result.val_aggregate_scores[n], n))
        templates = [self._template(result.candidates[n]) for n in ranked]
        return list({template.hash: template for template in templates if template != original}.values())

    # --- GEPA's adapter

    def evaluate(self, batch: list[Task], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """The score of each task under the candidate, from a fresh run."""
        runs = self._bridge.call(lambda: self._evaluate(self._template(candidate), batch))
        scores = [run.trajectory.score.value for run in runs]
        outputs = [run.outcome for run in runs]
        return load_gepa().EvaluationBatch(outputs, scores, list(runs) if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[dict[str, SearchRun]]]:
        """The runs in which something was compacted."""
        return {COMPONENT: [{"run": run} for run in eval_batch.trajectories if run.trajectory.boundaries]}

    def propose_new_texts(
        self, candidate: dict[str, str], reflective_dataset: Mapping[str, Any], components_to_update: list[str]
    ) -> dict[str, str]:
        """A new text from the optimizer, or none where nothing was compacted or no answer keeps the lock."""
        runs = [example["run"] for example in reflective_dataset[COMPONENT]]
        if not runs:
            return {}
        reflection = self._bridge.call(lambda: self._reflect(candidate[COMPONENT], runs))
        self.reflections.append(reflection)
        return {COMPONENT: _tag_parts(reflection.parts)} if reflection.parts else {}

    # --- what it builds on

    async def _evaluate(self, template: Template, tasks: Sequence[Task]) -> list[SearchRun]:
        episodes: list[Episode] = []
        for task in tasks:
            number = self._times[template.hash, task.id]
            self._times[template.hash, task.id] += 1
            name = f"{PHASE}/{template.hash[:16]}/{task.id}/{number}"
            episodes.append(Episode(name, task, number))
        inputs = self.inputs
        await inputs.run(PHASE, episodes, template=template, progress=_Within(inputs.progress))
        self.runs += len(episodes)
        return [SearchRun(each.task, read_trajectory(inputs.records, each.unit)) for each in episodes]

    async def _reflect(self, current: str, runs: Sequence[SearchRun]) -> Reflection:
        inputs, name = self.inputs, f"{self.reflecting}/{len(self.reflections)}"
        if name not in inputs.records.finished(REFLECTION):
            unit = self._reflection_unit(name, current, runs)
            await inputs.complete(PHASE, REFLECTION, [unit], progress=_Within(inputs.progress, counted=False))
        return read_record(Reflection, inputs.records.result(name))

    def _reflection_unit(self, name: str, current: str, runs: Sequence[SearchRun]) -> Unit[Any]:
        inputs = self.inputs
        budget = inputs.settings.evidence_tokens // len(runs)
        examples = [render_example(run, inputs.count, budget) for run in runs]
        package = load_gepa()
        prompt = f"{package.render(current, examples)}\n\n{RULES}"
        known = (*inputs.template.parts().values(), *shared_prefix(inputs.records), RULES)
        instances = instances_in((text for example in examples for text in example.values()), known)

        def check(text: str) -> dict[str, str]:
            parts: dict[str, str] = {part: whole_part(_parts(text), part) for part in _PARTS}
            revised = self._template({COMPONENT: _tag_parts(parts)})
            if join_parts(revised) == current:
                raise ValueError("nothing was changed")
            if broken := problems_of(inputs.template, revised, instances):
                raise ValueError("; ".join(broken[:5]))
            return parts

        async def play(calls: UnitCalls) -> Any:
            answer = await ask(inputs.optimizer(calls), prompt, None, check, read=package.extract)
            return asdict(Reflection({run.task.id: run.outcome for run in runs}, answer.value, answer.objections))

        return answer_unit(inputs.records, name, REFLECTION, play)

    def _template(self, candidate: Mapping[str, str]) -> Template:
        parts = _parts(candidate[COMPONENT])
        return replace(self.inputs.template, first=parts["first"], update=parts["update"], provenance={})

    def clauses(self, template: Template) -> tuple[Clause, ...]:
        """The lines that a template has and the original lacks, each with the tasks in view when it first appeared."""
        clauses: dict[tuple[str, str], Clause] = {}  # what both parts have is one clause
        for part in _PARTS:
            for before, after in zip(self.inputs.template.sections(part), template.sections(part), strict=True):
                old = before.guidance.splitlines()
                new = [line for line in after.guidance.splitlines() if line.strip() and line not in old]
                for line in new:
                    text = line.strip().removeprefix("- ")
                    clauses.setdefault((after.title, text), Clause(text, after.title, self._origin(line)))
        return tuple(clauses.values())

    def _origin(self, line: str) -> tuple[str, ...]:
        for reflection in self.reflections:
            if reflection.parts and any(line in part.splitlines() for part in reflection.parts.values()):
                return tuple(reflection.tasks)
        return ()


def render_example(run: SearchRun, count: TokenCounter, budget: int) -> dict[str, str]:
    """A run as an example for a reflection."""
    text = in_segments(run.trajectory, budget - count(run.task.text), count).text
    done = "yes" if run.trajectory.score.success else "no"
    return {"Task": run.task.text, "Run": block("run", text, success=done), "Feedback": run.outcome}


def join_parts(template: Template) -> str:
    """Both parts as one text."""
    return _tag_parts({"first": template.first, "update": template.update})


def _tag_parts(parts: Mapping[str, str]) -> str:
    return "\n".join(f"<{part}>\n{parts[part]}</{part}>" for part in _PARTS)


def _parts(text: str) -> dict[str, str]:
    """The parts of such a text."""
    parts: dict[str, str] = {}
    for part in _PARTS:
        match = re.search(rf"<{part}>\n(.*?)</{part}>", text, re.DOTALL)
        if match is None:
            raise ValueError(f"there is no <{part}> … </{part}>: give both parts")
        parts[part] = match[1]
    return parts


class _Silent:
    """GEPA's log, which would otherwise go to the terminal."""

    def log(self, message: str) -> None: ...


@dataclass(frozen=True)
class _Within(Silent):
    """Progress of work within a larger stage, which counts its units only if they are `counted`."""

    whole: Progress
    counted: bool = True

    def done(self) -> None:
        if self.counted:
            self.whole.done()

    def step(self) -> None:
        self.whole.step()

    def note(self, text: str) -> None:
        self.whole.note(text)


def reasons(store: Store) -> Mapping[str, Sequence[Reason]]:
    """How the runs that were reflected on ended, by task."""
    lines: dict[str, tuple[Reason, ...]] = {}
    for unit in sorted(store.finished(REFLECTION)):
        for task, outcome in store.result(unit)["tasks"].items():
            lines.setdefault(task, (Reason(outcome),))
    return lines
