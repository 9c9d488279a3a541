"""What the gateway costs: milliseconds that it adds to a call, and the time to restore a small agent, and pi.

.venv/bin/python benchmarks/gateway.py [--calls 300] [--steps 50] [--agents .agents]

`--agents` is where `make test-agents` has installed pi; without it, pi is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp

from recompact.agents.server import AgentCallbacks, Exchange, Gateway
from recompact.agents.settings import AgentSettings
from recompact.agents.suite import AgentSuite
from recompact.engine.config import AgentConfig
from recompact.suites.workspace.suite import WorkspaceSuite
from recompact.values.chat import ToolCall, assistant
from recompact.values.trajectory import Action

AGENT = """
import json, os, subprocess, sys, urllib.request
messages = [{"role": "user", "content": sys.argv[1]}]
tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}
while True:
    body = json.dumps({"model": "m", "messages": messages, "tools": [tool]}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
    message = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        output = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
"""


def bodies(turns: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """A conversation of `turns` turns of about a kilobyte, in each format."""
    text = "word " * 200
    chat: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": "Do it."}]
    turned: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    for n in range(turns):
        function = {"name": "shell", "arguments": "{}"}
        chat.append({"role": "assistant", "tool_calls": [{"id": f"c{n}", "type": "function", "function": function}]})
        chat.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
        items.append({"type": "function_call", "call_id": f"c{n}", **function})
        items.append({"type": "function_call_output", "call_id": f"c{n}", "output": text})
        turned.append({"role": "assistant", "content": [{"type": "tool_use", "id": f"c{n}", "name": "x", "input": {}}]})
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": text}
        turned.append({"role": "user", "content": [result]})
    return {
        "chat": ("/v1/chat/completions", {"messages": chat}),
        "responses": ("/v1/responses", {"input": items}),
        "messages": ("/v1/messages", {"messages": turned, "max_tokens": 100}),
    }


async def overhead(calls: int) -> None:
    """Round trips to a gateway that answers at once: what it adds to the time of the model."""
    reply = assistant("", ToolCall("call_1", "shell", json.dumps({"command": "ls"})))

    def arrive(exchange: Exchange) -> Exchange:
        exchange.deliver(reply)
        return exchange

    gateway = Gateway(AgentCallbacks(arrive, lambda reason: sys.exit(reason)))
    listener = socket.create_server(("127.0.0.1", 0))
    await gateway.listen(listener)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with aiohttp.ClientSession() as session:
        for name, (path, body) in bodies(20).items():
            for stream in (False, True):
                times = []
                for _ in range(calls):
                    started = time.perf_counter()
                    async with session.post(url + path, json={**body, "stream": stream}) as response:
                        await response.read()
                    times.append(1000 * (time.perf_counter() - started))
                middle, slow = statistics.median(times), statistics.quantiles(times, n=20)[-1]
                form = "stream" if stream else "body"
                print(f"{name:10} {form:7} {middle:6.2f} ms a call at the median, {slow:6.2f} ms at the 95th centile")
    await gateway.close()


def suite_in(directory: str, settings: AgentSettings) -> AgentSuite:
    folder = Path(directory, "task")
    folder.mkdir()
    (folder / "task.toml").write_text('instruction = "Count."\n[check]\ncommand = "true"\n')
    return AgentSuite(WorkspaceSuite(directory), settings)


def small_agent() -> AgentSettings:
    command = (os.path.realpath(sys.executable), "{home}/agent.py", "{task}")
    return AgentSettings(command, files={"agent.py": AGENT})


def pi_in(place: Path) -> AgentSettings:
    """pi as its profile starts it, with the Node that is installed beside it."""
    program = place.resolve() / "npm" / "node_modules" / ".bin" / "pi"
    if not program.exists():
        sys.exit(f"{program} is not there: make test-agents installs it")
    settings = AgentConfig(profile="pi", readable=(str(place.resolve()),)).settings(Path())
    return replace(settings, command=(str(program), *settings.command[1:]))


async def replays(name: str, settings: AgentSettings, tool: str, steps: int) -> None:
    """The time to bring an agent to call `steps`, including its start and its tools."""
    with tempfile.TemporaryDirectory() as scratch:
        suite = suite_in(scratch, settings)
        (task,) = await suite.tasks("train")
        one, other = suite.episode(task), suite.episode(task)
        try:
            await one.start()
            for n in range(steps):
                await one.step(Action(tool, {"command": f"echo {n} | tee -a count.txt"}))
            snapshot = await one.snapshot()
            started = time.perf_counter()
            await other.start()
            begun = time.perf_counter()
            await other.restore(snapshot)
            ended = time.perf_counter()
        finally:
            await one.close()
            await other.close()
    print(f"{name}: restore of call {steps} in {ended - started:.2f} s, of which {begun - started:.2f} s to start;")
    print(f"{name}: {steps / (ended - begun):.0f} replayed calls per second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--agents", type=Path)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"load {load:.1f} on {os.cpu_count()} processors" + (": too busy for figures" if load > 1 else ""))
    asyncio.run(overhead(arguments.calls))
    asyncio.run(replays("small agent", small_agent(), "shell", arguments.steps))
    if arguments.agents is not None:
        asyncio.run(replays("pi", pi_in(arguments.agents), "bash", arguments.steps))


if __name__ == "__main__":
    main()
