"""Every command of the method on a run of an agent that is a command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_support import AGENT, CLAUSE, Adviser, Clerk, Forgetful, write_notes
from commands import recompact, served
from needs import needs
from test_wrap import PYTHON

pytestmark = needs("bubblewrap")


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Path]:
    write_notes(tmp_path / "tasks", "one", "two")
    command = [PYTHON, "{home}/agent.py", "responses", "stream", "{task}", "title"]
    with served({"clerk": Clerk(), "forgetful": Forgetful(), "adviser": Adviser()}) as server:
        path = tmp_path / "mine.toml"
        url = f'base_url = "{server.base_url}"\n'
        path.write_text(
            f'[suite]\nuse = "workspace"\n[models.clerk]\nid = "clerk"\n{url}'
            f'[models.forgetful]\nid = "forgetful"\n{url}'
            f'[models.adviser]\nid = "adviser"\n{url}'
            f'[agent]\nmodel = "clerk"\ncommand = {json.dumps(command)}\n'
            f'[agent.files]\n"agent.py" = {json.dumps(AGENT)}\n'
            '[compressor]\nmodel = "forgetful"\nbudget = 450\n[optimizer]\nmodel = "adviser"\n'
            '[run]\ncounter = "characters"\nstep_limit = 30\nconcurrency = 2\n'
            '[verify]\nallocation = "uniform:1"\n[adapt]\nmethod = "pair"\ncandidates = 1\n'
        )
        yield path


@pytest.mark.slow
def test_all_commands_work_on_a_run_of_an_agent(config: Path, tmp_path: Path) -> None:
    def done(*arguments: object) -> str:
        ended = recompact(*arguments, cwd=tmp_path)
        assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)
        return ended.stdout

    done("collect", config)
    verified = json.loads(done("verify", config, "--json"))
    assert [each["boundary"] for each in verified["retained"]] == ["one#1", "two#1"]
    assert verified["left_out"] == {}
    assert "pair-1 was selected: 2 of 2 runs passed" in done("adapt", config)
    template = tmp_path / "runs" / "mine-pair"
    assert CLAUSE in (template / "first.md").read_text()
    assert "blue-42" in done("boundary", "mine", "one#1", "--full")
    replayed = json.loads(done("replay", config, "one#1", "--template", f"new={template}", "--draws", "1", "--json"))
    (verdict,) = replayed["verdicts"]
    assert (verdict["recurs"], verdict["gone"], verdict["closed"]) == (True, True, True)
    arms = ("--arm", "none", "--arm", "prompting", "--arm", f"new={template}")
    evaluated = json.loads(done("evaluate", config, "--split", "train", "--runs", "1", *arms, "--json"))
    assert [(arm["name"], arm["acc"]) for arm in evaluated["arms"]] == [("none", 1.0), ("prompting", 0.0), ("new", 1.0)]
    assert all(arm["tokens.side"] == 12.0 for arm in evaluated["arms"]), "calls aside are counted by their role"
    done("report", "mine", "mine-evaluate", "--out", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "one#1" in page
    assert CLAUSE in page
    done("view", "mine", "--no-open", "--for", "0.2")
    for command in (("show",), ("boundaries",), ("show", "--behaviour")):
        done(command[0], "mine", *command[1:])
