"""A world for agents that are commands: notes to be read one by one, with a code in the first of them that a careless
summary loses; a model that knows only what its context says; and a compressor that loses the code."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workspace_support import write_task

from recompact.attribution.judgement import Verification
from recompact.attribution.records import digest
from recompact.attribution.verify import verify
from recompact.engine.assembly import open_study
from recompact.engine.collection import collect
from recompact.engine.config import Config
from recompact.engine.config_parser import parse_config
from recompact.engine.store.records import read_trajectory
from recompact.models.protocol import ChatModel
from recompact.values.chat import Message, Reply, Request, ToolCall, ToolSpec, Usage, assistant
from recompact.values.trajectory import Trajectory

NOTES = 7
SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"  # mini-swe-agent ends with a command that prints this
AGENT = Path(__file__).with_name("small_agent.py").read_text()
TASK = f"""
instruction = "Read the {NOTES} notes in notes/, one by one, and write the code to answer.txt."
[check]
command = "grep -qx blue-42 answer.txt"
"""


def write_notes(root: Path, *names: str) -> None:
    """Tasks with as many notes as the model expects; the code stands in the first."""
    for name in names or ("notes",):
        notes = {
            f"notes/{n}.txt": f"note {n} of {NOTES}: "
            + ("the code is blue-42. " if n == 1 else "")
            + " ".join(f"word{n}x{m}" for m in range(60))
            + "\n"
            for n in range(1, NOTES + 1)
        }
        write_task(root, name, TASK, notes, check="")


class Clerk:
    """Reads the note after the last one that its context mentions, then writes down the code, if it still knows it."""

    name = "clerk"

    def __init__(self, on_request: Callable[[Request], None] = lambda request: None) -> None:
        self._on_request = on_request

    async def reply(self, request: Request) -> Reply:
        self._on_request(request)
        text = "\n".join(message.content for message in request.messages)
        if not request.tools:
            return Reply(assistant("A title"), Usage(10, 2, 0, 0, 1))
        if "answer.txt is written" in text and SUBMIT not in text:
            return Reply(assistant("The code is written down."), Usage(len(text) // 4, 8, 0, 0, 1))
        stored = re.findall(r"Stored in (/tmp/out-\w+\.txt)", text)
        read = [int(n) for n in re.findall(rf"note (\d+) of {NOTES}", text)]
        if "answer.txt is written" in text:
            command = f"echo {SUBMIT}"
        elif stored and not any(f"cat {stored[-1]}" in c.arguments for m in request.messages for c in m.calls):
            command = f"cat {stored[-1]}"
        elif len(read) and max(read) == NOTES:
            code = re.search(r"the code is ([a-z]+-\d+)", text)
            command = f"echo {code[1] if code else 'unknown'} > answer.txt; echo answer.txt is written"
        else:
            command = f"cat notes/{max(read, default=0) + 1}.txt"
        call = ToolCall(f"c{len(request.messages)}", *_shell_call(request.tools, command))
        return Reply(Message("assistant", "", (call,)), Usage(len(text) // 4, 10, 0, 0, 1))


def _shell_call(tools: Sequence[ToolSpec], command: str) -> tuple[str, str]:
    """The name and arguments of a call to whatever the agent calls its shell."""
    shells = ("shell", "bash", "exec_command", "execute", "terminal", "run_shell_command")
    tool = next(tool for tool in tools if tool.name.lower() in shells)
    key = "cmd" if "cmd" in tool.parameters["properties"] else "command"
    needed = [name for name in tool.parameters.get("required", ()) if name not in (key, "command", "cmd")]
    others = {name: tool.parameters["properties"][name].get("enum", ["look"])[0] for name in needed}
    return tool.name, json.dumps({key: command, **others})


CLAUSE = "Keep every code word for word, with what it is for."


class Forgetful:
    """A compressor that keeps how far the agent is, and the code only where its prompt says that codes matter."""

    name = "forgetful"

    def __init__(self, on_request: Callable[[Request], None] = lambda request: None) -> None:
        self._on_request = on_request

    async def reply(self, request: Request) -> Reply:
        self._on_request(request)
        prompt = "".join(m.content for m in request.messages)
        read = re.findall(rf"note (\d+) of {NOTES}", prompt)
        text = f"## Progress\nThe last note read was note {max(map(int, read), default=0)} of {NOTES}."
        if CLAUSE in prompt and (code := re.search(r"the code is [a-z]+-\d+", prompt)):
            text += f" Note 1 says: {code[0]}."
        return Reply(assistant(text), Usage(100, 20, 0, 0, 1))


class Adviser:
    """An optimizer that finds the code in the segment, sees that the summary lost it, and asks for codes to be kept."""

    name = "adviser"

    async def reply(self, request: Request) -> Reply:
        prompt = request.messages[-1].content
        boundaries = sorted(set(re.findall(r'"boundary": "([^"]+)"', prompt)))
        answer: dict[str, Any]
        if "<first>" in prompt:
            parts = {name: prompt.split(f"<{name}>\n")[1].split(f"\n</{name}>")[0] for name in ("first", "update")}
            rule = {"clause": CLAUSE, "section": "Critical Context", "boundaries": boundaries}
            answer = {"rules": [rule], **{name: f"{part}\n{CLAUSE}" for name, part in parts.items()}}
        elif "<diagnoses>" in prompt:
            answer = {"groups": [{"mechanism": "omitted state", "kind": "codes", "boundaries": boundaries}]}
        else:
            lines = re.findall(r"^\W*(S\d+)\b.*the code is", prompt, re.MULTILINE)
            finding = {"mechanism": "omitted state", "kind": "codes", "lines": lines, "explanation": "It was lost."}
            answer = {"findings": [finding], "abstain": ""}
        return Reply(assistant(json.dumps(answer)), Usage(100, 20, 0, 0, 1))


def agent_config(
    tasks: Path, wire: str = "chat", mode: str = "plain", trick: str = "", agent: str = "", further: str = ""
) -> Config:
    command = [os.path.realpath(sys.executable), "{home}/agent.py", wire, mode, "{task}", *([trick] if trick else [])]
    text = f"""
[suite]
use = "workspace"
options = {{ tasks = {json.dumps(str(tasks))} }}
[agent]
model = "clerk"
command = {json.dumps(command)}
timeout = 20
{agent}
[agent.files]
"agent.py" = {json.dumps(AGENT)}
[compressor]
model = "forgetful"
budget = 450
[optimizer]
model = "clerk"
[run]
step_limit = 30
counter = "characters"
concurrency = 2
[verify]
allocation = "uniform:1"
{further}
"""
    return parse_config(text, Path("agents.toml"))


def models(on_request: Callable[[Request], None] = lambda request: None) -> Mapping[str, ChatModel]:
    return {"clerk": Clerk(on_request), "forgetful": Forgetful(on_request)}


async def collected(config: Config, run: Path, **options: Any) -> list[Trajectory]:
    async with open_study(config, run, models=options.pop("models", models()), **options) as study:
        return [read_trajectory(study.store, unit) for unit in await collect(study)]


async def verified(config: Config, run: Path, **options: Any) -> tuple[Verification, str]:
    async with open_study(config, run, models=options.pop("models", models()), **options) as study:
        await collect(study)
        verification = await verify(study)
        return verification, digest(study.store)
