"""Which boundaries are replayed, which clauses are dropped for it, and what is left of a candidate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sentences import numbers_in

from recompact.adaptation import pruning
from recompact.adaptation.placement import with_clauses_in_place
from recompact.adaptation.pruning import Pruned, prune, without_clause
from recompact.compressors.protocol import CompactionFailed
from recompact.engine.config import AdaptConfig
from recompact.engine.store.runs import TrajectoryRow
from recompact.engine.study import Study
from recompact.environments.protocol import EnvironmentFailed, Opening, Task
from recompact.models.failures import Refused
from recompact.values.candidate import Candidate, Clause
from recompact.values.chat import Usage
from recompact.values.context import Context
from recompact.values.outcome import BoundaryId, Outcome, Outcomes
from recompact.values.template import Template, default_template
from recompact.values.trajectory import Score, Trajectory

ORIGINAL = default_template()
HARM, CURE, BREAK = "harm", "cure", "break"


def clause(text: str, *answers: str) -> Clause:
    return Clause(text, "Goal", answers)


def candidate(name: str, *clauses: Clause) -> Candidate:
    return Candidate(name, with_clauses_in_place(ORIGINAL, clauses), clauses)


Verdict = Callable[[str, int], str]
"""What a replay at a boundary comes to, by its number."""


def pruned(
    monkeypatch: pytest.MonkeyPatch,
    candidates: Sequence[Candidate],
    verdict: Verdict,
    replays: int = 3,
    verified: bool = True,
    retained: Sequence[str] = ("a#1", "b#1", "c#1"),
) -> tuple[Pruned, list[list[str]]]:
    """What is left of candidates, and the replays by round: the boundary and the number of the draw."""
    rounds: list[list[str]] = []
    rows: list[TrajectoryRow] = []

    def finding(id: str) -> Any:
        unit, _, index = id.partition("#")
        pre = {n: Outcome(1.0, 5) for n in range(3)}
        return SimpleNamespace(
            id=BoundaryId(f"collect/{unit}", int(index)), retained=True, outcomes=Outcomes(pre, {0: Outcome(0.0, 5)})
        )

    async def tasks() -> tuple[Task, ...]:
        return tuple(Task(id.partition("#")[0], "") for id in retained)

    async def complete(stage: str, kind: str, units: Any) -> None:
        assert (stage, kind) == ("replay", "trajectory")
        now = []
        for unit in units:
            boundary, number = unit.name.split("/")[-2:]
            now.append(f"{boundary}/{number}")
            outcome = verdict(boundary, int(number))
            ending = "environment error" if outcome == BREAK else "finished"
            value = float(outcome == CURE)
            rows.append(TrajectoryRow(unit.name, "t", 0, {}, value >= 1, value, ending, 5, 1, 0, 0, {}, 0))  # type: ignore[arg-type]
        rounds.append(now)

    monkeypatch.setattr(pruning, "read_verdicts", lambda store: SimpleNamespace(retained=[*map(finding, retained)]))
    monkeypatch.setattr(pruning, "settings_of", lambda store: SimpleNamespace(hazard=0.1, burden=5.0))
    monkeypatch.setattr(pruning, "trajectories", lambda store, phase: rows)
    monkeypatch.setattr(pruning, "read_boundary", lambda store, unit, index: None)
    study = SimpleNamespace(
        store=SimpleNamespace(metadata=SimpleNamespace(verified={} if verified else None)),
        config=SimpleNamespace(adapt=AdaptConfig(replays=replays)),
        template=ORIGINAL,
        tasks=tasks,
        complete=complete,
    )
    return asyncio.run(prune(cast(Study, study), candidates)), rounds


def test_without_a_verification_nothing_can_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (candidate("c", clause("Keep ids.", "a#1")),)
    assert pruned(monkeypatch, given, lambda at, n: HARM, verified=False) == (Pruned(given, ()), [])


def test_a_clause_that_closes_a_boundary_stays_and_is_not_replayed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (candidate("c", clause("Keep ids.", "a#1")),)
    left, rounds = pruned(monkeypatch, given, lambda at, n: CURE)
    assert left == Pruned(given, ())
    assert rounds == [["a#1/0"], [], []]


@pytest.mark.parametrize("replays", [1, 2, 4])
def test_a_boundary_is_replayed_as_often_as_the_config_says(monkeypatch: pytest.MonkeyPatch, replays: int) -> None:
    given = (candidate("c", clause("Keep ids.", "a#1")),)
    left, rounds = pruned(monkeypatch, given, lambda at, n: HARM, replays)
    assert rounds == [[f"a#1/{n}"] for n in range(replays)]
    assert left.candidates[0].template is None


def test_a_clause_that_closes_nothing_is_dropped_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = clause("Keep every id.", "a#1"), clause("Keep every date.", "b#1", "c#1")
    left, rounds = pruned(monkeypatch, [candidate("c", good, bad)], lambda at, n: CURE if at == "a#1" else HARM)
    assert left.candidates == (candidate("c", good),)
    (note,) = left.notes
    assert note.startswith("c: “Keep every date.” ")
    assert numbers_in(note) == ["2"]
    assert rounds == [["a#1/0", "b#1/0", "c#1/0"], ["b#1/1", "c#1/1"], ["b#1/2", "c#1/2"]]


def test_one_boundary_of_several_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (candidate("c", clause("Keep ids.", "a#1", "b#1")),)
    left, rounds = pruned(monkeypatch, given, lambda at, n: CURE if at == "b#1" else HARM)
    assert left == Pruned(given, ())
    assert rounds == [["a#1/0", "b#1/0"], [], []]


def test_a_boundary_that_two_clauses_answer_is_replayed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [candidate("c", clause("Keep ids.", "a#1"), clause("Keep dates.", "a#1"))]
    _, rounds = pruned(monkeypatch, given, lambda at, n: HARM, 1)
    assert rounds == [["a#1/0"]]


def test_a_candidate_without_a_clause_that_helps_does_not_race(monkeypatch: pytest.MonkeyPatch) -> None:
    given = replace(candidate("c", clause("Keep ids.", "a#1")), objections=("a slip",))
    left, _ = pruned(monkeypatch, [given], lambda at, n: HARM)
    note = "c: none of its clauses closed a boundary, so it does not race."
    assert left.candidates == (replace(given, template=None, objections=("a slip", note)),)
    dropped, last = left.notes
    assert dropped.startswith("c: “Keep ids.” ")
    assert (numbers_in(dropped), last) == (["1"], note)


def test_what_cannot_be_judged_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment broke, it answers nothing, or what it answers was not retained."""
    given = tuple(
        candidate(name, clause("Keep ids.", *answers))
        for name, answers in (("broken", ("a#1",)), ("free", ()), ("elsewhere", ("x#1", "never#7")))
    )
    left, rounds = pruned(monkeypatch, given, lambda at, n: BREAK, 2)
    assert left == Pruned(given, ())
    assert rounds == [["a#1/0"], ["a#1/1"]]


