"""`recompact check` names every mistake at once, with what would be right."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import fakes
import pytest
from commands import recompact

from recompact.environments.cluster import suite
from recompact.version import install_command


def check(tmp_path: Path, text: str, *options: str) -> tuple[int, list[str], list[str]]:
    (tmp_path / "c.toml").write_text(text)
    done = recompact("check", tmp_path / "c.toml", "--json", *options)
    data = json.loads(done.stdout)
    return done.returncode, data["problems"], data["notes"]


def test_one_mistake_does_not_hide_another(tmp_path: Path) -> None:
    code, problems, _ = check(
        tmp_path,
        """
[suite]
use = "pocket"
splt = "train"
split = "tset"
[run]
step_limit = "many"
[models.m]
id = "m"
base_url = "localhost:8000/v1"
[agent]
model = "nobody"
[compressor]
budget = 8
template = "nowhere"
[verify]
allocation = "guess"
[adapt]
method = "par"
""",
    )
    assert code == 2
    for words in (
        "line 4: [suite] has no key 'splt'; did you mean 'split'?",
        "line 5: [suite] split = 'tset' is not among the splits of pocket: train, dev, test",
        "line 7: [run] step_limit must be a valid integer",
        "line 10: [models.m] base_url = 'localhost:8000/v1' must begin with http:// or https://",
        "line 12: [agent] model = 'nobody' is not among the models",
        "line 15: [compressor] template: ",
        "line 17: [verify] allocation: there is no allocation 'guess'",
        "line 19: [adapt] method: there is no method 'par'",
    ):
        assert sum(problem.startswith(words) for problem in problems) == 1, (words, problems)
    assert [int(problem.split()[1].rstrip(":")) for problem in problems] == [4, 5, 7, 10, 12, 15, 17, 19]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[suite]\ntasks = ['pocket-train-1']",
            "line 2: [suite] tasks: there is no task 'pocket-train-1'; there are pocket-train-",
        ),
        ("[compressor]\nbudget = 8", "line 2: [compressor] budget = 8 is too small to be real: the headings"),
        (
            "[models.m]\nid = 'm'\nkey_env = 'NO_SUCH_KEY_HERE'\n[agent]\nmodel = 'm'",
            "line 3: [models.m] needs its key in the environment variable NO_SUCH_KEY_HERE: set it",
        ),
        (
            f"[suite]\nuse = '{fakes.__file__}:pages_suite'\nhost = true\noptions = {{ sise = 3 }}\n"
            "[agent]\nmodel='sim-agent'",
            "line 4: [suite.options] sise: suite ",
        ),
        (f"[suite]\nuse = '{fakes.__file__}:pages_suite_4'", "[agent] is missing: the simulated agent"),
        (f"[suite]\nuse = '{fakes.__file__}:pages_suite_4'\nsplit = 'x'\n[agent]\nmodel='sim-agent'", "the splits of"),
    ],
)
def test_what_would_only_show_later(text: str, words: str, tmp_path: Path) -> None:
    code, problems, _ = check(tmp_path, text)
    assert code == 2
    assert len(problems) == 1
    assert words in problems[0]


def test_a_mistake_in_a_model_is_named_whatever_else_is_wrong(tmp_path: Path) -> None:
    reader = f"use = '{fakes.__file__}:Reader'"
    code, problems, _ = check(
        tmp_path,
        f"""
