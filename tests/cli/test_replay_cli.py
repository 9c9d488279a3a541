"""`replay` and `show` of an evaluation as a person meets them, on the embedded world."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import recompact, served
from needs import ROOT
from replay_support import CODE, CONFIG, HERE, KEEP, Keeper, Opener, told

from recompact.engine.config import CompressorConfig
from recompact.engine.execution.scheduler import Unfinished, UnfinishedUnit
from recompact.engine.store.adaptations import AdaptationRecord, write_adaptation
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.runs import boundary_rows
from recompact.engine.store.store import Store
from recompact.evaluation import replay as replaying
from recompact.evaluation.arms import note_arms, parse_arms
from recompact.evaluation.evaluate import unit_of
from recompact.models.failures import Overloaded
from recompact.values.candidate import Candidate, Clause, Fit, Selection
from recompact.values.chat import Message, ToolCall, Usage, user
from recompact.values.context import Context, Turn
from recompact.values.template import default_template
from recompact.values.trajectory import Score, Trajectory

TASKS = '["pocket-train-001", "pocket-train-004"]'


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collected and an evaluated run, and a template."""
    home = tmp_path_factory.mktemp("replay")
    config = home / "small.toml"
    config.write_text(f"[suite]\ntasks = {TASKS}\n[compressor]\nbudget = 2048\n")
    own = default_template()
    replace(own, system=f"{own.system}\nKeep every id.").save(home / "mine")
    collected = recompact("collect", config)
    assert collected.returncode == 0, collected.stderr
    config.write_text(config.read_text().replace(f"tasks = {TASKS}\n", "limit = 3\n"))
    arms = ("--arm", "none", "--arm", "prompting", "--arm", f"pair={home / 'mine'}")
    evaluated = recompact("evaluate", config, *arms, "--runs", 2)
    assert evaluated.returncode == 0, evaluated.stderr
    config.write_text(f"[suite]\ntasks = {TASKS}\n[compressor]\nbudget = 2048\n")
    return home


def run(home: Path) -> Path:
    return home / "runs" / "small.db"


def evaluation(home: Path) -> Path:
    return home / "runs" / "small-evaluate.db"


def boundary(home: Path) -> str:
    with Store.read(run(home)) as store:
        row = boundary_rows(store)[0]
    return f"{row.task}#{row.index}"


def test_replay_prints_conditions_and_a_verdict_and_is_there_the_next_time(home: Path) -> None:
    command = ("replay", run(home), boundary(home), "--template", f"pair={home / 'mine'}", "--draws", 2)
    collected = recompact("collect", home / "small.toml").stdout.splitlines()[-1]
    done = recompact(*command)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["PRE", "POST", "control", "pair"]
    assert "Simulated models" in done.stdout
    (judged,) = [line for line in lines if line.startswith("pair: ")]
    assert judged.startswith(("pair: closed: ", "pair: not closed: "))
    digest = lines[-1]
    assert digest.startswith("digest: ")
    # Nothing is made twice, by whichever way the run is named.
    again = recompact("replay", home / "small.toml", *command[2:], "--json")
    told = json.loads(again.stdout)
    assert f"digest: {told['digest']}" == digest == again.stderr.strip()
    assert [c["name"] for c in told["conditions"]] == ["PRE", "POST", "control", "pair"]
    assert [len(c["draws"]) for c in told["conditions"]] == [2, 0, 2, 2]
    assert told["conditions"][3]["draws"][0]["summary"].startswith("#")
    assert told["verdicts"][0]["words"] in judged
    assert told["simulated"]
    assert recompact("collect", home / "small.toml").stdout.splitlines()[-1] == collected
    shown = recompact(*command, "--summaries").stdout
    assert "pair 1: " in shown
    assert told["conditions"][3]["draws"][1]["summary"].splitlines()[0] in shown


