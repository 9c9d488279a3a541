"""No command lets a text steer the terminal or hide anything, wherever that text came from."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from commands import recompact
from report_support import add_boundary, claim, make_evaluation, make_verified
from run_files import change_rows

from recompact.adaptation.selection import fit_table
from recompact.cli.running import report_unfinished
from recompact.engine.execution.scheduler import UnfinishedUnit
from recompact.engine.store.records import write_trajectory
from recompact.engine.store.store import Store
from recompact.models.failures import ModelFailure
from recompact.values.candidate import Fit, Selection
from recompact.values.context import Context
from recompact.values.tables import FORMATS, render
from recompact.values.template import default_template
from recompact.values.texts import visible
from recompact.values.trajectory import Incident, Score, Trajectory

HIDDEN = "\u202egnp\u202c \u2066z\u2069 a\u200bb \u200f \ufeff\u00ad\u2028 \x1b[31m\x07\x00\x9b \U000e0041"
NAME = f"bad {HIDDEN}"
LEAKS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
MARK = "⟨U+202E⟩"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and templates with the text in every field that comes from elsewhere."""
    directory = tmp_path_factory.mktemp("visible")
    runs = directory / "runs"
    model = "m\u202eodel"
    make_evaluation(runs / "arms.db", names=[NAME], tasks=[NAME], model=model)
    make_evaluation(runs / "more.db", names=[NAME], tasks=[NAME], model=f"{model}\u200b")
    make_verified(runs / "mine.db", [HIDDEN], model=model)
    for name in ("arms", "more", "mine"):
        _spoil(runs / f"{name}.db")
    _add_incident(runs / "mine.db")
    template = default_template()
    replace(template, provenance={"harness": NAME, "notes": [NAME]}).save(directory / "before")
    replace(template, first=f"{template.first}\n## New {HIDDEN}\n{HIDDEN}\n").save(directory / "after")
    (directory / "bad\u202e.toml").write_text('[suite]\nuse = "pocket"\n[agent]\n"mo\\u202edel" = "x"\n')
    _behaviour_run(directory)
    return directory


def _spoil(run: Path) -> None:
    """What a run file can hold besides what models and environments wrote."""
    with Store.open(run) as store:
        store.set_metadata(replace(store.metadata, suite=NAME, version=NAME))
    change_rows(run, "UPDATE trajectories SET ending = ?", (NAME,))
    change_rows(run, "UPDATE continuations SET ending = ?, error = ?", (NAME, NAME))


def _add_incident(run: Path) -> None:
    incident = Incident(1, NAME, NAME)
    trajectory = Trajectory(
        "incident", (), (), "finished", Score.of(False), Context(()), incidents=(incident,), error=NAME
    )
    with Store.open(run) as store:
        write_trajectory(
            store, "collect/incident", trajectory, phase="collect", run=0, groups={NAME: NAME}, seconds=0.0
        )


def _behaviour_run(directory: Path) -> None:
    (directory / "pocket.toml").write_text('[suite]\nuse = "pocket"\n')
    with Store.open(directory / "runs" / "pocket.db") as store:
        claim(store, "collect")
        store.set_metadata(replace(store.metadata, suite="pocket", config_file="../pocket.toml"))
        identity = json.loads(json.dumps(dict(store.metadata.identity)))
        identity["compressor"]["kind"] = NAME
        store.set_metadata(replace(store.metadata, identity=identity))
        add_boundary(store, HIDDEN)