def test_replays_that_broke_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (candidate("c", clause("Keep ids.", "a#1")),)
    left, _ = pruned(monkeypatch, given, lambda at, n: CURE if n == 2 else BREAK)
    assert left == Pruned(given, ())
    left, _ = pruned(monkeypatch, given, lambda at, n: HARM if n == 2 else BREAK)
    assert left.candidates[0].template is None


def test_what_has_no_template_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Candidate("gone", None, (clause("Keep ids.", "a#1"),), ("why",))
    assert pruned(monkeypatch, [gone], lambda at, n: HARM, 1) == (Pruned((gone,), ()), [[]])


def test_a_clause_that_the_template_says_in_other_words_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    given = (replace(candidate("c", clause("Keep ids.", "a#1")), clauses=(clause("Keep all ids.", "a#1"),)),)
    left, _ = pruned(monkeypatch, given, lambda at, n: HARM)
    assert left == Pruned(given, ())


def test_a_clause_that_carries_what_the_lock_holds_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking it out would take the heading with it."""
    heading = clause("Goal", "a#1")
    given = (replace(candidate("c", clause("Keep ids.", "b#1")), clauses=(heading,)),)
    assert pruned(monkeypatch, given, lambda at, n: HARM)[0] == Pruned(given, ())


def test_verdicts_are_those_of_the_candidate_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = candidate("one", clause("Keep ids.", "a#1")), candidate("two", clause("Keep dates.", "b#1"))
    left, _ = pruned(monkeypatch, [one, other], lambda at, n: CURE if at == "a#1" else HARM)
    assert [each.template is None for each in left.candidates] == [False, True]
    assert all(note.startswith("two: ") for note in left.notes)


# --- a clause taken out

TEMPLATE = Template("s", "a\n", "b\n")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\n- Keep ids.\nb\n", "a\nb\n"),
        ("a\n* Keep ids.\nb\n", "a\nb\n"),
        ("a\n  12. Keep ids.\nb\n", "a\nb\n"),
        ("a\nKeep ids.\n", "a\n"),
        ("a\n- Keep ids. And dates.\n", "a\n-  And dates.\n"),
        ("a\n- Be exact. Keep ids.\n", "a\n- Be exact.\n"),
        ("a\n- Keep ids.", "a\n"),
    ],
)
def test_a_line_goes_with_its_clause_unless_it_says_more(before: str, after: str) -> None:
    found = without_clause(replace(TEMPLATE, first=before), Clause("Keep ids.", "", ()))
    assert found == replace(TEMPLATE, first=after)
    in_update = without_clause(replace(TEMPLATE, update=before), Clause("Keep ids.", "", ()))
    assert in_update == replace(TEMPLATE, update=after)


def test_a_clause_that_stands_nowhere_cannot_be_taken_out() -> None:
    assert without_clause(TEMPLATE, Clause("Keep ids.", "", ())) is None


# --- one replay


def replayed(
    monkeypatch: pytest.MonkeyPatch, rendering: str, failure: Exception | None = None
) -> tuple[Any, list[Any]]:
    """The trajectory of the first replay of a candidate, and what was done for it."""
    done: list[Any] = []
    units: list[Any] = []

    async def recompressed(boundary: Any, compressor: Any, budget: int) -> Any:
        if failure:
            raise failure
        done.append(("compressed", compressor, budget))
        return "replayed", "usage"

    async def continue_from(task: Any, boundary: Any, arm: str, *more: Any, **settings: Any) -> Trajectory:
        done.append(("continued", boundary, arm, settings["step_limit"], settings["observation_tokens"]))
        return Trajectory("a", (), (), "finished", Score.of(True), Context(()))

    class Episode:
        async def start(self) -> Opening:
            done.append("started")
            return Opening((), ())

        async def close(self) -> None:
            done.append("closed")

    @dataclass(frozen=True)
    class Replaying:
        store: Any
        config: Any
        template: Template
        tasks: Any
        complete: Any
        episodes: Any
        count: Any = None
        progress: Any = None

        def ask(self, calls: Any) -> None: ...

        def agent(self, calls: Any) -> None: ...

        def compressor(self, calls: Any, task: Any, opening: Any) -> str:
            return self.template.hash

    async def tasks() -> tuple[Task, ...]:
        return (Task("a", ""),)

    async def complete(stage: str, kind: str, due: Any) -> None:
        units.extend(due)

    finding = SimpleNamespace(id=BoundaryId("collect/a", 1), retained=True, outcomes=Outcomes())
    boundary = SimpleNamespace(pre=Context(()))
    monkeypatch.setattr(pruning, "read_verdicts", lambda store: SimpleNamespace(retained=[finding]))
    monkeypatch.setattr(pruning, "settings_of", lambda store: SimpleNamespace(hazard=0.1, burden=5.0))
    monkeypatch.setattr(pruning, "trajectories", lambda store, phase: [])
    monkeypatch.setattr(pruning, "read_boundary", lambda store, unit, index: boundary)
    monkeypatch.setattr(pruning, "recompress", recompressed)
    monkeypatch.setattr(pruning, "continue_from", continue_from)
    monkeypatch.setattr(pruning, "with_differences", lambda trajectory, calls: trajectory)
    config = SimpleNamespace(
        adapt=AdaptConfig(replays=1),
        compressor=SimpleNamespace(rendering=rendering, budget=77),
        run=SimpleNamespace(step_limit=9, observation_tokens=40),
    )
    store = SimpleNamespace(metadata=SimpleNamespace(verified={}))
    episodes = SimpleNamespace(episode=lambda task, ask: Episode())
    study = Replaying(store, config, ORIGINAL, tasks, complete, episodes)
    asyncio.run(prune(cast(Any, study), [candidate("c", clause("Keep ids.", "a#1"))]))
    (unit,) = units
    return asyncio.run(unit.play(cast(Any, None))), done


@pytest.mark.parametrize("rendering", ["quoted", "appended"])
def test_a_replay_compresses_with_the_candidate_and_goes_on_from_its_summary(
    monkeypatch: pytest.MonkeyPatch, rendering: str
) -> None:
    trajectory, done = replayed(monkeypatch, rendering)
    template = candidate("c", clause("Keep ids.", "a#1")).template
    assert template is not None
    tools = ["started", "closed"] if rendering == "appended" else []  # they are sent with an appended history only
    assert done == [*tools, ("compressed", template.hash, 77), ("continued", "replayed", "POST", 9, 40)]
    assert trajectory.usage == {"compressor": "usage"}


@pytest.mark.parametrize(
    "failure", [CompactionFailed("empty", Usage(1, 1, 0, 0, 1)), Refused("no"), EnvironmentFailed("gone")]
)
def test_a_replay_without_a_summary_is_broken_and_says_why(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    trajectory, done = replayed(monkeypatch, "quoted", failure)
    assert (trajectory.ending, trajectory.score.success) == ("environment error", False)
    assert trajectory.error == f"no summary: {failure}"
    paid = {"compressor": failure.usage} if isinstance(failure, CompactionFailed) else {}
    assert trajectory.usage == paid
    assert done == []
