"""Models behind a server of their own, simple enough to foretell: an agent that plays the scripts, and its company.

The agent counts its steps aloud and goes on after the last one it reads of, so a summary that forgets makes it begin
again. The compressor forgets in its first summary, unless its prompt says that the next step must be kept; the
optimizer proposes just that. Nothing here says anything about the quality of a real model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from officebench_solutions import Solution

CLAUSE = "Say which step was the last one done."
NOTES = "Notes so far:"
FORGETFUL = "Nothing is remembered."
Messages = list[dict[str, Any]]


def agent(messages: Messages, scripts: Mapping[str, Solution]) -> dict[str, Any]:
    """The next action of the script whose task stands in the conversation."""
    texts = [str(message.get("content") or "") for message in messages]
    solution = next(script for task, script in scripts.items() if any(f"Task: {task}\n" in text for text in texts))
    turns = [message for message in messages if message["role"] == "assistant"]
    forgot = any(FORGETFUL in text for text in texts)
    known = [int(number) for text in texts for number in re.findall(r"Step (\d+)\b", text)]
    step = (0 if len(turns) == 1 else known[-1]) if forgot else known[-1] if known else 0
    if step < len(solution.right):
        name, arguments = solution.right[step]
    else:
        name, arguments = "system.finish_task", {"answer": solution.answer}
    call = {"name": "act", "arguments": json.dumps({"action": name, "arguments": arguments})}
    calls = [{"id": f"call_{len(turns)}_{step}", "type": "function", "function": call}]
    return {"role": "assistant", "content": f"Step {step + 1}", "tool_calls": calls}


def compressor(messages: Messages) -> dict[str, Any]:
    prompt = "\n".join(str(message["content"]) for message in messages)
    known = re.findall(r"Step (\d+)\b", prompt)
    remembers = CLAUSE in prompt or NOTES in prompt
    return said(f"{NOTES} {f'Step {known[-1]} is done.' if known and remembers else FORGETFUL}")


def optimizer(messages: Messages) -> dict[str, Any]:
    prompt = str(messages[-1]["content"])
    boundaries = sorted(set(re.findall(r'"boundary": "([^"]+)"', prompt)))
    if "<first>" in prompt:
        parts = {name: prompt.split(f"<{name}>\n")[1].split(f"\n</{name}>")[0] for name in ("first", "update")}
        rule = {"clause": CLAUSE, "section": "Progress", "boundaries": boundaries}
        return said(json.dumps({"rules": [rule], **{name: f"{part}\n{CLAUSE}" for name, part in parts.items()}}))
    if "<diagnoses>" in prompt:
        return said(json.dumps({"groups": [{"mechanism": "omitted state", "boundaries": boundaries}]}))
    finding = {
        "mechanism": "omitted state",
        "kind": "steps done",
        "summary_quote": FORGETFUL if FORGETFUL in prompt else "",
        "segment_quote": "Step 1",
        "explanation": "It began again.",
    }
    return said(json.dumps({"findings": [finding]}))


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


_OTHERS = {"compressor": compressor, "optimizer": optimizer}


@contextmanager
def serving(scripts: Mapping[str, Solution]) -> Iterator[str]:
    """The address of a server with the three models, on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            messages, model = request["messages"], request["model"]
            answer = agent(messages, scripts) if model == "agent" else _OTHERS[model](messages)
            reason = "tool_calls" if "tool_calls" in answer else "stop"
            body = json.dumps(
                {
                    "id": "x",
                    "object": "chat.completion",
                    "created": 0,
                    "model": model,
                    "choices": [{"index": 0, "message": answer, "finish_reason": reason}],
                    "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()