def test_a_case_is_closed_from_the_command_line(tmp_path: Path) -> None:
    """Collected, verified and replayed over the network: the run's own prompt loses the code again, one keeps it."""
    config = tmp_path / "vault.toml"
    told(KEEP).save(tmp_path / "keeping")
    told("Be brief.").save(tmp_path / "idle")
    with served({"agent": Opener(), "noter": Keeper()}) as server:
        text = CONFIG.replace("replay_support.py:vault", f"{HERE}:vault")
        config.write_text(text.replace("http://127.0.0.1:9/v1", server.base_url))
        for command in (("collect", config), ("verify", config, "--draws", 3)):
            done = recompact(*command)
            assert done.returncode == 0, done.stderr
        listed = json.loads(recompact("boundaries", "vault", "--json", cwd=tmp_path).stdout)
        (worst, *_) = listed["boundaries"]
        templates = [f"--template={name}={tmp_path / name}" for name in ("keeping", "idle")]
        done = recompact("replay", config, worst["boundary"], *templates, "--summaries")
        assert done.returncode == 0, done.stderr
        asked = sum(server.received.values())
        again = json.loads(recompact("replay", config, worst["boundary"], *templates, "--json").stdout)
        assert sum(server.received.values()) == asked
    assert (worst["H"], worst["channel"]) == (1.0, "error")
    rows = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if "/3 " in line}
    assert rows.items() >= {"PRE": "3/3", "POST": "0/3", "control": "0/3", "keeping": "3/3", "idle": "0/3"}.items()
    (closed,) = [line for line in done.stdout.splitlines() if line.startswith("keeping: ")]
    assert closed == (
        "keeping: closed: the defect recurs with the control (H +1.00, B +0.0) and is gone with keeping"
        " (H +0.00, B +0.0), whose summaries keep 1.0 of 1 needed facts instead of 0.0."
    )
    assert "idle: not closed: the harm is still there with idle (H +1.00, B +0.0); the summaries of idle" in done.stdout
    assert f"The code is {CODE}." in done.stdout
    assert "Simulated" not in done.stdout
    assert [(v["template"], v["closed"]) for v in again["verdicts"]] == [("keeping", True), ("idle", False)]
    assert again["needed"] == [CODE]
    kept = {condition["name"]: condition["kept"] for condition in again["conditions"]}
    assert kept == {"PRE": None, "POST": 0, "control": 0, "keeping": 1, "idle": 0}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pocket-train-001#1",), "give --template NAME=DIRECTORY"),
        (("pocket-train-001#1", "--template", "mine"), "write NAME=DIRECTORY"),
        (("pocket-train-001#1", "--template", "a=HOME/mine", "--template", "a=HOME/mine"), "given twice"),
        (("pocket-train-001#1", "--template", "a=HOME/nothing"), "is not a template directory"),
        (("pocket-train-001#77", "--template", "a=HOME/mine"), "pocket-train-001#1"),
        (("pocket-train-099#1", "--template", "a=HOME/mine"), "has no boundary"),
    ],
)
def test_replay_refuses_in_words(home: Path, arguments: tuple[str, ...], said: str) -> None:
    done = recompact("replay", run(home), *(text.replace("HOME", str(home)) for text in arguments))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_replay_of_an_evaluation_is_refused(home: Path) -> None:
    done = recompact("replay", evaluation(home), "pocket-test-001#1", "--template", f"a={home / 'mine'}")
    assert done.returncode == 2
    assert "is an evaluation" in done.stderr


def test_replay_stops_at_a_ceiling_and_goes_on(home: Path) -> None:
    config = home / "small.toml"
    plain = config.read_text()
    with Store.read(run(home)) as store:
        spent = sum(usage.total for usage in store.spent().values())
    config.write_text(f"{plain}[ceiling]\ntokens = {spent + 2000}\n")
    command = ("replay", run(home), boundary(home), "--template", f"pair={home / 'mine'}", "--draws", 4)
    low = recompact(*command)
    config.write_text(plain)
    assert low.returncode == 3
    assert "raise [ceiling] tokens" in low.stderr
    assert recompact(*command).returncode == 0


