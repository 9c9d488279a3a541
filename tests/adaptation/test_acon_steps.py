"""The steps of ACON's methods: what each runs, asks and concludes, with the runs and the optimizer made up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_args

import pytest
from method_support import method_inputs
from sentences import numbers_in, words_in

from recompact.adaptation import acon, acon_evidence
from recompact.adaptation.acon import GOOD, SAMPLES, Assignment, acon_ut, acon_ut_locked, acon_utco
from recompact.adaptation.acon_evidence import (
    SHORTER,
    Analysis,
    CompactionText,
    Feedback,
    FeedbackTasks,
)
from recompact.adaptation.excerpts import Excerpt
from recompact.adaptation.method import Episode
from recompact.engine.config import AdaptConfig
from recompact.engine.store.runs import TrajectoryRow
from recompact.environments.protocol import Task
from recompact.values.candidate import ORIGINAL, Candidate, EvidenceCounts, Proposal
from recompact.values.template import Template, default_template
from recompact.values.trajectory import Ending

TEMPLATE = default_template()
BETTER = replace(TEMPLATE, first=TEMPLATE.first + "Keep ids.\n")


def row(task: str, unit: str, value: float, compactions: int) -> TrajectoryRow:
    return TrajectoryRow(unit, task, 0, {}, value >= 1, value, "finished", 5, compactions, 0, 0, {}, 0)


@pytest.mark.parametrize("ending", get_args(Ending))
def test_all_but_a_broken_environment_counts(ending: Ending) -> None:
    assert acon_evidence._counts(replace(row("a", "a", 1.0, 1), ending=ending)) == (ending != "environment error")


@dataclass
class World:
    """What is recorded and what the optimizer says; and what was done."""

    tasks: Sequence[str] = ("a", "b", "c")
    contrasted: FeedbackTasks = field(default_factory=lambda: FeedbackTasks(("a", "b"), True, 2, 3))
    feedback: Mapping[str, Feedback] = field(default_factory=dict)
    analyses: Mapping[str, Analysis] = field(default_factory=dict)
    usable: bool = True
    winner: str = "acon-ut-1"
    scores: Mapping[str, tuple[float, int]] = field(default_factory=lambda: {"a": (1.0, 2), "b": (0.0, 1)})
    runs: list[tuple[bool, str, str, str]] = field(default_factory=list)  # compaction, unit, phase, template
    asked: dict[str, list[str]] = field(default_factory=dict)
    useful: dict[str, Any] = field(default_factory=dict)
    assignments: dict[str, Assignment] = field(default_factory=dict)
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ratio: Any = None


def proposed(monkeypatch: pytest.MonkeyPatch, world: World, method: Any) -> Proposal:
    async def run(phase: str, episodes: Sequence[Episode], *, template: Template, compaction: bool) -> None:
        world.runs += [(compaction, each.unit, phase, template.hash) for each in episodes]

    def contrast(store: Any, ratio: Any) -> FeedbackTasks:
        world.ratio = ratio
        return world.contrasted

    def trajectories(store: Any, task: str, phase: str) -> list[TrajectoryRow]:
        value, number = world.scores.get(task, (0.0, 0))
        under = task if phase == "collect" else f"{BETTER.hash[:16]}/{task}"
        return [row(task, "another", 1.0, 9), row(task, f"{phase}/{under}", value, number)]

    def compactions(task: Task, trajectory: Any, budget: int, count: Any) -> tuple[CompactionText, ...]:
        assert budget == 77
        return tuple(CompactionText(f"{task.id}#{n}", "s", f"from {trajectory}") for n in (1, 2))

    async def answers(study: Any, stage: str, kind: str, units: Mapping[str, str], answer: Any, *, useful: Any) -> Any:
        world.asked[kind] = list(units.values())
        world.useful[kind] = useful
        given: Mapping[str, Any] = world.feedback if kind == "feedback" else world.analyses
        return {name: asdict(given[name]) for name in units}

    async def rewrite(optimizer: Any, name: str, assignment: Assignment, chosen: Sequence[str]) -> Candidate:
        world.assignments[name] = assignment
        world.chosen[name] = tuple(chosen)
        return Candidate(name, BETTER if world.usable else None, (), () if world.usable else ("no JSON",))

    async def draw_candidates(study: Any, method: str, draw: Any, under: str) -> tuple[Candidate, ...]:
        world.asked[method] = [under]
        return (await draw(None, f"{method}-1"),)

    async def select(candidates: Sequence[Candidate]) -> Candidate | None:
        return next((each for each in candidates if each.template and each.name == world.winner), None)

    monkeypatch.setattr(acon, "contrast", contrast)
    monkeypatch.setattr(acon, "trajectories", trajectories)
    monkeypatch.setattr(acon, "read_trajectory", lambda store, unit: unit)
    monkeypatch.setattr(
        acon, "run_pair", lambda task, alone, with_it, budget, count: Excerpt(f"{alone} {with_it} tok-9042")
    )
    monkeypatch.setattr(acon, "compactions", compactions)
    monkeypatch.setattr(acon, "answers", answers)
    monkeypatch.setattr(acon, "rewrite", rewrite)
    monkeypatch.setattr(acon, "draw_candidates", draw_candidates)
    tasks = tuple(Task(name, f"Do {name}.") for name in world.tasks)
    settings = AdaptConfig(evidence_tokens=77)
    inputs = method_inputs(template=TEMPLATE, tasks=tasks, settings=settings, seed=3, run=run, select=select)
    return Proposal.of(asyncio.run(method.propose(inputs)))


def feedback(task: str, remedies: tuple[str, ...] = ("Keep ids.",), **more: Any) -> Feedback:
    return Feedback(task, "It parted.", (), remedies, "It failed.", **more)


BOTH = {"a": feedback("a", cuts=1, left_out=10), "b": feedback("b", (), cuts=0, left_out=0)}
ANALYSES = {
    "a#1": Analysis("a#1", 100, ({"kind": "pages", "how": "less"},)),
    "a#2": Analysis("a#2", 300, (), ({"kind": "ids", "quote": "", "reason": "used"},)),
}


def test_ut_runs_every_task_without_compaction_and_keeps_no_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(feedback=BOTH)
    proposal = proposed(monkeypatch, world, acon_ut())
    assert world.runs == [(False, f"baseline/{task}", "baseline", TEMPLATE.hash) for task in "abc"]
    assert world.asked["feedback"] == ["feedback/a", "feedback/b"]
    assert world.ratio is None
    assert proposal == Proposal(
        (Candidate("acon-ut-1", BETTER),),
        EvidenceCounts("task", 2, 1, failed=1, cut=1, left_out=10),
    )
    assignment = world.assignments["acon-ut-1"]
    assert assignment.entries == {"a": BOTH["a"].lesson()}
    assert not assignment.locked
    assert assignment.instances == {"tok-9042"}
    assert world.chosen["acon-ut-1"] == ("a",)


def test_an_answer_is_of_use_if_it_has_what_candidates_are_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(feedback=BOTH, analyses=ANALYSES)
    proposed(monkeypatch, world, acon_utco())
    useful = world.useful["feedback"]
    assert (useful({"remedies": ["x"]}), useful({"remedies": []})) == (True, False)
    useful = world.useful["analysis"]
    assert [useful({"remove": r, "keep": k}) for r in ([], ["x"]) for k in ([], ["x"])] == [False, True, True, True]


def test_the_locked_variant_differs_in_the_lock_and_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(feedback=BOTH)
    proposal = proposed(monkeypatch, world, acon_ut_locked(step_ratio=2.0))
    assert [candidate.name for candidate in proposal.candidates] == ["acon-ut-locked-1"]
    assert world.assignments["acon-ut-locked-1"].locked
    assert world.ratio == 2.0


def test_a_candidate_sees_as_many_entries_as_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = tuple(f"t{n:02d}" for n in range(40))
    entries = {task: feedback(task) for task in tasks}
    for method, number in ((acon_ut(), 30), (acon_ut(samples=5), 5), (acon_ut(samples=99), 40)):
        world = World(tasks=tasks, contrasted=FeedbackTasks(tasks, True, 40, 40), feedback=entries)
        proposed(monkeypatch, world, method)
        assert len(world.chosen["acon-ut-1"]) == number
    assert SAMPLES == 30


def test_a_task_that_is_no_longer_chosen_gives_no_feedback(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(contrasted=FeedbackTasks(("gone", "a"), True, 2, 3), feedback=BOTH)
    proposed(monkeypatch, world, acon_ut())
    assert world.asked["feedback"] == ["feedback/a"]


def test_without_failures_the_statement_is_in_the_place_of_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = FeedbackTasks((), False, 0, 3)
    proposal = proposed(monkeypatch, World(contrasted=nothing), acon_ut())
    told = Candidate("acon-ut", None, (), (nothing.statement,))
    assert proposal == Proposal((told,), statement=nothing.statement)
    assert not proposal.unusable


def test_feedback_of_no_use_is_said_and_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(feedback={"a": feedback("a", ()), "b": feedback("b", (), cuts=2, left_out=5)})
    proposal = proposed(monkeypatch, world, acon_ut())
    assert proposal.unusable
    assert proposal.evidence == EvidenceCounts("task", 2, 0, failed=2, cut=1, left_out=5)
    assert proposal.statement.startswith(f"{world.contrasted.statement} ")
    assert proposal.candidates[0].objections == (proposal.statement,)


def test_candidates_of_no_use_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    proposal = proposed(monkeypatch, World(feedback=BOTH, usable=False), acon_ut())
    assert proposal.unusable
    assert proposal.statement.endswith(": no JSON")


# --- and on to shorter summaries


def test_utco_goes_on_from_the_winner(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(feedback=BOTH, analyses=ANALYSES)
    proposal = proposed(monkeypatch, world, acon_utco())
    under = BETTER.hash[:16]
    assert world.runs[3:] == [(True, f"compress/{under}/{task}", "compress", BETTER.hash) for task in "abc"]
    assert world.asked["analysis"] == [f"analyse/{under}/a#1", f"analyse/{under}/a#2"]
    assert world.asked["acon-utco"] == [f"{under}/"]
    assert [candidate.name for candidate in proposal.candidates] == ["acon-ut-1", "acon-utco-1"]
    assert (proposal.statement, proposal.unusable) == ("", False)
    assert proposal.evidence == EvidenceCounts("task", 2, 1, failed=1, cut=1, left_out=10)
    assignment = world.assignments["acon-utco-1"]
    assert assignment.template == BETTER
    assert assignment.entries == {name: analysis.lesson() for name, analysis in ANALYSES.items()}
    assert "200" in numbers_in(assignment.introduction)
    assert assignment.aim == SHORTER


def test_utco_starts_from_the_original_where_that_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(feedback=BOTH, analyses=ANALYSES, winner=ORIGINAL)
    proposal = proposed(monkeypatch, world, acon_utco())
    assert {phase for _, _, phase, _ in world.runs} == {"baseline"}
    assert [candidate.name for candidate in proposal.candidates] == ["acon-utco-1"]
    assert world.assignments["acon-utco-1"].template == TEMPLATE


def test_utco_keeps_what_ut_has_to_say_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(contrasted=FeedbackTasks((), False, 0, 3), analyses=ANALYSES)
    proposal = proposed(monkeypatch, world, acon_utco())
    assert [candidate.name for candidate in proposal.candidates] == ["acon-ut", "acon-utco-1"]
    assert (proposal.statement, proposal.unusable) == ("", False)


def test_where_neither_half_comes_to_anything_both_reasons_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = FeedbackTasks((), False, 0, 3)
    proposal = proposed(monkeypatch, World(contrasted=nothing, scores={}), acon_utco())
    assert [candidate.template for candidate in proposal.candidates] == [None, None]
    assert proposal.statement == " ".join(candidate.objections[0] for candidate in proposal.candidates)
    assert proposal.statement.startswith(f"{nothing.statement} ")
    assert not proposal.unusable


def test_analyses_of_no_use_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = {name: Analysis(name, 9) for name in ANALYSES}
    world = World(contrasted=FeedbackTasks((), False, 0, 3), analyses=empty)
    proposal = proposed(monkeypatch, world, acon_utco())
    assert proposal.unusable
    assert len(proposal.candidates[1].objections) == 1
    usable = World(feedback=BOTH, analyses=empty)
    assert not proposed(monkeypatch, usable, acon_utco()).unusable  # the winner of UT is a candidate


@pytest.mark.parametrize(
    ("value", "compactions", "serves"),
    [
        (1.0, 1, True),
        (1.0, 0, False),
        (GOOD, 1, True),
        (0.59, 1, False),
        (0.99, 2, True),
        (0.0, 3, False),
    ],
)
def test_successes_with_compactions_serve_and_graded_ones_from_a_score_on(
    monkeypatch: pytest.MonkeyPatch, value: float, compactions: int, serves: bool
) -> None:
    world = World(
        contrasted=FeedbackTasks((), False, 0, 3), analyses=ANALYSES, tasks=("a",), scores={"a": (value, compactions)}
    )
    proposed(monkeypatch, world, acon_utco())
    assert ("analysis" in world.asked) == serves
    assert GOOD == 0.6


def test_what_the_methods_say_of_themselves() -> None:
    for method, name in ((acon_ut(), "acon-ut"), (acon_ut_locked(), "acon-ut-locked"), (acon_utco(), "acon-utco")):
        assert (method.name, method.cites) == (name, "task")
        assert method.reselects == (name == "acon-utco")
        assert not method.needs_effects
        assert method.asks_optimizer
        assert set(method.phases) == {"baseline/", "feedback/", "analyse/", "compress/", "revise/acon-"}


@pytest.mark.parametrize(
    ("tasks", "regressions", "numbers", "verbs"),
    [
        (1, True, ["1", "9"], ["was"]),
        (2, True, ["2", "9"], ["were"]),
        (3, True, ["3", "9"], ["were"]),
        (1, False, [], ["is"]),
        (2, False, ["2"], ["are"]),
        (0, False, ["9"], []),
    ],
)
def test_what_gives_feedback_is_counted_in_words_that_agree(
    tasks: int, regressions: bool, numbers: list[str], verbs: list[str]
) -> None:
    said = FeedbackTasks(tuple("abc"[:tasks]), regressions, tasks, 9).statement
    assert numbers_in(said) == numbers
    assert [verb for verb in words_in(said, "was", "were", "is", "are") if verb != "was" or regressions] == (
        [*verbs, "is"] if not tasks else verbs
    )