[run]
step_limit = "many"
[models.a]
{reader}
options = {{ pags = 3 }}
[models.b]
use = "opena"
[models.c]
use = "opena"
price = {{ input = "much" }}
[agent]
model = "a"
[compressor]
model = "b"
[optimizer]
model = "c"
""",
    )
    assert code == 2
    for words in (
        "line 3: [run] step_limit must be",
        "line 11: [models.c.price] input must be",  # it was reported: its other mistake has to wait
        "line 6: [models.a.options] pags: there is no option 'pags'",
        "line 7: [models] b: there is no model 'opena'; did you mean 'openai'?",
    ):
        assert sum(problem.startswith(words) for problem in problems) == 1, (words, problems)
    assert len(problems) == 4


@pytest.mark.parametrize(
    "table",
    [
        "use = 'sim-agent'",
        f"use = '{fakes.__file__}:Reader'",
        "id = 'm'",  # the variable says where the server is
        "id = 'm'\nbase_url = 'http://127.0.0.2:8000/v1'",
    ],
)
def test_only_a_client_that_needs_a_key_is_asked_for_one(
    table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    code, problems, _ = check(tmp_path, f"[models.m]\n{table}\n[agent]\nmodel = 'm'")
    assert (code, problems) == (0, [])


def test_a_model_elsewhere_needs_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " ")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    code, problems, _ = check(tmp_path, "[models.m]\nid = 'm'\n[agent]\nmodel = 'm'")
    assert code == 2
    (problem,) = problems
    assert problem.startswith("line 1: [models.m] ")
    assert "OPENAI_API_KEY" in problem
    broken = "[models.m]\nid = 'm'\nbase_url = 'http://[::1'\n[agent]\nmodel = 'm'"
    wrong_address = "line 1: [models] m: base_url of model m must be like https://host:port/v1"
    code, both, _ = check(tmp_path, broken)
    assert code == 2
    assert both == [*problems, wrong_address]
    monkeypatch.setenv("OPENAI_API_KEY", "a-word-of-the-test")
    code, problems, _ = check(tmp_path, broken)
    assert code == 2
    assert problems == [wrong_address]


def test_what_is_in_force_is_said(tmp_path: Path) -> None:
    code, _, notes = check(tmp_path, "[compressor]\nbudget = 200")
    assert code == 0
    assert any(note.startswith("isolation: none") for note in notes)
    assert any(note.startswith("budget: 200 ") for note in notes)
    assert "suite pocket, split train: 90 tasks" in notes
    _, _, hosted = check(tmp_path, "[suite]\nhost = true")
    assert any(note.startswith("isolation: ") and not note.startswith("isolation: none") for note in hosted)


def test_a_cluster_is_asked_only_with_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, problems, _ = check(tmp_path, "[suite]\nhost = 'ray'")
    assert code == 2
    (problem,) = problems
    assert problem.startswith("line 2: [suite] host: ")
    assert problem.endswith(install_command("ray"))
    monkeypatch.undo()
    monkeypatch.setattr(suite, "missing", lambda: None)
    code, _, notes = check(tmp_path, "[suite]\nhost = 'ray'")
    assert code == 0
    assert any(note.startswith("isolation: ") for note in notes)
    assert "suite pocket, split train: 90 tasks" in notes


def test_one_task_is_played_and_its_environment_brought_back(tmp_path: Path) -> None:
    code, problems, notes = check(tmp_path, "", "--play")
    assert (code, problems) == (0, [])
    assert any(note.startswith("played pocket-train-") for note in notes)
    assert any("snapshots by state: passed" in note for note in notes)
    assert [path.name for path in tmp_path.iterdir()] == ["c.toml"]  # the run is thrown away


BROKEN = """
from recompact import function_suite
from fakes import look, read_all
seen = []

def page(page: int, state: dict) -> str:
    seen.append(page)  # outside the state: it does not come back
    return look(page, state) + f" ({len(seen)} in all)"
page.__name__ = "look"
suite = function_suite("books", [page], {"a": ("Read all pages.", read_all)}, state={"seen": []})
"""


def test_an_environment_that_does_not_come_back_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(BROKEN)
    model = f"[models.reader]\nuse = '{fakes.__file__}:Reader'\n[agent]\nmodel = 'reader'\n"
    code, problems, notes = check(tmp_path, f"[suite]\nuse = 's.py:suite'\n{model}", "--play")
    assert code == 2
    assert problems[0].startswith("[suite] use: replay equal: ")
    assert "action 1 (look)" in problems[0]
    assert "suite books, split train: 1 task" in notes


def test_the_schema_is_one_json_document() -> None:
    printed = [recompact("config", "schema", *options).stdout for options in ((), ("--json",))]
    assert printed[0] == printed[1]
    assert json.loads(printed[0])["$defs"]["CompressorConfig"]["properties"]["budget"]["default"] == 4096