def test_replay_that_is_stopped_or_unfinished_says_how_to_go_on(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("replay", run(home), boundary(home), "--template", f"pair={home / 'mine'}", "--draws", 1)
    whole = replaying.replay

    async def unfinished(*arguments: Any, **more: Any) -> replaying.Replay:
        found = await whole(*arguments, **more)
        failed = UnfinishedUnit("replay/some/unit", Overloaded("busy"))
        raise Unfinished([failed], replace(found, left_out={"replay/other": "gone\x1b[2J"}))

    monkeypatch.setattr("recompact.cli.replay.replay", unfinished)
    done = recompact(*command)
    assert done.returncode == 1
    assert "not finished: replay/some/unit (overload): busy" in done.stderr
    assert "left out: replay/other: gone␛[2J" in done.stderr
    assert done.stderr.count("retry with: recompact replay ") == 2
    assert "digest" not in done.stdout

    async def stopped(*arguments: Any, **more: Any) -> replaying.Replay:
        raise KeyboardInterrupt

    monkeypatch.setattr("recompact.cli.replay.replay", stopped)
    done = recompact(*command)
    assert done.returncode == 130
    assert "resume with: recompact replay" in done.stderr


def test_behaviour_of_an_evaluation(home: Path) -> None:
    done = recompact("show", evaluation(home), "--behaviour")
    assert done.returncode == 0, done.stderr
    for said in ("look-up first, %", "steps to change", "tokens kept, %", "signatures kept, %", "look-ups a task"):
        assert said in " ".join(done.stdout.split())
    told = json.loads(recompact("show", evaluation(home), "--behaviour", "--json").stdout)
    assert [arm["label"] for arm in told["arms"]] == ["none", "prompting/history", "pair/history"]
    assert set(told["arms"][0]["figures"]) == {"documentation_calls"}
    assert told["arms"][1]["trajectories"] == 6
    assert recompact("show", evaluation(home), "--behaviour", "--full").returncode == 2


def test_behaviour_of_a_collected_run_is_what_its_messages_say(home: Path) -> None:
    told = json.loads(recompact("show", run(home), "--behaviour", "--json").stdout)
    (arm,) = told["arms"]
    calls = looked_up = first = compactions = 0
    for task in json.loads(TASKS):
        (shown,) = json.loads(recompact("show", run(home), task, "--json").stdout)
        steps = []
        for turn in shown["turns"]:
            apps = [json.loads(arguments).get("app") for _, _, arguments in turn[0].get("calls", [])]
            steps.append(apps[0] if apps else None)
            looked_up += apps.count("documentation")
        calls += 1
        for boundary in shown["boundaries"]:
            compactions += 1
            first += steps[boundary["step"]] == "documentation"
    assert arm["compactions"] == compactions > 0
    assert arm["figures"]["documentation_calls"]["value"] == pytest.approx(looked_up / calls)
    assert arm["figures"]["documentation_first"]["value"] == pytest.approx(first / compactions)


def test_behaviour_of_a_run_whose_config_has_another_suite_is_refused(home: Path) -> None:
    config = home / "small.toml"
    plain = config.read_text()
    config.write_text(plain.replace("[suite]\n", '[suite]\nuse = "other.py:suite"\n'))
    done = recompact("show", run(home), "--behaviour")
    config.write_text(plain)
    assert done.returncode == 2
    assert "was made with the suite 'pocket'" in done.stderr
    assert "now has 'other.py:suite'" in done.stderr


def test_every_key_of_the_json_is_on_its_page(home: Path) -> None:
    """Programs rely on names: one that is changed or added must be written down."""

    def asked(*arguments: object) -> Any:
        return json.loads(recompact(*arguments, "--json").stdout)

    def listed(page: str, *documents: dict[str, Any]) -> None:
        text = (ROOT / "docs" / f"{page}.md").read_text()
        for document in documents:
            assert [key for key in document if f"`{key}`" not in text] == []

    made = evaluation(home)
    shown, two = asked("compare", made), asked("compare", made, "pair", "none", "--by", "difficulty")
    arm = {key: value for key, value in shown["arms"][1].items() if not key.startswith(("pass", "tokens."))}
    listed("evaluation", shown, arm, shown["comparisons"][0], two, two["differences"][0])
    moved = asked("compare", made, made, "--by", "model")
    listed("evaluation", moved, moved["parts"][0])
    seen = asked("show", made, "--behaviour")
    listed("behaviour", seen, seen["arms"][1])
    found = asked("replay", run(home), boundary(home), "--template", f"pair={home / 'mine'}", "--draws", 1)
    listed("replay", found, found["conditions"][2], found["conditions"][2]["draws"][0], found["verdicts"][0])


def test_show_lists_arms_tasks_and_trajectories(home: Path) -> None:
    done = recompact("show", evaluation(home))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (heading,) = [line for line in lines if line.startswith("task ")]
    assert heading.split() == ["task", "none", "prompting/history", "pair/history"]
    tasks = [line.split() for line in lines if line.startswith("pocket-test-")]
    assert [line[0] for line in tasks] == ["pocket-test-000", "pocket-test-001", "pocket-test-002"]
    assert all(set(line[1]) <= set("+-") and len(line[1]) == 2 for line in tasks)
    assert any(line.startswith("pair/history") and "template " in line for line in lines)
    told = json.loads(recompact("show", evaluation(home), "--json").stdout)
    assert [arm["name"] for arm in told["arms"]] == ["none", "prompting", "pair"]
    assert len(told["rows"]) == 3 * 3 * 2
    assert {row["run"] for row in told["rows"]} == {1, 2}
    of_pair = [row for row in told["rows"] if row["arms"] == ["pair/history"]]
    assert len(of_pair) == 6
    marks = {row["task"]: "" for row in of_pair}
    for row in sorted(of_pair, key=lambda row: row["run"]):
        marks[row["task"]] += "+" if row["success"] else "-"
    assert {line[0]: line[-2] for line in tasks} == marks


def test_show_prints_one_trajectory_of_an_arm(home: Path) -> None:
    (row,) = [
        row
        for row in json.loads(recompact("show", evaluation(home), "--json").stdout)["rows"]
        if row["arms"] == ["pair/history"] and row["task"] == "pocket-test-002" and row["run"] == 2
    ]
    assert row["compactions"] > 0
    done = recompact("show", evaluation(home), "pocket-test-002", "--arm", "pair/history", "--run", 2)
    assert done.returncode == 0, done.stderr
    assert "pocket-test-002, pair/history, run 2 of 2" in done.stdout
    assert f"boundary {row['compactions']}: " in done.stdout
    assert f"after {row['steps']} steps, {row['compactions']} compactions" in done.stdout
    both = recompact("show", evaluation(home), "pocket-test-002", "--arm", "pair").stdout
    assert "run 1 of 2" in both
    assert "run 2 of 2" in both
    (whole,) = json.loads(
        recompact("show", evaluation(home), "pocket-test-002", "--arm", "pair", "--run", 2, "--json").stdout
    )
    assert (whole["arm"], whole["run"], whole["steps"]) == ("pair/history", 2, row["steps"])
    listed = recompact("show", evaluation(home), "pocket-test-002").stdout
    assert listed.count("pair/history  ") == 2
    assert "boundary 1:" not in listed
    assert "--arm pair/history --run 2" in listed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pocket-test-002", "--arm", "nobody"), "choose one of none, prompting/history, pair/history"),
        (("pocket-test-002", "--arm", "pair", "--run", "3"), "there are runs 1, 2"),
        (("pocket-test-02",), "has no trajectory of task 'pocket-test-02'; it has pocket-test-00"),
        (("--arm", "pair"), "name the task"),
        (("pocket-test-002", "--run", "0"), "--run"),
    ],
)
def test_show_refuses_in_words(home: Path, arguments: tuple[str, ...], said: str) -> None:
    done = recompact("show", evaluation(home), *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    collected = recompact("show", run(home), "pocket-train-001", "--arm", "pair")
    assert collected.returncode == 2
    assert "is not an evaluation" in collected.stderr


def test_show_lets_no_text_steer_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J[bold]gone\x1b]0;owned\x07 \u202egnp.exe"
    (arm,) = parse_arms(["none"], CompressorConfig(), default_template())
    calls = (ToolCall("c", f"rm{evil}", "{}"),)
    turn = Turn(Message("assistant", evil, calls), (Message("tool", evil, call_id="c"),), 10)
    made = Trajectory(
        f"task{evil}", (turn,), (), "environment error", Score.of(False), Context((user(evil),)), error=evil
    )
    path = tmp_path / "evil.db"
    with Store.open(path) as store:
        store.set_metadata(replace(store.metadata, command="evaluate", identity={}, suite="evil"))
        note_arms(store, [arm])
        made = replace(made, usage={"agent": Usage(1, 1, 0, 0, 1)})
        write_trajectory(store, unit_of(arm.key, made.task, 0), made, phase="evaluate", run=0, groups={}, seconds=0)
    for arguments in ((), (made.task,), (made.task, "--arm", "none", "--full")):
        shown = recompact("show", path, *arguments)
        assert shown.returncode == 0, shown.stderr
        assert "\x1b" not in shown.stdout
        assert "\x07" not in shown.stdout
        assert "\u202e" not in shown.stdout
        assert "[bold]gone" in shown.stdout  # and nothing is taken for markup


