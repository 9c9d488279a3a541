"""Arms are run on the embedded world: nothing twice, in an order that is fair, with the same result however it went."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from progress_support import Heard
from run_files import select_rows

from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.execution.scheduler import Unfinished
from recompact.engine.store.connection import StoreError
from recompact.engine.store.records import read_trajectory, write_trajectory
from recompact.engine.store.runs import retry_broken
from recompact.engine.store.store import Store
from recompact.environments.protocol import Task
from recompact.errors import InputError
from recompact.evaluation.arm_runs import as_values, find_arm, read_arms
from recompact.evaluation.arms import Arm, note_arms, parse_arms
from recompact.evaluation.evaluate import (
    EvaluationPlan,
    digest,
    evaluate,
    open_evaluation,
    plan_evaluation,
    plan_runs,
    tasks_of,
    unit_of,
    with_split,
)
from recompact.evaluation.metrics import measure
from recompact.evaluation.summary import evaluation
from recompact.models.failures import Overloaded
from recompact.models.protocol import ChatModel
from recompact.values.chat import Reply, Request
from recompact.values.context import Context
from recompact.values.template import default_template
from recompact.values.trajectory import Ending, Score, Trajectory

CONFIG = "[compressor]\nbudget = 2048\n[run]\nconcurrency = {}\nshare_prefix = false\n"  # units are counted here
OWN = default_template()


def config(tasks: int, concurrency: int = 4) -> Config:
    return with_split(parse_config(CONFIG.format(concurrency), Path("c.toml")), "test", tasks)


def arms(*texts: str, scopes: Sequence[str] = ()) -> tuple[Arm, ...]:
    return parse_arms(texts, config(1).compressor, OWN, scopes)  # type: ignore[arg-type]


def run(
    path: Path, chosen: Sequence[Arm], runs: int, *, tasks: int = 2, concurrency: int = 4, fail_after: int | None = None
) -> tuple[EvaluationPlan, int, str]:
    """An evaluation; how many trajectories it made itself, and its digest."""
    made = 0

    def on_done() -> None:
        nonlocal made
        made += 1
        if made == fail_after:
            raise RuntimeError("killed")

    async def work(store: Store) -> EvaluationPlan:
        async with open_evaluation(config(tasks, concurrency), store, progress=Heard(on_done)) as study:
            return await evaluate(study, chosen, runs)

    with Store.open(path) as store:
        done = asyncio.run(work(store))
        return done, made, digest(store, done.units)


def test_adding_an_arm_a_scope_a_run_or_a_task_makes_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    assert run(path, arms("none", "fifo"), 1)[1] == 4
    assert run(path, arms("none", "fifo"), 1)[1] == 0
    assert run(path, arms("none", "fifo", "prompting"), 1)[1] == 2  # an arm more
    assert run(path, arms("none", "prompting"), 2)[1] == 4  # a run more
    OWN.save(tmp_path / "same")
    same = arms(f"renamed={tmp_path / 'same'}")
    assert run(path, same, 2)[1] == 0  # another name for the same text
    assert run(path, arms("prompting", scopes=("history", "prefix")), 2)[1] == 4
    assert run(path, arms("none"), 1, tasks=3)[1] == 1  # a task more
    assert run(path, arms("prompting@1024"), 1)[1] == 2  # another budget
    with Store.read(path) as store:
        rows = select_rows(store, "SELECT task, run, unit, phase FROM trajectories")
        assert len(rows) == len({row["unit"] for row in rows}) == 17
        assert {row["phase"] for row in rows} == {"evaluate"}
        found = read_arms(store)
        compacted = select_rows(store, "SELECT unit FROM boundaries LIMIT 1")[0]["unit"]
        assert all(b.snapshot is None for b in read_trajectory(store, compacted).boundaries)
    labels = ["none", "fifo", "prompting/history", "renamed/history", "prompting/prefix", "prompting@1024/history"]
    assert [arm.label for arm in found] == labels
    assert found[2].rows == found[3].rows
    assert all(arm.simulated for arm in found)
    assert find_arm(found, "renamed", path).label == "renamed/history"
    with pytest.raises(InputError, match="several arms 'prompting'"):
        find_arm(found, "prompting", path)


def test_the_digest_is_the_same_whatever_the_concurrency_and_after_a_kill(tmp_path: Path) -> None:
    chosen = arms("fifo", "prompting")
    _, made, whole = run(tmp_path / "one.db", chosen, 2, concurrency=1)
    assert made == 8
    assert run(tmp_path / "many.db", chosen, 2, concurrency=8)[2] == whole
    killed = tmp_path / "killed.db"
    with pytest.raises(RuntimeError, match="killed"):
        run(killed, chosen, 2, concurrency=3, fail_after=3)
    with Store.read(killed) as store:
        before = len(store.finished("trajectory"))
    _, made, after = run(killed, chosen, 2)
    assert before >= 3
    assert made == 8 - before
    assert after == whole
    # Another order of arms is the same evaluation; one arm alone is another.
    assert run(killed, chosen[::-1], 2)[1:] == (0, whole)
    assert run(killed, chosen[:1], 2)[2] != whole


def test_runs_differ_and_the_table_is_over_what_all_arms_have(tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    done, _, _ = run(path, arms("none", "prompting"), 2)
    run(path, arms("none"), 2, tasks=3)
    with Store.read(path) as store:
        results = {unit: store.result(unit)["turns"] for unit in done.units}
        found = read_arms(store)
    key = arms("none")[0].key
    task = done.tasks[0].id
    assert results[unit_of(key, task, 0)] != results[unit_of(key, task, 1)]
    shown = evaluation("pocket", found)
    assert (len(shown.shared.tasks), shown.shared.left_out, shown.shared.runs) == (2, 1, 2)
    assert shown.metrics(found[1]).means["compactions"] > 0
    assert shown.metrics(found[0]).means["compactions"] == 0


def test_arms_take_turns_at_being_first() -> None:
    chosen = arms("none", "fifo", "prompting")
    tasks = [Task(f"t{n}", "") for n in range(40)]
    plan = plan_runs(tasks, chosen, 3)
    assert [p.task.id for p in plan] == [task.id for task in tasks for _ in range(9)]
    assert [p.run for p in plan[:9]] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    first = [(p.task.id, p.arm.label) for p in plan[::3]]
    assert len(set(first)) == 120  # in the three runs of a task each arm is first once
    opening = Counter(p.arm.label for p in plan[::9])
    assert min(opening.values()) >= 6
    assert [p.unit for p in plan] == [p.unit for p in plan_runs(tasks, chosen, 3)]
    assert [p.unit for p in plan] != [p.unit for p in plan_runs(tasks, chosen, 3, seed=1)]


def test_a_name_stands_for_one_thing(tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    run(path, arms("prompting"), 1, tasks=1)
    changed = parse_arms(["prompting"], config(1).compressor, replace(OWN, system="Be brief."))
    with pytest.raises(InputError, match="another arm 'prompting/history'"):
        run(path, changed, 1, tasks=1)
    with pytest.raises(InputError, match="given twice"):
        arms("none", "none")
    for text, said in (
        ("pair", "fifo, llmlingua2, none, masking, clear_tool_results, native, prompting"),
        ("fifo=x", "an arm of its own"),
        ("a b=x", "a b=x"),
        ("none@512", "so it has no budget"),
        ("pair=nowhere", "nowhere"),
    ):
        with pytest.raises(InputError, match=said):
            arms(text)
    with pytest.raises(InputError, match="--arm"):
        arms()


def test_keys_name_what_decides() -> None:
    history, prefix = arms("prompting", scopes=("history", "prefix"))
    assert history.key == f"prompted-2048-history-{OWN.hash[:16]}"
    assert prefix.key == f"prompted-2048-prefix-quoted-{OWN.hash[:16]}"
    assert [arm.key for arm in arms("none", "fifo", "fifo@512")] == ["none", "fifo-2048", "fifo-512"]


def test_a_config_may_list_tasks_of_its_own_split_only() -> None:
    listed = parse_config('[suite]\ntasks = ["pocket-train-000"]\nlimit = 3\n', Path("c.toml"))
    assert with_split(listed, "test").suite.tasks == ()
    assert with_split(listed, "train").suite.tasks == ("pocket-train-000",)
    assert with_split(listed, "test").suite.limit == 3
    assert with_split(listed, "test", 5).suite.limit == 5


class Broken:
    """A model that is down for one task."""

    def __init__(self, model: ChatModel, task: str) -> None:
        self.name, self._model, self._task = model.name, model, task

    async def reply(self, request: Request) -> Reply:
        if any(self._task in message.content for message in request.messages):
            raise Overloaded("down")
        return await self._model.reply(request)


def test_a_unit_that_fails_is_left_for_the_next_time(tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    chosen = arms("none", "fifo")

    async def work(store: Store) -> EvaluationPlan:
        async with open_evaluation(config(3), store) as study:
            task = (await study.tasks())[1]
            models = {name: Broken(model, task.data["message"]) for name, model in study.models.items()}
            with pytest.raises(Unfinished) as stopped:
                await evaluate(replace(study, models=models), chosen, 1)
            assert [unit.name.split("/")[2] for unit in stopped.value.units] == [task.id] * 2
            return await plan_evaluation(study, chosen, 1)

    with Store.open(path) as store:
        plan = asyncio.run(work(store))
        shown = evaluation("pocket", read_arms(store), [task.id for task in plan.tasks], 1)
        assert (len(shown.shared.tasks), shown.shared.left_out) == (2, 1)
    assert run(path, chosen, 1, tasks=3)[1] == 2


def test_trajectories_whose_environment_broke_can_be_made_anew(tmp_path: Path) -> None:
    path, chosen = tmp_path / "e.db", arms("prompting")
    done, _, whole = run(path, chosen, 2)
    unit = next(unit for unit in done.units if unit.endswith("/1"))
    with Store.open(path) as store:
        sound = read_trajectory(store, unit)
        assert retry_broken(store, "evaluate") == 0
        store.reopen(unit)
        broken = replace(sound, ending="environment error", score=Score.of(False))
        write_trajectory(store, unit, broken, phase="evaluate", run=1, groups={}, seconds=0.0)
    assert run(path, chosen, 2)[1] == 0  # it counts as done until somebody says otherwise
    with Store.open(path) as store:
        assert retry_broken(store, "evaluate") == 1
        assert not select_rows(store, "SELECT unit FROM boundaries WHERE unit = ?", (unit,))
    assert run(path, chosen, 2)[1:] == (1, whole)


def test_an_arm_is_noted_only_with_tasks_to_run(tmp_path: Path) -> None:
    path = tmp_path / "e.db"
    run(path, arms("none"), 1, tasks=1)

    async def work(store: Store) -> None:
        wrong = replace(config(1), suite=replace(config(1).suite, tasks=("no such task",)))
        async with open_evaluation(wrong, store) as study:
            await evaluate(study, arms("fifo"), 1)

    with Store.open(path) as store:
        with pytest.raises(InputError, match="no such task"):
            asyncio.run(work(store))
        assert [arm.label for arm in read_arms(store)] == ["none"]


def test_answers_are_read_from_the_details_of_a_score(tmp_path: Path) -> None:
    """One value per question or one for all; an episode that came to no answer has none right."""
    scores: list[tuple[Ending, Score]] = [
        ("finished", Score(False, 0.5, {"em": [1, 0], "f1": [1, 0.5]})),
        ("step limit", Score.of(False)),
    ]
    with Store.open(tmp_path / "qa.db") as store:
        note_arms(store, arms("none"))
        store.set_metadata(replace(store.metadata, command="evaluate"))
        for number, (ending, score) in enumerate(scores):
            trajectory = Trajectory("q", (), (), ending, score, Context(()))
            unit = unit_of("none", "q", number)
            write_trajectory(store, unit, trajectory, phase="evaluate", run=number, groups={}, seconds=0.0)
        (found,) = read_arms(store)
    assert [(row.em, row.f1) for row in found.rows] == [((1.0, 0.0), (1.0, 0.5)), ((0.0, 0.0), (0.0, 0.0))]
    means = measure(found, ["q"], 2).means
    assert (means["em"], means["em^2"], means["f1"]) == (0.25, 0.0, 0.375)
    assert as_values(0.5) == (0.5,)
    with pytest.raises(InputError, match="'right'"):
        as_values("right")


def test_an_order_of_arms_changes_from_run_to_run_of_a_task() -> None:
    chosen = arms("none", "fifo", "prompting")
    plan = plan_runs([Task("t", "")], chosen, 4)
    orders = [[p.arm.label for p in plan[n : n + 3]] for n in range(0, 12, 3)]
    labels = [arm.label for arm in chosen]
    start = labels.index(orders[0][0])
    assert orders == [labels[n % 3 :] + labels[: n % 3] for n in range(start, start + 4)]
    assert plan[0].unit == unit_of(plan[0].arm.key, "t", 0) == f"evaluate/{plan[0].arm.key}/t/0"
    assert [(p.task.id, p.run) for p in plan] == [("t", n // 3) for n in range(12)]


def test_arms_of_one_key_are_planned_once() -> None:
    (fifo,) = arms("fifo")
    plan = plan_runs([Task("t", "")], [fifo, replace(fifo, name="renamed")], 2)
    assert len(plan) == 2
    assert plan_runs([], [fifo], 2) == []
    assert plan_runs([Task("t", "")], [fifo], 0) == []
    assert EvaluationPlan((fifo,), (), tuple(plan)).units == tuple(p.unit for p in plan)


async def test_another_run_is_not_evaluated_in(tmp_path: Path) -> None:
    with Store.open(tmp_path / "r.db") as store:
        store.set_metadata(replace(store.metadata, command="collect"))
        with pytest.raises(InputError, match=r"r\.db .*`recompact collect`: .* --run"):
            async with open_evaluation(config(1), store):
                pass


async def test_a_run_may_go_on_with_other_tasks_budgets_and_scopes(tmp_path: Path) -> None:
    """What an arm or a task decides is part of a unit's name, so the run is the same one."""
    texts = [
        "",
        '[suite]\nlimit = 3\n[compressor]\nbudget = 100\nscope = "prefix"\nrendering = "appended"\nkind = "fifo"\n',
    ]
    with Store.open(tmp_path / "e.db") as store:
        for text in texts:
            own = parse_config(text, tmp_path / "c.toml")
            async with open_evaluation(own, store) as study:
                assert study.config == own
        with pytest.raises(StoreError, match="another config"):
            async with open_evaluation(parse_config("[run]\nseed = 5\n", tmp_path / "c.toml"), store):
                pass


async def test_a_run_is_named_after_its_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.toml"
    file.write_text("[suite]\nlimit = 1\n")
    async with open_evaluation(file) as study:
        assert study.store.path.stem == "mine-evaluate"
        assert study.store.metadata.command == "evaluate"
    async with open_evaluation(str(file), "another") as study:
        assert study.store.path.stem == "another"


async def test_tasks_that_are_not_there_are_told_with_their_split(tmp_path: Path) -> None:
    wrong = replace(config(1), suite=replace(config(1).suite, split="nowhere"))
    with Store.open(tmp_path / "e.db") as store:
        async with open_evaluation(wrong, store) as study:
            with pytest.raises(InputError, match=r"^split 'nowhere': .*--split .*test split"):
                await tasks_of(study)
