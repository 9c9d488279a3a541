"""The path of the first hour, command by command as printed, from a suite to a report, with a scripted model."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from commands import recompact, served

from recompact.cli.benchmark_configs import config_text
from recompact.values.chat import Message, Reply, Request, ToolCall, Usage

PAGE = (Path(__file__).parents[2] / "docs" / "first-hour.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Your own suite")[2].partition("\n## ")[0]
COMMANDS = [line.partition("#")[0].strip() for line in SECTION.splitlines() if line.startswith("    recompact ")]
ROOM = r"Room (\d+): (.*)"


class Luna:
    """Looks into one room after the other, and writes summaries that keep what it needs."""

    name = "luna"

    async def reply(self, request: Request) -> Reply:
        text = "\n".join(message.content for message in request.messages)
        usage = Usage(len(text) // 4, 20, 0, 0, 1)
        if not request.tools:
            return Reply(Message("assistant", f"## Goal\nFind the room.\n## Progress\n{self._notes(text)}\n"), usage)
        last, best = self._knowledge(text)
        (thing,) = re.findall(r"the most of this: (\w+)\?", text)[:1]
        name, arguments = ("look", {"room": last + 1}) if last < 25 else ("finish", {"answer": best[thing][1]})
        call = ToolCall(f"call_{last + 1}", name, json.dumps(arguments))
        return Reply(Message("assistant", "", (call,)), usage)

    def _knowledge(self, text: str) -> tuple[int, dict[str, tuple[int, str]]]:
        """The last room that was seen, and of each thing how many there are at most and where."""
        last, best = 0, dict[str, tuple[int, str]]()
        for until, notes in re.findall(r"Seen up to room (\d+); most of each: (.*)", text):
            last = max(last, int(until))
            best |= {thing: (int(n), room) for thing, n, room in re.findall(r"(\w+) (\d+) in room (\d+)", notes)}
        for room, things in re.findall(ROOM, text):
            last = max(last, int(room))
            for n, thing in re.findall(r"(\d+) x (\w+)", things):
                best[thing] = max(best.get(thing, (-1, "")), (int(n), room))
        return last, best

    def _notes(self, text: str) -> str:
        last, best = self._knowledge(text)
        most = ", ".join(f"{thing} {n} in room {room}" for thing, (n, room) in best.items())
        return f"Seen up to room {last}; most of each: {most}"


def test_the_page_shows_what_init_writes() -> None:
    for text in map(config_text, ("own.txt", "suite.txt")):
        assert text.format(name="rooms") in SECTION


@pytest.mark.slow
def test_the_path_of_the_page_leads_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [command.split()[1] for command in COMMANDS] == [
        *("init", "check", "collect", "show", "verify", "boundaries", "bisect", "adapt", "evaluate", "report")
    ]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-reader")
    with served({"gpt-5.6-luna": Luna()}, require_key=None) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        outputs = {}
        for command in COMMANDS:
            words = shlex.split(command)[1:]
            done = recompact(*words, cwd=tmp_path)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            outputs[words[0]] = done.stdout
    assert "suite rooms, split train: 4 tasks" in outputs["check"]
    assert re.search(r"rooms\s+rooms, prompted history 1024\s+4\s+100\.0", outputs["collect"])
    assert "prompting/history against none: Accuracy" in outputs["evaluate"]
    page = (tmp_path / "report.html").read_text()
    assert "with compaction and without: " in page  # told with what it leaves open


@pytest.mark.parametrize("name", ["mine", "pocket"])
def test_a_config_without_a_suite_runs_as_it_is(name: str, tmp_path: Path) -> None:
    assert recompact("init", *([] if name == "mine" else [name]), cwd=tmp_path).returncode == 0
    for command in ("check", "collect"):
        done = recompact(command, f"{name}.toml", cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("mine")
    done = recompact("init", "mine", "--suite", cwd=tmp_path)
    assert done.returncode == 2
    assert "mine.py already exists: nothing was written" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]
    assert recompact("init", "../x", cwd=tmp_path).returncode == 2