TASK = f"task {HIDDEN}"
COMMANDS = {
    "runs": ("runs",),
    "show": ("show", "mine"),
    "show a task": ("show", "mine", TASK),
    "show an incident": ("show", "mine", "incident"),
    "show a task in full": ("show", "mine", TASK, "--full"),
    "show an evaluation": ("show", "arms"),
    "show its task": ("show", "arms", NAME),
    "show its arm": ("show", "arms", NAME, "--arm", f"{NAME}/history"),
    "boundaries": ("boundaries", "mine"),
    "boundaries --all": ("boundaries", "mine", "--all"),
    "boundaries --csv": ("boundaries", "mine", "--csv"),
    "boundary": ("boundary", "mine", f"{TASK}#1"),
    "boundary --full": ("boundary", "mine", f"{TASK}#1", "--full"),
    **{f"compare {form}": ("compare", "arms", "--by", "family", "--details", "--format", form) for form in FORMATS},
    "compare two": ("compare", "arms", f"{NAME}/history", "prompting/history", "--by", "family"),
    "compare two runs": ("compare", f"arms:{NAME}/history", "more:prompting/history"),
    **{f"models {form}": ("compare", "arms", "more", "--by", "model", "--format", form) for form in FORMATS},
    "behaviour": ("show", "pocket", "--behaviour"),
    "figures": ("figures", "arms", "mine", "--out", "figures", "--format", "svg"),
    "report": ("report", "arms", "mine", "--json"),
    "prompts show": ("prompts", "show", "before"),
    "prompts show the parts": ("prompts", "show", "after"),
    "prompts diff": ("prompts", "diff", "before", "after"),
    "prompts lint": ("prompts", "lint", NAME),
    "check": ("check", "bad\u202e.toml"),
    "no such run": ("show", NAME),
    "no such task": ("show", "arms", f"no {NAME}"),
    "no such boundary": ("boundary", "mine", f"no {NAME}"),
    "unknown arm": ("compare", "arms", NAME, "nobody"),
    "no such group": ("compare", "arms", "--by", NAME),
}
JSON = (
    "show",
    "show a task",
    "show an evaluation",
    "boundaries",
    "boundary",
    "compare two",
    "behaviour",
    "prompts diff",
)
# A value in quotes is escaped, and some formats have no room for the text.
UNMARKED = ("no such run", "report", "compare latex", "prompts show the parts", "models json", "compare json")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_prints_what_is_not_seen(home: Path, name: str) -> None:
    for columns in (80, 140):
        done = recompact(*COMMANDS[name], columns=columns, cwd=home)
        assert "Traceback" not in done.stderr
        for output in (done.stdout, done.stderr):
            assert LEAKS.findall(output) == []
        said = re.sub(r"[│\s]+", "", done.stdout + done.stderr)  # marks may be broken over two lines
        if name not in UNMARKED:
            assert MARK in said


@pytest.mark.parametrize("name", JSON)
def test_json_is_safe_to_look_at_and_keeps_the_value(home: Path, name: str) -> None:
    done = recompact(*COMMANDS[name], "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    assert LEAKS.findall(done.stdout) == []
    assert "\u202egnp" in json.dumps(json.loads(done.stdout), ensure_ascii=False)


def test_the_page_and_the_drawings_show_it_too(home: Path) -> None:
    done = recompact("report", "arms", "mine", "--title", NAME, "--prompt", "before", "after", cwd=home)
    assert done.returncode == 0, done.stderr
    page = (home / "report.html").read_text(encoding="utf-8")
    assert LEAKS.findall(page) == []
    assert page.count(MARK) > 50
    assert recompact("figures", "arms", "--out", "svg", "--format", "svg", cwd=home).returncode == 0
    for file in (home / "svg").iterdir():
        assert LEAKS.findall(file.read_text(encoding="utf-8")) == []


def test_what_is_unfinished_and_what_was_selected(capsys: pytest.CaptureFixture[str]) -> None:
    report_unfinished([UnfinishedUnit(f"collect/{NAME}", ModelFailure(NAME))], "units", f"recompact collect {NAME}")
    assert LEAKS.findall(capsys.readouterr().err) == []
    selection = Selection((Fit("original", 2, 1, 3.0), Fit(NAME, 2, 2, 3.0)), NAME, ("t",))
    for form in FORMATS:
        assert LEAKS.findall(render(fit_table(selection), form)) == []


def test_visible_marks_each_of_them_and_nothing_else() -> None:
    assert LEAKS.findall(visible(NAME)) == []
    assert visible(visible(NAME)) == visible(NAME)
    assert visible("é 漢 👩\u200d🚀 \tx\n") == "é 漢 👩\u200d🚀 \tx\n"
