"""What an agent that is a command can see, and what its model is shown of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from agent_support import AGENT, TASK, Forgetful, agent_config, collected
from needs import needs
from test_wrap import PYTHON
from workspace_support import write_task

from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.errors import InputError
from recompact.values.chat import Message, Reply, Request, ToolCall, assistant

pytestmark = needs("bubblewrap")


class Curious:
    """Runs its commands in turn; `{shown}` in one is what the last one has printed."""

    name = "curious"

    def __init__(self, *commands: str) -> None:
        self._commands = commands
        self.shown: list[str] = []

    async def reply(self, request: Request) -> Reply:
        self.shown = [message.content for message in request.messages if message.role == "tool"]
        if len(self.shown) == len(self._commands):
            return Reply(assistant("That is all."))
        command = self._commands[len(self.shown)].replace("{shown}", "".join(self.shown[-1:]).strip())
        call = ToolCall("c", "shell", json.dumps({"command": command}))
        return Reply(Message("assistant", "", (call,)))


async def look(config: Config, run: Path, *commands: str) -> list[str]:
    """What these commands print where the agent is."""
    model = Curious(*commands)
    (trajectory,) = await collected(config, run, models={"clerk": model, "forgetful": Forgetful()})
    assert trajectory.ending == "finished", trajectory.error
    return model.shown


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An agent's script with what it needs beside it, where the tasks, a run and the config are too."""
    project = tmp_path / "project"
    write_task(project / "tasks", "one", TASK, {"note.txt": "a note"}, check="the answer")
    (project / "tasks" / "common").mkdir()
    (project / "tasks" / "common" / "data.txt").write_text("common data")
    (project / "runs").mkdir()
    (project / "runs" / "earlier.db").write_text("an earlier run")
    (project / "lib").mkdir()
    (project / "lib" / "module.py").write_text("beside it")
    agent = project / "agent.py"
    agent.write_text(f"#!{PYTHON}\n{AGENT}")
    agent.chmod(0o755)
    monkeypatch.chdir(project)
    return project


def own_config(tasks: str = "tasks", readable: str = "") -> Config:
    """A config that is named without its directory, as at a prompt."""
    return parse_config(
        f"""
[suite]
use = "workspace"
options = {{ tasks = "{tasks}" }}
[agent]
model = "clerk"
command = ["./agent.py", "chat", "plain", "{{task}}"]
timeout = 20
readable = [{readable}]
[compressor]
model = "forgetful"
[optimizer]
model = "clerk"
[run]
counter = "characters"
""",
        Path("mine.toml"),
    )


@pytest.mark.parametrize("tasks", ["tasks", "."])
async def test_an_agent_beside_its_tasks_sees_neither_checks_nor_runs(project: Path, tasks: str) -> None:
    config = own_config(tasks)
    (shown,) = await look(config, project / "runs" / "mine.db", f"cat {project}/lib/*; find {project} -type f")
    assert shown.startswith("beside it")
    assert f"{project}/agent.py" in shown
    assert "tasks/one" not in shown
    assert ".db" not in shown


async def test_what_is_named_within_the_tasks_does_not_show_the_others(project: Path) -> None:
    config = own_config(readable='"tasks/common"')
    (shown,) = await look(config, project / "runs" / "mine.db", f"cat {project}/tasks/*/*; find {project}/tasks")
    assert "common data" in shown
    assert "tasks/one" not in shown


async def test_what_the_config_names_is_relative_to_it(project: Path, tmp_path: Path) -> None:
    """Wherever it is: the program is moved away from what it needs, so that only `readable` shows that."""
    (tmp_path / "tools").mkdir()
    (project / "agent.py").rename(tmp_path / "tools" / "agent")
    config = own_config(readable='"lib"')
    elsewhere = parse_config(config.text.replace("./agent.py", "../tools/agent"), Path("mine.toml"))
    (shown,) = await look(elsewhere, tmp_path / "mine.db", f"cat {project}/lib/*")
    assert shown == "beside it"


async def test_the_temporary_directory_of_an_agent_with_the_users_rights_is_steady(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks", "one", TASK, {})
    config = agent_config(tmp_path / "tasks", agent='sandbox = "off"')
    commands = ("echo kept > $TMPDIR/x; echo $TMPDIR/x", "cat {shown}", "echo /tmp/other")
    shown = await look(config, tmp_path / "run.db", *commands)
    assert [text.strip() for text in shown] == ["/tmp/agent/x", "kept", "/tmp/other"]


async def test_a_place_to_read_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks")
    config = agent_config(tmp_path / "tasks", agent='readable = ["nowhere"]')
    with pytest.raises(InputError, match=r"line \d+: \[agent\] readable: it names .*nowhere, which is not there"):
        await look(config, tmp_path / "run.db", "ls")
