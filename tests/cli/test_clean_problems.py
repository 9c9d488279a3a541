"""Mistakes that once ended in exit code 70, in advice that did not hold, or in output that no program could read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import fakes
import pytest
from commands import reading_config, recompact, served
from fakes import Noter, Reader
from sim_server import Server

from recompact.cli.running import report_unfinished
from recompact.engine.execution.scheduler import UnfinishedUnit
from recompact.models.failures import BadRequest, SetAside


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served({"reader": Reader(), "noter": Noter()}, require_key=None) as running:
        yield running


def test_units_that_were_set_aside_are_tried_again_with_retry(capsys: pytest.CaptureFixture[str]) -> None:
    report_unfinished([UnfinishedUnit("collect/a", SetAside("odd"))], "episode", "recompact collect a.toml")
    said = capsys.readouterr().err
    assert "1 episode is not finished; retry with: recompact collect a.toml --retry\n" in said
    report_unfinished([UnfinishedUnit("a", SetAside("odd"))] * 2, "draw", "recompact replay a", retry=False)
    said = capsys.readouterr().err
    assert "2 draws are not finished; retry with: recompact replay a\n" in said
    assert "--retry" not in said
    report_unfinished([UnfinishedUnit("a", BadRequest("no"))], "unit", "recompact adapt a.toml")
    assert "--retry" not in capsys.readouterr().err


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path, server: Server) -> None:
    (tmp_path / "runs").write_text("a file")
    config = tmp_path / "pages.toml"
    config.write_text(reading_config(f"{fakes.__file__}:pages_suite_4", server.base_url))
    done = recompact("collect", config)
    assert done.returncode == 2, done.stderr
    assert f"{tmp_path}/runs/pages.db cannot be written" in done.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[compressor]\ntemplate = "\\u0000"', "line 2: [compressor] template: '\\x00' has a NUL character"),
        ('[suite]\nuse = "pocket"\nhost = "envs.py:T"', "[suite] host: envs.py:T is a list, which opens no hosts"),
        ('[suite]\nuse = "pocket"\nhost = true\nreadable = ["no/such"]', "line 4: [suite] readable: it names"),
        ("[agent]\ntemperature = inf", "line 2: [agent] temperature must be"),
        ("[agent]\ntemperature = nan", "line 2: [agent] temperature must be"),
        ("[agent]\ntop_p = 1.5", "line 2: [agent] top_p must be"),
    ],
)
def test_check_says_what_is_wrong(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "envs.py").write_text("T = []\n")
    config = tmp_path / "mine.toml"
    config.write_text(text + "\n")
    done = recompact("check", config)
    assert done.returncode == 2, done.stdout
    assert problem in done.stderr


def test_check_says_once_how_hosts_are_protected_and_when_a_run_needs_a_name(tmp_path: Path) -> None:
    config = tmp_path / "my config.toml"
    config.write_text('[suite]\nuse = "pocket"\nhost = true\n')
    lines = recompact("check", config).stdout.splitlines()
    protection = next(line for line in lines if line.startswith("isolation: ")).removeprefix("isolation: ")
    assert sum(protection in line for line in lines) == 1
    assert any("'my config' is not a name for a run: give one with --run" in line for line in lines)


def test_what_an_environment_prints_stays_out_of_the_document(tmp_path: Path, server: Server) -> None:
    (tmp_path / "loud.py").write_text(
        "import fakes\nfrom recompact.environments.functions import function_suite\n"
        "def look(page: int, state: dict[str, list[int]]) -> str:\n"
        '    """Read one page."""\n'
        "    print('loud')\n"
        "    return fakes.look(page, state)\n"
        "tasks = {'one': ('Read all pages.', fakes.read_all)}\n"
        "suite = function_suite('loud', [look], tasks, state={'seen': []})\n"
    )
    config = tmp_path / "loud.toml"
    config.write_text(reading_config("loud.py:suite", server.base_url))
    done = recompact("collect", config, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trajectories"] == 1
    assert "loud" in done.stderr
