"""What is wrong with [agent] is said before a run is begun, under the line of its own key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import recompact
from workspace_support import write_task

from recompact.agents import process
from recompact.agents.process import installation
from recompact.agents.settings import AgentSettings, defects_of, find_program
from recompact.environments import shell

SUITE = '[suite]\nuse = "workspace"\n[suite.options]\ntasks = "tasks"\n'
MODEL = '[models.m]\nid = "m"\nbase_url = "http://127.0.0.1:1/v1"\n[agent]\nmodel = "m"\nsandbox = "off"\n'
GOOD = 'command = ["sh", "-c", "{task}"]\n'


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('command = ["no-such-program", "{task}"]', "[agent] command: there is no program 'no-such-program'"),
        ('command = ["./agent.sh", "{task}"]', "[agent] command: AGENT is not executable"),
        ("command = []", "[agent] command is empty"),
        (GOOD + 'mask = ["("]', "[agent] mask: '(' is not a regular expression"),
        (GOOD + 'ids = ["a"]', "[agent] ids: 'a' needs a group"),
        (GOOD + 'replace = {"a" = "\\\\9"}', "[agent] replace: '\\\\9' cannot replace what 'a' matches"),
        (GOOD + 'files = {"../x" = ""}', "[agent] files: '../x' is not the path of a file"),
        (GOOD + 'files = {"" = ""}', "[agent] files: '' is not the path of a file"),
        (GOOD + 'files = {"a" = "", "a/b" = ""}', "[agent] files: 'a/b' lies below 'a'"),
        (GOOD + 'variables = {"A=B" = "c"}', "[agent] variables: 'A=B' is not a name for a variable"),
        (GOOD + 'readable = ["nowhere"]', "[agent] readable: it names"),
    ],
)
def test_a_defect_of_an_agent_is_found_before_a_run_is_begun(lines: str, problem: str, tmp_path: Path) -> None:
    write_task(tmp_path / "tasks")
    problem = problem.replace("AGENT", str(tmp_path / "agent.sh"))
    (tmp_path / "agent.sh").write_text("#!/bin/sh\n")
    config = tmp_path / "mine.toml"
    config.write_text(SUITE + MODEL + lines + "\n")
    last = config.read_text().count("\n")
    checked = recompact("check", config)
    assert checked.returncode == 2, checked.stdout
    assert f"line {last}: {problem}" in checked.stderr
    collected = recompact("collect", config)
    assert collected.returncode == 2
    assert f"line {last}: {problem}" in collected.stderr
    assert not list((tmp_path / "runs").glob("*.db"))


def test_a_machine_without_bubblewrap_hides_no_other_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "find_bubblewrap", lambda: (None, "there is none"))
    monkeypatch.setattr(process, "find_bubblewrap", lambda: (None, "there is none"))
    write_task(tmp_path / "tasks")
    config = tmp_path / "mine.toml"
    wrong = SUITE.replace("[suite.options]", 'tasks = ["other"]\n[suite.options]')
    config.write_text(wrong + MODEL.replace('sandbox = "off"\n', "") + GOOD + 'mask = ["("]\n')
    checked = recompact("check", config, "--json")
    assert checked.returncode == 2
    problems = json.loads(checked.stdout)["problems"]
    places = [problem.partition("] ")[0] + "] " + problem.partition("] ")[2].split(":")[0] for problem in problems]
    assert places == [
        "line 2: [suite] use",
        "line 3: [suite] tasks",
        "line 11: [agent] command",
        "line 12: [agent] mask",
    ]


def test_an_agent_without_defects_has_none(tmp_path: Path) -> None:
    settings = AgentSettings(
        command=("sh", "-c", "{task}"),
        variables={"A": "b"},
        files={"a/b.txt": "", "a/c.txt": ""},
        replace={"(a)b": "\\1"},
        ids=("id (a)",),
        mask=("a+",),
        readable=(tmp_path,),
    )
    assert list(defects_of(settings)) == []
    assert list(defects_of(AgentSettings(("{home}/run", "{task}")))) == []
    assert list(defects_of(AgentSettings(()), launched=True)) == []
    assert find_program("sh")[0] is not None


def test_a_program_of_node_modules_sees_the_packages_beside_it(tmp_path: Path) -> None:
    package, programs = tmp_path / "node_modules" / "agent" / "bin", tmp_path / "node_modules" / ".bin"
    package.mkdir(parents=True)
    programs.mkdir()
    (package / "agent.js").write_text("#!/usr/bin/env node\n")
    (programs / "agent").symlink_to("../agent/bin/agent.js")
    assert tmp_path / "node_modules" in installation(str(programs / "agent"))
