"""`recompact wrap`, and `recompact check --play`, with an agent that is a command."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
from agent_support import AGENT, Clerk, Forgetful, write_notes
from commands import recompact, served
from needs import needs

from recompact.agents.process import AgentDirectories
from recompact.agents.server import AgentCallbacks
from recompact.agents.settings import PROFILES, AgentSettings, known_agent
from recompact.agents.wrapping import Hearing
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


def test_an_agent_is_wrapped_where_it_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_notes(tmp_path / "tasks")
    (tmp_path / "agent.py").write_text(AGENT)
    place = tmp_path / "tasks" / "notes" / "files"
    out = tmp_path / "session.jsonl"
    with served({"clerk": Clerk(), "forgetful": Forgetful()}) as server:
        config = write_config(tmp_path / "mine.toml", server.base_url)
        agent = [PYTHON, str(tmp_path / "agent.py"), "messages", "stream", "Read the notes."]
        agent = ["sh", "-c", f"echo here I am; exec {shlex.join(agent)}"]
        ended = recompact("wrap", "--out", out, "--json", config, "--", *agent, cwd=place)
    assert ended.returncode == 0, ended.stderr
    printed, complained = capfd.readouterr()  # what the agent printed went beside what the command returned
    assert (printed, "here I am\n" in complained) == ("", True)
    described = json.loads(ended.stdout)
    assert described["ending"] == "finished", described
    assert len(described["compactions"]) >= 2
    assert (place / "answer.txt").read_text() == "unknown\n"
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert sum(line.get("compaction", False) for line in lines) == len(described["compactions"])
    receipts = [line["receipt"] for line in lines if "receipt" in line]
    assert receipts == [{key: each[key] for key in each if key != "step"} for each in described["compactions"]]
    assert all(each["before"] > each["after"] and each["usage"][0] > 0 for each in receipts)
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


def test_a_place_where_no_transcript_can_be_written_is_said_first(tmp_path: Path) -> None:
    config = write_config(tmp_path / "mine.toml", "http://127.0.0.1:1/v1")
    (tmp_path / "file").write_text("")
    for place in ("missing/x.jsonl", "file/x.jsonl", "x" * 300, "/proc/x.jsonl"):
        ended = recompact("wrap", "--out", place, config, "--", "touch", "started", cwd=tmp_path)
        assert ended.returncode == 2, ended.stderr
        assert "--out" in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine.toml"]


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


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("codex exec -m x Fix", "codex"),
        ("/opt/bin/claude -p Fix", "claude-code"),
        ("npx -y @openai/codex@latest exec Fix", "codex"),
        ("env A=b timeout 9 mini -t Fix", "mini-swe-agent"),
        ("python3 agent.py codex", None),
        ("python3 deep_agent.py", None),
        ("my-codex exec", None),
    ],
)
def test_known_agents_are_recognised_by_their_programs(command: str, name: str | None) -> None:
    assert known_agent(tuple(command.split())) == name


def test_options_go_after_the_program_and_nowhere_else() -> None:
    pi = PROFILES["pi"]
    assert pi.equip(("nice", "pi", "-p", "Fix")) == ("nice", "pi", *pi.options, "-p", "Fix")
    assert pi.equip(("node", "pi.js")) == ("node", "pi.js")
    assert PROFILES["claude-code"].equip(("claude", "-p")) == ("claude", "-p")


def test_a_known_agent_that_ignores_the_usual_variables_is_led_to_the_gateway(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    place, programs = tmp_path / "tasks" / "notes" / "files", tmp_path / "bin"
    programs.mkdir()
    (programs / "codex").write_text(
        f"#!{PYTHON}\nimport os, re, sys\n"
        """os.environ["OPENAI_BASE_URL"] = re.search('base_url="([^"]+)"', " ".join(sys.argv))[1]\n"""
        f'sys.argv = ["agent", "responses", "stream", sys.argv[-1]]\n{AGENT}'
    )
    (programs / "codex").chmod(0o755)
    with served({"clerk": Clerk(), "forgetful": Forgetful()}) as server:
        config = write_config(tmp_path / "mine.toml", server.base_url)
        wrapped = ("wrap", "--json", "--out", tmp_path / "out.jsonl", config, "--", "codex", "exec", "Read the notes.")
        ended = recompact(*wrapped, cwd=place, env={"PATH": f"{programs}:{os.environ['PATH']}"})
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["compactions"]


def test_an_agent_that_asks_elsewhere_is_an_error(tmp_path: Path) -> None:
    """It does its work with another server, and ends well: nobody may take that for a session of ours."""
    write_notes(tmp_path / "tasks")
    (tmp_path / "agent.py").write_text(AGENT)
    place = tmp_path / "tasks" / "notes" / "files"
    with served({"m": Clerk()}) as elsewhere:
        config = write_config(tmp_path / "mine.toml", "http://127.0.0.1:1/v1")
        led = f"OPENAI_BASE_URL={elsewhere.base_url}"
        agent = ["env", led, PYTHON, tmp_path / "agent.py", "chat", "plain", "Read the notes."]
        ended = recompact("wrap", config, "--", *agent, cwd=place)
    assert (place / "answer.txt").exists()
    assert ended.returncode == 2
    assert "no request of env came to the gateway: it ended with exit code 0" in ended.stderr
    assert "OPENAI_BASE_URL" in ended.stderr
    assert not list(place.glob("*.jsonl"))


async def test_silence_is_told_once_and_only_while_nothing_has_come(tmp_path: Path) -> None:
    told: list[str] = []
    directories = AgentDirectories.new()
    settings = AgentSettings((PYTHON, "-c", "import time; time.sleep(60)"), in_place=tmp_path)
    callbacks = AgentCallbacks(lambda exchange: exchange, lambda reason: None, lambda reason: None)
    for misuse in (False, True):
        hearing = Hearing(settings, told.append, patience=0.2)
        agent = await hearing(directories, "", callbacks)
        try:
            if misuse:
                hearing.requests += 1
            await asyncio.sleep(0.4)
            assert told[-1:] == ([] if misuse else [agent.url])
            told.clear()
        finally:
            await agent.end()
    directories.remove()


def test_an_agent_that_reaches_the_ceiling_is_stopped_with_its_own_exit_code(tmp_path: Path) -> None:
    write_notes(tmp_path / "tasks")
    (tmp_path / "agent.py").write_text(AGENT)
    out = tmp_path / "session.jsonl"
    with served({"clerk": Clerk(), "forgetful": Forgetful()}) as server:
        config = write_config(tmp_path / "mine.toml", server.base_url)
        config.write_text(f"{config.read_text()}[ceiling]\ntokens = 600\n")
        agent = [PYTHON, tmp_path / "agent.py", "messages", "stream", "Read the notes."]
        place = tmp_path / "tasks" / "notes" / "files"
        ended = recompact("wrap", "--out", out, config, "--", *agent, cwd=place)
    assert ended.returncode == 3, ended.stderr
    assert out.read_text()