def test_all_cited_boundaries_in_one_table(home: Path, tmp_path: Path) -> None:
    """The winner's clauses say which; its template is tried where none is named."""
    path = tmp_path / "runs" / "small.db"
    path.parent.mkdir()
    shutil.copy(run(home), path)
    shutil.copy(home / "small.toml", tmp_path)
    refused = recompact("replay", tmp_path / "small.toml", "--cited", cwd=tmp_path)
    assert (refused.returncode, "cites a compaction" in refused.stderr) == (2, True)
    own = default_template()
    with Store.open(path) as store:
        ids = [f"{row.task}#{row.index}" for row in boundary_rows(store)][:2]
        clauses = (Clause("Keep every id.", "Goal", (ids[0], "gone#7")), Clause("Keep codes.", "Goal", tuple(ids)))
        winner = Candidate("candidate 1", replace(own, system=f"{own.system}\nKeep every id."), clauses)
        fits = (Fit("original", 1, 0, 9.0), Fit("candidate 1", 1, 1, 9.0))
        selection = Selection(fits, "candidate 1", ("t",))
        write_adaptation(store, AdaptationRecord("pair", "compaction", own.hash, (winner,), selection))
    done = recompact("replay", tmp_path / "small.toml", "--cited", "--draws", 1, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [each["boundary"] for each in found["replays"]] == sorted(ids)
    assert {each["verdicts"][0]["template"] for each in found["replays"]} == {"pair"}
    table = recompact("replay", tmp_path / "small.toml", "--cited", "--draws", 1, cwd=tmp_path)
    assert [line for id in ids for line in table.stdout.splitlines() if line.split()[:2] == [id, "pair"]]
    assert table.returncode == 0
    both = recompact("replay", tmp_path / "small.toml", ids[0], "--cited", cwd=tmp_path)
    assert both.returncode == 2
