"""Every command of docs/forgets.md, as printed, with a scripted model and a stand-in for Codex."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_support import AGENT, CLAUSE, Adviser
from commands import recompact, served
from needs import needs

from recompact.suites.workspace.repository import ANSWER
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage, assistant

PAGE = (Path(__file__).parents[2] / "docs" / "forgets.md").read_text(encoding="utf-8")
COMMANDS = [line.strip() for line in PAGE.splitlines() if line.startswith("    recompact ")]
PYTHON = os.path.realpath(sys.executable)
CODEX = f"""#!{PYTHON}
import os, re, sys
os.environ["OPENAI_BASE_URL"] = re.search('base_url="([^"]+)"', " ".join(sys.argv))[1]
sys.argv = ["agent", "responses", "stream", sys.argv[-1]]
{AGENT}"""


class Everyone:
    """Plays the agent, who knows only what its context says, the compressor, who loses the lines that it read unless
    its prompt asks for them, and the optimizer."""

    name = "gpt-5-mini"

    async def reply(self, request: Request) -> Reply:
        text = "\n".join(message.content for message in request.messages)
        if request.tools:
            return Reply(self._act(request, text), Usage(len(text) // 4, 20, 0, 0, 1))
        if "<first>" in text or "<diagnoses>" in text or '"boundary":' in text or "findings" in text:
            return await Adviser().reply(request)
        lines = self._lines(text) if CLAUSE in text else {}
        known = "\n".join(f"line of {path}: {line}" for path, line in lines.items())
        read = max([0, *map(int, re.findall(r"Read so far: (\d+)", text))]) + len(re.findall(r"^== ", text, re.M))
        return Reply(assistant(f"## Progress\nRead so far: {read}\n{known}"), Usage(len(text) // 4, 20, 0, 0, 1))

    def _lines(self, text: str) -> dict[str, str]:
        """The line of each file that is asked for, as far as it is in sight."""
        told = dict(re.findall(r"^line of (\S+): (.*)$", text, re.M))
        return told | dict(re.findall(r"^== (\S+)\n(?:.{0,24}\n)*(.{25,})$", text, re.M))

    def _act(self, request: Request, text: str) -> Message:
        task = next((m.content for m in request.messages if "Look\nat no file twice.\n\n" in m.content), "")
        files = task.partition("Look\nat no file twice.\n\n")[2].split()
        if "answer is written" in text or not files:
            return assistant("Done.")
        summarized = max([0, *map(int, re.findall(r"Read so far: (\d+)", text))])
        read = summarized + len(re.findall(r"^== ", text, re.M))
        if read < len(files):
            command = f"echo '== {files[read]}'; cat {files[read]}"
        else:
            answer = "\n".join(self._lines(text).get(path, "unknown") for path in files)
            command = f"cat > {ANSWER} <<'END'\n{answer}\nEND\necho answer is written"
        return Message("assistant", "", (ToolCall(f"c{read}", "shell", json.dumps({"command": command})),))


def write_repository(place: Path) -> None:
    for number in range(12):
        words = " ".join(f"word{number}x{n}" for n in range(40))
        (place / f"module{number:02d}.txt").write_text(
            f"# {number}\nThe fact of module {number} is {number * 37}.\n" + f"{words}\n" * 3
        )
    for arguments in (
        ("init", "-q"),
        ("add", "."),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"),
    ):
        subprocess.run(["git", *arguments], cwd=place, check=True)


def write_session(place: Path) -> None:
    """A transcript in which a path is lost and then used."""
    messages = [
        {"role": "user", "content": "Fix it."},
        {"role": "assistant", "content": "", "tool_calls": [call("a", "cat src/deep/engine_room.py")]},
        {"role": "tool", "tool_call_id": "a", "content": "def start_engine_room():\n    return 42\n"},
        {"role": "user", "content": "## Goal\nFix it.", "compaction": True},
        {"role": "assistant", "content": "", "tool_calls": [call("b", "cat src/deep/engine_room.py")]},
        {"role": "tool", "tool_call_id": "b", "content": "def start_engine_room():\n    return 42\n"},
        {"role": "assistant", "content": "Done."},
    ]
    place.mkdir(parents=True)
    (place / "one.jsonl").write_text("".join(json.dumps(message) + "\n" for message in messages))


def call(id: str, command: str) -> dict[str, object]:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {"id": id, "type": "function", "function": function}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("home", "bin", "repository"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "codex").write_text(CODEX)
    (tmp_path / "bin" / "codex").chmod(0o755)
    write_session(tmp_path / "home" / ".codex" / "sessions")
    write_repository(tmp_path / "repository")
    return tmp_path


@pytest.mark.slow
@needs("bubblewrap")
def test_the_hour(home: Path) -> None:
    assert len(COMMANDS) == 10
    with served({"gpt-5-mini": Everyone()}) as server:
        variables = {
            "HOME": str(home / "home"),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": server.base_url,
        }
        said = {}
        for line in COMMANDS:
            begun = time.monotonic()
            arguments = [word.replace("~", str(home / "home")) for word in shlex.split(line)[1:]]
            ended = recompact(*arguments, cwd=home / "repository", env=variables)
            print(f"{time.monotonic() - begun:6.1f} s  {line}")
            assert ended.returncode == 0, (line, ended.stdout[-3000:], ended.stderr[-3000:])
            said[arguments[0]] = ended.stdout
    assert (home / "repository" / "audit-template" / "first.md").exists()
    adapted = (home / "repository" / "runs" / "mine-pair" / "first.md").read_text()
    assert CLAUSE in adapted
    assert "2 of 2 runs passed" in said["adapt"]
    assert CLAUSE.split(",")[0] in (home / "repository" / "compaction-codex" / "config.toml").read_text()


def test_what_init_writes_is_fine_and_never_overwritten(home: Path) -> None:
    variables = {"PATH": f"{home / 'bin'}:{os.environ['PATH']}", "OPENAI_API_KEY": "k"}
    place = home / "repository"
    begun = recompact("init", "--agent", "codex", "--json", cwd=place)
    assert begun.returncode == 0, begun.stderr
    made = json.loads(begun.stdout)
    assert [Path(path).name for path in made["tasks"]] == ["sample-1", "sample-2"]
    expected = (Path(made["tasks"][0]) / "check" / "expected.txt").read_text().splitlines()
    assert expected[:2] == ["The fact of module 0 is 0.", "The fact of module 2 is 74."]
    assert recompact("init", "--agent", "codex", cwd=place).returncode == 2
    checked = recompact("check", "mine.toml", cwd=place, env=variables)
    assert "bubblewrap" in checked.stderr or checked.returncode == 0, checked.stderr
    empty = home / "empty"
    empty.mkdir()
    refused = recompact("init", "--agent", "pi", "--repo", empty, cwd=empty)
    assert (refused.returncode, "--repo" in refused.stderr, list(empty.iterdir())) == (2, True, [])
