"""`recompact init --ci` writes a workflow whose steps work: they are taken from the file and run one by one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from commands import recompact

STEP = re.compile(
    r"^      - (?:name: (?P<name>.*)\n        )?run: (?:\|\n(?P<block>(?:          .*\n)+)|(?P<line>.*)\n)", re.M
)


def steps(workflow: Path) -> dict[str, str]:
    """The commands of a workflow, by the names of their steps."""
    found = STEP.finditer(workflow.read_text())
    return {each["name"]: textwrap.dedent(each["block"] or "") or each["line"] for each in found}


class Runner:
    """A checkout with `recompact` and a `pip` that installs nothing, as a job would have them."""

    def __init__(self, home: Path) -> None:
        tools = home / "tools"
        tools.mkdir()
        for name, line in (("recompact", f'exec {sys.executable} -m recompact "$@"'), ("pip", "exit 0")):
            (tools / name).write_text(f"#!/bin/sh\n{line}\n")
            (tools / name).chmod(0o755)
        self.summary = home / "summary.md"
        self.env = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(home),
            "GITHUB_BASE_REF": "main",
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        self.place = home / "checkout"

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]  # as GitHub calls it
        return subprocess.run(command, cwd=self.place, env=self.env, capture_output=True, text=True, check=False)


def test_the_steps_of_the_workflow_run(tmp_path: Path) -> None:
    origin, runner = tmp_path / "origin", Runner(tmp_path)
    assert recompact("init", "mine", "--ci", "--dir", origin).returncode == 0
    config = origin / "mine.toml"
    config.write_text(config.read_text().replace("limit = 20 ", "limit = 3  "))
    git = "git -c user.name=x -c user.email=x@example.com -c init.defaultBranch=main"
    runner.place = origin
    assert runner.run(f"{git} init -q && {git} add -A && {git} commit -qm first").returncode == 0
    checkout = tmp_path / "checkout"
    assert runner.run(f"{git} clone -q . {checkout}").returncode == 0
    runner.place = checkout
    commands = steps(checkout / ".github" / "workflows" / "compaction.yml")
    assert list(commands) == ["Install", "Check the config", "Take the prompt that is in use", "Gate"]
    for name, script in commands.items():  # nothing has changed yet
        done = runner.run(script)
        assert done.returncode == 0, (name, done.stdout, done.stderr)
    assert "not worse" in runner.summary.read_text()
    first = checkout / "compaction" / "first.md"
    first.write_text(first.read_text() + "\nKeep every id.\n")
    gate = commands["Gate"].replace("--pairs 60", "--pairs 2")
    done = runner.run(gate)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "::warning::" in done.stdout  # two pairs cannot tell
    assert (checkout / "gate.xml").read_text().count("<error") == 1
    first.write_text("nothing of a template")
    assert runner.run(gate).returncode == 2


def test_what_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('[compressor]\ntemplate = "prompts/mine"\n')
    (tmp_path / "prompts" / "mine").mkdir(parents=True)
    done = recompact("init", "own", "--ci", "--dir", tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / ".github" / "workflows" / "compaction.yml").read_text()
    assert "prompts/mine/**" in text
    assert "@" not in re.sub(r"actions/[\w-]+@v\d", "", text)
    assert not (tmp_path / "compaction").exists()
    again = recompact("init", "own", "--ci", "--dir", tmp_path)
    assert again.returncode == 2
    assert "compaction.yml" in again.stderr


@pytest.mark.parametrize("more", [("--suite",), ("--scope", "prefix"), ("--agent", "codex")])
def test_a_config_is_written_first(tmp_path: Path, more: tuple[str, ...]) -> None:
    assert recompact("init", "mine", "--ci", *more, "--dir", tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []
