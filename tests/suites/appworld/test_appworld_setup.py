"""Where AppWorld is looked for, what agents may see of its data, and what is said where something is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from recompact.cli.setup import command
from recompact.environments.installations import HOME_VARIABLE, SetupFailed, SetupRequest, run_step
from recompact.environments.shaping import literals_of
from recompact.errors import InputError
from recompact.suites.appworld import installation as appworld_setup
from recompact.suites.appworld.installation import (
    DIFFICULTIES,
    PYTHON_VARIABLE,
    ROOT_VARIABLE,
    agents_view,
    check_package,
    data_root,
    host_needs,
    missing,
)
from recompact.suites.appworld.suite import AppWorldSuite
from recompact.values.trajectory import Action


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.delenv(ROOT_VARIABLE, raising=False)
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return tmp_path / "home"


def data(root: Path, *tasks: str) -> Path:
    """A root with the right parts, and files that nobody opens."""
    for part in ("datasets", "base_dbs", "api_docs/standard"):
        (root / "data" / part).mkdir(parents=True)
    (root / "data" / "base_dbs" / "admin.db").write_text("a database")
    (root / "data" / "datasets" / "train.txt").write_text("\n".join(tasks))
    for id in tasks:
        add_task(root, id)
    return root


def add_task(root: Path, id: str) -> None:
    place = root / "data" / "tasks" / id
    (place / "dbs").mkdir(parents=True)
    (place / "ground_truth").mkdir()
    (place / "specs.json").write_text(json.dumps({"instruction": f"do {id}"}))
    (place / "dbs" / "admin.jsonl").write_text("")
    (place / "ground_truth" / "answer.json").write_text('"secret"')
    (place / "ground_truth" / "metadata.json").write_text('{"difficulty": 2}')


def test_nothing_installed_names_the_way_out() -> None:
    assert "run `recompact setup appworld`" in (missing() or "")


def test_an_interpreter_without_the_package_is_named() -> None:
    with pytest.raises(InputError, match="has no package appworld"):
        check_package(sys.executable)


def test_missing_data_are_named(tmp_path: Path) -> None:
    (tmp_path / "data" / "tasks").mkdir(parents=True)
    with pytest.raises(InputError, match="has no datasets, base_dbs, api_docs; run `recompact setup appworld`"):
        data_root(str(tmp_path))
    with pytest.raises(InputError, match="has no tasks, datasets"):  # none named: where setup puts them
        data_root()


def test_the_view_of_agents_has_no_ground_truth(tmp_path: Path) -> None:
    root = data(tmp_path, "abc_1", "abc_2")
    view = agents_view(root)
    names = {str(path.relative_to(view)) for path in view.rglob("*") if path.is_file()}
    assert names == {
        DIFFICULTIES,
        "data/base_dbs/admin.db",
        "data/datasets/train.txt",
        *(f"data/tasks/{id}/{file}" for id in ("abc_1", "abc_2") for file in ("specs.json", "dbs/admin.jsonl")),
    }
    assert "secret" not in "".join(path.read_text() for path in view.rglob("*") if path.is_file())
    assert (root / "data" / "tasks" / "abc_1" / "ground_truth" / "answer.json").exists()
    inode = view.stat().st_ino
    assert agents_view(root).stat().st_ino == inode  # it is made once
    add_task(root, "abc_3")
    assert (agents_view(root) / "data" / "tasks" / "abc_3" / "specs.json").exists()


def test_tasks_with_their_groups(tmp_path: Path) -> None:
    suite = AppWorldSuite(str(agents_view(data(tmp_path, "abc_1"))))
    (task,) = suite.tasks("train")
    assert (task.id, task.text, task.groups) == ("abc_1", "do abc_1", {"difficulty": "2", "scenario": "abc"})
    with pytest.raises(InputError, match="has no split 'test'"):
        suite.tasks("test")


@pytest.mark.parametrize(
    ("code", "behaviour"),
    [
        ("apis.api_docs.show_app_descriptions()", "documentation"),
        ("print(apis.venmo.show_account(access_token=t))", "read"),
        ("apis.spotify.login(username='a', password='b')", "read"),
        ("for n in notes: apis.simple_note.delete_note(note_id=n)", "mutation"),
        ("apis.supervisor.complete_task()", None),
        ("print(1)", None),
    ],
)
def test_what_code_is_for(tmp_path: Path, code: str, behaviour: str | None) -> None:
    suite = AppWorldSuite(str(tmp_path))
    assert suite.behaviour(Action("execute_python", {"code": code})) == behaviour


def test_what_a_summary_kept(tmp_path: Path) -> None:
    """Tokens, and calls that can be made as they stand there: prose about an API is none."""
    suite = AppWorldSuite(str(tmp_path))
    token = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJwYXVsIn0.c2lnbmF0dXJlcw"
    kept = suite.literals(
        f"Token {token}. apis.phone.login(\n  username=<phone>, password=<p>), apis.venmo.show_account()"
    )
    assert kept == {"tokens": (token,), "signatures": ("phone.login",)}
    assert suite.literals("phone.login needs a username; apis.phone.login was read") == {"tokens": (), "signatures": ()}
    assert literals_of(suite, [""]) == [{"tokens": (), "signatures": ()}]


def test_hosts_of_agents_must_be_sandboxed_and_do_not_see_what_the_grader_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recompact.suites.appworld.installation.check_package", lambda python: None)
    root = data(tmp_path / "root", "abc_1")
    needs = host_needs({"root": "root", "seconds": 9}, sys.executable, tmp_path)
    assert needs.sandbox == "require"
    assert needs.options == {"root": str(root / "recompact-view"), "seconds": 9}
    assert needs.grader == {"root": str(root), "seconds": 9, "grading": True}


# -- recompact setup -------------------------------------------------------------------------------------------------


def offline(what: str, command: list[str], *rest: object, **more: object) -> str:
    """Every step succeeds but the one that needs the network."""
    if "requests" in command[2]:
        raise SetupFailed(f"{what} failed: https://example.org/data.bundle could not be fetched: ConnectionError")
    return ""


def test_setup_without_a_network_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(appworld_setup, "run_step", offline)
    monkeypatch.setattr(appworld_setup, "make_venv", lambda place, python, say: place / "bin" / "python")
    result = CliRunner().invoke(command, ["appworld"])
    assert result.exit_code == 1
    text = " ".join(result.output.split())
    assert "appworld is not ready: fetching the task data failed:" in text
    assert "only the task data are missing" in text
    assert "--from FILE" in text
    as_json = json.loads(CliRunner().invoke(command, ["appworld", "--json"]).output)
    assert (as_json["ready"], as_json["place"]) == (False, str(home / "appworld"))
    assert not (home / "appworld" / "root" / "data").exists()


def test_setup_takes_a_bundle_of_the_users(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> None:
    def unpacking(what: str, command: list[str], *rest: object, **more: object) -> str:
        if "unpack_bundle" in command[2]:
            assert command[3] == str(tmp_path / "mine.bundle")
            data(Path(command[4]), "abc_1")
        return ""

    monkeypatch.setattr(appworld_setup, "run_step", unpacking)
    monkeypatch.setattr(appworld_setup, "make_venv", lambda place, python, say: place / "bin" / "python")
    (tmp_path / "mine.bundle").write_text("")
    said: list[str] = []
    appworld_setup.setup(SetupRequest(home / "appworld", source=tmp_path / "mine.bundle"), said.append)
    assert (home / "appworld" / "root" / "recompact-view" / "data" / "tasks" / "abc_1").is_dir()
    assert [name for name in os.listdir(home / "appworld" / "root") if name.startswith("tmp")] == []
    appworld_setup.setup(SetupRequest(home / "appworld"), said.append)
    assert any("already exist" in text for text in said)


def test_a_file_that_is_no_bundle_is_refused(monkeypatch: pytest.MonkeyPatch, home: Path, tmp_path: Path) -> None:
    monkeypatch.setattr(appworld_setup, "run_step", lambda what, command, *rest: "")
    monkeypatch.setattr(appworld_setup, "make_venv", lambda place, python, say: place / "bin" / "python")
    (tmp_path / "cat.jpg").write_text("")
    with pytest.raises(SetupFailed, match="it is not the bundle of AppWorld's data"):
        appworld_setup.setup(SetupRequest(home / "appworld", source=tmp_path / "cat.jpg"), lambda text: None)


def test_a_failed_step_says_what_its_program_last_said() -> None:
    with pytest.raises(SetupFailed, match=r"counting failed: one / two / three \(count better\)"):
        run_step("counting", [sys.executable, "-c", "import sys; sys.exit('zero\\none\\ntwo\\nthree')"], "count better")
    with pytest.raises(SetupFailed, match="counting failed:"):
        run_step("counting", ["/no/such/program"])


def test_help_names_both_benchmarks() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "recompact", "setup", "--help"], capture_output=True, text=True, check=True
    )
    assert "appworld" in done.stdout
    assert "tau2-retail" in done.stdout
