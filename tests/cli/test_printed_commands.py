"""A command that is printed can be pasted into a shell, whatever the names in it; and it resumes what was begun."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from commands import Done, recompact, served
from fakes import Noter, Reader
from made_up_runs import begin, collect
from sim_server import Server

from recompact.cli.main import COMMANDS
from recompact.cli.running import this_command
from recompact.engine.store.store import Store

ODD = "$(touch pwn)`id` it's"
SUITE = f"""
from fakes import look, read_all
from recompact.environments.functions import function_suite

tasks = {{name: ("Read all pages of a book.", read_all) for name in ({ODD!r}, "plain")}}
suite = function_suite("pages", [look], tasks, state={{"seen": []}})
"""
COMMAND = re.compile(rf"recompact ((?:{'|'.join(COMMANDS)}) .*)")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with served({"reader": Reader(), "noter": Noter()}, require_key=None) as running:
        yield running


def config_in(directory: Path, base_url: str, more: str = "") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / "suite.py").write_text(SUITE)
    path = directory / "books.toml"
    model = f'id = "NAME"\nbase_url = "{base_url}"\n'
    path.write_text(
        f'[suite]\nuse = "suite.py:suite"\n[models.reader]\n{model.replace("NAME", "reader")}'
        f'[models.noter]\n{model.replace("NAME", "noter")}[agent]\nmodel = "reader"\n'
        f'[compressor]\nmodel = "noter"\nbudget = 500\n[run]\nstep_limit = 20\n{more}'
    )
    return path


def printed_commands(done: Done) -> list[list[str]]:
    """The words of each command in what was said, as a shell would take them."""
    return [shlex.split(match[1].removesuffix("`.")) for match in COMMAND.finditer(done.stdout + done.stderr)]


def test_commands_that_are_printed_are_quoted(tmp_path: Path, server: Server) -> None:
    place = tmp_path / "my own $(runs)"
    config = config_in(place, server.base_url)
    run, evaluation = place / "runs" / "books.db", place / "runs" / "books-evaluate.db"
    asked: list[tuple[object, ...]] = [
        ("collect", config),
        ("boundaries", run),
        ("verify", config, "--draws", 1),
        ("boundaries", run),
        ("controls", run),
        ("evaluate", config, "--arm", "none", "--arm", "prompting", "--split", "train", "--runs", 2),
        ("show", evaluation),
        ("show", evaluation, ODD),
        ("boundaries", evaluation),
        ("adapt", config, "--until", "verify"),
        ("init", "mine", "--dir", place),
        ("prompts", "import", place / "prompt.md", "--to", place / "imported"),
    ]
    (place / "prompt.md").write_text("Summarise the work so far, with every name and number.")
    printed = []
    for arguments in asked:
        done = recompact(*arguments, cwd=tmp_path)
        assert done.returncode == 0 or arguments == ("boundaries", evaluation), done.stderr
        printed += printed_commands(done)
    whole = {word for words in printed for word in words}
    assert {str(run), str(evaluation), str(place / "mine.toml"), str(place / "imported")} <= whole, printed
    assert ODD in whole or f"{ODD}#1" in whole, printed
    for word in whole:
        assert "my own" in word or "own" not in word, printed
        assert "touch" not in word or ODD in word, printed


def test_a_command_is_printed_again_without_options_that_would_undo_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["recompact", "adapt", "my own.toml", "--from", "verify", "--json"])
    assert this_command(without=["--from"]) == "recompact adapt 'my own.toml' --json"
    monkeypatch.setattr("sys.argv", ["recompact", "adapt", "a.toml", "--from=verify"])
    assert this_command(without=["--from"]) == "recompact adapt a.toml"
    assert this_command() == "recompact adapt a.toml --from=verify"


def test_adapt_from_a_stage_resumes_without_doing_it_again(tmp_path: Path, server: Server) -> None:
    config = config_in(tmp_path / "my runs", server.base_url, "[ceiling]\ntokens = 1\n")
    done = recompact("adapt", config, "--from", "collect", "--until", "verify")
    assert done.returncode == 3, done.stderr
    assert f"resume with: recompact adapt '{config}' --until verify\n" in done.stderr


def test_an_evaluation_is_refused_by_commands_about_effects_with_a_config_that_is_there(
    tmp_path: Path, server: Server
) -> None:
    config = config_in(tmp_path / "place", server.base_url)
    arms = ("--arm", "prompting", "--split", "train", "--limit", 1)
    assert recompact("evaluate", config, *arms, cwd=tmp_path).returncode == 0
    evaluation = tmp_path / "place" / "runs" / "books-evaluate.db"
    for command in (("boundaries",), ("boundary",), ("controls",), ("verify",)):
        done = recompact(*command, evaluation, *(["plain#1"] * (command == ("boundary",))), cwd=tmp_path)
        assert done.returncode == 2
        assert f"{evaluation} is an evaluation" in done.stderr
        assert f"recompact collect {config} && recompact verify {config}." in done.stderr
    assert recompact("show", evaluation, "--behaviour", cwd=tmp_path).returncode == 0


def test_a_loop_is_verified_from_python(tmp_path: Path) -> None:
    with Store.open(tmp_path / "loop.db") as store:
        begin(store)
        store.set_metadata(replace(store.metadata, command="collect", suite="loop"))
        collect(store, "loop-1")
    for command in ("boundaries", "controls", "report", "verify"):
        more = ("--out", tmp_path / "page.html") if command == "report" else ()
        done = recompact(command, tmp_path / "loop.db", *more, cwd=tmp_path)
        assert "recompact.agent_suite makes of it: docs/loops.md" in done.stdout + done.stderr, command
        assert "recompact verify" not in done.stdout + done.stderr
