"""Behaviour after a compaction: counted by hand, in the suite's own terms, with intervals over tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from progress_support import Heard
from sentences import numbers_in

from recompact.engine.config_parser import parse_config
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.environments.functions import function_suite
from recompact.environments.inprocess import InProcessSuite
from recompact.environments.protocol import Behaviour, Literals, Suite
from recompact.errors import InputError
from recompact.evaluation.arms import Arm, note_arms, parse_arms
from recompact.evaluation.behaviour import ArmBehaviour, Behaviours, Ratio, behaviour_table, behaviours, notes, to_json
from recompact.evaluation.evaluate import unit_of
from recompact.evaluation.summary import SIMULATED
from recompact.suites.pocket import CATALOGUE, PocketSuite
from recompact.values.chat import Message, ToolCall
from recompact.values.context import Context, Summary, Turn
from recompact.values.tables import Number
from recompact.values.template import default_template
from recompact.values.trajectory import Action, Boundary, Score, Trajectory

CONFIG = parse_config("", Path("c.toml"))


def manual(topic: str) -> str:
    """Look something up."""
    return topic


def behaviour(action: Action) -> Behaviour | None:
    kinds: dict[str, Behaviour] = {"manual": "documentation", "paint": "mutation", "look": "read"}
    return kinds.get(action.name)


def literals(text: str) -> Literals:
    words = text.split()
    return {
        "colours": tuple(word for word in words if word.startswith("#")),
        "calls": tuple(word for word in words if word.endswith("()")),
    }


PAINTING = function_suite("painting", [manual], {"t": ("Paint.", "done")}, behaviour=behaviour, literals=literals)
SILENT = function_suite("silent", [manual], {"t": ("Paint.", "done")})


def turn(*names: str, result: str = "") -> Turn:
    calls = tuple(ToolCall(f"c{n}", name, "{}") for n, name in enumerate(names))
    results = tuple(Message("tool", result, call_id=call.id) for call in calls)
    return Turn(Message("assistant", "" if calls else "I say something.", calls), results, 10)


def trajectory(turns: Sequence[Turn], *boundaries: Boundary) -> Trajectory:
    numbered = tuple(replace(b, index=n) for n, b in enumerate(boundaries, 1))
    return Trajectory("t", tuple(turns), numbered, "finished", Score.of(True), Context(()))


def boundary(step: int, consumed: Sequence[str], summary: str | None, previous: str = "") -> Boundary:
    """A compaction after so many steps, of turns with these results."""
    last = turn("look")
    turns = tuple(turn("look", result=text) for text in consumed)
    pre = Context((), Summary(previous, 5) if previous else None, (*turns, last))
    post = Context((), None if summary is None else Summary(summary, 5), (last,))
    return Boundary(1, step, pre, post, None, ())


def run_of(path: Path, made: dict[str, list[tuple[Arm | None, int, Trajectory]]]) -> Path:
    """A run with these trajectories by task: an evaluation where they have arms, a collected one otherwise."""
    entries = [(task, *entry) for task, found in made.items() for entry in found]
    arms = list({arm.label: arm for _, arm, _, _ in entries if arm}.values())
    with Store.open(path) as store:
        store.set_metadata(
            replace(
                store.metadata, identity=CONFIG.identity(), command="evaluate" if arms else "collect", suite="painting"
            )
        )
        note_arms(store, arms)
        for task, arm, run, one in entries:
            unit = unit_of(arm.key, task, run) if arm else f"collect/{task}"
            phase = "evaluate" if arm else "collect"
            write_trajectory(store, unit, replace(one, task=task), phase=phase, run=run, groups={}, seconds=0)
    return path


def measured(path: Path, suite: Suite = PAINTING, resamples: int = 200) -> Behaviours:
    with Store.read(path) as store:
        return asyncio.run(behaviours(store, InProcessSuite(suite), resamples))


def collected(path: Path) -> Path:
    first = trajectory(
        # After step 1 comes a look-up, and two steps to the change; after step 3 none is left: three to the end.
        [turn("look"), turn("manual", "look"), turn("look", "paint"), turn("look"), turn("manual"), turn()],
        boundary(1, ["#red #blue mix()", "#red"], "We have #red and #green.", previous="#grey"),
        boundary(3, ["nothing"], "mix() it"),
    )
    second = trajectory(
        [turn("look"), turn("paint"), turn("look")],
        boundary(1, ["#one mix()"], "mix() and #one"),
        boundary(3, ["#two"], "nothing followed"),
    )
    return run_of(path, {"a": [(None, 0, first)], "b": [(None, 0, second)], "c": [(None, 0, trajectory([turn()]))]})


def test_figures_by_hand(tmp_path: Path) -> None:
    found = measured(collected(tmp_path / "run.db"))
    (arm,) = found.arms
    assert (arm.label, arm.tasks, arm.trajectories, arm.compactions) == ("prompted history 4096", 3, 3, 4)
    values = {key: (figure.value, figure.of) for key, figure in arm.figures.items()}
    assert values["documentation_first"] == (1 / 3, 3)  # after the fourth compaction nothing was done
    assert values["steps_to_change"] == ((2 + 3 + 1) / 3, 3)
    assert values["kept.colours"] == (2 / 5, 5)  # red of grey, red, blue; one; not two
    assert values["held.colours"] == (2 / 4, 4)
    assert values["kept.calls"] == (1 / 2, 2)
    assert values["held.calls"] == (2 / 4, 4)
    assert values["documentation_calls"] == (2 / 3, 3)
    assert (found.says_behaviour, found.says_literals, found.left_out) == (True, True, 0)
    heard = Heard()
    with Store.read(tmp_path / "run.db") as store:
        asyncio.run(behaviours(store, InProcessSuite(PAINTING), 10, progress=heard))
    assert heard.events == [("stage", "behaviour", 3, 0), *[("done",)] * 3]


def test_intervals_resample_tasks_whole(tmp_path: Path) -> None:
    """Against a bootstrap written down plainly: tasks with replacement, sums divided."""
    chance = Random("behaviour")
    tasks: dict[str, list[tuple[Arm | None, int, Trajectory]]] = {}
    pairs = []
    for n in range(12):
        many = chance.randint(1, 4)
        firsts = [chance.random() < 0.4 for _ in range(many)]
        turns = [turn("look"), *(turn("manual" if looked_up else "look") for looked_up in firsts)]
        made = trajectory(turns, *(boundary(step, ["x"], "y") for step in range(1, many + 1)))
        tasks[f"t{n:02d}"] = [(None, 0, made)]
        pairs.append((sum(firsts), many))
    found = measured(run_of(tmp_path / "run.db", tasks), resamples=4000).arms[0].figures["documentation_first"]
    drawn = []
    for _ in range(4000):
        picked = chance.choices(pairs, k=len(pairs))
        drawn.append(sum(a for a, _ in picked) / sum(b for _, b in picked))
    drawn.sort()
    assert found.value == pytest.approx(sum(a for a, _ in pairs) / sum(b for _, b in pairs))
    assert found.low == pytest.approx(drawn[100], abs=0.03)
    assert found.high == pytest.approx(drawn[3900], abs=0.03)
    again = measured(tmp_path / "run.db", resamples=4000).arms[0].figures["documentation_first"]
    assert again == found


def test_arms_are_measured_over_the_tasks_that_all_have(tmp_path: Path) -> None:
    none, fifo, own = parse_arms(["none", "fifo", "prompting"], CONFIG.compressor, default_template())
    turns = [turn("manual"), turn("look"), turn("paint")]
    made: dict[str, list[tuple[Arm | None, int, Trajectory]]] = {
        "a": [
            (none, 0, trajectory(turns)),
            (fifo, 0, trajectory(turns, boundary(1, ["#red"], None))),
            (own, 0, trajectory(turns, boundary(1, ["#red"], "#red"))),
        ],
        "b": [(none, 0, trajectory([turn("manual")] * 9))],
    }
    found = measured(run_of(tmp_path / "run.db", made))
    assert found.left_out == 1
    assert [arm.label for arm in found.arms] == ["none", "fifo", "prompting/history"]
    assert {key: f.value for key, f in found.arms[0].figures.items()} == {"documentation_calls": 1}
    assert set(found.arms[1].figures) == {"documentation_first", "steps_to_change", "documentation_calls"}
    assert found.arms[2].figures["steps_to_change"] == Ratio(2, 2, 2, 1)
    table = behaviour_table(found)
    titles = [column.title for column in table.columns]
    held = ["colours held, %", "calls held, %"]
    assert titles == [
        *("arm", "compactions", "look-up first, %", "steps to change", "colours kept, %", *held, "look-ups a task"),
    ]
    assert [cell is None for cell in table.rows[0]] == [False, False, *[True] * 5, False]
    assert [cell is None for cell in table.rows[1]] == [False, False, False, False, *[True] * 3, False]
    json.dumps(to_json(found))
    assert any("20" in numbers_in(note) for note in table.notes)


def test_without_hooks_literals_are_counted_and_the_rest_is_asked_for(tmp_path: Path) -> None:
    one = trajectory([turn("look"), turn("manual")], boundary(1, ['"Ada" paid 12.50 for t-77'], "Ada paid 12.50."))
    found = measured(run_of(tmp_path / "run.db", {"a": [(None, 0, one)]}), SILENT)
    (arm,) = found.arms
    assert set(arm.figures) == {"kept.literals", "held.literals"}
    assert arm.figures["kept.literals"].value == pytest.approx(2 / 3)
    below = " ".join(behaviour_table(found).notes)
    assert "behaviour(action)" in below
    assert "docs/environments.md" in below
    assert "literals(text)" in below
    bare = trajectory([turn("look"), turn("look")], boundary(1, ["nothing that counts"], "nor here"))
    (arm,) = measured(run_of(tmp_path / "bare.db", {"a": [(None, 0, bare)]}), SILENT).arms
    assert {key: figure.value for key, figure in arm.figures.items()} == {"held.literals": 0}  # 0 of 0 is no share


def test_a_hook_that_fails_is_named(tmp_path: Path) -> None:
    def broken(action: Action) -> Behaviour | None:
        raise KeyError("colour")

    path = collected(tmp_path / "run.db")
    suite = function_suite("painting", [manual], {}, behaviour=broken)
    with pytest.raises(InputError, match=r"suite painting: behaviour .*KeyError: 'colour'.*docs/environments.md"):
        measured(path, suite)
    wrong = function_suite("painting", [manual], {}, behaviour=lambda action: "writing")  # type: ignore[arg-type,return-value]
    with pytest.raises(InputError, match=r"'writing': .*documentation, mutation, read"):
        measured(path, wrong)


def test_runs_with_nothing_in_them_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"empty\.db"):
        measured(run_of(tmp_path / "empty.db", {}))
    none, fifo = parse_arms(["none", "fifo"], CONFIG.compressor, default_template())
    made: dict[str, list[tuple[Arm | None, int, Trajectory]]] = {
        "a": [(none, 0, trajectory([turn()]))],
        "b": [(fifo, 0, trajectory([turn()]))],
    }
    with pytest.raises(InputError, match=r"apart\.db"):
        measured(run_of(tmp_path / "apart.db", made))


def test_pocket_goes_by_its_table_of_apis() -> None:
    suite = PocketSuite()
    for spec in CATALOGUE:
        expected = "documentation" if spec.app == "documentation" else "mutation" if spec.changes else "read"
        assert suite.behaviour(Action("call_api", {"app": spec.app, "api": spec.name})) == expected
        assert suite.literals(f"Call {spec.signature}.")["signatures"] == (spec.full_name,)
        if any(parameter.required for parameter in spec.parameters):
            assert suite.literals(f"{spec.full_name} was looked up")["signatures"] == ()
    for action in (
        Action("finish", {"answer": "done"}),
        Action("call_api", {"app": "payments", "api": "invented"}),
        Action("call_api", {"app": ["payments"], "api": {}}),
        Action("show_apis", {"app": "documentation", "api": "show_apis"}),
        Action("", text="payments.send_money"),
    ):
        assert suite.behaviour(action) is None
    text = 'Token pay-0123abcd, {"id":"t1234"}, pay-0123abcd again, not xpay-0123abcd1 nor t123.'
    kinds = {kind: set(literals) for kind, literals in suite.literals(text).items()}
    assert kinds == {"tokens": {"pay-0123abcd"}, "ids": {"t1234"}, "signatures": set()}


@pytest.mark.parametrize("command", ["collect", "audit", "wrap", ""])
def test_every_run_but_an_evaluation_is_one_arm(tmp_path: Path, command: str) -> None:
    path = collected(tmp_path / "run.db")
    with Store.open(path) as store:
        store.set_metadata(replace(store.metadata, command=command))
    (arm,) = measured(path, resamples=10).arms
    assert (arm.tasks, arm.trajectories) == (3, 3)


def test_arms_are_measured_over_all_runs_that_they_share(tmp_path: Path) -> None:
    none, fifo = parse_arms(["none", "fifo"], CONFIG.compressor, default_template())
    once, twice = trajectory([turn("manual")]), trajectory([turn("manual"), turn("manual")])
    made: dict[str, list[tuple[Arm | None, int, Trajectory]]] = {
        "a": [(none, 0, once), (none, 1, twice), (none, 2, once), (fifo, 0, once), (fifo, 1, once)]
    }
    found = measured(run_of(tmp_path / "run.db", made), resamples=10)
    assert [(arm.label, arm.tasks, arm.trajectories) for arm in found.arms] == [("none", 1, 2), ("fifo", 1, 2)]
    assert [arm.figures["documentation_calls"].value for arm in found.arms] == [1.5, 1.0]
    assert found.suite == "painting"
    assert not found.simulated


def test_an_arm_of_which_nothing_is_finished_does_not_take_part(tmp_path: Path) -> None:
    none, fifo = parse_arms(["none", "fifo"], CONFIG.compressor, default_template())
    path = run_of(tmp_path / "run.db", {"a": [(none, 0, trajectory([turn("look")]))]})
    with Store.open(path) as store:
        note_arms(store, [fifo])
    assert [arm.label for arm in measured(path, resamples=10).arms] == ["none"]


def test_only_the_first_action_of_the_first_turn_is_the_first(tmp_path: Path) -> None:
    looked_up = trajectory([turn("look"), turn("look", "manual")], boundary(1, ["x"], "y"))
    changed = trajectory([turn("look"), turn("manual", "paint"), turn("paint")], boundary(1, ["x"], "y"))
    found = measured(
        run_of(tmp_path / "run.db", {"a": [(None, 0, looked_up)], "b": [(None, 0, changed)]}), resamples=10
    )
    figures = found.arms[0].figures
    assert (figures["documentation_first"].value, figures["documentation_first"].of) == (0.5, 2)
    assert figures["steps_to_change"].value == 1  # one to the end, one to the change


def test_a_compaction_without_a_summary_keeps_nothing_that_could_be_counted(tmp_path: Path) -> None:
    made = trajectory([turn("look"), turn("paint")], boundary(1, ["#red"], None))
    for suite in (PAINTING, SILENT):
        (arm,) = measured(run_of(tmp_path / f"{suite.name}.db", {"a": [(None, 0, made)]}), suite, 10).arms
        assert not any(key.startswith(("kept.", "held.")) for key in arm.figures)
        assert arm.compactions == 1


def test_a_literal_that_stands_only_in_the_summary_is_held_but_not_kept(tmp_path: Path) -> None:
    made = trajectory([turn("look"), turn("look")], boundary(1, ["#red"], "#blue"))
    (arm,) = measured(run_of(tmp_path / "run.db", {"a": [(None, 0, made)]}), resamples=10).arms
    assert (arm.figures["kept.colours"].value, arm.figures["held.colours"].value) == (0, 1)
    assert "kept.calls" not in arm.figures  # none was consumed
    assert arm.figures["held.calls"].value == 0
    plain = trajectory([turn("look"), turn("look")], boundary(1, ["paid 12.50"], "paid 99.75"))
    (arm,) = measured(run_of(tmp_path / "plain.db", {"a": [(None, 0, plain)]}), SILENT, 10).arms
    assert (arm.figures["kept.literals"].value, arm.figures["held.literals"].value) == (0, 1)


# --- tables and words


def made_of(**figures: Ratio) -> ArmBehaviour:
    by_key = {key.replace("__", "."): figure for key, figure in figures.items()}
    return ArmBehaviour("pair", 30, 60, 12, by_key)


def shown(*arms: ArmBehaviour, **settings: Any) -> Behaviours:
    known = {"says_behaviour": True, "says_literals": True, "left_out": 0, "simulated": False, **settings}
    return Behaviours("painting", arms, **known)


HALF = Ratio(0.5, 0.25, 0.75, 4)


def test_shares_are_in_per_cent_and_means_are_not() -> None:
    arm = made_of(documentation_first=HALF, steps_to_change=HALF, kept__calls=HALF, held__calls=HALF)
    table = behaviour_table(shown(arm))
    assert table.title.startswith("painting: ")
    assert [column.key for column in table.columns] == [
        *("arm", "compactions", "documentation_first", "steps_to_change", "kept_calls", "held_calls"),
    ]
    texts = [cell.text if isinstance(cell, Number) else cell for cell in table.rows[0]]
    assert texts == ["pair", 12, "50 [25, 75]", "0.5 [0.2, 0.8]", "50 [25, 75]", "50 [25, 75]"]


@pytest.mark.parametrize(("tasks", "narrow"), [(1, True), (19, True), (20, False)])
def test_few_tasks_are_told(tasks: int, narrow: bool) -> None:
    found = notes(shown(replace(made_of(), tasks=tasks)))
    assert numbers_in(found[0]) == [str(tasks), "95", "10,000"]
    assert any(numbers_in(note) == ["20"] for note in found) is narrow


def test_notes_say_what_is_counted_and_what_is_missing() -> None:
    arm = made_of()
    whole = notes(shown(arm))
    assert [note.split(":")[0] for note in whole[1:]] == ["look-up first", "kept"]
    silent = notes(shown(arm, says_behaviour=False, says_literals=False, left_out=2, simulated=True))
    assert "'painting'" in silent[1]
    assert "'painting'" in silent[3]
    assert numbers_in(silent[4]) == ["2"]
    assert silent[5] == SIMULATED
    assert to_json(shown(arm, simulated=True))["notes"][-1] == SIMULATED
