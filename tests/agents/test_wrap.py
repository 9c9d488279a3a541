"""`recompact wrap`, and `recompact check --play`, with an agent that is a command."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from agent_support import AGENT, Clerk, Forgetful, write_notes
from commands import recompact, served
from needs import needs

from recompact.values.chat import Request

pytestmark = needs("bubblewrap")
PYTHON = os.path.realpath(sys.executable)


def write_config(path: Path, url: str, agent: str = "") -> Path:
    model = f'base_url = "{url}"\n'
    path.write_text(
        f'[suite]\nuse = "workspace"\n[models.clerk]\nid = "clerk"\n{model}'
        f'[models.forgetful]\nid = "forgetful"\n{model}[agent]\nmodel = "clerk"\n{agent}'
        '[compressor]\nmodel = "forgetful"\nbudget = 450\n[run]\ncounter = "characters"\n'
    )
    return path


def _sizes(compaction: dict[str, int]) -> list[int]:
    return [compaction[key] for key in ("tokens_before", "tokens_after", "dropped_calls", "kept_calls")]


def test_an_agent_is_wrapped_where_it_is(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    (tmp_path / "agent.py").write_text(AGENT)
    place = tmp_path / "tasks" / "notes" / "files"
    out = tmp_path / "session.jsonl"
    with served({"clerk": Clerk(), "forgetful": Forgetful()}) as server:
        config = write_config(tmp_path / "mine.toml", server.base_url)
        agent = [PYTHON, tmp_path / "agent.py", "messages", "stream", "Read the notes."]
        ended = recompact("wrap", "--out", out, "--json", config, "--", *agent, cwd=place)
    assert ended.returncode == 0, ended.stderr
    described = json.loads(ended.stdout)
    assert described["ending"] == "finished", described
    assert len(described["compactions"]) >= 2
    assert (place / "answer.txt").read_text() == "unknown\n"
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert sum(line.get("compaction", False) for line in lines) == len(described["compactions"])
    both = [recompact("audit", each, "--json", "--no-page") for each in (out, tmp_path / f"runs/{described['run']}.db")]
    assert [audited.returncode for audited in both] == [0, 0], both[1].stderr
    of_file, of_run = ([_sizes(each) for each in json.loads(audited.stdout)["compactions"]] for audited in both)
    assert sorted(of_file) == sorted(of_run)
    assert len(of_run) == len(described["compactions"])
    assert recompact("wrap", "--out", out, config, "--", *agent, cwd=place).returncode == 2


def test_a_program_that_is_not_there_is_said_first(tmp_path: Path) -> None:
    config = write_config(tmp_path / "mine.toml", "http://127.0.0.1:1/v1")
    ended = recompact("wrap", config, "--", "no-such-agent", cwd=tmp_path)
    assert ended.returncode == 2
    assert "there is no program 'no-such-agent'" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_an_agent_that_is_stopped_leaves_its_transcript(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    (tmp_path / "agent.py").write_text(AGENT)
    place, out = tmp_path / "tasks" / "notes" / "files", tmp_path / "session.jsonl"
    asked: list[object] = []

    def stop(request: Request) -> None:
        asked.append(request)
        if len(asked) == 6:
            os.kill(os.getpid(), signal.SIGINT)

    with served({"clerk": Clerk(stop), "forgetful": Forgetful()}) as server:
        config = write_config(tmp_path / "mine.toml", server.base_url)
        agent = [PYTHON, tmp_path / "agent.py", "chat", "plain", "Read the notes."]
        ended = recompact("wrap", "--out", out, config, "--", *agent, cwd=place)
    assert ended.returncode == 130, ended.stderr
    assert f"Transcript so far: {out}" in ended.stderr
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert sum(line["role"] == "assistant" for line in lines) in (5, 6)
    assert any(line.get("compaction") for line in lines)
    assert recompact("audit", out, "--json", "--no-page").returncode == 0
    assert "a wrapped agent" in recompact("runs", "--dir", tmp_path / "runs").stdout
    (run,) = (tmp_path / "runs").glob("wrap-*.db")
    said = recompact("boundaries", run)
    assert said.returncode == 2
    assert "is of a wrapped agent" in said.stderr


def test_a_built_in_template_and_a_program_are_named_from_where_one_is(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    write_notes(place / "tasks")
    workspace = place / "tasks" / "notes" / "files"
    (workspace / "agent").write_text(f"#!{PYTHON}\n{AGENT}")
    (workspace / "agent").chmod(0o755)
    prompts: list[str] = []
    forgetful = Forgetful(lambda request: prompts.append(request.messages[-1].content))
    with served({"clerk": Clerk(), "forgetful": forgetful}) as server:
        config = write_config(tmp_path / "mine.toml", server.base_url)
        wrapped = ("wrap", "--template", "structured", "--json", config, "--", "./agent", "chat", "plain", "Read them.")
        ended = recompact(*wrapped, cwd=workspace)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert prompts
    assert all("## Task Snapshot" in prompt for prompt in prompts)


def test_check_says_whether_an_agent_replays(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    with served({"clerk": Clerk(), "forgetful": Forgetful()}) as server:
        for trick, text in (("title", "the agent replays faithfully: 9"), ("random-file", "the workspace differs")):
            command = json.dumps([PYTHON, "{home}/agent.py", "chat", "plain", "{task}", trick])
            agent = f'command = {command}\nfiles = {{ "agent.py" = {json.dumps(AGENT)} }}\n'
            config = write_config(tmp_path / f"{trick}.toml", server.base_url, agent)
            ended = recompact("check", config, "--play")
            assert text in ended.stdout, ended.stdout + ended.stderr
            assert (ended.returncode == 0) == (trick == "title")
